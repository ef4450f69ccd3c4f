//! The spare folder of a node: what a Run left of its folder, emptied, for the next one.
//!
//! Making and removing folders for every step is what a busy node would do most: file systems look for a free inode
//! among those that were freed a moment ago, and pass over all of them. Emptied and renamed, a folder costs nothing.
//! Only folders that are as they were made are kept: a program that changed mode, owner, attributes or flags of its
//! working directory leaves nothing of that to the next Run.

use std::{
    fs::{self, File, Permissions},
    io,
    os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _},
    path::Path,
};

use rustix::fs::IFlags;
use shared::Nonce;

use super::tree::{flags, remove_tree};
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

/// Empties a Run's folder and keeps it as the spare one. False: there is one, or this one is not as it was made.
pub(super) fn keep(home: &Path, spare: &Path) -> io::Result<bool> {
    let fresh = flags_of_fresh(home)?;
    if spare.exists() || !is_as_made(home, fresh)? {
        return Ok(false);
    }
    let next = home.join(NEXT);
    for entry in fs::read_dir(home)? {
        let path = entry?.path();
        if path.ends_with(LEASE) && is_mark(&path, fresh)? {
            continue;
        }
        let kept = if path.ends_with(RUN) {
            emptied(&path, fresh)?
        } else {
            // The first attempt that is found.
            path == next || (!next.exists() && emptied_attempt(&path, fresh)? && fs::rename(&path, &next).is_ok())
        };
        if !kept {
            remove_tree(&path)?;
        }
    }
    fs::rename(home, spare)?;
    Ok(true)
}

fn emptied_attempt(attempt: &Path, fresh: Option<IFlags>) -> io::Result<bool> {
    if !is_as_made(attempt, fresh)? {
        return Ok(false);
    }
    for entry in fs::read_dir(attempt)? {
        let path = entry?.path();
        if !((path.ends_with(IN) || path.ends_with(OUT)) && emptied(&path, fresh)?) {
            remove_tree(&path)?;
        }
    }
    Ok(true)
}

/// Empties a folder. False: it is not as it was made.
fn emptied(dir: &Path, fresh: Option<IFlags>) -> io::Result<bool> {
    if !is_as_made(dir, fresh)? {
        return Ok(false);
    }
    for entry in fs::read_dir(dir)? {
        remove_tree(&entry?.path())?;
    }
    Ok(true)
}

/// Whether this is a folder of ours without anything on it that a program could have put there. Its mode is set to
/// what it was: `$IN` was made read-only.
fn is_as_made(dir: &Path, fresh: Option<IFlags>) -> io::Result<bool> {
    let found = fs::symlink_metadata(dir)?;
    if !found.is_dir() || found.uid() != rustix::process::geteuid().as_raw() {
        return Ok(false);
    }
    if found.mode() & 0o7777 != 0o700 {
        fs::set_permissions(dir, Permissions::from_mode(0o700))?;
    }
    Ok(!has_attributes(dir) && flags(dir)? == fresh)
}

/// The flags of a folder that is made in the place of this one: what its parent hands down.
fn flags_of_fresh(home: &Path) -> io::Result<Option<IFlags>> {
    let parent = home.parent().map_or(Ok(None), flags)?;
    Ok(parent.map(|it| it - IFlags::IMMUTABLE - IFlags::APPEND - IFlags::TOPDIR))
}

/// Whether this is the file that the lease was noted in, and not something that is waited for or lies elsewhere.
fn is_mark(path: &Path, fresh: Option<IFlags>) -> io::Result<bool> {
    let found = fs::symlink_metadata(path)?;
    // What only folders are handed down does not stand on a file.
    let handed_down = fresh.map(|it| it - IFlags::DIRSYNC);
    Ok(found.is_file() && found.nlink() == 1 && flags(path)?.map(|it| it - IFlags::DIRSYNC) == handed_down)
}

/// Access lists and the like; labels that the system gives every file do not count.
fn has_attributes(dir: &Path) -> bool {
    let mut names = [0; 1024];
    match rustix::fs::listxattr(dir, &mut names) {
        Ok(length) => {
            names[..length].split(|byte| *byte == 0).any(|name| !name.is_empty() && !name.starts_with(b"security."))
        }
        Err(error) => error != rustix::io::Errno::NOTSUP,
    }
}

#[cfg(test)]
#[path = "spare_tests.rs"]
mod tests;
