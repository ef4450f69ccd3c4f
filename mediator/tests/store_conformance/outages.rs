//! A database that cannot be used is said to be so, and soon.

use std::{process::Command, time::Duration};

use mediator::{
    clock::Clock,
    store::{ErrorKind, Outage, Store, StoreError},
};
use shared::domain::{Changes, Fleet};

use crate::{
    round_trips::{node, write_all},
    support::{Bed, START},
};

/// Fails if it takes long.
async fn soon<T>(work: impl Future<Output = Result<T, StoreError>>) -> StoreError {
    let result = tokio::time::timeout(Duration::from_secs(20), work).await.unwrap();
    result.err().unwrap()
}

async fn open(url: &str) -> Result<Store, StoreError> {
    Store::open(url, Clock::manual(START)).await
}

fn outage(error: &StoreError) -> Outage {
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    match error {
        StoreError::Unavailable { outage, .. } => *outage,
        other => panic!("{other}"),
    }
}

#[tokio::test]
async fn urls() {
    for bad in ["", "mediator.db", "sqlite:", "mysql://x", "postgres://[", "postgres://u:secret@h:x/d"] {
        let error = soon(open(bad)).await;
        assert_eq!(error.kind(), ErrorKind::Config, "{bad}: {error}");
        assert!(!error.to_string().contains("secret"), "{error}");
    }
}

#[tokio::test]
async fn sqlite_folder_is_missing() {
    let error = soon(open("sqlite:/nonexistent/mediator.db")).await;
    assert_eq!(error.kind(), ErrorKind::Config);
    assert!(error.to_string().contains("no folder /nonexistent"), "{error}");
}

#[tokio::test]
async fn sqlite_file_is_something_else() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("mediator.db");
    std::fs::write(&path, "a diary, not a database, and longer than its header would be ".repeat(20)).unwrap();
    let before = std::fs::read(&path).unwrap();
    let error = soon(open(&format!("sqlite:{}", path.display()))).await;
    assert_eq!(outage(&error), Outage::Disk, "{error}");
    assert_eq!(std::fs::read(&path).unwrap(), before);
}

/// Writing on into a deleted file would lose everything without a word.
#[tokio::test]
async fn sqlite_file_is_taken_away() {
    let bed = Bed::sqlite().await;
    let path = bed.url.strip_prefix("sqlite:").unwrap().to_owned();
    let aside = format!("{path}.aside");
    std::fs::rename(&path, &aside).unwrap();
    assert_eq!(outage(&soon(bed.store.begin_fleet()).await), Outage::Gone);
    assert_eq!(outage(&soon(bed.store.read()).await), Outage::Gone);
    assert_eq!(outage(&soon(bed.store.unsealed()).await), Outage::Gone);
    std::fs::write(&path, "").unwrap();
    assert_eq!(outage(&soon(bed.store.begin_fleet()).await), Outage::Gone, "another file is not it");
    std::fs::rename(&aside, &path).unwrap();
    write_all(&bed, &mut Fleet::default()).await;
}

/// A file system of four megabytes.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    /// None where this process may not mount; says so.
    fn mount() -> Option<Self> {
        let dir = tempfile::tempdir().unwrap();
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", "size=4m", "tmpfs"]).arg(dir.path()).output();
        if mounted.is_ok_and(|output| output.status.success()) {
            return Some(Self(dir));
        }
        skipped("mounting a small disk needs root");
        None
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        assert!(Command::new("umount").arg("--lazy").arg(self.0.path()).status().unwrap().success());
    }
}

#[expect(clippy::print_stderr, reason = "a test that was skipped must be seen")]
fn skipped(why: &str) {
    eprintln!("SKIPPED: {why}");
}

#[tokio::test]
async fn sqlite_disk_is_full() {
    let Some(disk) = SmallDisk::mount() else { return };
    let store = open(&format!("sqlite:{}", disk.0.path().join("mediator.db").display())).await.unwrap();
    let mut fleet = Fleet::default();
    fleet.load_node(node("first"));
    let write = async |fleet: &Fleet, ids: &[&str]| {
        let changes = Changes { nodes: ids.iter().map(|id| id.parse().unwrap()).collect(), ..Changes::default() };
        let mut tx = store.begin_fleet().await.unwrap();
        tx.write(fleet, &changes).await?;
        tx.commit().await
    };
    write(&fleet, &["first"]).await.unwrap();
    let mut row = node("big");
    row.label = "x".repeat(10 << 20);
    fleet.load_node(row);
    assert_eq!(outage(&write(&fleet, &["big"]).await.unwrap_err()), Outage::Full);
    // What was stored is there, and there is room for what is small.
    fleet.load_node(node("second"));
    write(&fleet, &["second"]).await.unwrap();
    let nodes = store.read().await.unwrap().nodes().await.unwrap();
    assert_eq!(nodes.iter().map(|it| it.id.as_str()).collect::<Vec<_>>(), ["first", "second"]);
}

#[tokio::test]
async fn sqlite_file_is_for_its_owner_only() {
    use std::os::unix::fs::PermissionsExt;
    let bed = Bed::sqlite().await;
    write_all(&bed, &mut Fleet::default()).await;
    let path = bed.url.strip_prefix("sqlite:").unwrap();
    for path in [path.to_owned(), format!("{path}-wal")] {
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600, "{path}");
    }
}

#[tokio::test]
async fn postgres_is_not_there() {
    // A port that was free a moment ago.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let error = soon(open(&format!("postgres://postgres@127.0.0.1:{port}/postgres"))).await;
    assert_eq!(outage(&error), Outage::Lost, "{error}");
}

#[tokio::test]
async fn postgres_has_no_such_database() {
    let bed = Bed::postgres().await;
    let error = soon(open(&bed.url.replace("postgres:///", "postgres:///nobodys_"))).await;
    assert_eq!(outage(&error), Outage::Gone, "{error}");
}

/// The server ends every connection, as it does when it restarts.
#[tokio::test]
async fn postgres_connections_break() {
    let bed = Bed::postgres().await;
    write_all(&bed, &mut Fleet::default()).await;
    let mut tx = bed.store.begin_fleet().await.unwrap();
    // Of this database only: other tests share the server.
    bed.sql(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
         WHERE application_name = 'mediator' AND datname = current_database()",
    )
    .await;
    let changes = Changes { fleet: true, ..Changes::default() };
    let error = soon(async { tx.write(&Fleet::default(), &changes).await }).await;
    assert_eq!(outage(&error), Outage::Lost, "{error}");
    drop(tx);
    // The next transactions find new connections, at the latest after each old one was tried once.
    let again = async {
        while bed.store.begin_fleet().await.is_err() || bed.store.read().await.is_err() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), again).await.unwrap();
    write_all(&bed, &mut Fleet::default()).await;
}

/// Whoever listens is told that something may have been missed, however the line was cut and however long it was.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_line_that_was_cut_is_told_of_when_it_is_there_again() {
    use mediator::store::Heard;
    let server = std::sync::Arc::new(tests::postgres::Server::start().unwrap());
    let database = tests::postgres::Database::on(&server).unwrap();
    let store = open(&database.url()).await.unwrap();
    let mut line = store.listen().await.unwrap().unwrap();
    for away in [0, 3] {
        server.pause();
        // As the relay does: what waits is dropped now and then.
        let end = tokio::time::Instant::now() + Duration::from_secs(away);
        while tokio::time::Instant::now() < end {
            let heard = tokio::time::timeout(Duration::from_millis(400), line.next()).await;
            assert!(heard.is_err(), "nothing is heard without a server: {heard:?}");
        }
        server.resume().unwrap();
        let heard = async {
            loop {
                if let Ok(heard) = tokio::time::timeout(Duration::from_secs(2), line.next()).await {
                    return heard;
                }
            }
        };
        let heard = tokio::time::timeout(Duration::from_secs(20), heard).await;
        assert_eq!(heard.unwrap(), Heard::Gap, "after {away} s");
    }
    drop((line, store, database));
}
