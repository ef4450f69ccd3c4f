//! Copies of the room's files, for a backup, and what is done with files that a restored store does not know.

use std::{
    collections::BTreeSet,
    fs::{self, File, Permissions},
    io,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use shared::{RunId, Seq};

use super::{
    Freed, RecordError, Removal,
    layout::{self, BLOBS, Home, LOGS, TMP},
    sync::sync_file_system,
};

/// Where files go that belong to no Run of a restored store.
pub(super) const APART: &str = "after-backup";

impl Removal {
    /// Keeps every mediator from sealing, so that no file moves; what has ended meanwhile is sealed later. Waits for
    /// the one that is at it.
    ///
    /// # Errors
    /// [`RecordError::Io`]
    pub fn hold_still(&self) -> Result<Still, RecordError> {
        Ok(Still(self.layout.wait_seal_lock()?))
    }

    /// Copies the files of all Runs, those of open ones as far as they are, below `to`. Nothing is removed meanwhile:
    /// that is what this right is for. And nothing moves: a folder that did, in the middle of this, would be there by
    /// halves, or not at all.
    ///
    /// # Errors
    /// [`RecordError`]: the copy is of no use then.
    pub fn copy_all(&self, to: &Path, _still: &Still) -> Result<Freed, RecordError> {
        let mut copied = Freed::default();
        for (from, name) in [(&self.layout.runs, "runs"), (&self.layout.records, "records")] {
            let to = to.join(name);
            fs::create_dir_all(&to).map_err(RecordError::io("create", &to))?;
            for entry in layout::list(from)?.iter().filter(|entry| *entry != TMP && !entry.starts_with(".sealing")) {
                copied += copy(&from.join(entry), &to.join(entry))?;
            }
        }
        sync_file_system(to).map_err(|error| RecordError::io("sync", to)(error.into()))?;
        Ok(copied)
    }

    /// Every folder of a Run.
    ///
    /// # Errors
    /// [`RecordError::Io`]
    pub fn all(&self) -> Result<Vec<(RunId, Home)>, RecordError> {
        self.layout.homes_of_all()
    }

    /// Takes the files of a Run out of everybody's way and keeps them.
    ///
    /// # Errors
    /// [`RecordError::Io`]
    pub fn set_apart(&self, run: &RunId, home: Home) -> Result<(), RecordError> {
        self.move_apart(run, home).map(drop)
    }

    /// The same of a Run that is open again: what its steps left stays with it, for the steps that are to come.
    ///
    /// # Errors
    /// [`RecordError::Io`]
    pub fn open_again(&self, run: &RunId, home: Home) -> Result<(), RecordError> {
        let apart = self.move_apart(run, home)?;
        let (from, to) = (apart.join(BLOBS), self.layout.open(run).join(BLOBS));
        for name in layout::list(&from)? {
            fs::create_dir_all(&to).map_err(RecordError::io("create", &to))?;
            if !to.join(&name).exists() {
                copy(&from.join(&name), &to.join(&name))?;
            }
        }
        sync_file_system(&self.layout.runs).map_err(|error| RecordError::io("sync", &self.layout.runs)(error.into()))
    }

    /// Takes those logs of a Run that is not sealed out of everybody's way that are of none of these attempts, and keeps
    /// them. Returns how many.
    ///
    /// # Errors
    /// [`RecordError::Io`]
    pub fn set_logs_apart(&self, run: &RunId, home: Home, known: &BTreeSet<(Seq, u32)>) -> Result<u64, RecordError> {
        let (dir, mut apart) = (self.layout.home(run, home).join(LOGS), 0);
        for name in layout::list(&dir)? {
            let Some((seq, attempt)) = layout::parse_log(&name).filter(|it| !known.contains(it)) else { continue };
            let (from, to) = (dir.join(&name), self.place_apart(&format!("{run}.log.{seq}.{attempt}"))?);
            fs::rename(&from, &to).map_err(RecordError::io("move", &from))?;
            apart += 1;
        }
        Ok(apart)
    }

    /// Where to.
    fn move_apart(&self, run: &RunId, home: Home) -> Result<PathBuf, RecordError> {
        let from = self.layout.home(run, home);
        let kind = match home {
            Home::Open => "files",
            Home::Sealing => "sealing",
            Home::Record => "record",
        };
        let to = self.place_apart(&format!("{run}.{kind}"))?;
        fs::set_permissions(&from, Permissions::from_mode(0o755)).map_err(RecordError::io("open up", &from))?;
        fs::rename(&from, &to).map_err(RecordError::io("move", &from))?;
        Ok(to)
    }

    /// A place for something of this name, where there is nothing yet.
    fn place_apart(&self, name: &str) -> Result<PathBuf, RecordError> {
        let dir = self.aside.with_file_name(APART);
        fs::create_dir_all(&dir).map_err(RecordError::io("create", &dir))?;
        let to = (1_u32..).map(|n| dir.join(format!("{name}.{n}"))).find(|to| !to.exists());
        Ok(to.unwrap_or_else(|| dir.join(name)))
    }
}

/// While it is held no Run's files move.
#[derive(Debug)]
pub struct Still(#[expect(dead_code, reason = "held, not read")] File);

/// Copies a file or a folder with its modes. What an open Run loses meanwhile it does not need.
fn copy(from: &Path, to: &Path) -> Result<Freed, RecordError> {
    let meta = match fs::symlink_metadata(from) {
        Ok(meta) => meta,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Freed::default()),
        Err(error) => return Err(RecordError::io("read", from)(error)),
    };
    if meta.is_file() {
        return match fs::copy(from, to) {
            Ok(bytes) => Ok(Freed { files: 1, bytes }),
            Err(error) if error.kind() == io::ErrorKind::NotFound && !from.exists() => Ok(Freed::default()),
            Err(error) => Err(RecordError::io("copy", from)(error)),
        };
    }
    let mut copied = Freed::default();
    fs::create_dir_all(to).map_err(RecordError::io("create", to))?;
    for entry in layout::list(from)? {
        copied += copy(&from.join(&entry), &to.join(&entry))?;
    }
    fs::set_permissions(to, meta.permissions()).map_err(RecordError::io("set the mode of", to))?;
    Ok(copied)
}
