//! `list`, `show` and `check`: what there is and what is wrong.

use anyhow::{Context, anyhow};
use serde_json::{Value, json};
use shared::ticket::{Hold, Lane, Stem};

use super::{
    super::{Exit, Failure, Outcome, out, out::Out},
    args::{Check, List, One, TemplateFolder},
    folder, named, read, refused,
};
use crate::tickets::{
    absent::Absent,
    check, reap,
    view::{self, Detail, Page, View},
};

pub(super) fn list(args: &List, out: &Out) -> Outcome {
    let folder = folder(&args.place)?;
    let queue = read(&folder)?;
    let mut page = view::page(&queue);
    page.tickets.retain(|it| args.state.is_empty() || args.state.iter().any(|choice| it.state.is_shown_by(*choice)));
    let untaken = untaken(&page, &args.templates)?;
    let mut document = document(&page)?;
    document["untaken"] = json!(untaken);
    out.data(&document, || table(&page.tickets))?;
    if !out.json() {
        if page.total == 0 && page.unread.is_empty() {
            out.note("The queue is empty: `enode tickets new --title TEXT` writes a ticket.");
        }
        if page.surplus > 0 {
            let many = page.surplus;
            out.warn(format!("{many} open and assigned, which no worker takes: `enode tickets unassign TICKET`"));
        }
        for it in untaken {
            out.warn(format!("{}: {}", it.file, it.message));
        }
        let broken = |it: &check::Fault| it.kind == check::Kind::Broken;
        for it in check::check(&queue, folder.suffixes()).into_iter().filter(broken) {
            out.warn(format!("{} is not in the queue: {}", it.file, it.message));
        }
    }
    Ok(Exit::Done)
}

/// What no worker with these templates takes. Without a folder nobody knows.
fn untaken(page: &Page, templates: &TemplateFolder) -> Result<Vec<check::Fault>, Failure> {
    let templates = templates.templates()?;
    Ok(templates.map(|templates| check::without_template(page, &templates)).unwrap_or_default())
}

fn document(value: &impl serde::Serialize) -> Result<Value, Failure> {
    serde_json::to_value(value).map_err(|error| anyhow!(error).context("cannot be written as JSON").into())
}

fn table(tickets: &[View]) -> String {
    let row = |it: &View| {
        let priority = if it.effective == it.priority {
            it.priority.to_string()
        } else {
            format!("{} ({})", it.effective, it.priority)
        };
        vec![
            it.place.map(|place| place.to_string()).unwrap_or_else(|| "-".to_owned()),
            it.stem.to_string(),
            it.state.to_string(),
            priority,
            waits(it.hold.as_ref()),
            if it.owner.is_empty() { "-".to_owned() } else { clean(&it.owner) },
            clean(&it.title),
        ]
    };
    out::table(&["PLACE", "TICKET", "STATE", "PRIORITY", "WAITS FOR", "OWNER", "TITLE"], tickets.iter().map(row))
}

fn waits(hold: Option<&Hold>) -> String {
    let list = |stems: &[Stem]| stems.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    match hold {
        None => "-".to_owned(),
        Some(Hold::DepsWait { unmet } | Hold::AnswerWait { unmet, .. }) => list(unmet),
        Some(Hold::LowestWaits { in_progress }) => format!("{in_progress} in progress"),
    }
}

/// A file's text must not move the reader's cursor.
fn clean(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}

pub(super) fn show(args: &One, out: &Out) -> Outcome {
    let folder = folder(&args.place)?;
    let queue = read(&folder)?;
    let stem = named(&folder, &queue, &args.stem);
    let detail = view::detail(&queue, &stem).ok_or_else(|| refused(Absent::of(&queue, &stem)))?;
    out.data(&document(&detail)?, || shown(&detail))?;
    let twins = queue.twins().iter().filter(|it| it.stem == detail.ticket.stem);
    let twins = twins.map(|it| reap::beside(&it.file));
    for warning in detail.ticket.warnings.iter().cloned().chain(twins).filter(|_| !out.json()) {
        out.warn(warning);
    }
    Ok(Exit::Done)
}

fn shown(detail: &Detail) -> String {
    let it = &detail.ticket;
    let mut lines = vec![
        format!("ticket    {}  [{}]", it.stem, it.file),
        format!("title     {}", clean(&it.title)),
        format!("state     {}", it.state),
        format!("priority  {}", it.effective),
    ];
    let mut line = |name: &str, value: String| {
        if !value.is_empty() && value != "-" {
            lines.push(format!("{name:<10}{value}"));
        }
    };
    line("kind", clean(&it.kind));
    line("waits for", waits(it.hold.as_ref()));
    line(
        "asked",
        it.asked_at.filter(|_| it.hold.is_some()).map(|at| format!("{} ago", out::age(at))).unwrap_or_default(),
    );
    line("run", it.session_id.as_deref().map(clean).unwrap_or_default());
    // Only the mediator knows.
    if let Some(run) = it.session_id.as_deref().filter(|_| it.lane == Lane::InProgress) {
        line("", format!("`mediator explain {}` says what it waits for", clean(run)));
    }
    line("owner", clean(&it.owner));
    line("attempts", if it.attempts == 0 { String::new() } else { it.attempts.to_string() });
    let text = |text: &str| text.lines().map(clean).collect::<Vec<_>>().join("\n");
    if !detail.body.trim().is_empty() {
        lines.push(format!("\n{}", text(detail.body.trim())));
    }
    for talk in &detail.thread {
        lines.push(format!("\nquestion {}: {}", talk.number, text(&talk.question)));
        let is_open = || matches!(it.hold, Some(Hold::AnswerWait { .. })) && Some(talk) == detail.thread.last();
        match &talk.answer {
            Some(answer) => lines.push(format!("answer {}: {}", talk.number, text(answer))),
            None if is_open() => lines.push(format!("`enode tickets answer {} TEXT` answers it", it.stem)),
            None => {}
        }
    }
    for group in &detail.options {
        let letters: Vec<String> = group.options.iter().map(|it| format!("({})", it.letter)).collect();
        let title = if group.title.is_empty() { String::new() } else { format!(" {}", clean(&group.title)) };
        lines.push(format!("--choose {}:LETTERS picks from{title} {}", group.number, letters.join(" ")));
    }
    lines.join("\n")
}

pub(super) fn check(args: &Check, out: &Out) -> Outcome {
    let folder = folder(&args.place)?;
    let fixed = if args.fix { check::fix(&folder).context("cannot mend the queue")? } else { Vec::new() };
    let queue = read(&folder)?;
    let names = check::names(&folder, &queue).with_context(|| format!("cannot read {}", folder.path().display()))?;
    let faults =
        [check::check(&queue, folder.suffixes()), names, untaken(&view::page(&queue), &args.templates)?].concat();
    out.data(&json!({"faults": faults, "fixed": fixed}), || {
        let rows = |faults: &[check::Fault], word: &str| -> Vec<Vec<String>> {
            let row =
                |it: &check::Fault| vec![format!("{word}{}", it.kind.as_str()), clean(&it.file), clean(&it.message)];
            faults.iter().map(row).collect()
        };
        let rows = [rows(&faults, ""), rows(&fixed, "fixed ")].concat();
        if rows.is_empty() { "nothing is wrong".to_owned() } else { out::table(&["FAULT", "FILE", "WHAT"], rows) }
    })?;
    Ok(if faults.is_empty() { Exit::Done } else { Exit::Failed })
}
