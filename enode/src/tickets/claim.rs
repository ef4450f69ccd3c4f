//! Takes a ticket: the choice and the claim are one critical section, the verdict is the kernel's.

use std::{io, sync::Arc};

use shared::{
    RunId, Timestamp,
    ticket::{
        Document, Lane, Stem, Ticket, edit,
        key::{self, BadValue},
        order,
    },
};

use super::{
    Folder,
    absent::{self, Absent},
    back::held,
    file_work::is_of_one_file,
    moves::{self, Lost},
    queue_lock::QueueLock,
    repair::repair,
    write::{self, WriteError},
};

/// A ticket in our hands.
#[derive(Debug, Clone)]
pub struct Claimed {
    /// As it was read in line.
    pub ticket: Arc<Ticket>,
    /// The queue's own tag, for the ids of its Runs.
    pub tag: String,
}

/// Why one ticket cannot be claimed.
#[derive(Debug, thiserror::Error)]
pub enum ClaimError {
    /// There is none.
    #[error(transparent)]
    Absent(#[from] Absent),
    /// Somebody has it, or it is over.
    #[error("{0} is {1} already: only an open ticket can be claimed")]
    NotOpen(Stem, &'static str),
    /// An accident: nobody takes it.
    #[error("{0} is open and says session_id: look who works on it, then `enode tickets unassign {0}`")]
    Assigned(Stem),
    /// It waits.
    #[error("{stem} waits for {}: that must be done first", unmet.iter().map(Stem::as_str).collect::<Vec<_>>().join(", "))]
    Waits {
        /// Which.
        stem: Stem,
        /// For what.
        unmet: Vec<Stem>,
    },
    /// Its frontmatter cannot be read.
    #[error("{file}: {why}")]
    Broken {
        /// The file.
        file: String,
        /// What is wrong.
        why: String,
    },
    /// Who has it cannot be written.
    #[error("--owner: {0}")]
    Owner(#[from] BadValue),
    /// Its file was moved or changed at this moment.
    #[error("{0} was moved or changed by somebody else at this moment: look again")]
    Moved(Stem),
    /// The operating system's.
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl From<(&Stem, WriteError)> for ClaimError {
    fn from((stem, error): (&Stem, WriteError)) -> Self {
        match error {
            WriteError::Moved => Self::Moved(stem.clone()),
            WriteError::Io(error) => Self::Io(error),
        }
    }
}

/// Takes the first candidate that `takes` wants. A lost race is the next candidate's turn, and so is one whose file cannot be
/// moved: `fails` hears of it.
///
/// # Errors
/// The operating system's, about the folder.
pub fn next(
    folder: &Folder,
    mut takes: impl FnMut(&Arc<Ticket>) -> bool,
    mut fails: impl FnMut(&Ticket, io::Error),
) -> io::Result<Option<Claimed>> {
    let mut lock = QueueLock::acquire(folder)?;
    let tag = lock.tag()?;
    let queue = repair(folder)?;
    for entry in order::candidates(&queue).filter(|entry| takes(&entry.ticket)) {
        match take(folder, &entry.ticket) {
            Ok(Ok(())) => return Ok(Some(Claimed { ticket: entry.ticket, tag })),
            Ok(Err(Lost::Taken | Lost::Gone)) => {}
            Err(error) if is_of_one_file(&error) => {
                // Of the folder itself the kernel says the same.
                drop(write::draft(folder, b"", None)?);
                fails(&entry.ticket, error);
            }
            Err(error) => return Err(error),
        }
    }
    Ok(None)
}

/// Takes one ticket for a person, and says so in it. Its priority holds nobody back who names it, nor does its question: who
/// could answer may do it himself instead.
///
/// # Errors
/// [`ClaimError`]
pub fn by_hand(folder: &Folder, stem: &Stem, owner: &str, now: Timestamp) -> Result<Arc<Ticket>, ClaimError> {
    let _lock = QueueLock::acquire(folder)?;
    let queue = repair(folder)?;
    let ticket = absent::find(&queue, stem)?.clone();
    match ticket.lane {
        Lane::Waiting if ticket.session_id.is_some() => return Err(ClaimError::Assigned(ticket.stem.clone())),
        Lane::Waiting => {}
        Lane::InProgress => return Err(ClaimError::NotOpen(ticket.stem.clone(), "in progress")),
        Lane::Done => return Err(ClaimError::NotOpen(ticket.stem.clone(), "done")),
    }
    let mut unmet = queue.unmet(&ticket);
    unmet.retain(|stem| ticket.awaiting.as_ref() != Some(stem));
    if !unmet.is_empty() {
        return Err(ClaimError::Waits { stem: ticket.stem.clone(), unmet });
    }
    let claims = |text: &mut Document| edit::claim_by_hand(text, owner, now, ticket.created_ns);
    // Before anything is moved: what is refused has changed nothing.
    claims(&mut Document::clone(&ticket.text))?;
    match take(folder, &ticket)? {
        Ok(()) => {}
        Err(Lost::Taken) => return Err(ClaimError::NotOpen(ticket.stem.clone(), "in progress")),
        Err(Lost::Gone) => return Err(ClaimError::Moved(ticket.stem.clone())),
    }
    if let Err(error) = write_keys(folder, &ticket, claims) {
        unclaim(folder, &ticket);
        return Err(error);
    }
    Ok(ticket)
}

/// Undoes a claim in which nothing could be written, by names alone: on a full disk there is no room for a text, and the
/// ticket is not at fault. What says by now who works on it stays.
///
/// # Errors
/// The operating system's.
pub fn undo(folder: &Folder, ticket: &Ticket) -> io::Result<()> {
    let _lock = QueueLock::acquire(folder)?;
    if held(&repair(folder)?, &ticket.stem, None).is_some_and(|it| !it.is_owned) {
        unclaim(folder, ticket);
    }
    Ok(())
}

fn unclaim(folder: &Folder, ticket: &Ticket) {
    let (wip, open) = (folder.name(&ticket.stem, Lane::InProgress), folder.name(&ticket.stem, Lane::Waiting));
    match moves::take(folder, &wip, &open, "unclaim") {
        Ok(Ok(())) => {}
        // The reaper gives it back.
        other => tracing::warn!(ticket = %ticket.stem, ?other, "its claim could not be undone"),
    }
}

fn take(folder: &Folder, ticket: &Ticket) -> io::Result<Result<(), Lost>> {
    moves::take(folder, &ticket.file, &folder.name(&ticket.stem, Lane::InProgress), "claim")
}

/// Writes into a claimed ticket which Run works on it. From then on a reaper asks after that Run.
///
/// # Errors
/// [`ClaimError::Moved`] where somebody has taken the ticket away, for another Run perhaps.
pub fn assign(folder: &Folder, ticket: &Ticket, run: &RunId, owner: &str, now: Timestamp) -> Result<(), ClaimError> {
    // Where two names cannot be exchanged, replacing a text is a look and a rename: nobody may move it in between.
    let _lock = QueueLock::acquire(folder)?;
    let file = folder.name(&ticket.stem, Lane::InProgress);
    let said = |bytes: Vec<u8>| Document::parse(bytes).ok()?.said(key::SESSION_ID).map(str::to_owned);
    if folder.read_file(&file).ok().and_then(|read| said(read.bytes)).is_some_and(|other| other != run.as_str()) {
        return Err(ClaimError::Moved(ticket.stem.clone()));
    }
    write_keys(folder, ticket, |text| edit::assign(text, run, owner, now, ticket.created_ns))
}

fn write_keys(
    folder: &Folder,
    ticket: &Ticket,
    edit: impl FnOnce(&mut Document) -> Result<(), BadValue>,
) -> Result<(), ClaimError> {
    let file = folder.name(&ticket.stem, Lane::InProgress);
    let read = match folder.read_file(&file) {
        Ok(read) => read,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(ClaimError::Moved(ticket.stem.clone())),
        Err(error) => return Err(error.into()),
    };
    let broken = |why: String| ClaimError::Broken { file: file.clone(), why };
    let mut text = Document::parse(read.bytes.clone()).map_err(|why| broken(why.to_string()))?;
    edit(&mut text).map_err(|why| broken(why.to_string()))?;
    write::replace(folder, &file, &read, &text.to_bytes(), "assign").map_err(|error| (&ticket.stem, error).into())
}

#[cfg(test)]
#[path = "claim_tests.rs"]
mod tests;
