//! `new`, `claim`, `done` and `answer`: what a person does to a queue without any mediator.

use std::collections::BTreeMap;

use anyhow::{Context, anyhow};
use serde_json::json;
use shared::ticket::{
    Lane, edit,
    options::{self, Picked},
    question::{self, Origin},
};

use super::{
    super::{Exit, Failure, Outcome, out::Out},
    args::{Answer, Claim, New, One},
    folder, named, read, refused, text,
};
use crate::{
    clock,
    tickets::{
        absent,
        ask::{self, AnswerError},
        claim::{self, ClaimError},
        finish,
        new::{self, NewError},
    },
};

pub(super) fn new(args: &New, out: &Out) -> Outcome {
    let folder = folder(&args.place)?;
    let body = text(args.body.as_ref(), args.body_file.as_deref())?;
    let queue = read(&folder)?;
    let deps: Vec<_> = args.deps.iter().map(|it| named(&folder, &queue, it)).collect();
    let req = args.req.as_ref().map(|it| named(&folder, &queue, it));
    let templates = args.templates.templates()?;
    let new = edit::New {
        title: &args.title,
        kind: &args.kind,
        priority: args.priority,
        deps: &deps,
        req: req.as_ref(),
        body: &body,
    };
    let ticket = new::create(&folder, &new).map_err(|error| match error {
        NewError::Bad(_) | NewError::Missing(..) => refused(error),
        NewError::NoName | NewError::Io(_) => anyhow!(error).context("cannot write a ticket").into(),
    })?;
    let path = folder.path().join(&ticket.file);
    out.data(&json!({"stem": ticket.stem, "file": path}), || ticket.stem.to_string())?;
    if let Some(Err(why)) = templates.map(|it| it.usable(&args.kind)) {
        out.warn(why.to_string());
    }
    Ok(Exit::Done)
}

pub(super) fn claim(args: &Claim, out: &Out) -> Outcome {
    let folder = folder(&args.one.place)?;
    let user = std::env::var("USER").ok().filter(|user| !user.is_empty()).unwrap_or_else(|| "by hand".to_owned());
    let owner = args.owner.clone().unwrap_or(user);
    let stem = named(&folder, &read(&folder)?, &args.one.stem);
    let ticket = claim::by_hand(&folder, &stem, &owner, clock::now()).map_err(|error| match error {
        ClaimError::Io(error) => Failure::from(anyhow!(error).context("cannot claim it")),
        other => refused(other),
    })?;
    let file = folder.suffixes().file_name(&ticket.stem, Lane::InProgress);
    out.data(&json!({"stem": ticket.stem, "file": folder.path().join(&file)}), || file.clone())?;
    let body = ticket.text.body();
    // No worker hands it the answer any more.
    if let Some(run) = Origin::of_last(body).map(|it| it.run) {
        out.warn(format!(
            "Run {run} has asked, and may wait for its answer and keep its node: `mediator cancel {run}` ends it"
        ));
    }
    // The cancel may have met a mediator that did not answer.
    if let Some(run) = question::taken_from_of_last(body) {
        out.warn(format!("Run {run} may be alive yet: `mediator show {run}` says so, `mediator cancel {run}` ends it"));
    }
    Ok(Exit::Done)
}

pub(super) fn done(args: &One, out: &Out) -> Outcome {
    let folder = folder(&args.place)?;
    let queue = read(&folder)?;
    let stem = &named(&folder, &queue, &args.stem);
    let ticket = absent::find(&queue, stem).map_err(refused)?;
    match (ticket.lane, &ticket.session_id) {
        (Lane::InProgress, None) => {}
        (Lane::InProgress, Some(run)) => {
            return Err(refused(anyhow!(
                "Run {run} works on {stem} and ends it; `enode tickets unassign {stem}` first"
            )));
        }
        (Lane::Waiting, _) => return Err(refused(anyhow!("{stem} is open: `enode tickets claim {stem}` first"))),
        (Lane::Done, _) => return Err(refused(anyhow!("{stem} is done already"))),
    }
    if !finish::finish(&folder, &ticket.stem, None).context("cannot end it")? {
        return Err(refused(anyhow!("{stem} was moved by somebody else at this moment: look again")));
    }
    let file = folder.suffixes().file_name(&ticket.stem, Lane::Done);
    out.data(&json!({"stem": ticket.stem, "file": folder.path().join(&file)}), || file.clone())?;
    Ok(Exit::Done)
}

pub(super) fn answer(args: &Answer, out: &Out) -> Outcome {
    let folder = folder(&args.one.place)?;
    let said = text(args.text.as_ref(), args.file.as_deref())?;
    let ticket = named(&folder, &read(&folder)?, &args.one.stem);
    let failed = |error| match error {
        AnswerError::Io(error) => Failure::from(anyhow!(error).context("cannot write the answer")),
        other => refused(other),
    };
    let (stem, said) = match args.choose.as_slice() {
        [] => (ticket.clone(), said),
        picked => {
            // By the answer's own name: a question that is asked meanwhile has another one, and other options.
            let (awaiting, groups) = ask::options(&folder, &ticket).map_err(failed)?;
            let chosen = options::compose(&groups, &merged(picked)).map_err(refused)?;
            (awaiting, format!("{chosen}\n\n{said}"))
        }
    };
    let file = ask::answer(&folder, &stem, &said).map_err(failed)?;
    out.data(&json!({"stem": ticket, "file": folder.path().join(&file)}), || file.clone())?;
    Ok(Exit::Done)
}

/// What was said of one group in several words is one pick.
fn merged(picked: &[(usize, Picked)]) -> BTreeMap<usize, Picked> {
    let mut all = BTreeMap::<usize, Picked>::new();
    for (number, more) in picked {
        let one = all.entry(*number).or_default();
        one.letters.extend(&more.letters);
        one.note = format!("{} {}", one.note, more.note).trim().to_owned();
    }
    all
}
