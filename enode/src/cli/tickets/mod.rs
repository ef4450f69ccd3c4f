//! `enode tickets`: a person's and a script's word on a queue. The work is done in `crate::tickets`.

pub(super) mod args;
mod change;
mod show;
mod work;

use std::{io::Read, path::Path, sync::Arc};

use anyhow::{Context, anyhow};
use shared::ticket::{Queue, Stem};

use super::{Exit, Failure, Outcome, out::Out};
use crate::tickets::{Folder, client::Client, runs::Trouble};
use args::{Mediator, Place, Tickets};

pub(super) async fn run(command: Tickets, out: &Out) -> Outcome {
    match command {
        Tickets::List(args) => show::list(&args, out),
        Tickets::Show(args) => show::show(&args, out),
        Tickets::New(args) => change::new(&args, out),
        Tickets::Work(args) => work::work(&args, out).await,
        Tickets::Claim(args) => change::claim(&args, out),
        Tickets::Done(args) => change::done(&args, out),
        Tickets::Unassign(args) => work::unassign(&args, out).await,
        Tickets::Answer(args) => change::answer(&args, out),
        Tickets::Reap(args) => work::reap(&args, out).await,
        Tickets::Check(args) => show::check(&args, out),
    }
}

fn refused(error: impl Into<anyhow::Error>) -> Failure {
    Failure::new(Exit::Refused, error)
}

pub(super) fn folder(place: &Place) -> Result<Arc<Folder>, Failure> {
    Folder::open(&place.queue).map(Arc::new).map_err(refused)
}

/// The ticket that somebody means: a shell completes its file's name, with state and end.
fn named(folder: &Folder, queue: &Queue, word: &Stem) -> Stem {
    if queue.has(word) {
        return word.clone();
    }
    let base = word.as_str().strip_suffix(".md").unwrap_or(word.as_str());
    folder.suffixes().read(&format!("{base}.md")).map_or_else(|| word.clone(), |(stem, _)| stem)
}

fn read(folder: &Folder) -> Result<Queue, Failure> {
    let read = folder.read().with_context(|| format!("cannot read {}", folder.path().display()));
    read.map_err(Failure::from)
}

pub(super) fn client(mediator: &Mediator) -> Result<Client, Failure> {
    Client::new(&mediator.address()).map_err(refused)
}

fn trouble(trouble: Trouble) -> Failure {
    let exit = match trouble {
        Trouble::Silent { .. } => Exit::Unreachable,
        Trouble::Denied(_) | Trouble::Refused(_) | Trouble::Folder(_) => Exit::Refused,
    };
    Failure::new(exit, trouble)
}

/// A text that was given in words, in a file, or on standard input.
fn text(words: Option<&String>, file: Option<&Path>) -> Result<String, Failure> {
    const LARGEST: u64 = 16 << 20;
    let Some(file) = file else { return Ok(words.cloned().unwrap_or_default()) };
    let mut bytes = Vec::new();
    let shown = file.display();
    if file == Path::new("-") {
        std::io::stdin().lock().take(LARGEST + 1).read_to_end(&mut bytes).context("cannot read standard input")?;
    } else {
        let opened = std::fs::File::open(file).with_context(|| format!("cannot read {shown}")).map_err(refused)?;
        opened.take(LARGEST + 1).read_to_end(&mut bytes).with_context(|| format!("cannot read {shown}"))?;
    }
    if bytes.len() as u64 > LARGEST {
        return Err(refused(anyhow!("{shown} has more than 16 MiB: name its place in the ticket instead")));
    }
    String::from_utf8(bytes).map_err(|_| refused(anyhow!("{shown} is not UTF-8 text: save it as UTF-8")))
}
