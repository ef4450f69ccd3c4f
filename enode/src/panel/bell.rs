//! What a person must look at, on every page and whatever is filtered: tickets that nobody picks up, and questions.
//! Nothing here is dismissed: at zero it is gone by itself.

use shared::ticket::{Queue, Status, Stem, question};

use super::card::{Card, asked};
use crate::tickets::view::Page;

/// Both lists, whole.
#[derive(Debug, Clone, Default)]
pub(super) struct Bell {
    pub(super) accidents: Vec<Card>,
    pub(super) questions: Vec<Asking>,
}

/// A ticket whose last question has no answer.
#[derive(Debug, Clone)]
pub(super) struct Asking {
    pub(super) stem: String,
    /// What the answer will be named; an answer to another question must not get that name.
    pub(super) awaiting: String,
    pub(super) title: String,
    pub(super) question: String,
    pub(super) asked: String,
    /// What was typed and could not be taken.
    pub(super) typed: String,
    pub(super) wrong: String,
}

impl Bell {
    pub(super) fn new(queue: &Queue, page: &Page) -> Self {
        let of = |status: Status| page.tickets.iter().filter(move |it| it.state == status);
        Self {
            accidents: of(Status::Assigned).map(Card::new).collect(),
            questions: of(Status::AnswerWait).filter_map(|it| Asking::new(queue, &it.stem)).collect(),
        }
    }

    pub(super) fn count(&self) -> usize {
        self.accidents.len() + self.questions.len()
    }
}

impl Asking {
    /// `None`: it asks nothing.
    pub(super) fn new(queue: &Queue, stem: &Stem) -> Option<Self> {
        let ticket = queue.find(stem)?;
        if Status::of(queue, ticket) != Status::AnswerWait {
            return None;
        }
        let last = question::sections(ticket.text.body()).into_iter().rfind(|it| it.kind == question::Kind::Question);
        Some(Self {
            stem: ticket.stem.to_string(),
            awaiting: ticket.awaiting.as_ref()?.to_string(),
            title: ticket.title.clone(),
            question: last.map_or_else(String::new, |it| question::readable(it.text)),
            asked: asked(ticket.asked_at),
            typed: String::new(),
            wrong: String::new(),
        })
    }
}
