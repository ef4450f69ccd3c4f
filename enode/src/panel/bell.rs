//! What a person must look at, on every page and whatever is filtered: tickets that nobody picks up, and questions.
//! Nothing here is dismissed: at zero it is gone by itself.

use shared::{
    sha256_hex,
    ticket::{Queue, Status, Stem, options::Group, question},
};

use super::{
    card::{Card, asked},
    fields::Fields,
    words::{LINE, QUESTION, cut},
};
use crate::tickets::view::Page;

/// Both lists, whole.
#[derive(Debug, Clone, Default)]
pub(super) struct Bell {
    pub(super) accidents: Vec<Card>,
    /// With their forms; of a few, since this is on every page.
    pub(super) questions: Vec<Asking>,
    /// Further ones, with the way to the form.
    pub(super) more: Vec<Card>,
}

/// How many questions have their form in the bell.
const FORMS: usize = 20;
/// How many options a form shows.
const OPTIONS: usize = 100;

/// A ticket whose last question has no answer.
#[derive(Debug, Clone)]
pub(super) struct Asking {
    pub(super) of: Stem,
    pub(super) stem: String,
    /// What the answer will be named; an answer to another question must not get that name.
    pub(super) awaiting: String,
    pub(super) title: String,
    pub(super) question: String,
    pub(super) asked: String,
    /// What it offers to choose from.
    pub(super) groups: Vec<Choices>,
    /// So many that no form shows them.
    pub(super) too_many: usize,
    /// Which question the person saw: a letter may mean something else in another one.
    pub(super) seen: String,
    /// What was typed and could not be taken.
    pub(super) typed: String,
    pub(super) wrong: String,
}

/// A group of options as its form has it.
#[derive(Debug, Clone)]
pub(super) struct Choices {
    pub(super) number: usize,
    pub(super) title: String,
    pub(super) items: Vec<Item>,
    /// What was typed beside them.
    pub(super) note: String,
}

/// One option.
#[derive(Debug, Clone)]
pub(super) struct Item {
    pub(super) letter: char,
    pub(super) label: String,
    pub(super) is_chosen: bool,
}

impl Bell {
    pub(super) fn new(queue: &Queue, page: &Page) -> Self {
        let of = |status: Status| page.tickets.iter().filter(move |it| it.state == status);
        Self {
            accidents: of(Status::Assigned).map(Card::new).collect(),
            questions: of(Status::AnswerWait).take(FORMS).filter_map(|it| Asking::new(queue, &it.stem)).collect(),
            more: of(Status::AnswerWait).skip(FORMS).map(Card::new).collect(),
        }
    }

    pub(super) fn count(&self) -> usize {
        self.accidents.len() + self.asked()
    }

    /// How many questions wait.
    pub(super) fn asked(&self) -> usize {
        self.questions.len() + self.more.len()
    }
}

impl Asking {
    /// `None`: it asks nothing.
    pub(super) fn new(queue: &Queue, stem: &Stem) -> Option<Self> {
        let ticket = queue.find(stem)?;
        if Status::of(queue, ticket) != Status::AnswerWait {
            return None;
        }
        let body = ticket.text.body();
        let text = question::last(body).as_ref().map_or("", |it| it.text);
        let groups = question::options(body);
        let count: usize = groups.iter().map(|it| it.options.len()).sum();
        let is_much = count > OPTIONS;
        Some(Self {
            of: ticket.stem.clone(),
            stem: ticket.stem.to_string(),
            awaiting: ticket.awaiting.as_ref()?.to_string(),
            title: cut(&ticket.title, LINE),
            question: cut(&question::readable(text), QUESTION),
            asked: asked(ticket.asked_at),
            groups: if is_much { Vec::new() } else { groups.into_iter().map(Choices::new).collect() },
            too_many: if is_much { count } else { 0 },
            seen: seen(body),
            typed: String::new(),
            wrong: String::new(),
        })
    }
}

impl Asking {
    /// Shows again what a form said; of options, those that are still offered.
    pub(super) fn typed(&mut self, fields: &Fields) {
        self.typed = fields.text("answer");
        let is_same = self.seen == fields.get("seen");
        for group in &mut self.groups {
            fields.get(&note(group.number)).clone_into(&mut group.note);
            for item in &mut group.items {
                let value = format!("{}:{}", group.number, item.letter);
                item.is_chosen = is_same && fields.all("choose").any(|it| it == value);
            }
        }
    }
}

/// What a form says of the question that its reader saw.
pub(super) fn seen(body: &str) -> String {
    sha256_hex(question::last(body).map_or("", |it| it.text).as_bytes())
}

impl Choices {
    fn new(group: Group) -> Self {
        let item = |it: shared::ticket::options::Item| Item { letter: it.letter, label: it.label, is_chosen: false };
        let items = group.options.into_iter().map(item).collect();
        Self { number: group.number, title: cut(&group.title, LINE), items, note: String::new() }
    }
}

/// The field for what else is said of a group.
pub(super) fn note(number: usize) -> String {
    format!("note-{number}")
}
