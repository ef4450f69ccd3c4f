//! Ends a ticket, and makes files that are new.

use std::{io, sync::Arc};

use shared::ticket::{
    Lane, Stem, Ticket,
    edit::{BadNew, New},
};

use super::{
    Folder,
    back::held,
    gate::Gate,
    moves::{self, Lost},
    repair::repair,
    write,
};
use crate::clock;

/// Moves the ticket in progress to done. With `session`, only if it still says so. `false`: it was no longer ours, or
/// another file is done under its name; nothing was changed then.
///
/// Who has worked on it stays in it: what is done is history.
///
/// # Errors
/// The operating system's.
pub fn finish(folder: &Folder, stem: &Stem, session: Option<&str>) -> io::Result<bool> {
    let _gate = Gate::enter(folder)?;
    let queue = repair(folder)?;
    let Some(ticket) = held(&queue, stem, session) else { return Ok(false) };
    Ok(moves::take(folder, &ticket.file, &folder.name(&ticket.stem, Lane::Done), "finish")?.is_ok())
}

/// Why there is no new ticket.
#[derive(Debug, thiserror::Error)]
pub enum NewError {
    /// What was given.
    #[error(transparent)]
    Bad(#[from] BadNew),
    /// Something in `deps` or `req` is not in the queue.
    #[error("{0}: there is no ticket {1}; `enode tickets list` shows them")]
    Missing(&'static str, Stem),
    /// Ten drawn names were taken.
    #[error("ten names in a row were taken: try again")]
    NoName,
    /// The operating system's.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Draws a name of eight hex digits and writes the ticket.
///
/// # Errors
/// [`NewError`]; no file is made then.
pub fn create(folder: &Folder, new: &New<'_>) -> Result<Arc<Ticket>, NewError> {
    let _gate = Gate::enter(folder)?;
    let queue = folder.read()?;
    let given = new.deps.iter().map(|stem| ("deps", stem)).chain(new.req.map(|stem| ("req", stem)));
    for (key, stem) in given {
        if queue.lane(stem).is_none() {
            return Err(NewError::Missing(key, stem.clone()));
        }
    }
    for _ in 0..10 {
        let Ok(stem) = Stem::new(&clock::random_hex(8)) else { continue };
        // Any file with this stem counts, in whatever state, also a broken one.
        if queue.has(&stem) {
            continue;
        }
        let text = new.compose(&stem, clock::now_ns())?;
        let file = folder.name(&stem, Lane::Waiting);
        match publish_new(folder, &file, &text)? {
            Ok(()) => {}
            Err(Lost::Taken | Lost::Gone) => continue,
        }
        let queue = folder.read()?;
        return queue.find(&stem).cloned().ok_or_else(|| io::Error::from(io::ErrorKind::NotFound).into());
    }
    Err(NewError::NoName)
}

/// Writes a file that is not there yet.
pub(super) fn publish_new(folder: &Folder, file: &str, text: &str) -> io::Result<Result<(), Lost>> {
    moves::publish(folder, write::draft(folder, text.as_bytes(), None)?, file, "new")
}
