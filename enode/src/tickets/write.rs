//! Replaces a file's text as a whole, if it is still the file that was read. A name that has moved on stays away.

use std::{fs, io, io::Write, os::unix::fs::PermissionsExt, path::Path};

use rustix::{
    fs::{CWD, RenameFlags, renameat_with},
    io::Errno,
};
use tempfile::TempPath;

use super::{Folder, fail, folder::Read};

/// How drafts begin: hidden, so that they are no tickets.
pub(super) const DRAFT: &str = ".enode-";
/// How the name of one ends that may be the only one of its text, and is not swept.
pub(super) const KEPT: &str = ".kept";

/// Why a text was not replaced.
#[derive(Debug, thiserror::Error)]
pub(super) enum WriteError {
    /// The name is gone, or stands for another text than the one that was read.
    #[error("the file was moved or changed by somebody else meanwhile")]
    Moved,
    /// Anything else.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// A finished file beside the others, with the mode and, where that is allowed, the owner of the one it came from. One
/// that comes from none gets what any new file gets.
pub(super) fn draft(folder: &Folder, bytes: &[u8], from: Option<&Read>) -> io::Result<TempPath> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(DRAFT).suffix(".tmp").permissions(fs::Permissions::from_mode(0o666));
    let mut file = builder.tempfile_in(folder.path())?;
    file.write_all(bytes)?;
    if let Some(from) = from {
        // Only root may give files away; for everybody else the writer is the owner, as with any editor.
        drop(std::os::unix::fs::fchown(file.as_file(), Some(from.owner.0), Some(from.owner.1)));
        file.as_file().set_permissions(fs::Permissions::from_mode(from.mode))?;
    }
    file.as_file().sync_all()?;
    Ok(file.into_temp_path())
}

/// Replaces the text of `name`, which was read as `read`.
///
/// The kernel exchanges both names in one call that fails where the old name is gone: a check and a plain rename would
/// bring it back when it moves on in between (and that is all there is where the file system cannot exchange).
pub(super) fn replace(folder: &Folder, name: &str, read: &Read, bytes: &[u8], word: &str) -> Result<(), WriteError> {
    let draft = draft(folder, bytes, Some(read))?;
    fail::at(word, "drafted");
    let path = folder.at(name);
    if !is_same(&path, read)? {
        return Err(WriteError::Moved);
    }
    exchange(draft, &path, read, word)
}

/// Whether a name still stands for the text that was read.
fn is_same(path: &Path, read: &Read) -> io::Result<bool> {
    read.stamp.is_still(fs::symlink_metadata(path))
}

/// The second half of [`replace`]. Between the two anybody may have moved the name on.
fn exchange(draft: TempPath, path: &Path, read: &Read, word: &str) -> Result<(), WriteError> {
    match renameat_with(CWD, &*draft, CWD, path, RenameFlags::EXCHANGE) {
        Ok(()) => {
            fail::at(word, "exchanged");
            // The draft's name holds the old text now. If it is not what was read, somebody saved in this very moment.
            if !is_same(&draft, read)? {
                if let Err(error) = renameat_with(CWD, &*draft, CWD, path, RenameFlags::EXCHANGE) {
                    // What was saved is kept, hidden, rather than thrown away.
                    let draft = draft.keep().map_err(|failed| failed.error)?;
                    // Not as a draft, which would be swept.
                    let kept = draft.with_extension(&KEPT[1..]);
                    let kept = fs::rename(&draft, &kept).map_or(draft, |()| kept);
                    let name = path.file_name().unwrap_or_default().display();
                    let why = format!("{name} was changed twice at once; one text is in {}: {error}", kept.display());
                    return Err(io::Error::other(why).into());
                }
                return Err(WriteError::Moved);
            }
        }
        Err(Errno::NOENT) => return Err(WriteError::Moved),
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {
            if !is_same(path, read)? {
                return Err(WriteError::Moved);
            }
            fs::rename(&draft, path)?;
        }
        Err(error) => return Err(io::Error::from(error).into()),
    }
    Ok(())
}

#[cfg(test)]
#[path = "write_tests.rs"]
mod tests;
