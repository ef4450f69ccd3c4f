//! Ends what a killed process had begun. Called with the queue's lock held, so that nobody of ours is in the middle of it.
//!
//! | names of one stem | what it was | what is done |
//! |---|---|---|
//! | open and in progress, one inode | a claim after its link | the claim stands: the open name goes |
//! | * in progress has no owner and holds the beginning of open, or all | a claim by copy before its end | it never happened |
//! | * open is empty | a return without links before its end | it never happened |
//! | * open has no owner, and begins with the body of in progress | a return after its link | it stands |
//! | in progress and done, one inode | the end of a ticket after its link | it stands |
//! | * done holds the beginning of in progress, all of it or nothing | an end by copy before its end | it is ended |
//! | * only one, and nothing is in it | a new file before its end, an answer perhaps | it never was |
//!
//! What has a star only where `begun` names it: an editor that saves a claimed ticket late, under the name that it
//! had when it was opened, leaves the same texts behind, and ends no claim.
//!
//! Whatever else has two names is a person's doing and is left alone; `enode tickets check` reports it.

use std::{collections::BTreeMap, fs, io, time::Duration};

use shared::ticket::{Document, Lane, Queue, Stem, key};

use super::{
    Folder, begun,
    file_work::is_of_one_file,
    folder::Read,
    moves::remove_only,
    write::{self, DRAFT, KEPT, WriteError},
};
use crate::clock;

/// Drafts are used within moments.
const FORGOTTEN: Duration = Duration::from_secs(600);

/// Repairs, and reads what is there then.
pub(super) fn repair(folder: &Folder) -> io::Result<Queue> {
    let queue = folder.read()?;
    let doubled = doubled(&queue);
    sweep_drafts(folder, &queue);
    let begun = begun::left(folder)?;
    let mut changed = false;
    for files in doubled.values() {
        changed |= of_others_nothing(repair_stem(folder, files, begun.as_deref()))?;
    }
    if let Some(name) = &begun {
        changed |= of_others_nothing(sweep_empty(folder, name, &doubled))?;
        begun::over(folder)?;
    }
    if changed { folder.read() } else { Ok(queue) }
}

/// What cannot be mended in one ticket, `enode tickets check` reports; the others are mended.
fn of_others_nothing(mended: io::Result<bool>) -> io::Result<bool> {
    mended.or_else(|error| if is_of_one_file(&error) { Ok(false) } else { Err(error) })
}

/// The files of each stem that has several, by lane.
fn doubled(queue: &Queue) -> BTreeMap<Stem, BTreeMap<Lane, String>> {
    let mut names: BTreeMap<Stem, BTreeMap<Lane, String>> = BTreeMap::new();
    let tickets = queue.tickets().iter().chain(queue.twins()).map(|it| (&it.stem, it.lane, &it.file));
    let unread = queue.unread().iter().filter_map(|it| Some((&it.name.as_ref()?.0, it.name.as_ref()?.1, &it.file)));
    for (stem, lane, file) in tickets.chain(unread) {
        names.entry(stem.clone()).or_default().insert(lane, file.clone());
    }
    names.retain(|_, files| files.len() > 1);
    names
}

fn repair_stem(folder: &Folder, files: &BTreeMap<Lane, String>, begun: Option<&str>) -> io::Result<bool> {
    let read = |lane: Lane| match files.get(&lane).map(|name| (name, folder.read_file(name))) {
        Some((name, Ok(read))) => Some((name.as_str(), read)),
        // It is gone, or a folder or a link, or not ours to read.
        Some((_, Err(_))) | None => None,
    };
    let Some((wip_name, wip)) = read(Lane::InProgress) else { return Ok(false) };
    if let Some((done_name, done)) = read(Lane::Done) {
        if done.stamp.inode != wip.stamp.inode {
            if begun != Some(done_name) || !wip.bytes.starts_with(&done.bytes) {
                return Ok(false);
            }
            if done.bytes.len() < wip.bytes.len() && !fill(folder, done_name, done, &wip)? {
                return Ok(false);
            }
        }
        // Also where it was not removed, it has changed since the queue was read.
        return remove_only(folder, wip_name, "repair", |now| now.same_text(&wip.stamp)).map(|_| true);
    }
    let Some((open_name, open)) = read(Lane::Waiting) else { return Ok(false) };
    let (gone, read) = if open.stamp.inode == wip.stamp.inode {
        (open_name, &open)
    } else if begun != Some(wip_name) {
        return Ok(false);
    } else if open.bytes.starts_with(&wip.bytes) && !is_owned(&wip) {
        (wip_name, &wip)
    } else if open.bytes.is_empty() {
        (open_name, &open)
    } else if has_come_back(&open, &wip) {
        (wip_name, &wip)
    } else {
        return Ok(false);
    };
    remove_only(folder, gone, "repair", |now| now.same_text(&read.stamp)).map(|_| true)
}

/// Gives a file that holds a part of another one all of it. `false`: somebody has changed it meanwhile.
fn fill(folder: &Folder, name: &str, part: Read, whole: &Read) -> io::Result<bool> {
    let part = Read { mode: whole.mode, owner: whole.owner, ..part };
    match write::replace(folder, name, &part, &whole.bytes, "fill") {
        Ok(()) => Ok(true),
        Err(WriteError::Moved) => Ok(false),
        Err(WriteError::Io(error)) => Err(error),
    }
}

/// Removes a name that was made and not filled, where there is no other one of its stem.
fn sweep_empty(folder: &Folder, name: &str, doubled: &BTreeMap<Stem, BTreeMap<Lane, String>>) -> io::Result<bool> {
    // A name as it may stand in this folder, and no other: the note is a text like any other.
    let Some((stem, _)) = folder.suffixes().read(name) else { return Ok(false) };
    if doubled.contains_key(&stem) {
        return Ok(false);
    }
    match folder.read_file(name) {
        Ok(read) if read.bytes.is_empty() => folder.remove(name).map(|()| true),
        Ok(_) | Err(_) => Ok(false),
    }
}

fn is_owned(read: &Read) -> bool {
    Document::parse(read.bytes.clone()).is_ok_and(|text| key::OWNERS.iter().any(|key| text.said(key).is_some()))
}

/// The open file is what was made of the one in progress: nobody owns it, and its body goes on where that one ended.
pub(super) fn has_come_back(open: &Read, wip: &Read) -> bool {
    let parse = |read: &Read| Document::parse(read.bytes.clone());
    match (parse(open), parse(wip)) {
        (Ok(_), Ok(_)) if is_owned(open) => false,
        (Ok(open), Ok(wip)) => {
            let titles =
                |it: &Document| (it.get(key::TITLE).map(str::to_owned), it.get(key::TICKET).map(str::to_owned));
            titles(&open) == titles(&wip) && open.body().starts_with(wip.body().trim_end())
        }
        _ => false,
    }
}

/// A ticket says all that a person has written into a text: it may have gone back meanwhile, and asked.
fn has_all(ticket: &Document, text: &Document) -> bool {
    let ours = [key::DEPS, key::ATTEMPTS, key::AWAITING, key::ASKED_AT, key::CREATED_AT];
    let keys = |it: &Document| -> Vec<(String, String)> {
        let of_people = |key: &str| !ours.contains(&key) && !key::OWNERS.contains(&key);
        it.keys().filter(|it| of_people(it.0)).map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
    };
    let mut deps = ticket.deps().0;
    deps.retain(|dep| ticket.said(key::AWAITING) != Some(dep.as_str()) || text.deps().0.contains(dep));
    keys(ticket) == keys(text) && deps == text.deps().0 && ticket.body().starts_with(text.body().trim_end())
}

/// Drafts of processes that were killed. What of them cannot be removed is in nobody's way. A text that has gone aside
/// stays, unless the queue has it under another name: it may have been saved at that very moment.
fn sweep_drafts(folder: &Folder, queue: &Queue) {
    let now = clock::now_ns();
    let is_elsewhere = |name: &str| {
        let Ok(kept) = folder.read_file(name) else { return false };
        let kept = Document::parse(kept.bytes).ok();
        kept.is_some_and(|kept| queue.tickets().iter().chain(queue.twins()).any(|it| has_all(&it.text, &kept)))
    };
    for entry in fs::read_dir(folder.path()).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if name.starts_with(DRAFT) && name.ends_with(KEPT) && is_elsewhere(&name) {
            let _stays = folder.remove(&name);
        }
        if !(name.starts_with(DRAFT) && name.ends_with(".tmp")) {
            continue;
        }
        let Ok(stamp) = folder.stamp(&name) else { continue };
        if i128::from(stamp.modified_ns) + i128::try_from(FORGOTTEN.as_nanos()).unwrap_or(0) < i128::from(now) {
            let _stays = folder.remove(&name);
        }
    }
}

#[cfg(test)]
#[path = "repair_tests.rs"]
mod tests;
