//! What can go wrong in the room for files, one variant per failed action.

use std::{
    io,
    path::{Path, PathBuf},
};

use shared::RunId;

use super::Digest;

/// Why files were not written or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordError {
    /// The Run's Record is sealed, or being sealed; it takes nothing more.
    #[error("run {0} is sealed: its Record takes no more logs or files")]
    Sealed(RunId),
    /// Only a sealed Run has a Record.
    #[error("run {0} has no sealed Record yet")]
    NotSealed(RunId),
    /// One seals at a time, and nobody while a backup is taken.
    #[error("run {0} is not sealed now: another mediator is sealing, or a backup is taken")]
    NoTurnToSeal(RunId),
    /// Only a Run that has ended can be sealed.
    #[error("run {0} has not ended, so its Record cannot be sealed")]
    NotEnded(RunId),
    /// Bytes are missing in front of these.
    #[error("log bytes at {offset} leave a gap: {stored} bytes are stored; continue from there")]
    Gap {
        /// Where the bytes were to go.
        offset: u64,
        /// Where to continue.
        stored: u64,
    },
    /// A file is larger than it may be.
    #[error("{what} is larger than the limit of {limit} bytes")]
    TooLarge {
        /// Which file.
        what: String,
        /// The limit in bytes.
        limit: u64,
    },
    /// The bytes that came are not the bytes that were announced. Nothing was stored.
    #[error("checksum: expected {expected_size} bytes with SHA-256 {expected}, got {size} bytes with {actual}")]
    Checksum {
        /// Announced.
        expected: Digest,
        /// Announced, in bytes.
        expected_size: u64,
        /// Received.
        actual: Digest,
        /// Received, in bytes.
        size: u64,
    },
    /// One file of several.
    #[error("file {name:?}: {source}")]
    Of {
        /// Which one.
        name: String,
        /// What is wrong with it.
        source: Box<Self>,
    },
    /// Not a SHA-256 in hex.
    #[error("{0:?} is not a SHA-256: 64 hex digits are wanted")]
    BadDigest(String),
    /// The Run has no such file.
    #[error("run {run} has no file with SHA-256 {digest}")]
    NoBlob {
        /// Of which Run.
        run: RunId,
        /// Which file.
        digest: Digest,
    },
    /// The disk is full, or the quota used up. What was half written is gone again.
    #[error("no space left while trying to {action} {}: free some space below the state directory", path.display())]
    NoSpace {
        /// What was tried.
        action: &'static str,
        /// On which file.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// The system refused.
    #[error("cannot {action} {}", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// On which file.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// A sealed file is not what the manifest says.
    #[error("the Record is damaged: {} {why}", path.display())]
    Damaged {
        /// Which file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// The mediator is stopping, or file work panicked.
    #[error("file work was interrupted")]
    Interrupted(#[source] tokio::task::JoinError),
}

impl RecordError {
    /// Says which file it is about.
    pub fn of(name: &str) -> impl FnOnce(Self) -> Self {
        |source| Self::Of { name: name.to_owned(), source: Box::new(source) }
    }

    /// Names the failed action, and tells a full disk from every other trouble.
    pub(super) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::NoSpace { action, path, source },
            _ => Self::Io { action, path, source },
        }
    }
}
