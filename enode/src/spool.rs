//! Results on disk until the mediator has acknowledged them.
//!
//! `STATE/spool/NODE/RUN_SEQ_ATTEMPT.json` is a result, `….log` beside it is the attempt's output. A result
//! is there completely or not at all: it is written under another name and renamed, so that it outlives the agent
//! whenever the agent ends. That it outlives the machine's power, too, costs two syncs, and is paid for what the
//! mediator does not acknowledge at once ([`Spool::keep`]). What the mediator does not want goes to
//! `STATE/refused/NODE/` with the reason, for the owner; nothing here deletes a result.

use std::{
    fs::{self, DirBuilder, File, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};
use shared::{NodeId, Nonce, RunId, Seq, StepName, Timestamp};

use crate::{files, session::core::StepKey};

/// Files that were results, for the next ones. A step can end before the result of the one before it is acknowledged, so
/// that two are under way; the same goes for logs.
const SPARE_RESULTS: [&str; 2] = [".next.tmp", ".next.other.tmp"];
/// Logs in which nothing was written.
const SPARE_LOGS: [&str; 2] = [".log.spare", ".log.other.spare"];

/// The folder name of a node: its id, with the slot set apart by a sign that no id holds.
#[must_use]
pub fn folder_name(node: &NodeId) -> String {
    node.as_str().replace('/', "@")
}

/// How an attempt ended, as the wire says it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// By itself.
    Completed {
        /// 128 + N for signal N.
        exit_code: i32,
    },
    /// Not by itself, or it was not started.
    NotCompleted {
        /// The word.
        reason: String,
        /// In words.
        message: String,
    },
}

/// One output file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Artifact {
    /// Relative path below `$OUT`.
    pub name: String,
    /// Bytes.
    pub size: u64,
    /// In hex.
    pub sha256: String,
}

/// One result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// The Run.
    pub run_id: RunId,
    /// The step's position.
    pub seq: Seq,
    /// The execution.
    pub attempt: u32,
    /// The step's name.
    pub step_id: StepName,
    /// The permit. The file is readable by its owner only.
    #[serde(with = "permit")]
    pub nonce: Nonce,
    /// How it ended.
    pub outcome: Outcome,
    /// Bytes of log that belong to it.
    pub log_bytes: u64,
    /// The step's `$OUT`.
    pub out: PathBuf,
    /// What is in it.
    pub artifacts: Vec<Artifact>,
    /// When it ended.
    pub ended_at: Timestamp,
    /// Why the mediator did not want it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
}

mod permit {
    use serde::{Deserialize as _, Deserializer, Serializer};
    use shared::Nonce;

    pub(super) fn serialize<S: Serializer>(nonce: &Nonce, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&nonce.reveal())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Nonce, D::Error> {
        let text = String::deserialize(from)?;
        Nonce::parse(&text).ok_or_else(|| serde::de::Error::custom("a nonce has 32 hex digits"))
    }
}

impl Record {
    /// Which execution.
    #[must_use]
    pub fn key(&self) -> StepKey {
        StepKey { run: self.run_id.clone(), seq: self.seq, attempt: self.attempt }
    }
}

/// The spool of one node.
#[derive(Debug, Clone)]
pub struct Spool {
    dir: PathBuf,
    refused: PathBuf,
}

/// Makes a folder, and those above it, for the agent's user only.
///
/// # Errors
/// As the file system says.
pub fn make_private(dir: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(dir)
}

/// Does what needs a folder, and makes the folder again if it is gone: what a step has removed must not keep the next
/// ones from being executed.
///
/// # Errors
/// As `work` says, or as the file system says of the folder.
pub fn in_folder<T>(dir: &Path, work: impl Fn() -> io::Result<T>) -> io::Result<T> {
    match work() {
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            make_private(dir)?;
            tracing::warn!(path = %dir.display(), "a folder of the agent was gone and is made again");
            work()
        }
        done => done,
    }
}

/// Writes a file completely or not at all, and for good: also a loss of power does not undo it.
///
/// # Errors
/// As the file system says; the old content, if any, is still there.
pub fn write_durably(path: &Path, content: &[u8]) -> io::Result<()> {
    write(&beside(path), path, content, File::sync_all)?;
    let dir = path.parent().ok_or_else(|| io::Error::other("a file needs a folder"))?;
    File::open(dir)?.sync_all()
}

/// Writes a file completely or not at all.
///
/// # Errors
/// As the file system says; the old content, if any, is still there.
pub fn write_whole(path: &Path, content: &[u8]) -> io::Result<()> {
    write(&beside(path), path, content, |_| Ok(()))
}

fn beside(path: &Path) -> PathBuf {
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(".tmp");
    PathBuf::from(temporary)
}

fn write(temporary: &Path, path: &Path, content: &[u8], sync: impl FnOnce(&File) -> io::Result<()>) -> io::Result<()> {
    let written = OpenOptions::new()
        .write(true)
        .create(true)
        // What was longer is cut after the writing: blocks that are there already are written again.
        .truncate(false)
        .mode(0o600)
        .open(temporary)
        .and_then(|mut file| {
            file.write_all(content)?;
            file.set_len(content.len() as u64)?;
            sync(&file)
        })
        .and_then(|()| fs::rename(temporary, path));
    if written.is_err() {
        // Best effort: the failure that counts is the first one.
        drop(fs::remove_file(temporary));
    }
    written
}

impl Spool {
    /// Opens the spool of a node.
    ///
    /// # Errors
    /// The folders could not be made.
    pub fn open(state_dir: &Path, node: &NodeId) -> io::Result<Self> {
        let name = folder_name(node);
        let spool = Self { dir: state_dir.join("spool").join(&name), refused: state_dir.join("refused").join(&name) };
        make_private(&spool.dir)?;
        make_private(&spool.refused)?;
        Ok(spool)
    }

    /// Makes the file for the output of an execution, empty.
    ///
    /// # Errors
    /// As the file system says.
    pub fn create_log(&self, key: &StepKey) -> io::Result<File> {
        let path = self.log_path(key);
        for spare in SPARE_LOGS {
            match fs::rename(self.dir.join(spare), &path) {
                Ok(()) => break,
                Err(e) if e.kind() == io::ErrorKind::NotFound => {}
                Err(e) => return Err(e),
            }
        }
        in_folder(&self.dir, || OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&path))
    }

    /// Where the output of an execution is written.
    #[must_use]
    pub fn log_path(&self, key: &StepKey) -> PathBuf {
        self.dir.join(format!("{key}.log"))
    }

    fn result_path(&self, key: &StepKey) -> PathBuf {
        self.dir.join(format!("{key}.json"))
    }

    /// What an earlier life of the agent left. Logs without a result, half-written results and unreadable
    /// ones go to the refused folder.
    ///
    /// # Errors
    /// The folder could not be read.
    pub fn load(&self) -> io::Result<Vec<Record>> {
        let mut records = Vec::new();
        let mut logs = Vec::new();
        for entry in fs::read_dir(&self.dir)? {
            let path = entry?.path();
            match path.extension().and_then(|it| it.to_str()) {
                Some("json") => match files::read_small(&path)
                    .map_err(|e| e.to_string())
                    .and_then(|text| serde_json::from_slice::<Record>(&text).map_err(|e| format!("not a result: {e}")))
                {
                    Ok(record) => records.push(record),
                    Err(why) => self.set_aside(&path, &why),
                },
                Some("log") => logs.push(path),
                Some("tmp" | "spare") => drop(fs::remove_file(&path)),
                _ => self.set_aside(&path, "nothing that belongs into a spool"),
            }
        }
        records.sort_by_key(|record: &Record| (record.ended_at, record.key()));
        let known: std::collections::HashSet<PathBuf> =
            records.iter().map(|record| self.log_path(&record.key())).collect();
        for log in logs.into_iter().filter(|log| !known.contains(log)) {
            self.set_aside(&log, "the agent ended while this step ran");
        }
        Ok(records)
    }

    /// Spools a result: it outlives the agent.
    ///
    /// # Errors
    /// As the file system says, such as a full disk.
    pub fn put(&self, record: &Record) -> io::Result<()> {
        let text = serde_json::to_vec_pretty(record)?;
        let [first, other] = SPARE_RESULTS.map(|spare| self.dir.join(spare));
        let (draft, path) = (if other.exists() { other } else { first }, self.result_path(&record.key()));
        in_folder(&self.dir, || write(&draft, &path, &text, |_| Ok(())))
    }

    /// Sees to it that a spooled result, with its log, outlives a loss of power.
    ///
    /// # Errors
    /// As the file system says.
    pub fn keep(&self, key: &StepKey) -> io::Result<()> {
        for path in [self.log_path(key), self.result_path(key)] {
            match File::open(&path) {
                Ok(file) => file.sync_all()?,
                // A step that was not started has no log.
                Err(e) if e.kind() == io::ErrorKind::NotFound => {}
                Err(e) => return Err(e),
            }
        }
        File::open(&self.dir)?.sync_all()
    }

    /// Where a spare file goes: over the second one only if there are both.
    fn place(&self, [first, other]: [&str; 2]) -> PathBuf {
        let first = self.dir.join(first);
        if first.exists() { self.dir.join(other) } else { first }
    }

    /// The result was acknowledged.
    pub fn remove(&self, key: &StepKey) {
        let (result, log) = (self.result_path(key), self.log_path(key));
        // Files that are made and removed for every step are what a file system is slowest at, so they go round. A log
        // with anything in it does not: who still reads it must not find the next one's.
        let is_empty = fs::metadata(&log).is_ok_and(|it| it.len() == 0);
        let log_gone = if is_empty { fs::rename(&log, self.place(SPARE_LOGS)) } else { fs::remove_file(&log) };
        for (path, gone) in [(&result, fs::rename(&result, self.place(SPARE_RESULTS))), (&log, log_gone)] {
            match gone {
                Err(e) if e.kind() != io::ErrorKind::NotFound => {
                    tracing::warn!(path = %path.display(), error = %e, "cannot remove from the spool");
                }
                Ok(()) | Err(_) => {}
            }
        }
    }

    /// The mediator does not want the result.
    pub fn refuse(&self, record: &Record, why: &str) {
        let key = record.key();
        let record = Record { refused: Some(why.to_owned()), ..record.clone() };
        let moved = serde_json::to_vec_pretty(&record)
            .map_err(io::Error::from)
            .and_then(|text| {
                let path = self.refused.join(format!("{key}.json"));
                in_folder(&self.refused, || write_durably(&path, &text))
            })
            .and_then(|()| match fs::rename(self.log_path(&key), self.refused.join(format!("{key}.log"))) {
                Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e),
                Ok(()) | Err(_) => Ok(()),
            });
        match moved {
            Ok(()) => self.remove(&key),
            Err(e) => tracing::error!(result = %key, error = %e, "cannot move a refused result out of the spool"),
        }
    }

    /// The output of a step whose result nobody wants.
    pub fn set_log_aside(&self, key: &StepKey, why: &str) {
        let path = self.log_path(key);
        match fs::metadata(&path) {
            Ok(log) if log.len() == 0 => self.remove(key),
            Ok(_) => self.set_aside(&path, why),
            Err(_) => {}
        }
    }

    fn set_aside(&self, path: &Path, why: &str) {
        let Some(name) = path.file_name() else { return };
        tracing::warn!(path = %path.display(), why, "moved to the refused results");
        if let Err(e) = make_private(&self.refused).and_then(|()| fs::rename(path, self.refused.join(name))) {
            tracing::error!(path = %path.display(), error = %e, "cannot move it");
        }
    }
}

#[cfg(test)]
#[path = "spool_tests.rs"]
mod tests;
