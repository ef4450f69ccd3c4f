//! Copies of the room's files, for a backup, and what is done with files that a restored store does not know.

use std::{
    fs::{self, Permissions},
    io,
    os::unix::fs::PermissionsExt,
    path::Path,
};

use shared::RunId;

use super::{
    Freed, RecordError, Removal,
    layout::{self, TMP},
    sync::sync_file_system,
};

/// Where files go that belong to no Run of a restored store.
pub(super) const APART: &str = "after-backup";

impl Removal {
    /// Copies the files of all Runs, those of open ones as far as they are, below `to`. Nothing is removed meanwhile:
    /// that is what this right is for. What is sealed while this goes on is copied in one place or in both.
    ///
    /// # Errors
    /// [`RecordError`]: the copy is of no use then.
    pub fn copy_all(&self, to: &Path) -> Result<Freed, RecordError> {
        let mut copied = Freed::default();
        // In the order in which files move, so that none is missed.
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

    /// Runs of which there are files, and whether these are a Record.
    ///
    /// # Errors
    /// [`RecordError::Io`]
    pub fn all(&self) -> Result<Vec<(RunId, bool)>, RecordError> {
        let named = |dir, sealed| -> Result<Vec<_>, RecordError> {
            Ok(layout::list(dir)?.iter().filter_map(|name| Some((RunId::new(name).ok()?, sealed))).collect())
        };
        Ok([named(&self.layout.records, true)?, named(&self.layout.runs, false)?].concat())
    }

    /// Takes the files of a Run out of everybody's way and keeps them.
    ///
    /// # Errors
    /// [`RecordError::Io`]
    pub fn set_apart(&self, run: &RunId, sealed: bool) -> Result<(), RecordError> {
        let from = if sealed { self.layout.sealed(run) } else { self.layout.open(run) };
        let dir = self.aside.with_file_name(APART);
        fs::create_dir_all(&dir).map_err(RecordError::io("create", &dir))?;
        let kind = if sealed { "record" } else { "files" };
        let to = (1_u32..).map(|n| dir.join(format!("{run}.{kind}.{n}"))).find(|to| !to.exists());
        let to = to.unwrap_or_else(|| dir.join(run.as_str()));
        fs::set_permissions(&from, Permissions::from_mode(0o755)).map_err(RecordError::io("open up", &from))?;
        fs::rename(&from, &to).map_err(RecordError::io("move", &from))
    }
}

/// Copies a file or a folder with its modes. What goes away meanwhile has moved to where it is copied later.
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
