//! Small files: read without ever hanging on what is not a file, written so that a crash leaves the old or the new.
//!
//! Knows nothing of what the files mean.

use std::{
    fs::{File, OpenOptions},
    io::{self, Read, Write},
    os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
};

/// A regular file as it was read.
#[derive(Debug)]
pub struct Regular {
    /// What it holds.
    pub bytes: Vec<u8>,
    /// Permission bits.
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// It was not written to while it was read.
    pub steady: bool,
}

/// Why a file could not be read. `Display` says what instead.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// A folder, a pipe, a device, a socket.
    #[error("is {0}, not a regular file: put a text file in its place")]
    NotRegular(&'static str),
    /// Larger than anything a person writes.
    #[error("has {size} bytes, more than the {limit} that are read: put a small text file in its place")]
    TooBig {
        /// Its size in bytes.
        size: u64,
        /// The limit in bytes.
        limit: u64,
    },
    /// Symbolic links that lead to each other.
    #[error("is a loop of symbolic links: put a text file in its place")]
    Loop,
    /// A symbolic link to what is not there. Not the same as no file: whoever made it meant one.
    #[error("is a symbolic link that leads nowhere ({}): make its target readable, or put a text file in its place", .0.display())]
    Dangling(PathBuf),
    /// Not ours to read.
    #[error("may not be read by this user: give it to the user that runs enode, mode 0600")]
    Denied,
    /// Anything else.
    #[error("cannot be read: {0}")]
    Io(#[source] io::Error),
}

impl From<io::Error> for ReadError {
    fn from(error: io::Error) -> Self {
        match error.raw_os_error() {
            Some(code) if code == rustix::io::Errno::LOOP.raw_os_error() => Self::Loop,
            _ if error.kind() == io::ErrorKind::PermissionDenied => Self::Denied,
            _ => Self::Io(error),
        }
    }
}

/// Times a file is read again when it changes under the reading.
const TRIES: usize = 3;

/// Reads a regular file of at most `limit` bytes. `None`: there is no such entry in its folder, or no such folder.
///
/// A link that leads nowhere is an entry: its target may lie in a folder that is not mounted just now.
///
/// A pipe or device is recognised before it is opened, and opened without blocking should it appear in
/// between, so that this never waits for a writer.
///
/// # Errors
/// [`ReadError`] says what stands in the file's place.
pub fn read_regular(path: &Path, limit: u64) -> Result<Option<Regular>, ReadError> {
    let (mut last, mut link) = (None, None);
    for _ in 0..TRIES {
        match read_once(path, limit) {
            Ok(file) if file.steady => return Ok(Some(file)),
            Ok(file) => last = Some(file),
            Err(ReadError::Io(error)) if nothing_there(&error) => match std::fs::symlink_metadata(path) {
                // Seen again, in case that it came in between.
                Ok(meta) if meta.is_symlink() => link = std::fs::read_link(path).ok(),
                Ok(_) => {}
                Err(error) if nothing_there(&error) => return Ok(None),
                Err(error) => return Err(error.into()),
            },
            Err(other) => return Err(other),
        }
    }
    match (last, link) {
        (Some(file), _) => Ok(Some(file)),
        (None, Some(target)) => Err(ReadError::Dangling(target)),
        // It comes and goes: it is being replaced.
        (None, None) => Ok(Some(Regular { bytes: Vec::new(), mode: 0, uid: 0, gid: 0, steady: false })),
    }
}

/// Most bytes of a key, a certificate or a note of our own.
const SMALL: u64 = 1 << 20;

/// Reads a small regular file that must be there, such as a certificate.
///
/// # Errors
/// As [`read_regular`]; `NotFound` where there is nothing.
pub fn read_small(path: &Path) -> io::Result<Vec<u8>> {
    match read_regular(path, SMALL) {
        Ok(Some(file)) => Ok(file.bytes),
        Ok(None) => Err(rustix::io::Errno::NOENT.into()),
        Err(ReadError::Io(error)) => Err(error),
        Err(why) => Err(io::Error::other(format!("it {why}"))),
    }
}

/// `NotADirectory`: a part of the path is a file, so there is nothing at its end.
fn nothing_there(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

fn read_once(path: &Path, limit: u64) -> Result<Regular, ReadError> {
    check(&std::fs::metadata(path)?, limit)?;
    let flags = rustix::fs::OFlags::NONBLOCK | rustix::fs::OFlags::NOCTTY;
    let mut file = OpenOptions::new().read(true).custom_flags(flags.bits().cast_signed()).open(path)?;
    let before = file.metadata()?;
    check(&before, limit)?;
    let mut bytes = Vec::new();
    (&mut file).take(limit + 1).read_to_end(&mut bytes)?;
    let after = file.metadata()?;
    check(&after, limit)?;
    let stamp = |meta: &std::fs::Metadata| (meta.len(), meta.mtime(), meta.mtime_nsec());
    let steady = stamp(&before) == stamp(&after) && bytes.len() as u64 == after.len();
    Ok(Regular { bytes, mode: after.mode() & 0o7777, uid: after.uid(), gid: after.gid(), steady })
}

fn check(meta: &std::fs::Metadata, limit: u64) -> Result<(), ReadError> {
    let kind = meta.file_type();
    let what = if kind.is_file() {
        if meta.len() > limit {
            return Err(ReadError::TooBig { size: meta.len(), limit });
        }
        return Ok(());
    } else if kind.is_dir() {
        "a folder"
    } else if kind.is_fifo() {
        "a pipe"
    } else if kind.is_socket() {
        "a socket"
    } else {
        "a device"
    };
    Err(ReadError::NotRegular(what))
}

/// Replaces a file as a whole: a reader sees the old bytes or the new ones, also after a power cut.
///
/// # Errors
/// The operating system's; the old file is untouched then.
pub fn write_atomic(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    write_atomic_as(path, bytes, mode, None)
}

/// [`write_atomic`] for another owner, `(uid, gid)`; only root may do that.
///
/// # Errors
/// The operating system's; the old file is untouched then.
pub fn write_atomic_as(path: &Path, bytes: &[u8], mode: u32, owner: Option<(u32, u32)>) -> io::Result<()> {
    let folder = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut draft = tempfile::Builder::new().prefix(".enode-").suffix(".tmp").tempfile_in(folder)?;
    draft.write_all(bytes)?;
    if let Some((uid, gid)) = owner {
        std::os::unix::fs::fchown(draft.as_file(), Some(uid), Some(gid))?;
    }
    draft.as_file().set_permissions(std::fs::Permissions::from_mode(mode))?;
    draft.as_file().sync_all()?;
    draft.persist(path).map_err(|failed| failed.error)?;
    File::open(folder)?.sync_all()
}

/// Makes a folder, and those above it, that only this user may enter. One that exists stays as it is.
///
/// # Errors
/// The operating system's.
pub fn make_private_dir(path: &Path) -> io::Result<()> {
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_a_file_is_named_and_never_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        std::fs::create_dir(at("folder")).unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, at("pipe"), rustix::fs::Mode::RWXU).unwrap();
        std::os::unix::fs::symlink("/dev/zero", at("zero")).unwrap();
        std::os::unix::fs::symlink("loop", at("loop")).unwrap();
        File::create(at("huge")).unwrap().set_len(1 << 30).unwrap();
        std::os::unix::fs::symlink("nowhere", at("dangling")).unwrap();
        std::os::unix::fs::symlink("huge/below", at("below-a-file")).unwrap();
        std::os::unix::fs::symlink("dangling", at("twice")).unwrap();
        for name in ["dangling", "below-a-file", "twice"] {
            let said = read_regular(&at(name), 1024).unwrap_err().to_string();
            assert!(said.contains("leads nowhere"), "{name}: {said}");
        }
        for (name, want) in
            [("folder", "a folder"), ("pipe", "a pipe"), ("zero", "a device"), ("loop", "loop"), ("huge", "1073741824")]
        {
            let said = read_regular(&at(name), 1024).unwrap_err().to_string();
            assert!(said.contains(want), "{name}: {said}");
        }
        for none in ["none", "no/folder", "huge/below"] {
            assert!(read_regular(&at(none), 1024).unwrap().is_none(), "{none}");
        }
    }

    #[test]
    fn a_small_file_that_must_be_there() {
        let dir = tempfile::tempdir().unwrap();
        let at = dir.path().join("it");
        let error = read_small(&at).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        assert!(error.to_string().contains("No such file"), "in the words that everybody knows: {error}");
        rustix::fs::mkfifoat(rustix::fs::CWD, &at, rustix::fs::Mode::RWXU).unwrap();
        assert!(read_small(&at).unwrap_err().to_string().contains("a pipe"));
    }

    #[test]
    fn a_link_to_a_file_is_that_file() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("real"), "x").unwrap();
        std::os::unix::fs::symlink("real", dir.path().join("link")).unwrap();
        assert_eq!(read_regular(&dir.path().join("link"), 10).unwrap().unwrap().bytes, b"x");
    }

    #[test]
    fn writing_replaces_and_sets_the_mode() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        std::fs::write(&path, "old").unwrap();
        write_atomic(&path, b"new", 0o600).unwrap();
        let file = read_regular(&path, 10).unwrap().unwrap();
        assert_eq!((file.bytes.as_slice(), file.mode), (&b"new"[..], 0o600));
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    }
}
