//! Removing what is old: sealed Runs with their Records, their events, and files that belong to nobody.
//!
//! Nothing that is open or unsealed is touched. Each batch is a short transaction of its own, so that it may run
//! while mediators serve. Killed at any moment it leaves every Run whole or gone: [`repair`] says how.

use std::path::Path;

use shared::{Duration, RunId};

use crate::{
    error::Error,
    record::{Freed, Home, Removal},
    store::{Known, Store},
};

/// Runs in one transaction.
const BATCH: u32 = 64;

/// Nobody is at one file for longer.
const UPLOAD: Duration = Duration::from_secs(86_400);

/// What is to be removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct What {
    /// What ended, or has not changed, for as long.
    pub older_than: Duration,
    /// Nodes as well.
    pub nodes: bool,
    /// It is only counted.
    pub dry_run: bool,
}

/// What was removed, or would be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Removed {
    /// Runs with their steps, attempts, questions and lists of files.
    pub runs: u64,
    /// Events.
    pub events: u64,
    /// Nodes that have been gone for long.
    pub nodes: u64,
    /// Files of these Runs.
    pub records: Freed,
    /// Files that belonged to no Run.
    pub strays: Freed,
}

/// Removes it.
///
/// # Errors
/// Another process removes; the store or the directory of Records failed. What was removed until then is gone.
pub async fn gc(store: &Store, records_dir: &Path, what: What) -> Result<Removed, Error> {
    let What { older_than, nodes, dry_run } = what;
    let now = store.read().await?.now();
    let before = now - older_than;
    let Some(removal) = Removal::begin(records_dir)? else {
        return Err(Error::Overuse("another gc is at work".to_owned()));
    };
    repair(store, &removal).await?;
    let mut removed = Removed::default();
    let mut after = String::new();
    loop {
        let batch = store.old_runs(before, &after, BATCH).await?;
        let Some(last) = batch.last() else { break };
        after = last.to_string();
        if dry_run {
            removed.runs += batch.len() as u64;
            for run in &batch {
                removed.records += removal.size(run)?;
            }
            continue;
        }
        let deleted = take_away(store, &removal, &batch, before).await?;
        removed.runs += deleted;
        for run in &batch {
            removed.records += removal.remove(run)?;
        }
    }
    let mut behind = Some(0);
    while let Some(after) = behind {
        let (events, next) = store.old_events(before, after, !dry_run).await?;
        removed.events += events;
        behind = next;
    }
    if nodes {
        removed.nodes = store.forget_nodes(before, !dry_run).await?;
    }
    // Listed before the store is asked: a Run's row is there before its first file.
    let strays = removal.strays(before)?;
    for group in strays.chunks(BATCH as usize) {
        let ids: Vec<RunId> = group.iter().map(|stray| stray.run.clone()).collect();
        let known = store.known_runs(&ids).await?;
        for stray in group {
            match known.get(&stray.run) {
                Some(Known::Open | Known::Ended) => {}
                Some(Known::Sealed) if stray.home == Home::Record => {}
                Some(Known::Sealed) | None if dry_run => removed.strays += removal.stray_size(stray)?,
                Some(Known::Sealed) | None => removed.strays += removal.remove_stray(stray)?,
            }
        }
    }
    removed.strays += removal.half_written(before.min(now - UPLOAD), !dry_run)?;
    Ok(removed)
}

/// Files aside, then rows. When the rows stay, the files come back.
async fn take_away(store: &Store, removal: &Removal, batch: &[RunId], before: shared::Timestamp) -> Result<u64, Error> {
    for run in batch {
        removal.set_aside(run)?;
    }
    let deleted = store.delete_runs(batch, before).await;
    // A commit of which it is not known whether it lasted is looked at, like a crash.
    repair_some(store, removal, batch, false).await?;
    Ok(deleted?)
}

/// Makes good what a crash left between its renames and its commits: files that were set aside go back to a Run that
/// is still known as sealed, and go for good otherwise. Done by each gc, and by a mediator before it serves.
///
/// # Errors
/// The store or the directory of Records failed.
pub async fn repair(store: &Store, removal: &Removal) -> Result<(), Error> {
    let left = removal.left_over()?;
    for batch in left.chunks(BATCH as usize) {
        repair_some(store, removal, batch, true).await?;
    }
    Ok(())
}

async fn repair_some(store: &Store, removal: &Removal, batch: &[RunId], remove: bool) -> Result<(), Error> {
    let known = store.known_runs(batch).await?;
    for run in batch {
        match known.get(run) {
            Some(Known::Sealed) => removal.put_back(run)?,
            // Only what was sealed is set aside: this is a new Run with the same id.
            Some(Known::Open | Known::Ended) | None if remove => _ = removal.remove(run)?,
            Some(Known::Open | Known::Ended) | None => {}
        }
    }
    Ok(())
}

/// [`repair`] at a mediator's start. A gc that is at work makes good its own.
///
/// # Errors
/// The store or the directory of Records failed.
pub async fn repair_at_start(store: &Store, records_dir: &Path) -> Result<(), Error> {
    match Removal::begin(records_dir)? {
        Some(removal) => repair(store, &removal).await,
        None => Ok(()),
    }
}
