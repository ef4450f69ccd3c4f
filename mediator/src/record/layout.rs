//! Where things lie. Every name here is made of validated ids, numbers and digests; names from the wire
//! (those of artifacts) are data in JSON and never a path.
//!
//! ```text
//! runs/RUN_ID/logs/SEQ.ATTEMPT             an open Run
//! runs/RUN_ID/blobs/SHA256
//! runs/.tmp/OWNER/                         files being written, by which mediator
//! runs/.sealing                            locked by the mediator that seals, and by a backup
//! removing/RUN_ID/                         a Record on its way out
//! after-backup/                            what a restored store does not know
//! records/.RUN_ID.sealing/                 a Run being sealed (no run id begins with a dot)
//! records/RUN_ID/manifest.json             a sealed Run: its Record
//! records/RUN_ID/steps/NN-NAME.json
//! records/RUN_ID/logs/NN-NAME.ATTEMPT.log
//! records/RUN_ID/blobs/SHA256
//! ```

use std::{
    fs::{self, File, TryLockError},
    io,
    path::{Path, PathBuf},
};

use shared::{RunId, Seq, StepName};

use super::{Digest, RecordError};

pub(super) const LOGS: &str = "logs";
pub(super) const BLOBS: &str = "blobs";
pub(super) const STEPS: &str = "steps";
pub(super) const TMP: &str = ".tmp";
pub(super) const MANIFEST: &str = "manifest.json";

/// What a folder of a Run is, by where it lies and its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Home {
    /// The files of an open Run.
    Open,
    /// A Record in the making.
    Sealing,
    /// A Record.
    Record,
}

/// The directories of one state directory.
#[derive(Debug)]
pub(super) struct Layout {
    pub(super) runs: PathBuf,
    pub(super) records: PathBuf,
    /// This mediator's own.
    pub(super) tmp: PathBuf,
}

impl Layout {
    /// Makes what is missing, and removes what a crash of this mediator left half written.
    pub(super) fn prepare(dir: &Path, owner: &str) -> Result<Self, RecordError> {
        let layout = Self::of(dir, owner);
        for dir in [&layout.records, &layout.tmp] {
            fs::create_dir_all(dir).map_err(RecordError::io("create", dir))?;
        }
        for entry in list(&layout.tmp)? {
            let path = layout.tmp.join(entry);
            fs::remove_file(&path).map_err(RecordError::io("remove", &path))?;
        }
        if let Some(all) = layout.tmp.parent() {
            for name in list(all)? {
                let path = all.join(name);
                // Earlier versions wrote here, for one mediator only.
                if path.is_file() {
                    fs::remove_file(&path).map_err(RecordError::io("remove", &path))?;
                }
            }
        }
        Ok(layout)
    }

    /// Names the places and touches nothing.
    pub(super) fn of(dir: &Path, owner: &str) -> Self {
        let runs = dir.join("runs");
        Self { records: dir.join("records"), tmp: runs.join(TMP).join(owner), runs }
    }

    /// Held by whoever seals, so that of several mediators one does. None: another one has it.
    pub(super) fn seal_lock(&self) -> Result<Option<File>, RecordError> {
        let (path, file) = self.seal_file()?;
        match file.try_lock() {
            Ok(()) => Ok(Some(file)),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(RecordError::io("lock", &path)(error)),
        }
    }

    /// The same for who can wait: nobody holds it for long, except a backup.
    pub(super) fn wait_seal_lock(&self) -> Result<File, RecordError> {
        let (path, file) = self.seal_file()?;
        file.lock().map_err(RecordError::io("lock", &path))?;
        Ok(file)
    }

    fn seal_file(&self) -> Result<(PathBuf, File), RecordError> {
        fs::create_dir_all(&self.runs).map_err(RecordError::io("create", &self.runs))?;
        let path = self.runs.join(".sealing");
        let file = File::options().create(true).truncate(false).write(true).open(&path);
        let file = file.map_err(RecordError::io("open", &path))?;
        Ok((path, file))
    }

    /// Every folder of a Run, whatever it is; nothing else that lies beside them.
    pub(super) fn homes_of_all(&self) -> Result<Vec<(RunId, Home)>, RecordError> {
        let in_records = |name: &String| match name.strip_prefix('.').and_then(|it| it.strip_suffix(".sealing")) {
            Some(id) => Some((RunId::new(id).ok()?, Home::Sealing)),
            None => Some((RunId::new(name).ok()?, Home::Record)),
        };
        let in_runs = |name: &String| Some((RunId::new(name).ok()?, Home::Open));
        let mut found: Vec<_> = list(&self.records)?.iter().filter_map(in_records).collect();
        found.extend(list(&self.runs)?.iter().filter_map(in_runs));
        Ok(found)
    }

    pub(super) fn home(&self, run: &RunId, home: Home) -> PathBuf {
        match home {
            Home::Open => self.open(run),
            Home::Sealing => self.sealing(run),
            Home::Record => self.sealed(run),
        }
    }

    pub(super) fn open(&self, run: &RunId) -> PathBuf {
        self.runs.join(run.as_str())
    }

    pub(super) fn sealing(&self, run: &RunId) -> PathBuf {
        self.records.join(format!(".{run}.sealing"))
    }

    pub(super) fn sealed(&self, run: &RunId) -> PathBuf {
        self.records.join(run.as_str())
    }

    pub(super) fn is_closed(&self, run: &RunId) -> bool {
        self.sealed(run).exists() || self.sealing(run).exists()
    }

    /// The places of a Run's files in the order in which they move, so that a reader that looks in this
    /// order cannot miss them.
    fn homes(&self, run: &RunId) -> [PathBuf; 3] {
        [self.open(run), self.sealing(run), self.sealed(run)]
    }

    pub(super) fn open_log(&self, run: &RunId, seq: Seq, attempt: u32) -> PathBuf {
        self.open(run).join(LOGS).join(format!("{seq}.{attempt}"))
    }

    /// Opens a file of an open or sealed Run for reading; none if there is no such file.
    pub(super) fn find_blob(&self, run: &RunId, digest: &Digest) -> Result<Option<(PathBuf, File)>, RecordError> {
        for home in self.homes(run) {
            let path = home.join(BLOBS).join(digest.to_string());
            if let Some(file) = open_if_there(&path)? {
                return Ok(Some((path, file)));
            }
        }
        Ok(None)
    }

    /// The same for the log of one attempt.
    pub(super) fn find_log(&self, run: &RunId, seq: Seq, attempt: u32) -> Result<Option<File>, RecordError> {
        if let Some(file) = open_if_there(&self.open_log(run, seq, attempt))? {
            return Ok(Some(file));
        }
        for home in [self.sealing(run), self.sealed(run)] {
            let dir = home.join(LOGS);
            for name in list(&dir)? {
                if parse_log(&name) == Some((seq, attempt))
                    && let Some(file) = open_if_there(&dir.join(&name))?
                {
                    return Ok(Some(file));
                }
            }
        }
        Ok(None)
    }
}

/// `NN-NAME.json`
pub(super) fn step_file(seq: Seq, name: &StepName) -> String {
    format!("{seq:02}-{name}.json")
}

/// `NN-NAME.ATTEMPT.log`
pub(super) fn log_file(seq: Seq, name: &str, attempt: u32) -> String {
    format!("{seq:02}-{name}.{attempt}.log")
}

/// Step and attempt of a log by its name in an open or in a sealed Run.
pub(super) fn parse_log(name: &str) -> Option<(Seq, u32)> {
    let (seq, attempt) = match name.strip_suffix(".log") {
        Some(stem) => (stem.split_once('-')?.0, stem.rsplit_once('.')?.1),
        None => name.split_once('.')?,
    };
    Some((seq.parse().ok()?, attempt.parse().ok()?))
}

/// The names in a directory, sorted; none if there is no such directory.
pub(super) fn list(dir: &Path) -> Result<Vec<String>, RecordError> {
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(RecordError::io("list", dir)(error)),
    };
    let mut names = Vec::new();
    for entry in entries {
        let entry = entry.map_err(RecordError::io("list", dir))?;
        // Only names that this module made matter, and those are ASCII.
        names.extend(entry.file_name().into_string());
    }
    names.sort_unstable();
    Ok(names)
}

fn open_if_there(path: &Path) -> Result<Option<File>, RecordError> {
    match File::open(path) {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(RecordError::io("open", path)(error)),
    }
}
