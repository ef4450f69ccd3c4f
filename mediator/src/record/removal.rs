//! Taking Records away, for good.
//!
//! A Run's files are set aside by a rename, then its rows are deleted, then the files. So no reader ever finds a Run
//! whose Record is half gone, and a new Run of the same id never finds the old one's files. What a crash leaves set
//! aside is put back where the Run is still known as sealed and has no Record, and removed otherwise: a row that is
//! there and not sealed is that of a new Run with the same id. One process removes at a time.

use std::{
    fs::{self, File, Permissions, TryLockError},
    io,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    time::SystemTime,
};

use shared::{RunId, Timestamp};

use super::{
    RecordError,
    layout::{self, Home, Layout, TMP},
};

/// What was removed, or would be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Freed {
    /// Files.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
}

impl std::ops::AddAssign for Freed {
    fn add_assign(&mut self, other: Self) {
        self.files += other.files;
        self.bytes += other.bytes;
    }
}

/// Files that no Run may need any more; whether one does is for the store to say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stray {
    /// Of which Run.
    pub run: RunId,
    /// What they are.
    pub home: Home,
    path: PathBuf,
}

/// The right to remove. Blocking: every method does file work.
#[derive(Debug)]
pub struct Removal {
    pub(super) layout: Layout,
    pub(super) aside: PathBuf,
    _lock: File,
}

impl Removal {
    /// Takes the right to remove below this directory of Records. None: another process has it.
    ///
    /// # Errors
    /// [`RecordError::Io`]
    pub fn begin(dir: &Path) -> Result<Option<Self>, RecordError> {
        let aside = dir.join("removing");
        fs::create_dir_all(&aside).map_err(RecordError::io("create", &aside))?;
        let path = aside.join(".lock");
        let lock = File::options().create(true).truncate(false).write(true).open(&path);
        let lock = lock.map_err(RecordError::io("open", &path))?;
        match lock.try_lock() {
            Ok(()) => Ok(Some(Self { layout: Layout::of(dir, ""), aside, _lock: lock })),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(RecordError::io("lock", &path)(error)),
        }
    }

    /// Runs whose files a crash left set aside.
    ///
    /// # Errors
    /// [`RecordError::Io`]
    pub fn left_over(&self) -> Result<Vec<RunId>, RecordError> {
        Ok(layout::list(&self.aside)?.iter().filter_map(|name| RunId::new(name).ok()).collect())
    }

    /// Takes a Record away from where it is found. One that is not there, is not.
    ///
    /// # Errors
    /// [`RecordError::Io`]
    pub fn set_aside(&self, run: &RunId) -> Result<(), RecordError> {
        let (from, to) = (self.layout.sealed(run), self.aside.join(run.as_str()));
        // A read-only folder cannot be moved to another one.
        open_up(&from)?;
        there(fs::rename(&from, &to), "move", &from).map(drop)
    }

    /// Undoes [`Removal::set_aside`]. A Record that is in its place already is the later one, and stays.
    ///
    /// # Errors
    /// [`RecordError::Io`]
    pub fn put_back(&self, run: &RunId) -> Result<(), RecordError> {
        let (from, to) = (self.aside.join(run.as_str()), self.layout.sealed(run));
        if to.exists() {
            return self.remove(run).map(drop);
        }
        fs::create_dir_all(&self.layout.records).map_err(RecordError::io("create", &self.layout.records))?;
        if there(fs::rename(&from, &to), "move", &from)? {
            fs::set_permissions(&to, Permissions::from_mode(0o555)).map_err(RecordError::io("make read-only", &to))?;
        }
        Ok(())
    }

    /// Removes what was set aside of a Run.
    ///
    /// # Errors
    /// [`RecordError::Io`]
    pub fn remove(&self, run: &RunId) -> Result<Freed, RecordError> {
        remove_tree(&self.aside.join(run.as_str()))
    }

    /// How much a Record holds.
    ///
    /// # Errors
    /// [`RecordError::Io`]
    pub fn size(&self, run: &RunId) -> Result<Freed, RecordError> {
        measure(&self.layout.sealed(run))
    }

    /// Every folder of a Run that has not changed since `before`.
    ///
    /// # Errors
    /// [`RecordError::Io`]
    pub fn strays(&self, before: Timestamp) -> Result<Vec<Stray>, RecordError> {
        let mut found = Vec::new();
        for (run, home) in self.layout.homes_of_all()? {
            let path = self.layout.home(&run, home);
            if is_older(&path, before)? {
                found.push(Stray { run, home, path });
            }
        }
        Ok(found)
    }

    /// How much a stray holds.
    ///
    /// # Errors
    /// [`RecordError::Io`]
    pub fn stray_size(&self, stray: &Stray) -> Result<Freed, RecordError> {
        measure(&stray.path)
    }

    /// Removes a stray.
    ///
    /// # Errors
    /// [`RecordError::Io`]
    pub fn remove_stray(&self, stray: &Stray) -> Result<Freed, RecordError> {
        remove_tree(&stray.path)
    }

    /// Removes, or only counts, what mediators left half written that have not come back since `before`.
    ///
    /// # Errors
    /// [`RecordError::Io`]
    pub fn half_written(&self, before: Timestamp, remove: bool) -> Result<Freed, RecordError> {
        let mut freed = Freed::default();
        let all = self.layout.runs.join(TMP);
        for owner in layout::list(&all)? {
            let dir = all.join(owner);
            for name in if dir.is_dir() { layout::list(&dir)? } else { Vec::new() } {
                let path = dir.join(name);
                if is_older(&path, before)? {
                    freed += measure(&path)?;
                    if remove {
                        there(fs::remove_file(&path), "remove", &path)?;
                    }
                }
            }
        }
        Ok(freed)
    }
}

/// Whether it was there.
fn there(result: io::Result<()>, action: &'static str, path: &Path) -> Result<bool, RecordError> {
    match result {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(RecordError::io(action, path)(error)),
    }
}

fn is_older(path: &Path, before: Timestamp) -> Result<bool, RecordError> {
    match fs::symlink_metadata(path).and_then(|it| it.modified()) {
        Ok(at) => {
            let since = at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
            Ok(i64::try_from(since.as_millis()).unwrap_or(i64::MAX) < before.millis())
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(RecordError::io("read", path)(error)),
    }
}

fn open_up(dir: &Path) -> Result<(), RecordError> {
    there(fs::set_permissions(dir, Permissions::from_mode(0o755)), "open up", dir).map(drop)
}

/// Files and bytes below a folder, or of a file.
fn measure(path: &Path) -> Result<Freed, RecordError> {
    let meta = match fs::symlink_metadata(path) {
        Ok(meta) => meta,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Freed::default()),
        Err(error) => return Err(RecordError::io("read", path)(error)),
    };
    if !meta.is_dir() {
        return Ok(Freed { files: 1, bytes: meta.len() });
    }
    let mut freed = Freed::default();
    for name in layout::list(path)? {
        freed += measure(&path.join(name))?;
    }
    Ok(freed)
}

/// A Record's folders are read-only, which would keep what is in them.
fn remove_tree(path: &Path) -> Result<Freed, RecordError> {
    let freed = measure(path)?;
    open_all(path)?;
    there(fs::remove_dir_all(path), "remove", path)?;
    Ok(freed)
}

fn open_all(dir: &Path) -> Result<(), RecordError> {
    open_up(dir)?;
    for name in layout::list(dir)? {
        let path = dir.join(name);
        // Only what this module's kin made is in there: two levels of folders.
        if path.is_dir() && !path.is_symlink() {
            open_all(&path)?;
        }
    }
    Ok(())
}
