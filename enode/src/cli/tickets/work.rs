//! `work`, `reap` and `unassign`: what needs the mediator's word.

use std::{convert::Infallible, io::IsTerminal};

use anyhow::{Context, anyhow};
use serde_json::json;
use shared::RunId;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use super::{
    super::{Exit, Failure, Outcome, out, out::Out, run::filter},
    args::{Reap, Unassign, Work},
    client, folder, named, read, refused, trouble,
};
use crate::{
    clock, detect,
    tickets::{
        check,
        reap::{self, Deed, Looked},
        template::Templates,
        unassign::{self, UnassignError, Unassigned},
        worker::{Ended, Worker},
    },
};

pub(super) async fn work(args: &Work, out: &Out) -> Outcome {
    let coloured = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    tracing_subscriber::fmt().with_env_filter(filter()?).with_ansi(coloured).with_writer(std::io::stderr).init();
    let folder = folder(&args.place)?;
    if args.templates.folder.is_none() && args.command.is_none() {
        return Err(refused(anyhow!(
            "nothing says how to work on a ticket: give --templates DIR with KIND.yaml or default.yaml in it, or --command COMMAND"
        )));
    }
    let templates = args.templates.checked()?;
    let owner = args.name.clone().or_else(detect::hostname).unwrap_or_else(|| "worker".to_owned());
    if owner.chars().any(char::is_control) {
        return Err(refused(anyhow!("--name: write one line")));
    }
    let templates = Templates { folder: templates, command: args.command.clone(), capability: args.capability.clone() };
    // What is in a folder can be mended while it works.
    if templates.command.is_some() && templates.folder.is_none() {
        templates.usable("").map_err(refused)?;
    }
    let runs = client(&args.mediator)?;
    let queue = folder.clone();
    let worker = Worker::new(folder, runs, templates, owner, args.poll);
    let stop = CancellationToken::new();
    let mut term = signal(SignalKind::terminate()).context("cannot listen for SIGTERM")?;
    let mut int = signal(SignalKind::interrupt()).context("cannot listen for SIGINT")?;
    let signals = async {
        tokio::select! { _ = term.recv() => {}, _ = int.recv() => {} }
        stop.cancel();
        std::future::pending::<Infallible>().await
    };
    // Not dropped when it is told to end: what it has claimed and not submitted it gives back first.
    let ended = tokio::select! {
        ended = Box::pin(worker.run(args.once, &stop)) => ended.map_err(trouble)?,
        never = signals => match never {},
    };
    let word = match ended {
        Ended::Empty => {
            match queue.read().map(|queue| check::stuck(&queue)) {
                Ok(0) | Err(_) => {}
                Ok(stuck) => {
                    out.warn(format!("{stuck} files are taken by nobody as they are: `enode tickets check` says why"))
                }
            }
            "nothing is left that can be taken"
        }
        // What it has claimed stays so: the Run goes on, and the next worker's reaper ends the ticket with it.
        Ended::Stopped => "stopped; what it had claimed is ended by the next worker",
    };
    out.note(word);
    Ok(Exit::Done)
}

pub(super) async fn reap(args: &Reap, out: &Out) -> Outcome {
    let (folder, client) = (folder(&args.place)?, client(&args.mediator)?);
    let mut looked = Looked::default();
    let whole = reap::look_after(&folder, &client, &mut looked).await;
    if looked == Looked::default() {
        whole.clone().map_err(trouble)?;
    }
    out.data(&json!(looked), || {
        let row = |it: &reap::Reaped| {
            let (deed, why) = match &it.deed {
                Deed::Finished => ("done", "its Run has succeeded".to_owned()),
                Deed::Reclaimed { why, .. } => ("given back", why.clone()),
                Deed::Asked { why, .. } => ("asked", why.clone()),
                Deed::Beside { file } => ("left", reap::beside(file)),
                Deed::Lost => ("left", "somebody else was faster".to_owned()),
            };
            vec![it.stem.to_string(), deed.to_owned(), why]
        };
        // An answer that the queue has given itself is a ticket like any other.
        let answered = |file: &String| vec![file.clone(), "answered".to_owned(), "nobody asks any more".to_owned()];
        let cancelled = |run: &RunId| {
            vec![run.to_string(), "cancelled".to_owned(), "its ticket was ended or renamed by hand".to_owned()]
        };
        let rows = looked.reaped.iter().map(row).chain(looked.questions.settled.iter().map(answered));
        let rows: Vec<_> = rows.chain(looked.questions.cancelled.iter().map(cancelled)).collect();
        if rows.is_empty() { "nothing to do".to_owned() } else { out::table(&["TICKET", "WHAT", "WHY"], rows) }
    })?;
    whole.map_err(trouble)?;
    Ok(Exit::Done)
}

pub(super) async fn unassign(args: &Unassign, out: &Out) -> Outcome {
    let (folder, client) = (folder(&args.one.place)?, client(&args.mediator)?);
    let stem = &named(&folder, &read(&folder)?, &args.one.stem);
    let done = unassign::unassign(&folder, &client, stem, args.force, clock::now()).await;
    let done = done.map_err(|error| match error {
        UnassignError::Alive { .. } => Failure::new(Exit::RUN_ALIVE, error),
        UnassignError::Trouble(it) => trouble(it),
        UnassignError::Io(error) => anyhow!(error).context("cannot take it away").into(),
        UnassignError::Absent(_)
        | UnassignError::NotAssigned(..)
        | UnassignError::Beside { .. }
        | UnassignError::Moved(_) => refused(error),
    })?;
    out.data(&json!({"stem": stem, "result": done}), || match &done {
        Unassigned::Cleared => format!("{stem} no longer says session_id"),
        Unassigned::Returned => format!("{stem} is in line again"),
        Unassigned::Finished => format!("{stem} is done: its Run has succeeded"),
        Unassigned::Locked { awaiting, has_succeeded: false } => {
            format!("{stem} waits for the answer {awaiting}; its Run was asked to end")
        }
        Unassigned::Locked { awaiting, has_succeeded: true } => format!(
            "{stem} waits for the answer {awaiting}; but its Run has SUCCEEDED meanwhile: where nothing is left to be done, \
             say so in the answer, or `enode tickets claim {stem}` after it and `enode tickets done {stem}`"
        ),
    })?;
    Ok(Exit::Done)
}
