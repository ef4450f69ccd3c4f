//! A database that cannot be used is said to be so, and soon.

use std::time::Duration;

use mediator::{
    clock::Clock,
    store::{ErrorKind, Outage, Store, StoreError},
};
use shared::domain::Fleet;

use crate::{
    round_trips::write_all,
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
    assert_eq!(outage(&error), Outage::Gone);
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
    bed.sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'mediator'").await;
    let changes = shared::domain::Changes { fleet: true, ..Default::default() };
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
