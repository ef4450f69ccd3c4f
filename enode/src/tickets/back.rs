//! Gives a ticket back to the line: as it is, as one more attempt, or as a question to a person.
//!
//! A copy without its worker's keys is made beside it, gets the open name by the kernel's word, and only then the name in
//! progress goes. So at no instruction an open name says `session_id`, and a question is locked before it is open.

use std::io;

use shared::{
    Timestamp,
    ticket::{
        BadStem, Document, Lane, Queue, Stem, Ticket, edit,
        key::{self, BadValue},
        question,
        question::Origin,
    },
};

use super::{
    Folder, begun, fail,
    folder::{Read, Stamp},
    moves::{self, Lost},
    queue_lock::QueueLock,
    repair::{has_come_back, repair},
    write,
};

/// How a ticket goes back.
#[derive(Debug, Clone)]
pub enum Return {
    /// As it is: it is nobody's fault.
    Plain,
    /// An attempt has failed, for this reason. The third one, or a block that nobody has answered, becomes a question.
    Attempt(String),
    /// As a question to a person.
    Ask {
        /// What a person reads.
        text: String,
        /// The step of a Run that asks.
        origin: Option<Origin>,
    },
}

/// What became of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Returned {
    /// It is in line again.
    Open {
        /// Attempts so far.
        attempts: u32,
    },
    /// It waits for this answer.
    Asked {
        /// The stem of the answer.
        awaiting: Stem,
    },
    /// Another file has its open name; nothing was changed. Only a person can tell which text counts.
    Beside {
        /// That file.
        file: String,
    },
    /// It was no longer ours to give back; nothing was changed.
    Lost,
}

/// Gives back the ticket in progress, if it says this session, or none where there is none.
///
/// # Errors
/// The operating system's, and [`io::ErrorKind::InvalidData`] for a file that is no ticket any more.
pub fn give_back(
    folder: &Folder,
    stem: &Stem,
    session: Option<&str>,
    how: &Return,
    now: Timestamp,
) -> io::Result<Returned> {
    let _lock = QueueLock::acquire(folder)?;
    let queue = repair(folder)?;
    match held(&queue, stem, session) {
        Some(ticket) => change(folder, &queue, &ticket, how, now),
        None => Ok(Returned::Lost),
    }
}

/// The ticket, if it is in progress and in these hands: who has no session has a ticket that says none.
pub(super) fn held(queue: &Queue, stem: &Stem, session: Option<&str>) -> Option<std::sync::Arc<Ticket>> {
    let ticket = queue.find(stem).filter(|it| it.stem == *stem && it.lane == Lane::InProgress)?;
    (ticket.session_id.as_deref() == session).then(|| ticket.clone())
}

fn change(folder: &Folder, queue: &Queue, ticket: &Ticket, how: &Return, now: Timestamp) -> io::Result<Returned> {
    let read = match folder.read_file(&ticket.file) {
        Ok(read) => read,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Returned::Lost),
        Err(error) => return Err(error),
    };
    let bad = |why: String| io::Error::new(io::ErrorKind::InvalidData, format!("{}: {why}", ticket.file));
    let text = Document::parse(read.bytes.clone()).map_err(|why| bad(why.to_string()))?;
    if text.said(key::SESSION_ID) != ticket.session_id.as_deref() {
        return Ok(Returned::Lost);
    }
    let rewritten = |mut text: Document| {
        let returned = rewrite(&mut text, queue, ticket, how, now).map_err(|why| bad(why.to_string()))?;
        Ok::<_, io::Error>((returned, text.to_bytes()))
    };
    let (returned, bytes) = rewritten(text)?;
    let draft = write::draft(folder, &bytes, Some(&read))?;
    let made = Stamp::of(&std::fs::symlink_metadata(&draft)?);
    fail::at("back", "drafted");
    let is_same = || read.stamp.is_still(std::fs::symlink_metadata(folder.at(&ticket.file)));
    if !is_same()? {
        return Ok(Returned::Lost);
    }
    let open = folder.name(&ticket.stem, Lane::Waiting);
    begun::note(folder, &ticket.file)?;
    fail::at("back", "noted");
    let published = moves::publish(folder, draft, &open, "back")?;
    let mut is_back = published.is_ok();
    // What a person saves under this name meanwhile is not ours to remove.
    let undo = || moves::remove_only(folder, &open, "back", |now| now.same_text(&made)).map(drop);
    let still = if is_back { is_same() } else { Ok(false) };
    if is_back && !matches!(still, Ok(true)) {
        // Saved or moved by a person meanwhile, or nobody can tell: theirs stays, our copy goes.
        undo()?;
        is_back = false;
    }
    if let Err(error) = still {
        begun::over(folder)?;
        return Err(error);
    }
    if published == Err(Lost::Taken)
        && let Some((late, text)) = saved_late(folder, &open, &read)?
    {
        is_back = match write::replace(folder, &open, &late, &rewritten(text)?.1, "back") {
            Ok(()) => true,
            Err(write::WriteError::Moved) => false,
            Err(write::WriteError::Io(error)) => return Err(error),
        };
    }
    if is_back {
        is_back = moves::remove_only(folder, &ticket.file, "back", |now| now.same_text(&read.stamp))?;
        // In this very moment even.
        if !is_back && published.is_ok() {
            undo()?;
        }
        fail::at("back", "unlinked");
    }
    begun::over(folder)?;
    Ok(match published {
        _ if is_back => returned,
        Err(Lost::Taken) => Returned::Beside { file: open },
        Ok(()) | Err(Lost::Gone) => Returned::Lost,
    })
}

/// The open file, if it is the ticket in progress as somebody has saved it late, under its old name. That goes back in line
/// then: it is what a person has written last, and beside it nothing could ever go back.
fn saved_late(folder: &Folder, open: &str, wip: &Read) -> io::Result<Option<(Read, Document)>> {
    match folder.read_file(open) {
        Ok(late) if has_come_back(&late, wip) => Ok(Document::parse(late.bytes.clone()).ok().map(|text| (late, text))),
        // Another text, or nothing that could be one.
        Ok(_) | Err(_) => Ok(None),
    }
}

/// Why a text cannot go back.
#[derive(Debug, thiserror::Error)]
enum BadReturn {
    /// Something that is written into it.
    #[error(transparent)]
    Value(#[from] BadValue),
    /// The name of its answer.
    #[error(transparent)]
    Stem(#[from] BadStem),
}

/// The text as it is in line again.
fn rewrite(
    text: &mut Document,
    queue: &Queue,
    ticket: &Ticket,
    how: &Return,
    now: Timestamp,
) -> Result<Returned, BadReturn> {
    edit::keep_place(text, ticket.created_ns)?;
    edit::clear_owner(text);
    let open = ticket.awaiting.clone().filter(|awaiting| queue.unmet(ticket).contains(awaiting));
    let asks_next = match how {
        Return::Ask { origin: Some(origin), .. } => Origin::of_last(text.body()).as_ref() != Some(origin),
        Return::Plain | Return::Attempt(_) | Return::Ask { origin: None, .. } => false,
    };
    match open {
        // Its lock holds. A second question over it would leave the first in `deps`, and offer it nowhere.
        Some(awaiting) if !asks_next => {
            return Ok(Returned::Asked { awaiting });
        }
        // The step has its answer from elsewhere.
        Some(awaiting) => {
            let mut deps = text.deps().0;
            deps.retain(|dep| *dep != awaiting);
            text.set_deps(&deps);
        }
        None => {}
    }
    let way_on = || question::way_on(&ticket.stem);
    let asked = match how {
        Return::Plain => None,
        Return::Attempt(_) if question::is_freshly_blocked(text.body()) => {
            Some((format!("It is blocked: see the section above.\n\n{}", way_on()), None))
        }
        Return::Attempt(why) if ticket.attempts.saturating_add(1) >= edit::MOST_ATTEMPTS => {
            let times = edit::MOST_ATTEMPTS;
            Some((format!("It came back {times} times, the last time because: {why}\n\n{}", way_on()), None))
        }
        Return::Attempt(_) => None,
        Return::Ask { text, origin } => Some((text.clone(), origin.clone())),
    };
    let mut attempts = ticket.attempts;
    let returned = match asked {
        Some((asked, origin)) => {
            let awaiting = free_answer(queue, &ticket.stem, question::next_number(text.body()))?;
            question::ask(text, &asked, origin.as_ref(), &awaiting, now)?;
            // What a Run asks is none of its failures, and forgives none.
            if matches!(how, Return::Attempt(_)) {
                attempts = 0;
            }
            Returned::Asked { awaiting }
        }
        None => {
            attempts += u32::from(matches!(how, Return::Attempt(_)));
            Returned::Open { attempts }
        }
    };
    if attempts != ticket.attempts {
        text.set(key::ATTEMPTS, &attempts.to_string())?;
    }
    Ok(returned)
}

/// A stem that no file has: `STEM-answer-N`; of a stem that is long, or cannot stand in a list of deps, its beginning
/// and a digest.
fn free_answer(queue: &Queue, stem: &Stem, mut number: u32) -> Result<Stem, BadStem> {
    const ROOM: usize = 150;
    let text = stem.as_str();
    let base = if text.len() <= ROOM && stem.is_plain() {
        text.to_owned()
    } else {
        let digest = shared::sha256_hex(text.as_bytes());
        let fits = text.char_indices().take_while(|(at, it)| at + it.len_utf8() < ROOM - 8).map(|it| it.1);
        let short: String = fits.filter(|it| it.is_alphanumeric() || matches!(it, '-' | '_')).collect();
        format!("{short}-{}", &digest[..8]).trim_start_matches('-').to_owned()
    };
    loop {
        let stem = Stem::new(&format!("{base}{}{number}", question::ANSWER_STEM))?;
        if !queue.has(&stem) {
            return Ok(stem);
        }
        number = number.wrapping_add(1);
    }
}

/// Takes `session_id` out of a ticket that is open, and nothing else. `false`: it says none, or it is not open.
///
/// # Errors
/// The operating system's, and [`io::ErrorKind::InvalidData`] for a file that is no ticket any more.
pub fn clear_accident(folder: &Folder, stem: &Stem) -> io::Result<bool> {
    let _lock = QueueLock::acquire(folder)?;
    let queue = repair(folder)?;
    let Some(ticket) = queue.find(stem).filter(|it| it.lane == Lane::Waiting && it.session_id.is_some()) else {
        return Ok(false);
    };
    let read = folder.read_file(&ticket.file)?;
    let mut text = Document::parse(read.bytes.clone())
        .map_err(|why| io::Error::new(io::ErrorKind::InvalidData, format!("{}: {why}", ticket.file)))?;
    text.remove(key::SESSION_ID);
    match write::replace(folder, &ticket.file, &read, &text.to_bytes(), "clear") {
        Ok(()) => Ok(true),
        Err(write::WriteError::Moved) => Ok(false),
        Err(write::WriteError::Io(error)) => Err(error),
    }
}

#[cfg(test)]
#[path = "back_tests.rs"]
mod tests;
