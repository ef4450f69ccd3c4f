//! Logs: one file per attempt, that only grows.
//!
//! The offset of a byte is its place in the attempt's output, so a resend changes nothing and a gap is
//! refused. Beyond the limit bytes are counted and dropped, and the file ends with a line that says so.
//! Files in use stay open in a small cache; it never lets go of one that a writer holds, because two
//! handles of one file would not see each other's length.

use std::{
    collections::HashMap,
    fs::{self, File},
    io,
    os::unix::fs::FileExt,
    path::Path,
    sync::{Arc, Mutex},
};

use shared::{RunId, Seq};

use super::{RecordError, gate::lock};

/// A log that is being written.
#[derive(Debug)]
pub(super) struct LogFile {
    file: File,
    /// Bytes of the attempt's output in the file.
    stored: u64,
    /// Bytes of it that came.
    counted: u64,
    /// Most bytes of it that the file may hold.
    limit: u64,
    /// The limit was passed; the file ends with [`cut_line`].
    cut: bool,
}

/// The last line of a log that was cut at `limit` bytes.
fn cut_line(limit: u64) -> String {
    format!("\n… truncated: log limit of {limit} bytes reached\n")
}

/// The limit at which a log of this length and ending was cut. The number in the line must fit the length,
/// so the limit may be configured anew between two starts.
fn cut_at(file: &File, len: u64) -> io::Result<Option<u64>> {
    let mut tail = vec![0; usize::try_from(len.min(80)).unwrap_or_default()];
    let from = len - tail.len() as u64;
    file.read_exact_at(&mut tail, from)?;
    let tail = String::from_utf8_lossy(&tail);
    let number = tail.rsplit_once("log limit of ").and_then(|(_, rest)| rest.split_once(' ')).map(|(number, _)| number);
    let limit = number.and_then(|number| number.parse::<u64>().ok());
    Ok(limit.filter(|&limit| {
        let line = cut_line(limit);
        tail.ends_with(&line) && len.checked_sub(line.len() as u64) == Some(limit)
    }))
}

impl LogFile {
    /// Takes up a log where it stands.
    pub(super) fn load(file: File, limit: u64) -> io::Result<Self> {
        let len = file.metadata()?.len();
        Ok(match cut_at(&file, len)? {
            Some(limit) => Self { file, stored: limit, counted: limit, limit, cut: true },
            // Longer than the limit and not cut: the limit was lowered. What is stored stays.
            None => Self { file, stored: len, counted: len, limit: limit.max(len), cut: false },
        })
    }

    fn open(path: &Path, limit: u64) -> Result<Self, RecordError> {
        let open = || File::options().read(true).write(true).create(true).truncate(false).open(path);
        let opened = match open() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                path.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| open())
            }
            other => other,
        };
        opened.and_then(|file| Self::load(file, limit)).map_err(RecordError::io("open log", path))
    }

    /// Bytes of the attempt's output that need not be sent again.
    pub(super) const fn len(&self) -> u64 {
        self.counted
    }

    /// Some of the output was dropped.
    pub(super) const fn is_cut(&self) -> bool {
        self.cut
    }

    /// Stores what is new in `bytes`, which begin at `offset`.
    fn append(&mut self, path: &Path, offset: u64, bytes: &[u8]) -> Result<u64, RecordError> {
        let end = offset.saturating_add(bytes.len() as u64);
        if self.stored < offset && !self.cut {
            self.catch_up(path)?;
        }
        if self.cut {
            // Nothing is stored here, so nothing can be missing: a sender is never held up.
            self.counted = self.counted.max(end);
            return Ok(self.counted);
        }
        let Some(known) = self.stored.checked_sub(offset) else {
            return Err(RecordError::Gap { offset, stored: self.stored });
        };
        let fresh = usize::try_from(known).ok().and_then(|known| bytes.get(known..)).unwrap_or_default();
        let room = usize::try_from(self.limit - self.stored).unwrap_or(usize::MAX);
        if let Some((kept, _)) = fresh.split_at_checked(room).filter(|(_, dropped)| !dropped.is_empty()) {
            // One write, so that the line is not torn from the bytes before it.
            let last = [kept, cut_line(self.limit).as_bytes()].concat();
            self.write(path, &last)?;
            (self.stored, self.counted, self.cut) = (self.limit, end, true);
        } else {
            self.write(path, fresh)?;
            self.stored += fresh.len() as u64;
            self.counted = self.stored;
        }
        Ok(self.counted)
    }

    /// Another mediator may have written what is missing here.
    fn catch_up(&mut self, path: &Path) -> Result<(), RecordError> {
        let limit = self.limit;
        let found = self.file.try_clone().and_then(|file| Self::load(file, limit));
        let found = found.map_err(RecordError::io("read log", path))?;
        if found.stored > self.stored {
            *self = found;
        }
        Ok(())
    }

    fn write(&self, path: &Path, bytes: &[u8]) -> Result<(), RecordError> {
        self.file.write_all_at(bytes, self.stored).map_err(|error| {
            // A part may have been written. It goes, so that the length of the file tells the truth.
            let undone = self.file.set_len(self.stored);
            RecordError::io("append to log", path)(undone.err().unwrap_or(error))
        })
    }
}

type Key = (RunId, Seq, u32);
type Handle = Arc<Mutex<Option<LogFile>>>;

/// Logs that are held open.
#[derive(Debug)]
pub(super) struct LogCache {
    most: usize,
    entries: Mutex<Entries>,
}

#[derive(Debug, Default)]
struct Entries {
    uses: u64,
    handles: HashMap<Key, (u64, Handle)>,
}

impl LogCache {
    pub(super) fn new(most: usize) -> Self {
        Self { most: most.max(1), entries: Mutex::default() }
    }

    /// Appends to a log, opening it if need be.
    pub(super) fn append(
        &self,
        key: Key,
        path: &Path,
        limit: u64,
        offset: u64,
        bytes: &[u8],
    ) -> Result<u64, RecordError> {
        let handle = self.handle(key);
        let mut slot = lock(&handle);
        let log = match &mut *slot {
            Some(log) => log,
            empty => empty.insert(LogFile::open(path, limit)?),
        };
        log.append(path, offset, bytes)
    }

    /// Lets go of a Run's logs.
    pub(super) fn release(&self, run: &RunId) {
        lock(&self.entries).handles.retain(|(owner, ..), _| owner != run);
    }

    #[cfg(test)]
    pub(super) fn held(&self) -> usize {
        lock(&self.entries).handles.len()
    }

    pub(super) fn handle(&self, key: Key) -> Handle {
        let mut entries = lock(&self.entries);
        entries.uses += 1;
        let now = entries.uses;
        if let Some((used, handle)) = entries.handles.get_mut(&key) {
            *used = now;
            return handle.clone();
        }
        // More than one, where the cache had to grow because all were in use.
        while entries.handles.len() >= self.most {
            let idle = entries.handles.iter().filter(|(_, (_, handle))| Arc::strong_count(handle) == 1);
            let oldest = idle.min_by_key(|(_, (used, _))| *used).map(|(key, _)| key.clone());
            let Some(oldest) = oldest else { break };
            entries.handles.remove(&oldest);
        }
        let handle = Handle::default();
        entries.handles.insert(key, (now, handle.clone()));
        handle
    }
}

/// At most `max` bytes from `from` on.
pub(super) fn read(file: &File, from: u64, max: usize) -> io::Result<Vec<u8>> {
    let left = file.metadata()?.len().saturating_sub(from);
    let mut bytes = vec![0; usize::try_from(left).unwrap_or(usize::MAX).min(max)];
    let mut filled = 0;
    while filled < bytes.len() {
        match file.read_at(&mut bytes[filled..], from + filled as u64) {
            Ok(0) => break,
            Ok(n) => filled += n,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    bytes.truncate(filled);
    Ok(bytes)
}
