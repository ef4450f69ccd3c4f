//! One ticket: what its file says, its text, and the thread of questions and answers.

use askama::Template;
use axum::{
    Extension,
    extract::{Path, State},
    http::Uri,
    response::Response,
};
use shared::{
    Timestamp,
    ticket::{Lane, Queue, Status, Stem, key},
};

use super::{
    Shared,
    asked::Asked,
    bell::Asking,
    card::Card,
    door::Visit,
    fault::{self, Fault},
    shell::{Shell, here},
    sight::{Sight, missing},
    words,
};
use crate::tickets::{view, view::Talk};

#[derive(Template)]
#[template(path = "ticket.html")]
struct Page {
    shell: Shell,
    card: Card,
    file: String,
    status: &'static str,
    deps: Vec<Dep>,
    req: Option<Req>,
    /// How often; empty for never.
    attempts: String,
    created: String,
    /// Without the questions, which stand in the thread.
    body: String,
    thread: Vec<Talk>,
    /// How many talks were before these.
    earlier: usize,
    ask: Option<Asking>,
    can_edit: bool,
    can_unassign: bool,
    /// Why no worker takes it, by the templates.
    untaken: String,
}

/// Where it comes from, as the file says it, and the ticket if that can be one.
struct Req {
    text: String,
    stem: Option<Stem>,
}

/// The last ones of a longer thread are shown.
const TALKS: usize = 50;

/// Something that must be done first.
struct Dep {
    stem: String,
    title: String,
    words: &'static str,
    is_met: bool,
    is_there: bool,
}

pub(super) async fn page(
    State(panel): State<Shared>,
    Extension(visit): Extension<Visit>,
    Path(name): Path<String>,
    uri: Uri,
) -> Result<Response, Fault> {
    let Asked { sight, stem, mut shell } = Asked::new(&panel, &visit, &name, here(&uri)).await?;
    let Sight { queue, page, .. } = &*sight;
    let detail = view::detail_on(queue, page, &stem).ok_or_else(|| missing(queue, &stem))?;
    let it = &detail.ticket;
    let ask = Asking::new(queue, &it.stem);
    // Who types an answer must not lose it.
    shell.reloads = ask.is_none();
    let templates = panel.templates.clone();
    let kind = it.kind.clone();
    let untaken = match it.place.filter(|_| templates.folder.is_some()) {
        Some(_) => panel.off(move |_| templates.usable(&kind)).await?.err(),
        None => None,
    };
    let created: Option<Timestamp> = it.created_at.parse().ok();
    let earlier = detail.thread.len().saturating_sub(TALKS);
    fault::page(&Page {
        card: Card::new(it),
        file: it.file.clone(),
        status: words::status(it.state),
        deps: it.deps.iter().map(|dep| Dep::new(queue, dep, it.awaiting.as_ref())).collect(),
        req: it.req.as_ref().map(|it| Req { text: words::cut(it, words::LINE), stem: Stem::new(it).ok() }),
        attempts: if it.attempts == 0 { String::new() } else { words::count(it.attempts.into(), "time") },
        created: created.map(|at| format!("{} ago", words::age(at))).unwrap_or_default(),
        body: words::cut(detail.body.trim(), words::TEXT),
        can_edit: it.lane == Lane::Waiting,
        can_unassign: it.lane == Lane::InProgress || it.state == Status::Assigned,
        thread: detail.thread.into_iter().skip(earlier).map(short).collect(),
        untaken: untaken.map(|why| words::cut(&why.to_string(), words::LINE)).unwrap_or_default(),
        earlier,
        ask,
        shell,
    })
}

/// A talk as the page shows it.
fn short(talk: Talk) -> Talk {
    let cut = |text: &str| words::cut(text, words::QUESTION);
    Talk { number: talk.number, question: cut(&talk.question), answer: talk.answer.as_deref().map(cut) }
}

impl Dep {
    fn new(queue: &Queue, stem: &Stem, awaited: Option<&Stem>) -> Self {
        let lane = queue.lane(stem);
        let found = queue.find(stem);
        let is_answer = found.is_some_and(|it| it.kind == key::ANSWER);
        let words = match lane {
            None if awaited == Some(stem) => "awaited",
            None => "missing",
            Some(Lane::Done) if is_answer => "answered",
            Some(lane @ (Lane::Waiting | Lane::InProgress | Lane::Done)) => words::lane(lane),
        };
        Self {
            stem: stem.to_string(),
            title: found.map(|it| words::cut(&it.title, words::LINE)).unwrap_or_default(),
            words,
            is_met: lane == Some(Lane::Done),
            is_there: found.is_some(),
        }
    }
}
