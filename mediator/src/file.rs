//! Small files that a person names: read without ever waiting for what is not a file, and never more than expected.
//!
//! Opening a pipe waits for somebody who writes into it, and reading a device may have no end. So every file that a
//! flag, a configuration key or a state directory names is read here. Files of Runs are `record`'s.

use std::{
    fs::{File, Metadata, OpenOptions},
    io::{self, Read},
    os::unix::fs::{FileTypeExt, OpenOptionsExt},
    path::Path,
};

use rustix::fs::OFlags;

/// Larger than any key, chain of certificates, configuration or token.
pub(crate) const SMALL: u64 = 1 << 20;

/// Opens a regular file of at most `limit` bytes.
///
/// # Errors
/// It is something else, it is larger, or it cannot be opened.
pub(crate) fn open_small(path: &Path, limit: u64) -> io::Result<File> {
    // Looked at before it is opened, because opening a device may do something; and again after, because it may have
    // been replaced meanwhile.
    check(&std::fs::metadata(path)?, limit)?;
    let flags = (OFlags::NONBLOCK | OFlags::NOCTTY).bits().cast_signed();
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    check(&file.metadata()?, limit)?;
    Ok(file)
}

/// Reads a regular file of at most `limit` bytes.
///
/// # Errors
/// It is something else, it is larger, or it cannot be read.
pub(crate) fn read_small(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    whole(open_small(path, limit)?, limit)
}

/// The same for text.
///
/// # Errors
/// As [`read_small`], and it is not UTF-8.
pub(crate) fn read_text(path: &Path, limit: u64) -> io::Result<String> {
    text(read_small(path, limit)?)
}

/// Reads what a command was given. Also a pipe that the caller has opened already and names by its descriptor, as a
/// shell's `<(…)` does: whoever makes such a one writes into it.
///
/// # Errors
/// As [`read_small`].
pub(crate) fn read_given(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let handed_over = path.starts_with("/dev/fd") || path == Path::new("/dev/stdin");
    if handed_over { whole(File::open(path)?, limit) } else { read_small(path, limit) }
}

/// The same for text.
///
/// # Errors
/// As [`read_given`], and it is not UTF-8.
pub(crate) fn text_given(path: &Path, limit: u64) -> io::Result<String> {
    text(read_given(path, limit)?)
}

fn whole(file: File, limit: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(limit + 1).read_to_end(&mut bytes)?;
    // It may have grown.
    if bytes.len() as u64 > limit { Err(too_large(limit)) } else { Ok(bytes) }
}

fn text(bytes: Vec<u8>) -> io::Result<String> {
    String::from_utf8(bytes).map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "it is not UTF-8 text"))
}

fn check(meta: &Metadata, limit: u64) -> io::Result<()> {
    let kind = meta.file_type();
    let what = if kind.is_file() {
        return if meta.len() > limit { Err(too_large(limit)) } else { Ok(()) };
    } else if kind.is_dir() {
        "a directory"
    } else if kind.is_fifo() {
        "a pipe"
    } else if kind.is_socket() {
        "a socket"
    } else {
        "a device"
    };
    Err(io::Error::new(io::ErrorKind::InvalidInput, format!("it is {what}, not a regular file")))
}

fn too_large(limit: u64) -> io::Error {
    io::Error::new(io::ErrorKind::FileTooLarge, format!("it is larger than {limit} bytes, the most that is read"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_a_small_file_is_named_and_never_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        std::fs::create_dir(at("folder")).unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, at("pipe"), rustix::fs::Mode::RWXU).unwrap();
        std::os::unix::fs::symlink("/dev/zero", at("zero")).unwrap();
        std::os::unix::net::UnixListener::bind(at("socket")).unwrap();
        File::create(at("huge")).unwrap().set_len(1 << 30).unwrap();
        for (name, says) in [
            ("folder", "a directory"),
            ("pipe", "a pipe"),
            ("zero", "a device"),
            ("socket", "a socket"),
            ("huge", "larger than 10 bytes"),
            ("none", "No such file"),
        ] {
            for read in [read_small, read_given] {
                let error = read(&at(name), 10).unwrap_err().to_string();
                assert!(error.contains(says), "{name}: {error}");
            }
        }
        std::fs::write(at("real"), "0123456789").unwrap();
        std::os::unix::fs::symlink("real", at("link")).unwrap();
        assert_eq!(read_text(&at("link"), 10).unwrap(), "0123456789");
        std::fs::write(at("real"), [0xff]).unwrap();
        assert!(read_text(&at("link"), 10).unwrap_err().to_string().contains("UTF-8"));
    }

    #[test]
    fn a_pipe_that_was_handed_over_is_read() {
        use std::os::fd::AsRawFd;
        let (reader, mut writer) = io::pipe().unwrap();
        io::Write::write_all(&mut writer, b"secret").unwrap();
        drop(writer);
        let path = format!("/dev/fd/{}", reader.as_raw_fd());
        assert_eq!(text_given(Path::new(&path), 10).unwrap(), "secret");
    }
}
