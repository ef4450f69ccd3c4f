//! Fills `$IN`: fetches each file, checks size and hash, and makes the whole read-only.

use std::path::{Component, Path, PathBuf};

use sha2::{Digest as _, Sha256};
use tokio::{fs, io::AsyncWriteExt as _};

use super::{output::hex, workspace};
use crate::session::{
    retry::{Backoff, CallError, Kind},
    upload::Caller,
    wire::{Input, WorkStep},
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

/// How often bytes with a wrong hash are fetched again.
const TRIES: u32 = 3;

/// Fetches everything. What can be repeated is repeated for as long as the caller waits.
///
/// # Errors
/// [`InputError`] names the file.
pub async fn fetch(caller: &Caller, step: &WorkStep, dir: &Path) -> Result<(), InputError> {
    for input in &step.inputs {
        let path = below(dir, &input.path).ok_or_else(|| InputError::Path(input.path.clone()))?;
        let mut backoff = Backoff::new();
        loop {
            match fetch_one(caller, step, input, &path).await {
                Ok(()) => break,
                Err(InputError::Fetch { source, .. })
                    if matches!(source.kind, Kind::Retry | Kind::Denied | Kind::Superseded) =>
                {
                    tracing::info!(step = %step.key, input = input.path, error = %source, "the input will be fetched again");
                }
                Err(InputError::Checksum { .. }) if backoff.failures() + 1 < TRIES => {}
                Err(e) => return Err(e),
            }
            backoff.pause(caller.node.interval()).await;
            caller.accepted().await;
        }
    }
    workspace::make_read_only(dir).map_err(|source| InputError::Io { name: "$IN".to_owned(), source })
}

async fn fetch_one(caller: &Caller, step: &WorkStep, input: &Input, path: &Path) -> Result<(), InputError> {
    let fetch = |source| InputError::Fetch { name: input.path.clone(), source };
    let write = |source| InputError::Io { name: input.path.clone(), source };
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent).await.map_err(write)?;
    }
    let mut chunks = caller.get_artifact(&step.key, step.nonce, input).await.map_err(fetch)?;
    let mut file = fs::File::create(path).await.map_err(write)?;
    let mut hasher = Sha256::new();
    let mut size = 0;
    while let Some(data) = chunks.next().await.map_err(fetch)? {
        size += data.len() as u64;
        if size > input.size {
            break;
        }
        hasher.update(&data);
        file.write_all(&data).await.map_err(write)?;
    }
    file.flush().await.map_err(write)?;
    let found = hex(&hasher.finalize());
    if size == input.size && found.eq_ignore_ascii_case(&input.sha256) {
        Ok(())
    } else {
        Err(InputError::Checksum { name: input.path.clone(), found, wanted: input.sha256.clone() })
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
