//! Compares a sealed Record with its manifest.

use std::{collections::BTreeSet, fs::File, io, path::Path};

use shared::RunId;

use super::{
    Digest, RecordError, RecordStore,
    layout::{self, BLOBS, LOGS, MANIFEST, STEPS},
    manifest::{FileEntry, Manifest},
};

impl RecordStore {
    /// Reads every file of a Record and says in one sentence each what is not as the manifest says.
    ///
    /// # Errors
    /// [`RecordError::NotSealed`], [`RecordError::Damaged`] where the manifest itself is unreadable,
    /// [`RecordError::Io`].
    pub async fn verify(&self, run: &RunId) -> Result<Vec<String>, RecordError> {
        let run = run.clone();
        self.blocking(move |inner| {
            let dir = inner.layout.sealed(&run);
            if !dir.exists() {
                return Err(RecordError::NotSealed(run));
            }
            let manifest = Manifest::read(&dir)?;
            let mut problems = Vec::new();
            for entry in &manifest.files {
                problems.extend(check(&dir, entry)?);
            }
            let known: BTreeSet<&str> = manifest.files.iter().map(|entry| entry.path.as_str()).collect();
            for path in files(&dir)? {
                if path != MANIFEST && !known.contains(path.as_str()) {
                    problems.push(format!("{path} is not in the manifest"));
                }
            }
            Ok(problems)
        })
        .await
    }
}

fn check(dir: &Path, entry: &FileEntry) -> Result<Option<String>, RecordError> {
    let (name, path) = (&entry.path, dir.join(&entry.path));
    let file = match File::open(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Some(format!("{name} is missing"))),
        other => other.map_err(RecordError::io("open", &path))?,
    };
    let (sha256, size) = Digest::of_reader(file).map_err(RecordError::io("read", &path))?;
    Ok(if size != entry.size {
        Some(format!("{name} has {size} bytes instead of {}", entry.size))
    } else if sha256 != entry.sha256 {
        Some(format!("{name} has SHA-256 {sha256} instead of {}", entry.sha256))
    } else {
        None
    })
}

/// What lies in a Record's folder.
fn files(dir: &Path) -> Result<Vec<String>, RecordError> {
    let mut found = layout::list(dir)?;
    found.retain(|name| ![LOGS, BLOBS, STEPS].contains(&name.as_str()));
    for folder in [LOGS, BLOBS, STEPS] {
        found.extend(layout::list(&dir.join(folder))?.into_iter().map(|name| format!("{folder}/{name}")));
    }
    Ok(found)
}
