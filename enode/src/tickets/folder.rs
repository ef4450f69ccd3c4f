//! A queue's folder: reads all of it at once, and again for no more than what has changed.

use std::{
    collections::HashMap,
    fs::{Metadata, OpenOptions},
    io::{self, Read as _},
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use shared::ticket::{Document, Lane, NoTicket, Queue, Stem, Suffixes, Ticket, Unread};

use super::{fail, links::Links};
use crate::clock;

/// Larger files are no tickets.
const LARGEST: u64 = 64 << 20;
/// How often a listing is begun again because a file was renamed under it.
const TRIES: usize = 5;

/// One queue. Cheap to share; what was read once is kept until its file changes.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    suffixes: Suffixes,
    pub(super) links: Links,
    cache: Mutex<HashMap<String, Cached>>,
    /// How many files were read.
    #[cfg(test)]
    reads: std::sync::atomic::AtomicUsize,
}

/// Whether a file is still what it was: replaced, rewritten or only touched, one of these differs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stamp {
    pub(super) inode: (u64, u64),
    pub(super) size: u64,
    pub(super) modified_ns: i64,
    changed_ns: i64,
}

#[derive(Debug)]
struct Cached {
    stamp: Stamp,
    /// A write in the same tick of the file system's clock would not have changed the stamp.
    is_settled: bool,
    read: Result<Arc<Ticket>, (String, Option<Arc<Ticket>>)>,
}

/// A file as it was read.
#[derive(Debug, Clone)]
pub(super) struct Read {
    pub(super) bytes: Vec<u8>,
    pub(super) stamp: Stamp,
    pub(super) mode: u32,
    pub(super) owner: (u32, u32),
    pub(super) born_ns: i64,
}

impl Stamp {
    pub(super) fn of(meta: &Metadata) -> Self {
        let ns = |seconds: i64, nanos: i64| seconds.saturating_mul(1_000_000_000).saturating_add(nanos);
        Self {
            inode: (meta.dev(), meta.ino()),
            size: meta.len(),
            modified_ns: ns(meta.mtime(), meta.mtime_nsec()),
            changed_ns: ns(meta.ctime(), meta.ctime_nsec()),
        }
    }

    /// The same text in the same file. A link or a rename changes the last of the four, and no text.
    pub(super) fn same_text(&self, other: &Self) -> bool {
        (self.inode, self.size, self.modified_ns) == (other.inode, other.size, other.modified_ns)
    }

    /// Whether a name still stands for this text, by what the kernel says of the name. That it is gone is an answer; any other
    /// failure is none.
    pub(super) fn is_still(&self, found: io::Result<Metadata>) -> io::Result<bool> {
        match found {
            Ok(meta) => Ok(Self::of(&meta).same_text(self)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn newest_ns(&self) -> i64 {
        self.modified_ns.max(self.changed_ns)
    }

    /// Whether a later write would show in the stamp: it is older than one tick of the file system's clock. Where only
    /// whole seconds are kept, that clock is taken to be FAT's.
    fn is_settled(&self, now_ns: i64) -> bool {
        let tick = if self.newest_ns() % 1_000_000_000 == 0 { 2_100_000_000 } else { 100_000_000 };
        self.newest_ns() < now_ns.saturating_sub(tick)
    }
}

impl Folder {
    /// A queue with the suffixes of `TICKET_INPROGRESS` and `TICKET_DONE`.
    ///
    /// # Errors
    /// What is wrong with the folder or with the suffixes, and what instead.
    pub fn open(path: &Path) -> anyhow::Result<Self> {
        let var = |name: &str| -> anyhow::Result<String> {
            match std::env::var(name) {
                Ok(text) => Ok(text),
                Err(std::env::VarError::NotPresent) => Ok(String::new()),
                Err(std::env::VarError::NotUnicode(_)) => anyhow::bail!("{name} is not UTF-8 text: set another string"),
            }
        };
        let suffixes = Suffixes::new(&var("TICKET_INPROGRESS")?, &var("TICKET_DONE")?)?;
        let links = if fail::refuses_links() { Links::Refused } else { Links::Kernel };
        Self::with(path, suffixes, links)
    }

    pub(super) fn with(path: &Path, suffixes: Suffixes, links: Links) -> anyhow::Result<Self> {
        match std::fs::metadata(path) {
            Ok(meta) if meta.is_dir() => {}
            Ok(_) => anyhow::bail!("{} is not a folder: name the folder that holds the tickets", path.display()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                anyhow::bail!("there is no folder {}: make it, or name another one with --queue DIR", path.display())
            }
            Err(error) => {
                return Err(anyhow::Error::from(error).context(format!("cannot look into {}", path.display())));
            }
        }
        Ok(Self {
            path: path.to_owned(),
            suffixes,
            links,
            cache: Mutex::default(),
            #[cfg(test)]
            reads: Default::default(),
        })
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What marks the states in its names.
    #[must_use]
    pub const fn suffixes(&self) -> &Suffixes {
        &self.suffixes
    }

    /// How many files were read so far.
    #[cfg(test)]
    pub(crate) fn reads(&self) -> usize {
        self.reads.load(std::sync::atomic::Ordering::Relaxed)
    }

    pub(super) fn at(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    pub(super) fn name(&self, stem: &Stem, lane: Lane) -> String {
        self.suffixes.file_name(stem, lane)
    }

    /// Everything in the queue now.
    ///
    /// # Errors
    /// The operating system's, about the folder itself. A file that cannot be read is part of the answer.
    pub fn read(&self) -> io::Result<Queue> {
        let mut last = None;
        for _ in 0..TRIES {
            let (queue, is_whole) = self.read_once()?;
            if is_whole {
                return Ok(queue);
            }
            last = Some(queue);
        }
        Ok(last.unwrap_or_default())
    }

    /// The queue, and whether no name went away while it was read.
    fn read_once(&self) -> io::Result<(Queue, bool)> {
        let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut old, mut is_whole) = (std::mem::take(&mut *cache), true);
        let (mut tickets, mut unread) = (Vec::new(), Vec::new());
        for entry in std::fs::read_dir(&self.path)? {
            let entry = entry?;
            let file = match entry.file_name().into_string() {
                Ok(file) => file,
                Err(odd) => {
                    let file = odd.to_string_lossy().into_owned();
                    if file.ends_with(".md") && !file.starts_with('.') {
                        let why = "its name is not UTF-8: rename it".to_owned();
                        unread.push(Unread { file, name: None, why, plain: None });
                    }
                    continue;
                }
            };
            if file.starts_with('.') || !file.ends_with(".md") {
                continue;
            }
            let Some((stem, lane)) = self.suffixes.read(&file) else {
                let why = "its name cannot be a ticket's: give it a shorter one without control characters".to_owned();
                unread.push(Unread { file, name: None, why, plain: None });
                continue;
            };
            let known = old.remove(&file);
            match self.look(&entry, &file, &stem, lane, known) {
                Ok(None) => {}
                Ok(Some(seen)) => {
                    match &seen.read {
                        Ok(ticket) => tickets.push(ticket.clone()),
                        Err((why, plain)) => {
                            let (why, plain) = (why.clone(), plain.clone());
                            unread.push(Unread { file: file.clone(), name: Some((stem, lane)), why, plain });
                        }
                    }
                    cache.insert(file, seen);
                }
                // Renamed meanwhile: under its new name it may or may not have been listed.
                Err(error) if error.kind() == io::ErrorKind::NotFound => is_whole = false,
                Err(error) => {
                    let why = format!("it cannot be read ({error}): mend its permissions");
                    unread.push(Unread { file, name: Some((stem, lane)), why, plain: None });
                }
            }
        }
        Ok((Queue::new(tickets, unread), is_whole))
    }

    /// One file, from the cache where it has not changed. `None`: a folder.
    fn look(
        &self,
        entry: &std::fs::DirEntry,
        file: &str,
        stem: &Stem,
        lane: Lane,
        known: Option<Cached>,
    ) -> io::Result<Option<Cached>> {
        let meta = entry.metadata()?;
        let odd = |why: &str| Cached { stamp: Stamp::of(&meta), is_settled: false, read: Err((why.to_owned(), None)) };
        if meta.is_dir() {
            return Ok(None);
        }
        if !meta.is_file() {
            return Ok(Some(odd(
                "it is not a regular file: put the ticket itself here, not a link, a pipe or a device",
            )));
        }
        if meta.len() > LARGEST {
            return Ok(Some(odd("it has more than 64 MiB: keep large things elsewhere and name their place here")));
        }
        let stamp = Stamp::of(&meta);
        let now_ns = clock::now_ns();
        if let Some(known) = known.filter(|known| known.stamp == stamp && known.is_settled) {
            return Ok(Some(known));
        }
        let read = self.read_file(file)?;
        let is_settled = read.stamp.is_settled(now_ns);
        let ticket = |text| Arc::new(Ticket::new(stem.clone(), lane, file.to_owned(), Arc::new(text), read.born_ns));
        let bytes = if lane == Lane::Done { read.bytes.clone() } else { Vec::new() };
        let parsed = Document::parse(read.bytes).map(ticket).map_err(|why| {
            let is_bare = why == NoTicket::NoFrontmatter;
            (why.to_string(), is_bare.then(|| Document::plain_answer(bytes)).flatten().map(ticket))
        });
        Ok(Some(Cached { stamp: read.stamp, is_settled, read: parsed }))
    }

    /// The bytes of a file and what it was while they were read.
    pub(super) fn read_file(&self, name: &str) -> io::Result<Read> {
        #[cfg(test)]
        self.reads.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let flags = rustix::fs::OFlags::NONBLOCK | rustix::fs::OFlags::NOFOLLOW;
        let mut last = None;
        for _ in 0..3 {
            let mut file =
                OpenOptions::new().read(true).custom_flags(flags.bits().cast_signed()).open(self.at(name))?;
            let before = file.metadata()?;
            if !before.is_file() {
                return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
            }
            let mut bytes = Vec::with_capacity(usize::try_from(before.len()).unwrap_or(0).saturating_add(1));
            (&mut file).take(LARGEST + 1).read_to_end(&mut bytes)?;
            let after = file.metadata()?;
            let is_steady = Stamp::of(&before).same_text(&Stamp::of(&after)) && bytes.len() as u64 == after.len();
            let stamp = Stamp::of(&after);
            let born = after.created().ok().and_then(|at| at.duration_since(std::time::UNIX_EPOCH).ok());
            let born_ns = born.and_then(|at| i64::try_from(at.as_nanos()).ok()).unwrap_or(stamp.modified_ns);
            let read = Read { bytes, stamp, mode: after.mode() & 0o7777, owner: (after.uid(), after.gid()), born_ns };
            if is_steady {
                return Ok(read);
            }
            last = Some(read);
        }
        last.ok_or_else(|| io::ErrorKind::Interrupted.into())
    }

    /// What a name stands for now.
    pub(super) fn stamp(&self, name: &str) -> io::Result<Stamp> {
        Ok(Stamp::of(&std::fs::symlink_metadata(self.at(name))?))
    }

    /// When a file last changed in any way, its name included, in milliseconds since the Unix epoch. Not by the time of its
    /// text, which anybody may set.
    pub(super) fn changed_at(&self, name: &str) -> io::Result<shared::Timestamp> {
        Ok(shared::Timestamp::from_millis(self.stamp(name)?.changed_ns / 1_000_000))
    }

    /// Removes a name that may be gone already.
    pub(super) fn remove(&self, name: &str) -> io::Result<()> {
        match std::fs::remove_file(self.at(name)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// Makes a new name last through a loss of power, such as that of a person's answer. A claim or an end that is lost
    /// that way was never made: the Run of the ticket is found again, and decides again.
    pub(super) fn sync(&self) -> io::Result<()> {
        std::fs::File::open(&self.path)?.sync_all()
    }
}

#[cfg(test)]
#[path = "folder_tests.rs"]
mod tests;
