//! Whole trees of files: removed whatever a program has made of them, and made read-only.

use std::{
    fs, io,
    os::{
        fd::{AsFd, OwnedFd},
        unix::fs::{MetadataExt as _, PermissionsExt as _},
    },
    path::Path,
};

use rustix::{
    fs::{CWD, IFlags, Mode, OFlags, openat},
    io::Errno,
    path::Arg,
};

/// Removes a folder and everything in it, also what a program has made unwritable or immutable. Nothing there is fine.
///
/// # Errors
/// As the file system says.
pub fn remove_tree(path: &Path) -> io::Result<()> {
    match remove(path) {
        Err(e) if e.kind() == io::ErrorKind::PermissionDenied => {
            open_up(path)?;
            remove(path)
        }
        removed => removed,
    }
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(e) => return Err(e),
        Ok(metadata) if !metadata.is_dir() => return fs::remove_file(path),
        Ok(_) => {}
    }
    fs::remove_dir_all(path)
}

/// Makes every folder below writable and everything changeable. Links are not followed.
fn open_up(path: &Path) -> io::Result<()> {
    // The folder that it is in is ours, too.
    path.parent().into_iter().for_each(free);
    let mut todo = vec![path.to_owned()];
    while let Some(path) = todo.pop() {
        free(&path);
        if !fs::symlink_metadata(&path)?.is_dir() {
            continue;
        }
        fs::set_permissions(&path, fs::Permissions::from_mode(0o700))?;
        for entry in fs::read_dir(&path)? {
            let entry = entry?;
            if entry.file_type()?.is_dir() || entry.metadata()?.nlink() == 1 {
                todo.push(entry.path());
            }
        }
    }
    Ok(())
}

/// Takes from a file or folder what keeps it from being changed, as far as we may. What stays as it is shows when it
/// is removed.
fn free(path: &Path) {
    let fixed = IFlags::IMMUTABLE | IFlags::APPEND;
    let free = || -> rustix::io::Result<()> {
        let file = open_in(CWD, path, OFlags::empty())?;
        let flags = rustix::fs::ioctl_getflags(&file)?;
        if flags.intersects(fixed) { rustix::fs::ioctl_setflags(&file, flags - fixed) } else { Ok(()) }
    };
    if let Err(error) = free() {
        tracing::debug!(path = %path.display(), %error, "its flags stay as they are");
    }
}

/// Opens what a program may have put there: neither followed if it is a link, nor waited for if it is a pipe.
///
/// # Errors
/// As the file system says.
pub(super) fn open_in(folder: impl AsFd, path: impl Arg, further: OFlags) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    openat(folder, path, flags | further, Mode::empty())
}

/// Flags that a file system sets by itself, as it stores a file: extents, an index, inline data, compression, encryption.
const OF_THE_SYSTEM: IFlags = IFlags::from_bits_retain(0x103c_1b00);

/// What a program may have set on an inode (`chattr`). `None`: this file system has no such flags.
///
/// # Errors
/// As the file system says.
pub(super) fn flags(file: impl AsFd) -> io::Result<Option<IFlags>> {
    match rustix::fs::ioctl_getflags(file) {
        Ok(flags) => Ok(Some(flags - OF_THE_SYSTEM)),
        Err(Errno::NOTTY | Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Makes a tree read-only, files and folders.
///
/// # Errors
/// As the file system says.
pub fn make_read_only(dir: &Path) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            make_read_only(&entry.path())?;
        } else {
            fs::set_permissions(entry.path(), fs::Permissions::from_mode(0o444))?;
        }
    }
    fs::set_permissions(dir, fs::Permissions::from_mode(0o555))
}
