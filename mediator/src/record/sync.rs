//! Making things last: every file and folder that a promise rests on is synced before the promise is made.

use std::{fs::File, os::fd::OwnedFd, path::Path};

use rustix::fs::{Mode, OFlags};

use super::RecordError;

/// Waits until a file's content is on the disk.
pub(super) fn sync_file(file: &File, path: &Path) -> Result<(), RecordError> {
    file.sync_all().map_err(RecordError::io("sync", path))
}

/// Waits until a directory's entries are on the disk.
pub(super) fn sync_dir(path: &Path) -> Result<(), RecordError> {
    let dir = File::open(path).map_err(RecordError::io("open", path))?;
    sync_file(&dir, path)
}

/// The same, with an error that can be told to several.
pub(super) fn sync_entries(dir: &Path) -> rustix::io::Result<()> {
    rustix::fs::fsync(open_dir(dir)?)
}

/// Waits until everything that was written to the file system of `dir` is on the disk.
pub(super) fn sync_file_system(dir: &Path) -> rustix::io::Result<()> {
    rustix::fs::syncfs(open_dir(dir)?)
}

fn open_dir(dir: &Path) -> rustix::io::Result<OwnedFd> {
    rustix::fs::open(dir, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
}
