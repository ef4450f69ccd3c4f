//! Fills `$IN`: fetches the files many in a call, checks size and hash, and makes the whole read-only.

use std::path::{Component, Path, PathBuf};

use proto::v1::artifact_part::Part;
use sha2::{Digest as _, Sha256};
use shared::hex;
use tokio::{fs, io::AsyncWriteExt as _};

use super::tree;
use crate::{
    policy::quarantine::Against,
    session::{
        retry::{Backoff, CallError, Kind},
        upload::{Caller, PAGE},
        wire::{Input, WorkStep},
    },
};

/// Why `$IN` is not complete.
#[derive(Debug, thiserror::Error)]
pub enum InputError {
    /// A path that would leave `$IN`.
    #[error("input {0:?} is not a path below $IN")]
    Path(String),
    /// The mediator does not give it.
    #[error("input {name}: {source}")]
    Fetch {
        /// Path below `$IN`.
        name: String,
        /// Why.
        source: CallError,
    },
    /// Not what the mediator announced.
    #[error("input {name}: the bytes that arrived are not those that were stored (SHA-256 {found}, wanted {wanted})")]
    Checksum {
        /// Path below `$IN`.
        name: String,
        /// In hex.
        found: String,
        /// In hex.
        wanted: String,
    },
    /// The file system.
    #[error("input {name}: cannot write it below $IN: {source}")]
    Io {
        /// Path below `$IN`.
        name: String,
        /// Why.
        source: std::io::Error,
    },
}

impl InputError {
    pub(super) const fn against(&self) -> Against {
        match self {
            // What the mediator gives, and what became of it on the way, may be anybody's fault.
            Self::Path(_) | Self::Fetch { .. } | Self::Checksum { .. } => Against::Others,
            Self::Io { .. } => Against::Machine,
        }
    }
}

/// How often bytes with a wrong hash are fetched again.
const TRIES: u32 = 3;

/// Fetches everything. What can be repeated is repeated for as long as the caller waits.
///
/// # Errors
/// [`InputError`] names the file.
pub async fn fetch(caller: &Caller, step: &WorkStep, dir: &Path) -> Result<(), InputError> {
    if let Some(bad) = step.inputs.iter().find(|it| below(dir, &it.path).is_none()) {
        return Err(InputError::Path(bad.path.clone()));
    }
    for page in step.inputs.chunks(PAGE) {
        let mut done = 0;
        let mut backoff = Backoff::new();
        while let Some(left) = page.get(done..).filter(|left| !left.is_empty()) {
            let before = done;
            let Err(e) = fetch_some(caller, step, left, dir, &mut done).await else { continue };
            if done > before {
                backoff = Backoff::new();
            }
            match e {
                InputError::Fetch { name, source }
                    if matches!(source.kind, Kind::Retry | Kind::Denied | Kind::Superseded) =>
                {
                    tracing::info!(step = %step.key, input = name, error = %source, "the inputs will be fetched again from here");
                }
                InputError::Checksum { .. } if backoff.failures() + 1 < TRIES => {}
                e => return Err(e),
            }
            backoff.pause(caller.node.interval()).await;
            caller.accepted().await;
        }
    }
    tree::make_read_only(dir).map_err(|source| InputError::Io { name: "$IN".to_owned(), source })
}

/// Fetches files in their order; `done` counts those that are complete.
async fn fetch_some(
    caller: &Caller,
    step: &WorkStep,
    inputs: &[Input],
    dir: &Path,
    done: &mut usize,
) -> Result<(), InputError> {
    let Some(first) = inputs.first() else { return Ok(()) };
    let fetch = |input: &Input| {
        let name = input.path.clone();
        |source| InputError::Fetch { name, source }
    };
    let mut parts = caller.get_artifacts(&step.key, step.nonce, inputs).await.map_err(fetch(first))?;
    let mut part = parts.next().await.map_err(fetch(first))?;
    for (place, input) in (0..).zip(inputs) {
        if part != Some(Part::File(place)) {
            let why = CallError::retry("the mediator sent another file, or none");
            return Err(fetch(input)(why));
        }
        let mut file = Arriving::create(dir, input).await?;
        part = loop {
            match parts.next().await.map_err(fetch(input))? {
                Some(Part::Data(data)) => file.write(&data).await?,
                next => break next,
            }
        };
        file.finish().await?;
        *done += 1;
    }
    Ok(())
}

/// A file that is being fetched. Not synced: a folder of a step that was interrupted is never used again.
struct Arriving<'a> {
    input: &'a Input,
    file: fs::File,
    hasher: Sha256,
    size: u64,
}

impl<'a> Arriving<'a> {
    async fn create(dir: &Path, input: &'a Input) -> Result<Self, InputError> {
        let path = below(dir, &input.path).ok_or_else(|| InputError::Path(input.path.clone()))?;
        let failed = |source| InputError::Io { name: input.path.clone(), source };
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).await.map_err(failed)?;
        }
        let file = fs::File::create(path).await.map_err(failed)?;
        Ok(Self { input, file, hasher: Sha256::new(), size: 0 })
    }

    async fn write(&mut self, data: &[u8]) -> Result<(), InputError> {
        self.hasher.update(data);
        self.size += data.len() as u64;
        if self.size > self.input.size {
            return Err(self.differs(self.found()));
        }
        self.file.write_all(data).await.map_err(|source| InputError::Io { name: self.input.path.clone(), source })
    }

    async fn finish(mut self) -> Result<(), InputError> {
        let name = || self.input.path.clone();
        self.file.flush().await.map_err(|source| InputError::Io { name: name(), source })?;
        let found = self.found();
        if self.size == self.input.size && found.eq_ignore_ascii_case(&self.input.sha256) {
            Ok(())
        } else {
            Err(self.differs(found))
        }
    }

    /// The hash of what has arrived so far.
    fn found(&self) -> String {
        hex(&self.hasher.clone().finalize())
    }

    fn differs(&self, found: String) -> InputError {
        InputError::Checksum { name: self.input.path.clone(), found, wanted: self.input.sha256.clone() }
    }
}

/// The file below `dir`, unless the path tries to be anywhere else.
fn below(dir: &Path, path: &str) -> Option<PathBuf> {
    let plain = !path.is_empty() && Path::new(path).components().all(|part| matches!(part, Component::Normal(_)));
    plain.then(|| dir.join(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_input_stays_below_its_folder() {
        let dir = Path::new("/in");
        assert_eq!(below(dir, "a/b.txt"), Some(PathBuf::from("/in/a/b.txt")));
        for bad in ["", "/etc/passwd", "../x", "a/../../x", ".."] {
            assert_eq!(below(dir, bad), None, "{bad}");
        }
    }
}
