//! The calls that change a name. Who wins is what the kernel says; nothing is looked at first.

use std::{
    fs::{self, OpenOptions},
    io::{self, Write},
    os::unix::fs::OpenOptionsExt,
    path::Path,
};

use rustix::{
    fs::{CWD, RenameFlags, renameat_with},
    io::Errno,
};
use tempfile::TempPath;

use super::{
    Folder, begun, fail,
    folder::{Read, Stamp},
    write::{DRAFT, KEPT},
};
use crate::clock;

/// Why a name was not changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lost {
    /// Somebody has the new name.
    Taken,
    /// The old name is gone, or it is another file by now.
    Gone,
}

/// Moves a file to a name that nobody has. Of all who try exactly one wins, and no byte changes.
///
/// Hard link, then unlink. Where links are refused: exclusive creation of the new name, the same bytes, then unlink.
/// A rename would overwrite silently, and looking first would be a race.
pub(super) fn take(folder: &Folder, from: &str, to: &str, word: &str) -> io::Result<Result<(), Lost>> {
    let source = match folder.stamp(from) {
        Ok(source) => source.inode,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Err(Lost::Gone)),
        Err(error) => return Err(error),
    };
    match folder.links.link(&folder.at(from), &folder.at(to)) {
        Ok(()) => {
            fail::at(word, "linked");
            // Saved anew before the link it is another file, and under the new name after it, which is not ours then.
            let linked = folder.stamp(to)?.inode;
            let moved = if folder.stamp(from).is_ok_and(|now| now.inode == linked) { linked } else { source };
            let is_moved = |now: &Stamp| now.inode == moved;
            if let Err(lost) = leave(folder, from, to, word, is_moved, is_moved)? {
                return Ok(Err(lost));
            }
        }
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(Err(Lost::Taken)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Err(Lost::Gone)),
        Err(_) => return copy(folder, from, to, word),
    }
    fail::at(word, "unlinked");
    Ok(Ok(()))
}

fn copy(folder: &Folder, from: &str, to: &str, word: &str) -> io::Result<Result<(), Lost>> {
    let source = match folder.read_file(from) {
        Ok(source) => source,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Err(Lost::Gone)),
        Err(error) => return Err(error),
    };
    begun::note(folder, to)?;
    let copied = copy_to(folder, from, &source, to, word)?;
    let is_source = |now: &Stamp| now.same_text(&source.stamp);
    let left = copied.map(|copy| leave(folder, from, to, word, is_source, |now| now.inode == copy));
    fail::at(word, "unlinked");
    begun::over(folder)?;
    left.unwrap_or_else(|lost| Ok(Err(lost)))
}

/// Removes the old name of a file, if it still `is_source`, that has a new one. Where that is refused, or an editor has saved another file under it
/// meanwhile, nothing was moved: of a ticket with two names nobody would know which one counts.
fn leave(
    folder: &Folder,
    from: &str,
    to: &str,
    word: &str,
    is_source: impl Fn(&Stamp) -> bool,
    is_ours: impl Fn(&Stamp) -> bool,
) -> io::Result<Result<(), Lost>> {
    match remove_only(folder, from, word, is_source) {
        Ok(true) => Ok(Ok(())),
        // What somebody has saved under the new name by now is not ours to remove.
        Ok(false) => remove_only(folder, to, word, is_ours).map(|_| Err(Lost::Gone)),
        Err(error) => {
            if folder.stamp(from).is_ok() {
                let _two_names_stay = remove_only(folder, to, word, is_ours);
            }
            Err(error)
        }
    }
}

/// Removes a name, if the file that it stands for `is_same`. To look and then to remove would lose what is saved in
/// between: the name goes aside with whatever it stands for, and comes back where that is something else. `false`: so it
/// was. A name that is gone already is removed.
pub(super) fn remove_only(
    folder: &Folder,
    name: &str,
    word: &str,
    is_same: impl Fn(&Stamp) -> bool,
) -> io::Result<bool> {
    let aside = format!("{DRAFT}{}{KEPT}", clock::random_hex(8));
    match fs::rename(folder.at(name), folder.at(&aside)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(true),
        moved => moved?,
    }
    fail::at(word, "aside");
    let removed = match folder.stamp(&aside) {
        Ok(now) if is_same(&now) => folder.remove(&aside).map(|()| true),
        Ok(_) => Ok(false),
        Err(error) => Err(error),
    };
    if !matches!(removed, Ok(true)) {
        bring_back(folder, &aside, name)?;
    }
    removed
}

fn bring_back(folder: &Folder, aside: &str, name: &str) -> io::Result<()> {
    match renameat_with(CWD, folder.at(aside), CWD, folder.at(name), RenameFlags::NOREPLACE) {
        Ok(()) => Ok(()),
        // Saved once more: the newest counts.
        Err(Errno::EXIST) => folder.remove(aside),
        // A file system that cannot promise it.
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => fs::rename(folder.at(aside), folder.at(name)),
        Err(error) => Err(error.into()),
    }
}

/// Gives back which file the copy is.
fn copy_to(folder: &Folder, from: &str, source: &Read, to: &str, word: &str) -> io::Result<Result<(u64, u64), Lost>> {
    let mut target = match exclusive(&folder.at(to), source.mode) {
        Ok(target) => target,
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(Err(Lost::Taken)),
        Err(error) => return Err(error),
    };
    fail::at(word, "created");
    let half = source.bytes.len() / 2;
    let written = target.write_all(&source.bytes[..half]).and_then(|()| {
        fail::at(word, "half_written");
        target.write_all(&source.bytes[half..])
    });
    // The mode that a new file gets is cut by the process's mask.
    let mode = std::os::unix::fs::PermissionsExt::from_mode(source.mode);
    if let Err(error) = written.and_then(|()| target.set_permissions(mode)).and_then(|()| target.sync_all()) {
        folder.remove(to)?;
        return Err(error);
    }
    let copy = Stamp::of(&target.metadata()?).inode;
    fail::at(word, "written");
    // What a person saved meanwhile would be lost with the old name.
    let still = source.stamp.is_still(fs::symlink_metadata(folder.at(from)));
    if !matches!(still, Ok(true)) {
        folder.remove(to)?;
    }
    Ok(if still? { Ok(copy) } else { Err(Lost::Gone) })
}

/// Gives a finished draft a name that nobody has.
pub(super) fn publish(folder: &Folder, draft: TempPath, to: &str, word: &str) -> io::Result<Result<(), Lost>> {
    match folder.links.link(&draft, &folder.at(to)) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(Err(Lost::Taken)),
        Err(_) => {
            // The empty file holds the name; an open one without frontmatter is in no queue.
            match exclusive(&folder.at(to), 0o600) {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(Err(Lost::Taken)),
                Err(error) => return Err(error),
            }
            fail::at(word, "created");
            if let Err(error) = fs::rename(&draft, folder.at(to)) {
                folder.remove(to)?;
                return Err(error);
            }
        }
    }
    fail::at(word, "linked");
    folder.sync()?;
    Ok(Ok(()))
}

fn exclusive(path: &Path, mode: u32) -> io::Result<fs::File> {
    // Who made it may write it, whatever its mode says of later.
    OpenOptions::new().write(true).create_new(true).mode(mode).open(path)
}

#[cfg(test)]
#[path = "moves_tests.rs"]
mod tests;
