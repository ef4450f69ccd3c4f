//! The queue's own files beside the tickets. A folder comes from anywhere, from a shared disk or from a clone, so that
//! what lies under their names may be a link that leads out of it, or a pipe that never ends.

use std::{
    fs::{File, OpenOptions, Permissions},
    io,
    os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt},
};

use rustix::fs::OFlags;

use super::Folder;

/// For everybody who works on the queue, whatever the mask of the one who made it.
pub(super) const MODE: u32 = 0o666;

/// Opens such a file, if it is one: a regular file with this name alone.
///
/// # Errors
/// The operating system's, and [`io::ErrorKind::InvalidInput`] with the name for anything else.
pub(super) fn open(folder: &Folder, name: &str, options: &mut OpenOptions) -> io::Result<File> {
    let path = folder.at(name);
    let odd = || {
        let why = format!("{} is no file of the queue's own: look what it is, and remove it", path.display());
        io::Error::new(io::ErrorKind::InvalidInput, why)
    };
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let opened = options.custom_flags(flags.bits().cast_signed()).open(&path);
    // `LOOP` is a link, `NXIO` a pipe that nobody reads, or a socket, `ISDIR` a folder.
    let is_odd = |error: &io::Error| {
        let errno = rustix::io::Errno::from_io_error(error);
        matches!(errno, Some(rustix::io::Errno::LOOP | rustix::io::Errno::NXIO | rustix::io::Errno::ISDIR))
    };
    let file = opened.map_err(|error| if is_odd(&error) { odd() } else { error })?;
    let meta = file.metadata()?;
    // Some file systems count no names at all.
    if meta.is_file() && meta.nlink() <= 1 { Ok(file) } else { Err(odd()) }
}

/// Opens such a file to read and to write it, and makes it where it is not there.
///
/// # Errors
/// As of [`open`].
pub(super) fn open_or_make(folder: &Folder, name: &str) -> io::Result<File> {
    match open(folder, name, OpenOptions::new().read(true).write(true)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        opened => return opened,
    }
    let mut new = OpenOptions::new();
    match new.read(true).write(true).create_new(true).mode(MODE).open(folder.at(name)) {
        Ok(file) => {
            file.set_permissions(Permissions::from_mode(MODE))?;
            Ok(file)
        }
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            open(folder, name, OpenOptions::new().read(true).write(true))
        }
        Err(error) => Err(error),
    }
}
