//! The mediator's room for files: the logs and blobs of open Runs, and the sealed Records of those that ended.
//!
//! A Run's files live in `runs/RUN_ID` while it is open. Sealing moves them, adds what the mediator knows of
//! the Run, and publishes all of it by one rename as `records/RUN_ID`, which never changes again (I4). This
//! module knows no SQL and no wire format, and never asks whether a caller may: fences come before it. File
//! work runs on the blocking pool, so no caller's thread ever waits for a disk.

mod blob;
mod copy;
mod digest;
mod draft;
mod error;
mod gate;
mod layout;
mod log;
mod manifest;
mod removal;
mod seal;
mod sync;
mod tar;
#[cfg(test)]
mod tests;
mod verify;

use std::{path::Path, sync::Arc, time::Duration};

use shared::{RunId, Seq};

use gate::{Gate, Gates, lock};
use layout::Layout;
use log::{LogCache, LogFile};

pub use blob::{Blob, BlobWriter, ReadyBlob};
pub use copy::Still;
pub use digest::Digest;
pub use error::RecordError;
pub use gate::LogWatch;
pub use layout::Home;
pub use removal::{Freed, Removal};
pub use seal::{Answer, Artifact, SealInput, Sealed, Turn};
pub use tar::RecordTar;

/// Bytes that must find room for the directory to count as one that can be written.
const PROBE: usize = 64 << 10;

/// How often, and for how long, a log is looked for whose Run another mediator seals.
const LOOK_AGAIN: Duration = Duration::from_millis(20);
const LOOKS: u32 = 100;

/// How much is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Most bytes of log stored per attempt.
    pub log_bytes: u64,
    /// Most bytes per file that a step leaves.
    pub blob_bytes: u64,
    /// Most logs held open at a time.
    pub open_logs: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { log_bytes: 64 << 20, blob_bytes: 1 << 30, open_logs: 64 }
    }
}

/// Where the room is, and whether others are in it.
#[derive(Debug, Clone, Copy)]
pub struct Place<'a> {
    /// The directory.
    pub dir: &'a Path,
    /// The name of this mediator among those that share the directory; no two have the same.
    pub owner: &'a str,
    /// Other mediators may have it, too.
    pub shared: bool,
}

/// The room for files below one directory. Cheap to clone. Unless it is shared, one process at a time may have it.
#[derive(Debug, Clone)]
pub struct RecordStore(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    layout: Layout,
    limits: Limits,
    shared: bool,
    gates: Gates,
    logs: LogCache,
}

impl RecordStore {
    /// Opens the room with default limits, and removes what a crash left half written.
    ///
    /// # Errors
    /// [`RecordError::NoSpace`], [`RecordError::Io`].
    pub fn open(state_dir: &Path) -> Result<Self, RecordError> {
        Self::with_limits(state_dir, Limits::default())
    }

    /// Opens the room.
    ///
    /// # Errors
    /// [`RecordError::NoSpace`], [`RecordError::Io`].
    pub fn with_limits(state_dir: &Path, limits: Limits) -> Result<Self, RecordError> {
        Self::at(Place { dir: state_dir, owner: "own", shared: false }, limits)
    }

    /// Opens the room, shared or not.
    ///
    /// # Errors
    /// [`RecordError::NoSpace`], [`RecordError::Io`].
    pub fn at(place: Place<'_>, limits: Limits) -> Result<Self, RecordError> {
        let layout = Layout::prepare(place.dir, place.owner)?;
        let logs = LogCache::new(limits.open_logs);
        Ok(Self(Arc::new(Inner { layout, limits, shared: place.shared, gates: Gates::default(), logs })))
    }

    /// Other mediators may change what is in the room.
    #[must_use]
    pub fn is_shared(&self) -> bool {
        self.0.shared
    }

    /// Appends to the log of an attempt. Bytes that are stored already are skipped. Returns how many bytes of
    /// the attempt's output need not be sent again; beyond the limit these are counted, not stored.
    ///
    /// # Errors
    /// [`RecordError::Gap`] tells where to continue; [`RecordError::Sealed`], [`RecordError::NoSpace`],
    /// [`RecordError::Io`].
    pub async fn append_log(
        &self,
        run: &RunId,
        seq: Seq,
        attempt: u32,
        offset: u64,
        bytes: Vec<u8>,
    ) -> Result<u64, RecordError> {
        let run = run.clone();
        self.blocking(move |inner| {
            let gate = inner.gate(&run);
            let _open = gate.enter()?;
            let path = inner.layout.open_log(&run, seq, attempt);
            let stored = inner.logs.append((run, seq, attempt), &path, inner.limits.log_bytes, offset, &bytes)?;
            gate.announce();
            Ok(stored)
        })
        .await
    }

    /// At most `max` bytes of a log from `from` on, of an open or a sealed Run; none at its present end and
    /// where there is no log. To follow, make a [`RecordStore::watch`] before the first read.
    ///
    /// # Errors
    /// [`RecordError::Io`].
    pub async fn read_log(
        &self,
        run: &RunId,
        seq: Seq,
        attempt: u32,
        from: u64,
        max: usize,
    ) -> Result<Vec<u8>, RecordError> {
        let run = run.clone();
        self.blocking(move |inner| {
            let Some(file) = inner.find_log(&run, seq, attempt)? else { return Ok(Vec::new()) };
            log::read(&file, from, max).map_err(RecordError::io("read log", &inner.layout.open_log(&run, seq, attempt)))
        })
        .await
    }

    /// Wakes when a log of this Run grows, and tells when none will any more.
    ///
    /// # Errors
    /// [`RecordError::Interrupted`].
    pub async fn watch(&self, run: &RunId) -> Result<LogWatch, RecordError> {
        let run = run.clone();
        self.blocking(move |inner| Ok(LogWatch::new(inner.gate(&run), inner.shared))).await
    }

    /// Whether there is room to write: a file as large as a step's usual output is written, synced and removed.
    ///
    /// # Errors
    /// [`RecordError::NoSpace`], [`RecordError::Io`].
    pub async fn can_write(&self) -> Result<(), RecordError> {
        self.blocking(|inner| {
            use std::io::Write;
            let dir = &inner.layout.tmp;
            let mut file = tempfile::tempfile_in(dir).map_err(RecordError::io("write", dir))?;
            file.write_all(&[0; PROBE]).and_then(|()| file.sync_all()).map_err(RecordError::io("write", dir))
        })
        .await
    }

    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Arc<Inner>) -> Result<T, RecordError> + Send + 'static,
    ) -> Result<T, RecordError> {
        let inner = self.0.clone();
        blocking(move || work(&inner)).await
    }
}

impl Inner {
    fn gate(&self, run: &RunId) -> Arc<Gate> {
        self.gates.of(run, || self.layout.is_closed(run))
    }

    /// Opens a log. One that cannot be found while its Run is being sealed may have been renamed under our
    /// eyes; it is looked for again when that is over.
    fn find_log(&self, run: &RunId, seq: Seq, attempt: u32) -> Result<Option<std::fs::File>, RecordError> {
        let found = self.layout.find_log(run, seq, attempt)?;
        match self.gates.in_use(run) {
            Some(gate) if found.is_none() => {
                let _sealed = lock(&gate.sealing);
                self.layout.find_log(run, seq, attempt)
            }
            _ if found.is_none() && self.shared => self.find_sealing_log(run, seq, attempt),
            _ => Ok(found),
        }
    }
}

impl Inner {
    /// The same where another mediator may be sealing: its lock is not ours to wait for.
    fn find_sealing_log(&self, run: &RunId, seq: Seq, attempt: u32) -> Result<Option<std::fs::File>, RecordError> {
        for _ in 0..LOOKS {
            let busy = self.layout.sealing(run).exists();
            let found = self.layout.find_log(run, seq, attempt)?;
            if found.is_some() || !busy {
                return Ok(found);
            }
            std::thread::sleep(LOOK_AGAIN);
        }
        Ok(None)
    }
}

/// Runs file work where it may wait.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, RecordError> + Send + 'static,
) -> Result<T, RecordError> {
    tokio::task::spawn_blocking(work).await.map_err(RecordError::Interrupted)?
}
