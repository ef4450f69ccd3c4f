//! The state directory belongs to one mediator at a time.
//!
//! Logs, Records and an embedded database are one process's: a second one on the same directory would grant
//! nodes behind the first one's back. The lock goes with the process, however it ends.

use std::{
    fs::{DirBuilder, File, TryLockError},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

use anyhow::{Context, bail};

use crate::{config::redact, store::Store};

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

/// Refuses to go on with an empty database where there was one before.
///
/// A fresh database under an old state directory is a mistake far more often than a wish: a disk that is not
/// mounted, a wrong URL, a backup that was not restored. Every Run, lease and token would be gone, silently.
///
/// # Errors
/// There is no database and the state directory has what a mediator leaves there; or the database cannot be
/// looked at.
pub async fn check_database(state_dir: &Path, url: &str, start_anew: bool) -> anyhow::Result<()> {
    let Some(witness) = witness(state_dir) else { return Ok(()) };
    let database = redact(url);
    if start_anew || Store::is_there(url).await.with_context(|| format!("cannot open the database {database}"))? {
        return Ok(());
    }
    bail!(
        "{} is there, so this state directory had a database, but {database} is empty or gone. Put the database back \
         (mount its disk, correct --database, restore a backup), or start anew with --new-database: Runs, nodes and \
         tokens begin empty then, and the Records stay where they are",
        witness.display()
    )
}

/// What a mediator that has served leaves in its state directory.
fn witness(state_dir: &Path) -> Option<PathBuf> {
    let records = state_dir.join("records");
    let has_records = std::fs::read_dir(&records).is_ok_and(|mut entries| entries.next().is_some());
    let token = state_dir.join("admin.token");
    has_records.then_some(records).or_else(|| token.exists().then_some(token))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_database_that_is_gone_is_missed() {
        let dir = tempfile::tempdir().unwrap();
        let url = format!("sqlite:{}", dir.path().join("mediator.db").display());
        check_database(dir.path(), &url, false).await.unwrap();
        assert!(!dir.path().join("mediator.db").exists(), "looking makes nothing");
        for witness in ["admin.token", "records/r1"] {
            std::fs::create_dir_all(dir.path().join("records")).unwrap();
            check_database(dir.path(), &url, false).await.unwrap();
            std::fs::write(dir.path().join(witness), "x").unwrap();
            for left in [None, Some("")] {
                // A file without anything in it is what a crash before the first start leaves.
                left.map(|text| std::fs::write(dir.path().join("mediator.db"), text).unwrap());
                let error = check_database(dir.path(), &url, false).await.unwrap_err().to_string();
                assert!(error.contains("--new-database") && error.contains("restore"), "{error}");
                check_database(dir.path(), &url, true).await.unwrap();
            }
            std::fs::remove_file(dir.path().join("mediator.db")).unwrap();
            std::fs::remove_file(dir.path().join(witness)).unwrap();
        }
        std::fs::write(dir.path().join("admin.token"), "x").unwrap();
        let store = Store::open(&url, crate::clock::Clock::system()).await.unwrap();
        check_database(dir.path(), &url, false).await.unwrap();
        drop(store);
    }

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
