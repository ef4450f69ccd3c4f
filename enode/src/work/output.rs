//! What a step left in `$OUT`: every regular file, hashed. One file is open at a time.

use std::{
    fs::{self, OpenOptions},
    io::{self, Read as _},
    os::unix::fs::OpenOptionsExt as _,
    path::Path,
};

use rustix::fs::OFlags;
use sha2::{Digest as _, Sha256};
use shared::hex;

use crate::{policy::quarantine::Against, spool::Artifact};

/// Why an output cannot be stored.
#[derive(Debug, thiserror::Error)]
pub enum OutputError {
    /// Too large.
    #[error("{name} has {size} bytes; this node stores files of at most {limit} bytes (`artifact_bytes`)")]
    TooLarge {
        /// Relative path.
        name: String,
        /// Bytes.
        size: u64,
        /// Bytes.
        limit: u64,
    },
    /// A name that is not text.
    #[error("{0} has a name that is not UTF-8")]
    NotText(String),
    /// The file system.
    #[error("cannot read {name}: {source}")]
    Io {
        /// Relative path.
        name: String,
        /// Why.
        source: io::Error,
    },
}

impl OutputError {
    pub(super) fn against(&self) -> Against {
        match self {
            Self::TooLarge { .. } | Self::NotText(_) => Against::Others,
            // What a program can do to its own files while it goes on, or before.
            Self::Io { source, .. } => match source.kind() {
                io::ErrorKind::PermissionDenied
                | io::ErrorKind::NotFound
                | io::ErrorKind::NotADirectory
                | io::ErrorKind::IsADirectory
                | io::ErrorKind::InvalidFilename => Against::Others,
                _ if source.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error()) => Against::Others,
                _ => Against::Machine,
            },
        }
    }
}

/// What was found.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Outputs {
    /// Regular files, sorted by name.
    pub files: Vec<Artifact>,
    /// What is neither file nor folder, in words.
    pub skipped: Vec<String>,
}

/// Collects everything below `out`. Links are not followed: what they point to is not the step's output.
///
/// # Errors
/// [`OutputError`] names the file.
pub fn collect(out: &Path, limit: u64) -> Result<Outputs, OutputError> {
    let mut found = Outputs::default();
    let root = fs::symlink_metadata(out).map_err(|source| OutputError::Io { name: "$OUT".to_owned(), source })?;
    if !root.is_dir() {
        found.skipped.push("$OUT is no folder any more: nothing of it is stored".to_owned());
        return Ok(found);
    }
    let mut todo = vec![(out.to_owned(), String::new())];
    while let Some((dir, prefix)) = todo.pop() {
        let failed = |source| OutputError::Io { name: format!("$OUT/{prefix}"), source };
        for entry in fs::read_dir(&dir).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let name = entry.file_name();
            let Some(name) = name.to_str() else {
                return Err(OutputError::NotText(format!("{prefix}{}", name.to_string_lossy())));
            };
            let name = format!("{prefix}{name}");
            let kind = entry.file_type().map_err(|source| OutputError::Io { name: name.clone(), source })?;
            if kind.is_dir() {
                todo.push((entry.path(), format!("{name}/")));
            } else if kind.is_file() {
                found.files.push(hash(&entry.path(), name, limit)?);
            } else {
                let what = if kind.is_symlink() { "a symbolic link" } else { "not a regular file" };
                found.skipped.push(format!("{name} is {what} and is not stored"));
            }
        }
    }
    found.files.sort_by(|a, b| a.name.cmp(&b.name));
    found.skipped.sort();
    Ok(found)
}

fn hash(path: &Path, name: String, limit: u64) -> Result<Artifact, OutputError> {
    let failed = |source| OutputError::Io { name: name.clone(), source };
    let flags = i32::try_from((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits()).unwrap_or(0);
    let mut file = OpenOptions::new().read(true).custom_flags(flags).open(path).map_err(failed)?;
    let size = file.metadata().map_err(failed)?.len();
    if size > limit {
        return Err(OutputError::TooLarge { name, size, limit });
    }
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; 64 * 1024];
    let mut total = 0;
    loop {
        let read = file.read(&mut buffer).map_err(failed)?;
        if read == 0 {
            break;
        }
        hasher.update(&buffer[..read]);
        total += read as u64;
    }
    Ok(Artifact { name, size: total, sha256: hex(&hasher.finalize()) })
}

#[cfg(test)]
#[path = "output_tests.rs"]
mod tests;
