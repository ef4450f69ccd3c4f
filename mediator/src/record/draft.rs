//! A Record in the making: the folder beside the place where it will be, from the Run's files to the rename
//! that publishes it. Each method may be repeated after a crash.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::{self, File, Permissions},
    io::{self, Write},
    os::unix::fs::{OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
};

use serde::Serialize;
use shared::{Seq, domain::Run};

use super::{
    Answer, Artifact, Digest, LogFile, RecordError,
    layout::{self, BLOBS, LOGS, Layout, MANIFEST, STEPS},
    manifest::{FileEntry, ManifestView, StepView},
    sync::sync_dir,
};

/// How the files of a group are made to last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sync {
    Each,
    Together,
}

/// A Record in the making.
pub(super) struct Draft<'a> {
    pub(super) run: &'a Run,
    /// The sibling.
    dir: PathBuf,
    /// Where the Record will be.
    place: PathBuf,
    sync: Sync,
    /// Another mediator may still hold a log open: what it writes there must not reach the Record.
    copy_logs: bool,
    tmp: PathBuf,
    files: Vec<FileEntry>,
    /// Attempts whose log is not whole.
    cut: BTreeSet<(Seq, u32)>,
    /// Files that were acknowledged and are not here.
    missing: Vec<Digest>,
}

impl<'a> Draft<'a> {
    pub(super) fn new(run: &'a Run, layout: &Layout, sync: Sync, copy_logs: bool) -> Self {
        let (dir, place) = (layout.sealing(&run.id), layout.sealed(&run.id));
        let tmp = layout.tmp.clone();
        Self { run, dir, place, sync, copy_logs, tmp, files: Vec::new(), cut: BTreeSet::new(), missing: Vec::new() }
    }

    /// Takes the Run's folder away from where it can grow. Returns whether there was one.
    pub(super) fn claim(&self, open: &Path) -> Result<bool, RecordError> {
        match fs::rename(open, &self.dir) {
            Ok(()) => return Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(RecordError::io("move", open)(error)),
        }
        match fs::create_dir(&self.dir) {
            Ok(()) => Ok(false),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => self.take_up().map(|()| true),
            Err(error) => Err(RecordError::io("create", &self.dir)(error)),
        }
    }

    /// A sealing that was interrupted: what was written is written anew, what was moved stays.
    fn take_up(&self) -> Result<(), RecordError> {
        for dir in [&self.dir, &self.dir.join(LOGS), &self.dir.join(BLOBS), &self.dir.join(STEPS)] {
            match fs::set_permissions(dir, Permissions::from_mode(0o755)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(RecordError::io("open up", dir)(error));
                }
                _ => {}
            }
        }
        let (steps, manifest) = (self.dir.join(STEPS), self.dir.join(MANIFEST));
        for (path, removed) in [(&steps, fs::remove_dir_all(&steps)), (&manifest, fs::remove_file(&manifest))] {
            match removed {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(RecordError::io("remove", path)(error));
                }
                _ => {}
            }
        }
        Ok(())
    }

    pub(super) fn finish_logs(
        &mut self,
        has_files: bool,
        expected: &BTreeMap<(Seq, u32), u64>,
    ) -> Result<(), RecordError> {
        let mut stored = BTreeMap::new();
        let dir = self.dir.join(LOGS);
        for old in if has_files { layout::list(&dir)? } else { Vec::new() } {
            let Some((seq, attempt)) = layout::parse_log(&old) else { continue };
            let name = self.run.step(seq).map_or("unknown", |step| step.name.as_str());
            let name = layout::log_file(seq, name, attempt);
            let path = dir.join(&name);
            self.place_log(&dir, &old, &name).map_err(RecordError::io("rename log to", &path))?;
            if stored.contains_key(&(seq, attempt)) {
                continue;
            }
            let (log, sha256, size) = self.finish_log(&path).map_err(RecordError::io("read log", &path))?;
            if log.is_cut() {
                self.cut.insert((seq, attempt));
            }
            stored.insert((seq, attempt), log.len());
            self.files.push(FileEntry { path: format!("{LOGS}/{name}"), sha256, size });
        }
        let short = |(key, bytes): (&_, &u64)| (stored.get(key).unwrap_or(&0) < bytes).then_some(*key);
        self.cut.extend(expected.iter().filter_map(short));
        Ok(())
    }

    /// Gives a log its final name, as a file of its own where others may hold the old one. Both may be there
    /// after a crash; the one with the final name is whole then.
    fn place_log(&self, dir: &Path, old: &str, name: &str) -> io::Result<()> {
        if old == name {
            return Ok(());
        }
        if !self.copy_logs {
            return fs::rename(dir.join(old), dir.join(name));
        }
        if !dir.join(name).exists() {
            let copy = self.tmp.join(name);
            fs::copy(dir.join(old), &copy)?;
            // It must last before the old one goes; a file system keeps the order of the names by itself.
            File::open(&copy)?.sync_all()?;
            fs::rename(&copy, dir.join(name))?;
        }
        fs::remove_file(dir.join(old))
    }

    fn finish_log(&self, path: &Path) -> io::Result<(LogFile, Digest, u64)> {
        let file = File::open(path)?;
        file.set_permissions(Permissions::from_mode(0o444))?;
        let (sha256, size) = Digest::of_reader(&file)?;
        if self.sync == Sync::Each {
            file.sync_all()?;
        }
        Ok((LogFile::load(file, u64::MAX)?, sha256, size))
    }

    /// Blobs are read-only, synced and named by what they hold since they were written. Those that no
    /// artifact names came from a node that had lost its lease by then: they go.
    pub(super) fn finish_blobs(&mut self, has_files: bool, artifacts: &[Artifact]) -> Result<(), RecordError> {
        let mut wanted: BTreeSet<Digest> = artifacts.iter().map(|artifact| artifact.sha256).collect();
        let dir = self.dir.join(BLOBS);
        for name in if has_files { layout::list(&dir)? } else { Vec::new() } {
            let path = dir.join(&name);
            match name.parse().ok().and_then(|digest| wanted.take(&digest)) {
                Some(sha256) => {
                    let size = fs::metadata(&path).map_err(RecordError::io("read", &path))?.len();
                    self.files.push(FileEntry { path: format!("{BLOBS}/{name}"), sha256, size });
                }
                None => fs::remove_file(&path).map_err(RecordError::io("remove", &path))?,
            }
        }
        self.missing.extend(wanted);
        Ok(())
    }

    pub(super) fn write_steps(&mut self, artifacts: &[Artifact], answers: &[Answer]) -> Result<(), RecordError> {
        let run = self.run;
        let dir = self.dir.join(STEPS);
        fs::create_dir(&dir).map_err(RecordError::io("create", &dir))?;
        for step in &run.steps {
            let view = StepView::new(run, step, artifacts, answers, |seq, attempt| self.cut.contains(&(seq, attempt)));
            let path = format!("{STEPS}/{}", layout::step_file(step.seq, &step.name));
            let (sha256, size) = self.write(&path, &view)?;
            self.files.push(FileEntry { path, sha256, size });
        }
        Ok(())
    }

    pub(super) fn write_manifest(&mut self) -> Result<(), RecordError> {
        self.files.sort_unstable();
        let view = ManifestView::new(self.run, self.truncated(), &self.missing, &self.files)
            .ok_or_else(|| RecordError::NotEnded(self.run.id.clone()))?;
        self.write(MANIFEST, &view).map(drop)
    }

    pub(super) fn truncated(&self) -> bool {
        !self.cut.is_empty() || !self.missing.is_empty()
    }

    fn write(&self, name: &str, view: &impl Serialize) -> Result<(Digest, u64), RecordError> {
        let path = self.dir.join(name);
        let write = || {
            let mut json = serde_json::to_vec_pretty(view)?;
            json.push(b'\n');
            let mut file = File::options().write(true).create_new(true).mode(0o444).open(&path)?;
            file.write_all(&json)?;
            if self.sync == Sync::Each {
                file.sync_all()?;
            }
            Ok((Digest::of(&json), json.len() as u64))
        };
        write().map_err(RecordError::io("write", &path))
    }

    /// The outermost folder last: nothing can be added to any of them any more.
    pub(super) fn make_read_only(&self, has_files: bool) -> Result<(), RecordError> {
        let moved: &[&str] = if has_files { &[LOGS, BLOBS] } else { &[] };
        let inner = moved.iter().chain(&[STEPS]).map(|folder| self.dir.join(folder));
        for dir in inner.chain([self.dir.clone()]) {
            match fs::set_permissions(&dir, Permissions::from_mode(0o555)) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                other => other.map_err(RecordError::io("make read-only", &dir))?,
            }
            if self.sync == Sync::Each {
                sync_dir(&dir)?;
            }
        }
        Ok(())
    }

    pub(super) fn publish(&self) -> Result<(), RecordError> {
        fs::rename(&self.dir, &self.place).map_err(RecordError::io("publish", &self.place))
    }
}
