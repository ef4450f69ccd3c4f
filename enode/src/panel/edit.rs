//! Editing an open ticket: only what was changed in the form is written, every other byte of the file stays.

use askama::Template;
use axum::{
    Extension,
    extract::{Path, State},
    http::{StatusCode, Uri},
    response::{IntoResponse, Redirect, Response},
};
use shared::{
    sha256_hex,
    ticket::{Document, Lane, Queue, Stem, Ticket, edit, key},
};

use super::{
    Shared,
    asked::Asked,
    door::Visit,
    fault::{self, Fault},
    fields::Fields,
    new::{self, Draft, pick_again, priority},
    pick,
    shell::{Shell, here},
    sight::{Sight, absent},
    words::escaped,
};
use crate::tickets::{
    new::NewError,
    save::{self, SaveError},
};

#[derive(Template)]
#[template(path = "edit.html")]
struct Page {
    shell: Shell,
    stem: String,
    /// Which text the person saw.
    seen: String,
    draft: Draft,
}

/// The ticket, if it can be edited.
fn open<'a>(sight: &'a Sight, stem: &Stem) -> Result<&'a Ticket, Fault> {
    let ticket = sight.find(stem)?;
    match ticket.lane {
        Lane::Waiting => match too_large(ticket) {
            // Half of it in a form would be half of it in the file.
            Some(what) => Err(Fault::conflict(format!("{stem} has {what}: edit its file {} by hand.", ticket.file))),
            None => Ok(ticket),
        },
        Lane::InProgress => Err(Fault::conflict(format!("{stem} is in progress: unassign it before you edit it."))),
        Lane::Done => Err(Fault::conflict(format!("{stem} is done, and what is done is read only."))),
    }
}

/// What of a ticket no form shows whole.
fn too_large(ticket: &Ticket) -> Option<String> {
    let lines = [
        ("title", ticket.title.as_str()),
        ("kind", ticket.kind.as_str()),
        ("req", ticket.req.as_deref().unwrap_or_default()),
    ];
    if let Some((name, _)) = lines.into_iter().find(|(_, line)| !new::fits(line)) {
        return Some(format!("a {name} of more than {} characters", new::LONGEST));
    }
    if ticket.deps.len() > new::DEPS {
        return Some(format!("more than {} deps", new::DEPS));
    }
    (ticket.text.body().len() > new::TEXT).then(|| "more than 1 MiB of text".to_owned())
}

fn print(ticket: &Ticket) -> String {
    sha256_hex(&ticket.text.to_bytes())
}

/// A text as a browser sends it back, where nobody has touched it.
fn as_sent(text: &str) -> String {
    text.replace("\r\n", "\n").replace('\r', "\n").replace('\0', "\u{fffd}")
}

/// What the form shows of a ticket.
fn draft(ticket: &Ticket) -> Draft {
    let said = ticket.text.said(key::PRIORITY).filter(|it| matches!(priority(it), Ok(Some(_))));
    Draft {
        title: ticket.title.clone(),
        kind: ticket.kind.clone(),
        priority: said.unwrap_or_default().to_owned(),
        req: ticket.req.clone().unwrap_or_default(),
        body: ticket.text.body().replace("\r\n", "\n"),
        ..Draft::default()
    }
}

pub(super) async fn page(
    State(panel): State<Shared>,
    Extension(visit): Extension<Visit>,
    Path(name): Path<String>,
    uri: Uri,
) -> Result<Response, Fault> {
    let Asked { sight, stem, shell } = Asked::new(&panel, &visit, &name, here(&uri)).await?;
    let ticket = open(&sight, &stem)?;
    let draft = draft(ticket).with(&sight.queue, &ticket.deps, Some(&ticket.stem));
    fault::page(&Page { shell, stem: ticket.stem.to_string(), seen: print(ticket), draft })
}

pub(super) async fn write(
    State(panel): State<Shared>,
    Extension(visit): Extension<Visit>,
    Path(name): Path<String>,
    Extension(fields): Extension<Fields>,
    uri: Uri,
) -> Result<Response, Fault> {
    let Asked { sight, stem, shell } = Asked::new(&panel, &visit, &name, here(&uri)).await?;
    let (queue, ticket) = (&sight.queue, open(&sight, &stem)?);
    let stem = ticket.stem.clone();
    let changed = if print(ticket) == fields.get("seen") {
        change(queue, ticket, &fields)
    } else {
        Err(SaveError::Changed(stem.clone()).to_string())
    };
    let saved = match changed {
        Err(why) => Err(why),
        Ok(after) => {
            let (stem, before) = (stem.clone(), ticket.text.to_bytes());
            match panel.off(move |folder| save::save(folder, &stem, &before, &after)).await? {
                Ok(()) => Ok(()),
                Err(SaveError::Io(error)) => return Err(Fault::folder(panel.folder.path(), &error)),
                Err(SaveError::Absent(why)) => Err(absent(&why)),
                Err(
                    error @ (SaveError::NotOpen(..) | SaveError::Changed(_) | SaveError::Bad(_) | SaveError::Assigned),
                ) => Err(error.to_string()),
            }
        }
    };
    match saved {
        Ok(()) => Ok(Redirect::to(&format!("/ticket/{}", escaped(stem.as_str()))).into_response()),
        Err(why) => {
            let mut draft = Draft::typed(&fields).with(queue, &pick_again(queue, &fields), Some(&stem));
            draft.wrong = why;
            // With the old mark: who saves over another's change is refused again.
            let page = Page { shell, stem: stem.to_string(), seen: fields.get("seen").to_owned(), draft };
            fault::page_with(StatusCode::UNPROCESSABLE_ENTITY, &page)
        }
    }
}

/// The text with what the person has changed.
fn change(queue: &Queue, ticket: &Ticket, fields: &Fields) -> Result<String, String> {
    let (before, after) = (draft(ticket), Draft::typed(fields));
    edit::check_title(&after.title).map_err(|error| error.to_string())?;
    // What stands there already is the business of whoever wrote it.
    if after.kind.trim() != before.kind.trim() {
        edit::check_kind(&after.kind).map_err(|error| error.to_string())?;
    }
    if after.req.trim() != before.req.trim()
        && let Some(req) = new::req(&after.req)?
        && queue.lane(&req).is_none()
    {
        return Err(NewError::Missing(key::REQ, req).to_string());
    }
    new::check(fields)?;
    priority(&after.priority)?;
    let mut text: Document = (*ticket.text).clone();
    for (name, old, new) in [
        (key::TITLE, &before.title, &after.title),
        (key::KIND, &before.kind, &after.kind),
        (key::PRIORITY, &before.priority, &after.priority),
        (key::REQ, &before.req, &after.req),
    ] {
        if old.trim() == new.trim() {
            continue;
        }
        if new.trim().is_empty() {
            text.remove(name);
        } else {
            text.set(name, new).map_err(|error| error.to_string())?;
        }
    }
    let deps = pick::chosen(queue, fields.all("deps"), &ticket.deps, Some(&ticket.stem))?;
    // In the order of the file, new ones behind.
    let kept = ticket.deps.iter().filter(|dep| deps.contains(dep));
    let deps: Vec<Stem> = kept.chain(deps.iter().filter(|dep| !ticket.deps.contains(dep))).cloned().collect();
    if deps != ticket.deps {
        text.set_deps(&deps);
    }
    let whole = String::from_utf8(text.to_bytes()).map_err(|error| error.to_string())?;
    if as_sent(&before.body) == as_sent(&after.body) {
        return Ok(whole);
    }
    let head = &whole[..whole.len() - text.body().len()];
    let end = if head.contains("\r\n") { "\r\n" } else { "\n" };
    let gap = if head.ends_with('\n') { "" } else { end };
    let mut body = after.body;
    if !body.is_empty() && !body.ends_with('\n') {
        body.push('\n');
    }
    Ok(format!("{head}{gap}{}", body.replace('\n', end)))
}
