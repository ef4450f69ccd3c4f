//! The spare folder of a node: what a Run left of its folder, emptied, for the next one.
//!
//! Making and removing folders for every step is what a busy node would do most: file systems look for a free inode
//! among those that were freed a moment ago, and pass over all of them. Emptied and renamed, a folder costs nothing.
//! Only folders that are as they were made are kept: a program that changed mode, owner, attributes or flags of its
//! working directory leaves nothing of that to the next Run.

use std::{
    ffi::OsString,
    fs::{self, File},
    io,
    os::{
        fd::{AsFd as _, BorrowedFd, OwnedFd},
        unix::{
            ffi::OsStringExt as _,
            fs::{FileExt as _, OpenOptionsExt as _},
        },
    },
    path::Path,
};

use rustix::{
    fs::{CWD, Dir, FileType, IFlags, Mode, OFlags, fchmod, fstat, renameat},
    io::Errno,
};
use shared::Nonce;

use super::tree::{flags, open_in, remove_tree};
use crate::spool::make_private;

/// The spare folder; no run id begins with a dot.
pub(super) const SPARE: &str = ".spare";
/// The mark of a lease, in a Run's folder.
pub(super) const LEASE: &str = "lease";
/// The working directory.
pub(super) const RUN: &str = "run";
/// What becomes the next attempt's.
pub(super) const NEXT: &str = "next";
/// `$IN`
pub(super) const IN: &str = "in";
/// `$OUT`
pub(super) const OUT: &str = "out";

/// Makes what a Run's folder lacks, and marks it for this lease.
pub(super) fn furnish(home: &Path, nonce: Nonce) -> io::Result<()> {
    make_private(&home.join(RUN))?;
    let lease = File::options().create(true).truncate(false).write(true).mode(0o600).open(home.join(LEASE))?;
    // Every nonce is as long as the one before.
    lease.write_all_at(nonce.reveal().as_bytes(), 0)
}

/// Makes what an attempt's folder lacks.
pub(super) fn furnish_attempt(attempt: &Path) -> io::Result<()> {
    make_private(&attempt.join(IN))?;
    make_private(&attempt.join(OUT))
}

/// Empties a Run's folder and keeps it as the spare one. False: it is not as it was made.
///
/// # Errors
/// As the file system says; there is a spare one already.
pub(super) fn keep(home: &Path, spare: &Path) -> io::Result<bool> {
    let place = open_in(CWD, home.parent().unwrap_or(home), OFlags::DIRECTORY)?;
    // The flags of a folder that is made in the place of this one: what its parent hands down.
    let fresh = flags(&place)?.map(|it| it - IFlags::IMMUTABLE - IFlags::APPEND - IFlags::TOPDIR);
    let mut has_next = false;
    let kept = empty(place.as_fd(), home, fresh, |home, path| {
        if path.ends_with(LEASE) {
            return is_mark(home, fresh);
        }
        if path.ends_with(RUN) {
            return empty(home, path, fresh, |_, _| Ok(false));
        }
        // The first attempt that is found.
        let kept = !has_next
            && empty(home, path, fresh, |attempt, path| {
                Ok((path.ends_with(IN) || path.ends_with(OUT)) && empty(attempt, path, fresh, |_, _| Ok(false))?)
            })?
            && path.file_name().is_some_and(|name| renameat(home, name, home, NEXT).is_ok());
        has_next |= kept;
        Ok(kept)
    })?;
    if kept {
        fs::rename(home, spare)?;
    }
    Ok(kept)
}

/// Empties the folder `path`, which lies in `parent`, of all that `keeps` does not take. False: it is no folder of ours,
/// or has something on it that a program could have put there. Its mode is set to what it was: `$IN` was made read-only.
///
/// Goes by open folders, since finding a long path anew for each question is most of what asking costs.
fn empty(
    parent: BorrowedFd<'_>,
    path: &Path,
    fresh: Option<IFlags>,
    mut keeps: impl FnMut(BorrowedFd<'_>, &Path) -> io::Result<bool>,
) -> io::Result<bool> {
    let Some(name) = path.file_name() else { return Ok(false) };
    let folder = match open_in(parent, name, OFlags::DIRECTORY) {
        Ok(folder) => folder,
        Err(Errno::NOTDIR | Errno::LOOP) => return Ok(false),
        Err(error) => return Err(error.into()),
    };
    let found = fstat(&folder)?;
    if found.st_uid != rustix::process::geteuid().as_raw() || has_attributes(&folder) || flags(&folder)? != fresh {
        return Ok(false);
    }
    if Mode::from_raw_mode(found.st_mode) != Mode::RWXU {
        fchmod(&folder, Mode::RWXU)?;
    }
    let mut names = Vec::new();
    let mut listed = Dir::new(folder)?;
    for entry in &mut listed {
        let name = entry?.file_name().to_bytes().to_owned();
        if name != b"." && name != b".." {
            names.push(OsString::from_vec(name));
        }
    }
    for name in names {
        let path = path.join(name);
        if !keeps(listed.fd()?, &path)? {
            remove_tree(&path)?;
        }
    }
    Ok(true)
}

/// Whether this is the file that the lease was noted in, and not something that is waited for or lies elsewhere.
fn is_mark(home: BorrowedFd<'_>, fresh: Option<IFlags>) -> io::Result<bool> {
    let mark = match open_in(home, LEASE, OFlags::empty()) {
        Err(Errno::LOOP) => return Ok(false),
        opened => opened?,
    };
    let found = fstat(&mark)?;
    // What only folders are handed down does not stand on a file.
    let handed_down = fresh.map(|it| it - IFlags::DIRSYNC);
    Ok(FileType::from_raw_mode(found.st_mode) == FileType::RegularFile
        && found.st_nlink == 1
        && flags(&mark)?.map(|it| it - IFlags::DIRSYNC) == handed_down)
}

/// Access lists and the like; labels that the system gives every file do not count.
fn has_attributes(dir: &OwnedFd) -> bool {
    let mut names = [0; 1024];
    match rustix::fs::flistxattr(dir, &mut names) {
        Ok(length) => {
            names[..length].split(|byte| *byte == 0).any(|name| !name.is_empty() && !name.starts_with(b"security."))
        }
        Err(error) => error != Errno::NOTSUP,
    }
}

#[cfg(test)]
#[path = "spare_tests.rs"]
mod tests;
