//! A new ticket.

use askama::Template;
use axum::{
    Extension,
    extract::State,
    http::{StatusCode, Uri},
    response::{IntoResponse, Redirect, Response},
};
use shared::ticket::{Priority, Queue, Stem, Ticket, edit::New, key, question};

use super::{
    Shared,
    door::Visit,
    fault::{self, Fault},
    fields::Fields,
    pick::{self, Pick},
    shell::{Shell, here},
    words::escaped,
};
use crate::tickets::new::{self, NewError};

/// What the forms for a new and for an old ticket have in common.
#[derive(Debug, Clone, Default)]
pub(super) struct Draft {
    pub(super) title: String,
    pub(super) kind: String,
    /// Empty: the default.
    pub(super) priority: String,
    pub(super) req: String,
    pub(super) body: String,
    pub(super) picks: Vec<Pick>,
    /// Kinds that the queue knows.
    pub(super) kinds: Vec<String>,
    /// Why it was not saved.
    pub(super) wrong: String,
}

impl Draft {
    /// What was typed.
    pub(super) fn typed(fields: &Fields) -> Self {
        Self {
            title: fields.get("title").to_owned(),
            kind: fields.get("kind").to_owned(),
            priority: fields.get("priority").to_owned(),
            req: fields.get("req").to_owned(),
            body: fields.text("body"),
            ..Self::default()
        }
    }

    /// The same with what may be chosen.
    pub(super) fn with(mut self, queue: &Queue, chosen: &[Stem], own: Option<&Stem>) -> Self {
        self.picks = pick::picks(queue, chosen, own);
        let known = ["work", "request", "feedback"].map(String::from);
        let mut kinds: Vec<String> = queue.tickets().iter().map(|it| it.kind.clone()).chain(known).collect();
        kinds.retain(|kind| !kind.is_empty() && kind.len() <= 100 && kind != key::ANSWER);
        kinds.sort();
        kinds.dedup();
        kinds.truncate(KINDS);
        self.kinds = kinds;
        self
    }

    /// Whether this priority is chosen; the empty word is the default.
    pub(super) fn has(&self, word: &str) -> bool {
        self.priority.trim() == word
    }
}

/// Longer titles, kinds and names are edited in their file; as `maxlength` of the form counts them.
pub(super) const LONGEST: usize = 1_000;
/// More deps are.
pub(super) const DEPS: usize = 1_000;
/// A larger text is.
pub(super) const TEXT: usize = 1 << 20;
/// How many kinds are offered.
const KINDS: usize = 100;

/// Whether a form has room for a line.
pub(super) fn fits(line: &str) -> bool {
    line.encode_utf16().nth(LONGEST).is_none()
}

/// `priority` of a form.
pub(super) fn priority(text: &str) -> Result<Option<Priority>, String> {
    match text.trim() {
        "" => Ok(None),
        text => match text.parse().ok().and_then(Priority::new) {
            Some(priority) => Ok(Some(priority)),
            None => Err("priority: choose one from 1 to 5".to_owned()),
        },
    }
}

#[derive(Template)]
#[template(path = "new.html")]
struct Page {
    shell: Shell,
    /// The name that its ticket will have: a form that is sent twice makes one.
    once: String,
    draft: Draft,
}

/// `?from=STEM` begins with a copy of what a person has written there.
pub(super) async fn page(
    State(panel): State<Shared>,
    Extension(visit): Extension<Visit>,
    uri: Uri,
) -> Result<Response, Fault> {
    let sight = panel.look().await?;
    let asked = Fields::read(uri.query().unwrap_or_default().as_bytes());
    let from = Stem::new(asked.get("from")).ok().and_then(|stem| sight.queue.find(&stem));
    let draft = from.map(|it| copy(it)).transpose()?.unwrap_or_default().with(&sight.queue, &[], None);
    let shell = Shell::new(&visit, here(&uri), "new", &sight);
    fault::page(&Page { shell, once: new::draw(), draft })
}

/// What a form of ours has drawn when it was shown.
fn once(fields: &Fields) -> Option<Stem> {
    let once = fields.get("once");
    let is_drawn = once.len() == new::DRAWN && once.bytes().all(|it| matches!(it, b'0'..=b'9' | b'a'..=b'f'));
    is_drawn.then(|| Stem::new(once).ok()).flatten()
}

/// What a person has written in another ticket.
fn copy(of: &Ticket) -> Result<Draft, Fault> {
    let body = question::without_questions(of.text.body()).trim().to_owned();
    if !fits(&of.title) || !fits(&of.kind) || body.len() > TEXT {
        let why = format!("{} is too large for the form: copy its file {} by hand.", of.stem, of.file);
        return Err(Fault::conflict(why));
    }
    Ok(Draft { title: of.title.clone(), kind: of.kind.clone(), body, ..Draft::default() })
}

pub(super) async fn write(
    State(panel): State<Shared>,
    Extension(visit): Extension<Visit>,
    Extension(fields): Extension<Fields>,
    uri: Uri,
) -> Result<Response, Fault> {
    let sight = panel.look().await?;
    let queue = &sight.queue;
    let made = match read(queue, &fields) {
        Err(why) => Err(why),
        Ok((priority, deps, req)) => {
            let (draft, once) = (Draft::typed(&fields), once(&fields));
            let made = panel.off(move |folder| {
                let Draft { title, kind, body, .. } = &draft;
                let new = New { title, kind, priority, deps: &deps, req: req.as_ref(), body };
                new::create_once(folder, &new, once.as_ref())
            });
            match made.await? {
                Ok(ticket) => Ok(ticket),
                Err(NewError::Io(error)) => return Err(Fault::folder(panel.folder.path(), &error)),
                Err(error @ (NewError::Bad(_) | NewError::Missing(..) | NewError::NoName)) => Err(error.to_string()),
            }
        }
    };
    match made {
        Ok(ticket) => Ok(Redirect::to(&format!("/ticket/{}", escaped(ticket.stem.as_str()))).into_response()),
        Err(why) => {
            let chosen = pick_again(queue, &fields);
            let mut draft = Draft::typed(&fields).with(queue, &chosen, None);
            draft.wrong = why;
            let shell = Shell::new(&visit, here(&uri), "new", &sight);
            let once = once(&fields).map_or_else(new::draw, |once| once.to_string());
            fault::page_with(StatusCode::UNPROCESSABLE_ENTITY, &Page { shell, once, draft })
        }
    }
}

/// Refuses what no form could show again.
pub(super) fn check(fields: &Fields) -> Result<(), String> {
    match ["title", "kind", "req"].into_iter().find(|name| !fits(fields.get(name))) {
        Some(name) => Err(format!("{name}: it has more than {LONGEST} characters")),
        None if fields.all("deps").nth(DEPS).is_some() => Err(format!("deps: there are more than {DEPS}")),
        None if fields.text("body").len() > TEXT => {
            Err("it has more than 1 MiB of text: write a file of it into the queue's folder".to_owned())
        }
        None => Ok(()),
    }
}

/// What was chosen and is there, for a form that is shown again.
pub(super) fn pick_again(queue: &Queue, fields: &Fields) -> Vec<Stem> {
    let named = fields.all("deps").take(DEPS).filter_map(|name| Stem::new(name).ok());
    named.filter(|stem| queue.lane(stem).is_some()).collect()
}

type Read = (Option<Priority>, Vec<Stem>, Option<Stem>);

fn read(queue: &Queue, fields: &Fields) -> Result<Read, String> {
    check(fields)?;
    let priority = priority(fields.get("priority"))?;
    let deps = pick::chosen(queue, fields.all("deps"), &[], None)?;
    Ok((priority, deps, req(fields.get("req"))?))
}

/// `req` of a form.
pub(super) fn req(text: &str) -> Result<Option<Stem>, String> {
    match text.trim() {
        "" => Ok(None),
        text => Stem::new(text).map(Some).map_err(|error| format!("req: {error}")),
    }
}
