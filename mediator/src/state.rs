//! What a mediator finds on disk and may use: its own state directory, and the directory of Records of its fleet.
//!
//! The state directory belongs to one mediator at a time.
//!
//! Logs, Records and an embedded database are one process's: a second one on the same directory would grant
//! nodes behind the first one's back. The lock goes with the process, however it ends.

use std::{
    fs::{DirBuilder, File, Permissions, TryLockError},
    io::{self, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
};

use anyhow::{Context, bail};

use crate::{
    clock,
    config::{Config, redact},
    file,
    store::Store,
};

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
    let failed =
        || format!("cannot use the state directory {}; another one is named with --state-dir", state_dir.display());
    make_private(state_dir).with_context(failed)?;
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

/// Makes a directory, and those above it, if it is not there. Only its owner may enter: permits and the hashes of
/// tokens are in there.
///
/// # Errors
/// The operating system's, but for a file in its place, which is called that.
pub fn make_private(dir: &Path) -> io::Result<()> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(dir);
    made.map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => io::Error::new(error.kind(), "it is not a directory, and something is there"),
        _ => error,
    })
}

/// Refuses to go on with an empty database where there was one before.
///
/// A fresh database under an old state directory is a mistake far more often than a wish: a disk that is not
/// mounted, a wrong URL, a backup that was not restored. Every Run, lease and token would be gone, silently.
///
/// # Errors
/// There is no database and the state directory has what a mediator leaves there; or the database cannot be
/// looked at.
pub async fn check_database(config: &Config, start_anew: bool) -> anyhow::Result<()> {
    missed(&config.state_dir, &config.records_dir, &config.database, start_anew).await
}

async fn missed(state_dir: &Path, records_dir: &Path, url: &str, start_anew: bool) -> anyhow::Result<()> {
    let Some(witness) = witness(state_dir, records_dir) else { return Ok(()) };
    let database = redact(url);
    if start_anew || Store::is_there(url).await.with_context(|| format!("cannot open the database {database}"))? {
        return Ok(());
    }
    bail!(
        "{} is there, so there was a database, but {database} is empty or gone. Put the database back (mount its disk, \
         correct --database, restore a backup), or start anew with --new-database: Runs, nodes and tokens begin empty \
         then, and the Records stay where they are",
        witness.display()
    )
}

/// What a mediator that has served leaves on disk.
fn witness(state_dir: &Path, records_dir: &Path) -> Option<PathBuf> {
    let records = records_dir.join("records");
    let has_records = std::fs::read_dir(&records).is_ok_and(|mut entries| entries.next().is_some());
    let token = state_dir.join("admin.token");
    has_records.then_some(records).or_else(|| token.exists().then_some(token))
}

/// The name of the mediator of this state directory among those that share a directory of Records. Drawn once.
///
/// # Errors
/// It cannot be read or written.
pub fn own_name(state_dir: &Path) -> anyhow::Result<String> {
    let path = state_dir.join("mediator.id");
    let failed = || format!("cannot use {}", path.display());
    let name = once(&path, &clock::random_word()).with_context(failed)?;
    // It becomes the name of a folder.
    if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        bail!("{} does not hold a mediator's name; delete the file, and another one is drawn", path.display());
    }
    Ok(name)
}

/// The file in the directory of Records that says of which fleet they are.
const MARKER: &str = "fleet-id";

/// Makes the directory of Records if it is not there, and sees to it that it is the one of this database: a mediator
/// that kept its Records apart would be asked in vain for those of the others.
///
/// # Errors
/// It is another fleet's, or a new one beside a database that has its Records elsewhere; it cannot be used.
pub async fn belongs_together(store: &Store, records_dir: &Path) -> anyhow::Result<()> {
    let failed = || format!("cannot use the directory of Records {}", records_dir.display());
    make_private(records_dir).with_context(failed)?;
    let path = records_dir.join(MARKER);
    let known = store.fleet_id().await.context("cannot ask the database which fleet it is of")?;
    if let (Some(known), false) = (&known, path.exists()) {
        bail!(
            "the directory {} is new, and this fleet has its logs and Records in another one: set records_dir to that \
             one, which all mediators of one database must see. If it is lost for good, write {known} to {} and start \
             again: the Records of earlier Runs will not be found",
            records_dir.display(),
            path.display()
        );
    }
    // The directory first: should we end in between, the next start finds its word and gives it to the database.
    let marked = once(&path, &clock::random_word()).with_context(failed)?;
    let known = store.bind_fleet_id(&marked).await.context("cannot note in the database which fleet it is of")?;
    if known == marked {
        return Ok(());
    }
    bail!(
        "the directory {} holds the logs and Records of fleet {marked}, and the database is of fleet {known}: set \
         records_dir to the directory that belongs to this database, or database to the one that belongs to it",
        records_dir.display()
    )
}

/// Makes an empty directory for a copy, with the word of the fleet in it.
///
/// # Errors
/// It is not empty, cannot be written, or lies in what is copied.
pub fn empty_copy(config: &Config, to: &Path) -> anyhow::Result<()> {
    let (records_dir, state_dir) = (&config.records_dir, &config.state_dir);
    let failed = || format!("cannot use {}", to.display());
    // By what they are, whatever they are called; of `to` some part may not be there yet.
    let real = std::path::absolute(to).with_context(failed)?;
    let real = real.ancestors().find_map(|part| part.canonicalize().ok()).unwrap_or(real);
    for dir in [records_dir, state_dir] {
        if dir.canonicalize().is_ok_and(|dir| real.starts_with(dir)) {
            bail!(
                "{} is in {}, which it is to be a copy of and would be lost with: name a directory elsewhere",
                to.display(),
                dir.display()
            );
        }
    }
    make_private(to).with_context(failed)?;
    if std::fs::read_dir(to).with_context(failed)?.next().is_some() {
        bail!("{} is not empty; name a directory that is, or that is not there yet", to.display());
    }
    std::fs::copy(records_dir.join(MARKER), to.join(MARKER)).with_context(failed)?;
    Ok(())
}

/// The first line of a file; the one given, where there is no file yet. Whoever comes at the same time reads the
/// same.
fn once(path: &Path, text: &str) -> io::Result<String> {
    let dir = path.parent().unwrap_or(path);
    let mut draft = tempfile::Builder::new().permissions(Permissions::from_mode(0o644)).tempfile_in(dir)?;
    writeln!(draft, "{text}")?;
    draft.as_file().sync_all()?;
    match draft.persist_noclobber(path) {
        Ok(_) => File::open(dir)?.sync_all()?,
        Err(error) if error.error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(error.error),
    }
    Ok(file::read_text(path, file::SMALL)?.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_database_that_is_gone_is_missed() {
        let dir = tempfile::tempdir().unwrap();
        let url = format!("sqlite:{}", dir.path().join("mediator.db").display());
        missed(dir.path(), dir.path(), &url, false).await.unwrap();
        assert!(!dir.path().join("mediator.db").exists(), "looking makes nothing");
        for witness in ["admin.token", "records/r1"] {
            std::fs::create_dir_all(dir.path().join("records")).unwrap();
            missed(dir.path(), dir.path(), &url, false).await.unwrap();
            std::fs::write(dir.path().join(witness), "x").unwrap();
            for left in [None, Some("")] {
                // A file without anything in it is what a crash before the first start leaves.
                if let Some(text) = left {
                    std::fs::write(dir.path().join("mediator.db"), text).unwrap();
                }
                let error = missed(dir.path(), dir.path(), &url, false).await.unwrap_err().to_string();
                assert!(error.contains("--new-database") && error.contains("restore"), "{error}");
                missed(dir.path(), dir.path(), &url, true).await.unwrap();
            }
            std::fs::remove_file(dir.path().join("mediator.db")).unwrap();
            std::fs::remove_file(dir.path().join(witness)).unwrap();
        }
        std::fs::write(dir.path().join("admin.token"), "x").unwrap();
        let store = Store::open(&url, crate::clock::Clock::system()).await.unwrap();
        missed(dir.path(), dir.path(), &url, false).await.unwrap();
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

    #[tokio::test]
    async fn a_directory_of_records_belongs_to_one_fleet() {
        let dir = tempfile::tempdir().unwrap();
        let store = |name: &str| {
            let url = format!("sqlite:{}", dir.path().join(name).display());
            async move { Store::open(&url, clock::Clock::system()).await.unwrap() }
        };
        let (one, two) = (store("one.db").await, store("two.db").await);
        let (first, second) = (dir.path().join("first"), dir.path().join("second"));
        belongs_together(&one, &first).await.unwrap();
        belongs_together(&one, &first).await.unwrap();
        let refused =
            async |store: &Store, dir: &Path| format!("{:#}", belongs_together(store, dir).await.unwrap_err());
        assert!(refused(&one, &second).await.contains("is new"));
        assert!(!second.join(MARKER).exists(), "what was refused is not marked");
        belongs_together(&two, &second).await.unwrap();
        assert!(refused(&two, &first).await.contains("of fleet"));
        // A start that ended between the two notes is made good by the next one.
        let three = store("three.db").await;
        std::fs::create_dir(dir.path().join("third")).unwrap();
        std::fs::write(dir.path().join("third").join(MARKER), "abc\n").unwrap();
        belongs_together(&three, &dir.path().join("third")).await.unwrap();
        assert_eq!(three.fleet_id().await.unwrap().as_deref(), Some("abc"));
    }

    #[test]
    fn a_file_in_the_place_of_a_state_directory_is_called_that() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("m.toml"), "x").unwrap();
        let error = format!("{:#}", claim(&dir.path().join("m.toml")).unwrap_err());
        assert!(
            error.contains("m.toml") && error.contains("not a directory") && error.contains("--state-dir"),
            "{error}"
        );
        assert!(!error.contains("exists"), "{error}");
    }

    #[test]
    fn a_mediator_keeps_its_name() {
        let dir = tempfile::tempdir().unwrap();
        let name = own_name(dir.path()).unwrap();
        assert_eq!(own_name(dir.path()).unwrap(), name);
        std::fs::write(dir.path().join("mediator.id"), "../up").unwrap();
        assert!(own_name(dir.path()).unwrap_err().to_string().contains("delete the file"));
    }
}
