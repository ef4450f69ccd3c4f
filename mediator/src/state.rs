//! The state directory belongs to one mediator at a time.
//!
//! Logs, Records and an embedded database are one process's: a second one on the same directory would grant
//! nodes behind the first one's back. The lock goes with the process, however it ends.

use std::{
    fs::{DirBuilder, File, TryLockError},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::Path,
};

use anyhow::{Context, bail};

/// Held while this process is the mediator of a state directory.
#[derive(Debug)]
pub struct Claimed {
    _lock: File,
}

/// Makes the directory if it is not there, and takes it.
///
/// # Errors
/// It cannot be used, or another mediator has it.
pub fn claim(state_dir: &Path) -> anyhow::Result<Claimed> {
    let failed = || format!("cannot use the state directory {}", state_dir.display());
    // Only its owner: permits and the hashes of tokens are in there.
    DirBuilder::new().recursive(true).mode(0o700).create(state_dir).with_context(failed)?;
    let path = state_dir.join("mediator.lock");
    let lock = File::options().create(true).truncate(false).write(true).mode(0o600).open(path).with_context(failed)?;
    match lock.try_lock() {
        Ok(()) => Ok(Claimed { _lock: lock }),
        Err(TryLockError::WouldBlock) => bail!(
            "another mediator runs with the state directory {}: stop it, or give this one a --state-dir of its own",
            state_dir.display()
        ),
        Err(TryLockError::Error(error)) => Err(error).with_context(failed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_directory_has_one_mediator() {
        let dir = tempfile::tempdir().unwrap();
        let state = dir.path().join("state");
        let first = claim(&state).unwrap();
        assert!(claim(&state).unwrap_err().to_string().contains("another mediator"));
        drop(first);
        claim(&state).unwrap();
    }
}
