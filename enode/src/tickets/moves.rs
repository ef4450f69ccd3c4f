//! The calls that change a name. Who wins is what the kernel says; nothing is looked at first.

use std::{
    fs::{self, OpenOptions},
    io::{self, Write},
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::Path,
};

use tempfile::TempPath;

use super::{Folder, begun, fail, folder::Read};

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
    match folder.links.link(&folder.at(from), &folder.at(to)) {
        Ok(()) => {
            fail::at(word, "linked");
            if is_another(folder, from, to)? {
                // An editor has saved by rename meanwhile: the name stands for a newer text now.
                remove(folder, to)?;
                return Ok(Err(Lost::Gone));
            }
            remove_or_undo(folder, from, to)?;
        }
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(Err(Lost::Taken)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Err(Lost::Gone)),
        Err(_) => return copy(folder, from, to, word),
    }
    fail::at(word, "unlinked");
    Ok(Ok(()))
}

/// Whether `from` is there and is no longer the file that `to` is. Whoever repairs may have removed it already.
fn is_another(folder: &Folder, from: &str, to: &str) -> io::Result<bool> {
    let inode = |name: &str| fs::symlink_metadata(folder.at(name)).map(|meta| (meta.dev(), meta.ino()));
    match inode(from) {
        Ok(old) => Ok(old != inode(to)?),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

fn copy(folder: &Folder, from: &str, to: &str, word: &str) -> io::Result<Result<(), Lost>> {
    let source = match folder.read_file(from) {
        Ok(source) => source,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Err(Lost::Gone)),
        Err(error) => return Err(error),
    };
    begun::note(folder, to)?;
    let copied = copy_to(folder, from, &source, to, word)?;
    let removed = if copied.is_ok() { remove_or_undo(folder, from, to) } else { Ok(()) };
    fail::at(word, "unlinked");
    begun::over(folder)?;
    removed.map(|()| copied)
}

/// Removes the old name. Where that is refused, nothing was moved: of a ticket with two names nobody knows which one counts.
fn remove_or_undo(folder: &Folder, from: &str, to: &str) -> io::Result<()> {
    remove(folder, from).inspect_err(|_| {
        let _two_names_stay = remove(folder, to);
    })
}

fn copy_to(folder: &Folder, from: &str, source: &Read, to: &str, word: &str) -> io::Result<Result<(), Lost>> {
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
        remove(folder, to)?;
        return Err(error);
    }
    fail::at(word, "written");
    // What a person saved meanwhile would be lost with the old name.
    match folder.stamp(from) {
        Ok(stamp) if stamp.same_text(&source.stamp) => Ok(Ok(())),
        _ => {
            remove(folder, to)?;
            Ok(Err(Lost::Gone))
        }
    }
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
                remove(folder, to)?;
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

/// Removes a name that may be gone already.
pub(super) fn remove(folder: &Folder, name: &str) -> io::Result<()> {
    match fs::remove_file(folder.at(name)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
#[path = "moves_tests.rs"]
mod tests;
