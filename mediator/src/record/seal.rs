//! Sealing: a Run that has ended becomes a Record.
//!
//! The Run's folder is renamed into a sibling of the place where the Record will be; from then on it takes
//! nothing more. There it gets its final names, the step files and the manifest, is made read-only and
//! synced, and is published by a second rename. A crash between any two stages leaves either the open Run,
//! or the sibling, or the Record; sealing again goes on from whichever it finds.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::{self, File, Permissions},
    io::{self, Write},
    os::unix::fs::{OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
    sync::Arc,
};

use serde::Serialize;
use shared::{RunId, Seq, domain::Run};

use super::{
    Digest, Inner, LogFile, RecordError, RecordStore,
    gate::{Gate, lock},
    layout::{self, BLOBS, LOGS, MANIFEST, STEPS},
    manifest::{FileEntry, Manifest, ManifestView, StepView},
    sync::{sync_entries, sync_file, sync_file_system},
};

/// A file that a step left.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Artifact {
    /// Of which step.
    pub seq: Seq,
    /// Of which attempt.
    pub attempt: u32,
    /// Its name below `$OUT`; data only, never a path here.
    pub name: String,
    /// Its content.
    pub sha256: Digest,
    /// Its size in bytes.
    pub size: u64,
}

/// What a Record is made of, beside the files that are here already.
#[derive(Debug, Clone)]
pub struct SealInput {
    /// The Run, which has ended.
    pub run: Run,
    /// Every file that its attempts left.
    pub artifacts: Vec<Artifact>,
    /// By step and attempt, how many bytes of output there were, as far as the attempt's report said.
    pub log_bytes: BTreeMap<(Seq, u32), u64>,
}

/// A Record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sealed {
    /// Some log or file is not whole.
    pub truncated: bool,
}

/// What a crash may come between; tests stop after each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    Claimed,
    Logs,
    Blobs,
    Steps,
    Manifest,
    ReadOnly,
    Synced,
    Published,
}

/// Called after each stage; an error stops there.
pub(super) type After<'a> = &'a mut dyn FnMut(Stage) -> Result<(), RecordError>;

/// Up to this many files are synced one by one. Beyond, one sync of the whole file system is cheaper, even
/// though it waits for strangers' data, too.
const SYNC_EACH: usize = 16;

impl RecordStore {
    /// Seals a Run. Sealing one that is sealed changes nothing.
    ///
    /// # Errors
    /// [`RecordError::NotEnded`], [`RecordError::NoSpace`], [`RecordError::Io`]; sealing again goes on.
    pub async fn seal(&self, input: SealInput) -> Result<Sealed, RecordError> {
        let run = input.run.id.clone();
        let mut sealed = self.seal_all(vec![input]).await?;
        sealed.remove(&run).unwrap_or(Err(RecordError::NotSealed(run)))
    }

    /// Seals several Runs at once, which costs a few disk syncs in all. One that fails does not touch the
    /// others.
    ///
    /// # Errors
    /// [`RecordError::Interrupted`]; everything else is said of each Run.
    pub async fn seal_all(
        &self,
        inputs: Vec<SealInput>,
    ) -> Result<BTreeMap<RunId, Result<Sealed, RecordError>>, RecordError> {
        self.blocking(move |inner| Ok(seal_group(inner, &inputs, &mut |_| Ok(())))).await
    }
}

/// Prepares every Record, makes all of them last, publishes all of them, makes that last.
pub(super) fn seal_group(
    inner: &Inner,
    inputs: &[SealInput],
    after: After<'_>,
) -> BTreeMap<RunId, Result<Sealed, RecordError>> {
    // Sorted and each once: two groups cannot wait for each other.
    let inputs: BTreeMap<&RunId, &SealInput> = inputs.iter().map(|input| (&input.run.id, input)).collect();
    let gates: Vec<Arc<Gate>> = inputs.keys().map(|run| inner.gate(run)).collect();
    let _sealing: Vec<_> = gates.iter().map(|gate| lock(&gate.sealing)).collect();
    let files = inputs.values().map(|input| input.run.steps.len() + 1 + input.log_bytes.len()).sum::<usize>();
    let sync = if files <= SYNC_EACH { Sync::Each } else { Sync::Together };

    let mut answers = BTreeMap::new();
    let mut ready = Vec::new();
    for ((run, input), gate) in inputs.into_iter().zip(&gates) {
        match prepare(inner, gate, input, sync, after) {
            Ok(Prepared::Draft(draft)) => ready.push(draft),
            Ok(Prepared::Sealed(sealed)) => _ = answers.insert(run.clone(), Ok(sealed)),
            Err(error) => _ = answers.insert(run.clone(), Err(error)),
        }
    }
    let records = &inner.layout.records;
    let synced = match sync {
        Sync::Together if !ready.is_empty() => sync_file_system(records),
        Sync::Together | Sync::Each => Ok(()),
    };
    for draft in ready {
        let published = synced.map_err(|error| RecordError::io("sync", records)(error.into()));
        let published = published.and_then(|()| draft.publish(after));
        answers.insert(draft.run.id.clone(), published);
    }
    // Those found sealed, too: the mediator may have ended between their publishing and this.
    if let Err(error) = sync_entries(records) {
        for answer in answers.values_mut().filter(|answer| answer.is_ok()) {
            *answer = Err(RecordError::io("sync", records)(error.into()));
        }
    }
    for (run, _) in answers.iter().filter(|(_, answer)| answer.is_ok()) {
        inner.gates.forget(run);
    }
    answers
}

/// How the files of a group are made to last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sync {
    Each,
    Together,
}

enum Prepared<'a> {
    Sealed(Sealed),
    Draft(Draft<'a>),
}

/// A Record in the making.
struct Draft<'a> {
    run: &'a Run,
    /// The sibling.
    dir: PathBuf,
    /// Where the Record will be.
    place: PathBuf,
    sync: Sync,
    files: Vec<FileEntry>,
    /// Attempts whose log is not whole.
    cut: BTreeSet<(Seq, u32)>,
    /// Files that were acknowledged and are not here.
    missing: Vec<Digest>,
}

fn prepare<'a>(
    inner: &Inner,
    gate: &Gate,
    input: &'a SealInput,
    sync: Sync,
    after: After<'_>,
) -> Result<Prepared<'a>, RecordError> {
    let run = &input.run;
    let place = inner.layout.sealed(&run.id);
    if place.exists() {
        return Ok(Prepared::Sealed(Sealed { truncated: Manifest::read(&place)?.truncated }));
    }
    if !run.state.is_terminal() || run.ended_at.is_none() {
        return Err(RecordError::NotEnded(run.id.clone()));
    }
    gate.close();
    inner.logs.release(&run.id);
    let dir = inner.layout.sealing(&run.id);
    let mut draft = Draft { run, dir, place, sync, files: Vec::new(), cut: BTreeSet::new(), missing: Vec::new() };
    let has_files = draft.claim(&inner.layout.open(&run.id))?;
    after(Stage::Claimed)?;
    draft.finish_logs(has_files, &input.log_bytes)?;
    after(Stage::Logs)?;
    draft.finish_blobs(has_files, &input.artifacts)?;
    after(Stage::Blobs)?;
    draft.write_steps(&input.artifacts)?;
    after(Stage::Steps)?;
    draft.write_manifest()?;
    after(Stage::Manifest)?;
    draft.make_read_only()?;
    after(Stage::ReadOnly)?;
    Ok(Prepared::Draft(draft))
}

impl Draft<'_> {
    /// Takes the Run's folder away from where it can grow. Returns whether there was one.
    fn claim(&self, open: &Path) -> Result<bool, RecordError> {
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

    fn finish_logs(&mut self, has_files: bool, expected: &BTreeMap<(Seq, u32), u64>) -> Result<(), RecordError> {
        let mut stored = BTreeMap::new();
        let dir = self.dir.join(LOGS);
        for old in if has_files { layout::list(&dir)? } else { Vec::new() } {
            let Some((seq, attempt)) = layout::parse_log(&old) else { continue };
            let name = self.run.step(seq).map_or("unknown", |step| step.name.as_str());
            let name = layout::log_file(seq, name, attempt);
            let path = dir.join(&name);
            fs::rename(dir.join(old), &path).map_err(RecordError::io("rename log to", &path))?;
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
    fn finish_blobs(&mut self, has_files: bool, artifacts: &[Artifact]) -> Result<(), RecordError> {
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

    fn write_steps(&mut self, artifacts: &[Artifact]) -> Result<(), RecordError> {
        let run = self.run;
        let dir = self.dir.join(STEPS);
        fs::create_dir(&dir).map_err(RecordError::io("create", &dir))?;
        for step in &run.steps {
            let view = StepView::new(run, step, artifacts, |seq, attempt| self.cut.contains(&(seq, attempt)));
            let path = format!("{STEPS}/{}", layout::step_file(step.seq, &step.name));
            let (sha256, size) = self.write(&path, &view)?;
            self.files.push(FileEntry { path, sha256, size });
        }
        Ok(())
    }

    fn write_manifest(&mut self) -> Result<(), RecordError> {
        self.files.sort_unstable();
        let view = ManifestView::new(self.run, self.truncated(), &self.missing, &self.files)
            .ok_or_else(|| RecordError::NotEnded(self.run.id.clone()))?;
        self.write(MANIFEST, &view).map(drop)
    }

    fn truncated(&self) -> bool {
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

    /// Folders last, and the outermost last of all.
    fn make_read_only(&self) -> Result<(), RecordError> {
        for dir in [&self.dir.join(LOGS), &self.dir.join(BLOBS), &self.dir.join(STEPS), &self.dir] {
            let file = match File::open(dir) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                other => other.map_err(RecordError::io("open", dir))?,
            };
            file.set_permissions(Permissions::from_mode(0o555)).map_err(RecordError::io("make read-only", dir))?;
            if self.sync == Sync::Each {
                sync_file(&file, dir)?;
            }
        }
        Ok(())
    }

    fn publish(&self, after: After<'_>) -> Result<Sealed, RecordError> {
        after(Stage::Synced)?;
        fs::rename(&self.dir, &self.place).map_err(RecordError::io("publish", &self.place))?;
        after(Stage::Published)?;
        Ok(Sealed { truncated: self.truncated() })
    }
}
