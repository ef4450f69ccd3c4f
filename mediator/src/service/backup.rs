//! A copy of everything while mediators serve, and the first thing to do with a store that was restored.
//!
//! The database is copied first, files after it: every Record that the copy of the database speaks of is there, and
//! maybe more. [`recover`] puts those apart, and ends every lease: what agents did after the copy was made counts for
//! nothing, and they are told to stop it. Logs of attempts that the database does not know go the same way: a later
//! attempt of the same number would take them for its own beginning.

use std::{collections::BTreeSet, path::Path};

use shared::{RunId, Seq, domain::Run};

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
    /// Runs of which files were put apart.
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
        let ids = ids.into_iter().collect();
        let mut whole = store.read().await?.whole_runs(&ids).await?;
        for (run, home) in group {
            match (known.get(run), home) {
                // A Record that was published and not noted yet is that of the end which the store knows.
                (Some(Known::Sealed), Home::Record) | (Some(Known::Ended), Home::Record) => continue,
                (Some(Known::Open | Known::Ended), Home::Open) | (Some(Known::Ended), Home::Sealing) => {
                    // One that cannot be read goes on only when somebody has mended it.
                    let Some(Ok(whole)) = whole.remove(run) else { continue };
                    if removal.set_logs_apart(run, *home, &attempts(&whole.run))? == 0 {
                        continue;
                    }
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

/// Every attempt that a Run has had.
fn attempts(run: &Run) -> BTreeSet<(Seq, u32)> {
    run.steps.iter().flat_map(|step| step.attempts.iter().map(|it| (step.seq, it.number))).collect()
}

#[cfg(test)]
mod tests {
    use shared::domain::{Claim, Policy, Reap, Rescan};

    use super::*;
    use crate::{
        record::RecordStore,
        service::bench::{Bench, one_step, speaker},
    };

    #[tokio::test]
    async fn what_was_under_way_is_lost_and_breaks_no_rule_before() {
        let mut bench = Bench::new().await;
        bench.advert("n1", "build", Policy::default()).await;
        bench.submit("r", &one_step("build")).await;
        let before = bench.claim("n1").await;
        assert_eq!(recover(&bench.services.store, bench.dir()).await.unwrap().leases, 1);
        // The real writer knows nothing yet, as after a start, and checks every rule after every command. The agent may
        // well come before the reaper.
        let writer = &bench.services.writer;
        writer.apply(Rescan::Startup).await.unwrap();
        let claimed = writer.apply(Claim { who: speaker("n1") }).await.unwrap();
        assert!(claimed.is_none_or(|it| it.nonce != before.nonce), "no step is given out under the old permit");
        assert_eq!(writer.apply(Reap).await.unwrap(), 1);
        let run = before.run.clone();
        let known = bench.services.store.known_runs(std::slice::from_ref(&run)).await.unwrap();
        assert_eq!(known.get(&run), Some(&Known::Ended));
    }

    #[tokio::test]
    async fn a_log_that_was_written_after_the_backup_is_no_beginning_of_one_that_comes() {
        let mut bench = Bench::new().await;
        bench.advert("n1", "build", Policy::default()).await;
        bench.submit("r", &one_step("build")).await;
        let step = bench.claim("n1").await;
        let run = &step.run;
        // The second attempt is of a time that the database does not know.
        for (attempt, text) in [(1, "first"), (2, "of another time")] {
            bench.services.records.append_log(run, 0, attempt, 0, text.into()).await.unwrap();
        }
        let recovered = recover(&bench.services.store, bench.dir()).await.unwrap();
        assert_eq!(recovered, Recovered { leases: 1, apart: 1 });
        let again = recover(&bench.services.store, bench.dir()).await.unwrap();
        assert_eq!(again.apart, 0, "done once");
        let records = RecordStore::open(bench.dir()).unwrap();
        records.append_log(run, 0, 2, 0, b"anew".to_vec()).await.unwrap();
        for (attempt, text) in [(1, "first"), (2, "anew")] {
            assert_eq!(records.read_log(run, 0, attempt, 0, 100).await.unwrap(), text.as_bytes());
        }
        let apart = std::fs::read_dir(bench.dir().join("after-backup")).unwrap().next().unwrap().unwrap();
        assert_eq!(apart.file_name(), "r.log.0.2.1");
        assert!(std::fs::read_to_string(apart.path()).unwrap().contains("of another time"));
    }
}
