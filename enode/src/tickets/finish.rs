//! Ends a ticket.

use std::io;

use shared::ticket::{Lane, Stem};

use super::{Folder, back::held, moves, queue_lock::QueueLock, repair::repair};

/// Moves the ticket in progress to done, if it says this session, or none where there is none. `false`: it was no longer ours, or
/// another file is done under its name; nothing was changed then.
///
/// Who has worked on it stays in it: what is done is history.
///
/// # Errors
/// The operating system's.
pub fn finish(folder: &Folder, stem: &Stem, session: Option<&str>) -> io::Result<bool> {
    let _lock = QueueLock::acquire(folder)?;
    let queue = repair(folder)?;
    let Some(ticket) = held(&queue, stem, session) else { return Ok(false) };
    Ok(moves::take(folder, &ticket.file, &folder.name(&ticket.stem, Lane::Done), "finish")?.is_ok())
}
