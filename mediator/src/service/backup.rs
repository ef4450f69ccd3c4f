//! A copy of everything while mediators serve, and the first thing to do with a store that was restored.
//!
//! The database is copied first, files after it: every Record that the copy of the database speaks of is there, and
//! maybe more. [`recover`] puts those apart, and ends every lease: what agents did after the copy was made counts for
//! nothing, and they are told to stop it.

use std::path::Path;

use shared::RunId;

use crate::{
    error::Error,
    record::{Freed, Home, Removal},
    store::{Known, Store},
};

/// Runs asked for at once.
const BATCH: usize = 500;

/// What was copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Copied {
    /// The database, too. Otherwise it has tools of its own for that.
    pub database: bool,
    /// Files.
    pub files: Freed,
}

/// Copies the database, if it is an embedded one, and all files of Runs to a directory that is there and empty.
///
/// # Errors
/// Another process removes Runs; the store or a disk failed. The copy is of no use then.
pub async fn backup(store: &Store, records_dir: &Path, to: &Path) -> Result<Copied, Error> {
    let Some(removal) = Removal::begin(records_dir)? else { return Err(Error::Overuse("a gc is at work".to_owned())) };
    // Before the database is copied: a Run that is open in the copy has its files where an open Run has them.
    let still = removal.hold_still()?;
    let database = store.copy_to(&to.join("mediator.db")).await?;
    let files = removal.copy_all(to, &still)?;
    Ok(Copied { database, files })
}

/// What was done to a restored store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Recovered {
    /// Leases that were ended.
    pub leases: u64,
    /// Runs whose files were put apart.
    pub apart: u64,
}

/// Makes a restored store fit to serve.
///
/// # Errors
/// A mediator is at work; the store or a disk failed. It may be done again.
pub async fn recover(store: &Store, records_dir: &Path) -> Result<Recovered, Error> {
    if store.serving().await? > 0 {
        return Err(Error::Overuse("a mediator serves on this database; stop every one first".to_owned()));
    }
    let Some(removal) = Removal::begin(records_dir)? else { return Err(Error::Overuse("a gc is at work".to_owned())) };
    let mut apart = 0;
    for group in removal.all()?.chunks(BATCH) {
        let ids: Vec<RunId> = group.iter().map(|(run, _)| run.clone()).collect();
        let known = store.known_runs(&ids).await?;
        for (run, home) in group {
            match (known.get(run), home) {
                // A Record that was published and not noted yet is that of the end which the store knows.
                (Some(Known::Sealed), Home::Record) | (Some(Known::Ended), _) | (Some(Known::Open), Home::Open) => {
                    continue;
                }
                // Sealed after the dump of the database was made. Closed, it could not go on.
                (Some(Known::Open), Home::Record | Home::Sealing) => removal.open_again(run, *home)?,
                (Some(Known::Sealed), Home::Open | Home::Sealing) | (None, _) => removal.set_apart(run, *home)?,
            }
            apart += 1;
        }
    }
    let leases = store.end_leases().await?;
    Ok(Recovered { leases, apart })
}
