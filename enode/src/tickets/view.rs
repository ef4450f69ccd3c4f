//! A ticket as it is shown: what the file says, and what the queue makes of it. In one order for everybody.

use serde::Serialize;
use shared::{
    Timestamp,
    ticket::{Hold, Lane, Queue, Status, Stem, Ticket, line, options::Group, order, question, state},
};

/// One ticket.
#[derive(Debug, Clone, Serialize)]
pub struct View {
    /// Its identity.
    pub stem: Stem,
    /// Its file's name.
    pub file: String,
    /// By the file's name.
    pub lane: Lane,
    /// One of the six words.
    pub state: Status,
    /// 1 = the next in line; of tickets in line only.
    pub place: Option<usize>,
    /// A worker may take it now.
    pub candidate: bool,
    /// Why not, for a ticket in line.
    pub hold: Option<Hold>,
    /// `title`.
    pub title: String,
    /// `kind`.
    pub kind: String,
    /// Its own.
    pub priority: u8,
    /// With what it has inherited; that of a done ticket is its own.
    pub effective: u8,
    /// `deps`.
    pub deps: Vec<Stem>,
    /// `req`.
    pub req: Option<String>,
    /// The Run that works on it.
    pub session_id: Option<String>,
    /// Since when.
    pub assigned_at: Option<Timestamp>,
    /// Who, for people.
    pub owner: String,
    /// Automatic reclaims.
    pub attempts: u32,
    /// The stem of the answer that it waits for, or has waited for.
    pub awaiting: Option<Stem>,
    /// Since when; unknown for questions that the earlier tool has asked.
    pub asked_at: Option<Timestamp>,
    /// When it entered the line.
    pub created_at: String,
    /// What is odd about it, in sentences.
    pub warnings: Vec<String>,
}

/// A ticket with its text and its talk.
#[derive(Debug, Clone, Serialize)]
pub struct Detail {
    /// The ticket.
    #[serde(flatten)]
    pub ticket: View,
    /// Its body without the questions, which stand in the thread.
    pub body: String,
    /// Questions and answers.
    pub thread: Vec<Talk>,
    /// What its open question offers to choose from.
    pub options: Vec<Group>,
}

/// A question and its answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Talk {
    /// From 1.
    pub number: u32,
    /// What was asked.
    pub question: String,
    /// What was answered.
    pub answer: Option<String>,
}

/// A queue as a whole.
#[derive(Debug, Clone, Serialize)]
pub struct Page {
    /// All tickets: the line, the next one first; accidents; in progress; done, the newest first.
    pub tickets: Vec<View>,
    /// How many there are.
    pub total: usize,
    /// How many of them no lane shows: the accidents.
    pub surplus: usize,
    /// Files that are no tickets, and why.
    pub unread: Vec<Unread>,
}

/// A file that is no ticket.
#[derive(Debug, Clone, Serialize)]
pub struct Unread {
    /// Its name.
    pub file: String,
    /// What is wrong and what instead.
    pub why: String,
}

/// Everything in a queue.
#[must_use]
pub fn page(queue: &Queue) -> Page {
    let effective = order::effective(queue);
    let of = |ticket: &Ticket| effective.get(&ticket.stem).copied().unwrap_or(ticket.priority).get();
    let mut tickets: Vec<View> = line(queue)
        .into_iter()
        .enumerate()
        .map(|(at, entry)| View {
            place: Some(at + 1),
            candidate: entry.hold.is_none(),
            hold: entry.hold.clone(),
            ..plain(queue, &entry.ticket, entry.effective.get())
        })
        .collect();
    tickets.extend(order::accidents(queue).map(|ticket| plain(queue, ticket, of(ticket))));
    let in_lane = |lane: Lane| {
        let mut found: Vec<_> = queue.tickets().iter().filter(|it| it.lane == lane).collect();
        found.sort_by_key(|it| (std::cmp::Reverse(it.created_ns), it.stem.clone()));
        found
    };
    for lane in [Lane::InProgress, Lane::Done] {
        tickets.extend(in_lane(lane).into_iter().map(|ticket| plain(queue, ticket, of(ticket))));
    }
    let (total, surplus) = state::total_and_surplus(queue);
    let unread = queue.unread().iter().map(|it| Unread { file: it.file.clone(), why: it.why.clone() }).collect();
    Page { tickets, total, surplus, unread }
}

/// One ticket with its text. `None`: there is none with this stem.
#[must_use]
pub fn detail(queue: &Queue, stem: &Stem) -> Option<Detail> {
    detail_on(queue, &page(queue), stem)
}

/// The same for who has laid the queue out already.
#[must_use]
pub(crate) fn detail_on(queue: &Queue, page: &Page, stem: &Stem) -> Option<Detail> {
    let found = queue.find(stem)?;
    let ticket = page.tickets.iter().find(|it| it.stem == found.stem)?.clone();
    let talk = |it: question::Exchange| Talk {
        number: it.number,
        question: it.question,
        answer: it.answer.map(|(_, text)| text),
    };
    let thread = question::thread(queue, found).into_iter().map(talk).collect();
    let body = found.text.body();
    let asks = matches!(ticket.hold, Some(Hold::AnswerWait { .. }));
    let options = if asks { question::options(body) } else { Vec::new() };
    Some(Detail { ticket, body: question::without_questions(body), thread, options })
}

fn plain(queue: &Queue, ticket: &Ticket, effective: u8) -> View {
    View {
        stem: ticket.stem.clone(),
        file: ticket.file.clone(),
        lane: ticket.lane,
        state: Status::of(queue, ticket),
        place: None,
        candidate: false,
        hold: None,
        title: ticket.title.clone(),
        kind: ticket.kind.clone(),
        priority: ticket.priority.get(),
        effective,
        deps: ticket.deps.clone(),
        req: ticket.req.clone(),
        session_id: ticket.session_id.clone(),
        assigned_at: ticket.assigned_at,
        owner: ticket.owner.clone(),
        attempts: ticket.attempts,
        awaiting: ticket.awaiting.clone(),
        asked_at: ticket.asked_at,
        created_at: shared::ticket::shown_ns(ticket.created_ns),
        warnings: queue.warnings(ticket).iter().map(ToString::to_string).collect(),
    }
}
