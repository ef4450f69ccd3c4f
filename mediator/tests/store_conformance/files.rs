//! Rows and files together: what gc, backup and recover make of both.

use std::{
    fs,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use mediator::{
    record::{RecordStore, Removal},
    service::{backup, gc},
};
use shared::{RunId, domain::Fleet};

use crate::support::Bed;

on_both_engines!(
    an_old_record_is_not_given_to_a_new_run,
    a_record_in_its_place_stays_and_blocks_nothing,
    what_a_sealing_left_goes_when_its_record_is_there,
    recover_opens_again_what_the_database_has_open,
    nodes_are_forgotten_that_nothing_open_needs,
);

/// A Run's row: waiting, ended, or sealed.
async fn row(bed: &Bed, run: &str, state: &str) {
    let (word, ended, sealed) = match state {
        "open" => ("QUEUED", "NULL", "NULL"),
        "ended" => ("SUCCEEDED", "1", "NULL"),
        _ => ("SUCCEEDED", "1", "1"),
    };
    bed.sql(&format!(
        "INSERT INTO runs (run_id, rev, state, principal, contract_hash, shape, place, created_at, ended_at, sealed_at, \
         contract) VALUES ('{run}', 1, '{word}', 'ada', 'h', 's', 1, 1, {ended}, {sealed}, '{{}}')"
    ))
    .await;
}

fn id(run: &str) -> RunId {
    RunId::new(run).unwrap()
}

/// A folder with one file, whose text is the folder's name.
fn folder(dir: &Path, name: &str) -> PathBuf {
    let path = dir.join(name);
    fs::create_dir_all(path.join("blobs")).unwrap();
    fs::write(path.join("blobs/0"), name).unwrap();
    path
}

fn text(path: &Path) -> String {
    fs::read_to_string(path.join("blobs/0")).unwrap_or_default()
}

/// Killed after its commit, before it removed the files; then the id was used again.
async fn an_old_record_is_not_given_to_a_new_run(bed: Bed) {
    let dir = tempfile::tempdir().unwrap();
    for state in ["open", "ended", "sealed"] {
        row(&bed, state, state).await;
        folder(dir.path(), &format!("removing/{state}"));
    }
    folder(dir.path(), "removing/gone");
    gc::repair_at_start(&bed.store, dir.path()).await.unwrap();
    for state in ["open", "ended", "gone"] {
        assert!(!dir.path().join("records").join(state).exists(), "{state}");
        assert!(!dir.path().join("removing").join(state).exists(), "{state}");
    }
    assert_eq!(text(&dir.path().join("records/sealed")), "removing/sealed");
    let records = RecordStore::open(dir.path()).unwrap();
    records.append_log(&id("open"), 0, 1, 0, b"of the new Run".to_vec()).await.unwrap();
}

async fn a_record_in_its_place_stays_and_blocks_nothing(bed: Bed) {
    let dir = tempfile::tempdir().unwrap();
    row(&bed, "again", "sealed").await;
    folder(dir.path(), "removing/again");
    folder(dir.path(), "records/again");
    gc::repair_at_start(&bed.store, dir.path()).await.unwrap();
    assert_eq!(text(&dir.path().join("records/again")), "records/again");
    assert!(!dir.path().join("removing/again").exists());
}

async fn what_a_sealing_left_goes_when_its_record_is_there(bed: Bed) {
    let dir = tempfile::tempdir().unwrap();
    let past = SystemTime::UNIX_EPOCH + Duration::from_secs(1);
    for (run, state) in [("sealed", "sealed"), ("ended", "ended")] {
        row(&bed, run, state).await;
        bed.sql(&format!("UPDATE runs SET ended_at = 9000000000000 WHERE run_id = '{run}' AND ended_at IS NOT NULL"))
            .await;
        for name in [format!("records/.{run}.sealing"), format!("records/{run}")] {
            fs::File::open(folder(dir.path(), &name)).unwrap().set_modified(past).unwrap();
        }
    }
    let what = gc::What { older_than: shared::Duration::from_secs(60), nodes: false, dry_run: false };
    let removed = gc::gc(&bed.store, dir.path(), what).await.unwrap();
    assert_eq!((removed.runs, removed.strays.files), (0, 1));
    assert!(!dir.path().join("records/.sealed.sealing").exists());
    for stays in ["records/sealed", "records/ended", "records/.ended.sealing"] {
        assert!(dir.path().join(stays).exists(), "{stays}");
    }
}

async fn recover_opens_again_what_the_database_has_open(bed: Bed) {
    let dir = tempfile::tempdir().unwrap();
    for (run, state) in [("open1", "open"), ("open2", "open"), ("ended", "ended"), ("sealed", "sealed")] {
        row(&bed, run, state).await;
    }
    for name in [".open1.sealing", "open2", ".ended.sealing", "sealed", ".unknown1.sealing", "unknown2"] {
        folder(dir.path(), &format!("records/{name}"));
    }
    let done = backup::recover(&bed.store, dir.path()).await.unwrap();
    assert_eq!(done.apart, 4);
    let records = RecordStore::open(dir.path()).unwrap();
    for (run, left) in [("open1", "records/.open1.sealing"), ("open2", "records/open2")] {
        records.append_log(&id(run), 0, 1, 0, b"it goes on".to_vec()).await.unwrap();
        assert_eq!(text(&dir.path().join("runs").join(run)), left, "what its steps left is still there");
    }
    for stays in ["records/.ended.sealing", "records/sealed"] {
        assert!(dir.path().join(stays).exists(), "{stays}");
    }
    for apart in ["open1.sealing.1", "open2.record.1", "unknown1.sealing.1", "unknown2.record.1"] {
        assert!(dir.path().join("after-backup").join(apart).exists(), "{apart}");
    }
    let again = backup::recover(&bed.store, dir.path()).await.unwrap();
    assert_eq!(again.apart, 0);
    assert!(Removal::begin(dir.path()).unwrap().is_some());
}

async fn nodes_are_forgotten_that_nothing_open_needs(bed: Bed) {
    let dir = tempfile::tempdir().unwrap();
    for (node, at) in
        [("gone", 1), ("here", 9_000_000_000_000_i64), ("leased", 1), ("at_work", 1), ("given", 1), ("kept", 1)]
    {
        bed.sql(&format!(
            "INSERT INTO nodes (node_id, rev, instance, advert_no, capabilities_hash, principal, seen_at, expires_at, \
             capabilities) VALUES ('{node}', 1, 'i', 1, 'h', 'ada', {at}, {at}, '[]')"
        ))
        .await;
    }
    row(&bed, "open", "open").await;
    row(&bed, "over", "sealed").await;
    for (run, node) in [("open", "at_work"), ("over", "gone")] {
        let insert = "INSERT INTO steps (run_id, seq, name, kind, state, node_id) VALUES";
        bed.sql(&format!("{insert} ('{run}', 0, 's', 'run', 'CLAIMED', '{node}')")).await;
    }
    bed.sql("INSERT INTO leases (node_id, run_id, not_after, nonce, granted_at) VALUES ('leased', 'open', 1, '00', 1)")
        .await;
    bed.sql("UPDATE runs SET assigned = '[{\"as\":\"a\",\"node\":\"given\"}]' WHERE run_id = 'open'").await;
    bed.sql("UPDATE runs SET assigned = '[{\"as\":\"a\",\"node\":\"gone\"}]' WHERE run_id = 'over'").await;
    bed.sql("UPDATE fleet SET rev = 1, reservation = '{\"run\":\"open\",\"place\":1,\"nodes\":[\"kept\"]}'").await;
    let mut fleet = Fleet::default();
    let mut tx = bed.store.begin_fleet().await.unwrap();
    tx.sync(&mut fleet).await.unwrap();
    drop(tx);
    let known = |fleet: &Fleet| fleet.nodes().map(|node| node.id.to_string()).collect::<Vec<_>>();
    assert_eq!(known(&fleet), ["at_work", "given", "gone", "here", "kept", "leased"]);
    let what = |nodes, dry_run| gc::What { older_than: shared::Duration::from_secs(30 * 86_400), nodes, dry_run };
    for (nodes, dry_run, removed) in [(false, false, 0), (true, true, 1), (true, false, 1), (true, false, 0)] {
        let done = gc::gc(&bed.store, dir.path(), what(nodes, dry_run)).await.unwrap();
        assert_eq!(done.nodes, removed, "{nodes} {dry_run}");
    }
    // A mediator that had it in memory forgets it, too.
    let mut tx = bed.store.begin_fleet().await.unwrap();
    tx.sync(&mut fleet).await.unwrap();
    drop(tx);
    assert_eq!(known(&fleet), ["at_work", "given", "here", "kept", "leased"]);
}
