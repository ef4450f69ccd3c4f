//! A copy of the files while others seal.

use super::{
    super::{RecordError, Removal},
    *,
};

#[tokio::test]
async fn nothing_is_sealed_while_files_are_copied() {
    let room = Room::new();
    let input = room.filled().await;
    let removal = Removal::begin(room.dir.path()).unwrap().unwrap();
    let still = removal.hold_still().unwrap();
    let refused = room.store.seal(input.clone()).await.unwrap_err();
    assert!(matches!(refused, RecordError::NoTurnToSeal(_)), "{refused}");
    let copy = tempfile::tempdir().unwrap();
    removal.copy_all(copy.path(), &still).unwrap();
    assert!(copy.path().join("runs/build-4711/logs/0.1").exists());
    drop(still);
    room.store.seal(input).await.unwrap();
}

/// Each Run is in the copy once, and whole.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copy_taken_while_runs_are_sealed_misses_and_tears_none() {
    const RUNS: usize = 60;
    let room = Room::new();
    let mut inputs = Vec::new();
    for n in 0..RUNS {
        let run = RunId::new(&format!("run-{n}")).unwrap();
        for seq in 0..4 {
            room.store.append_log(&run, seq, 1, 0, b"log".to_vec()).await.unwrap();
        }
        inputs.push(input(&run, &["a", "b", "c", "d"]));
    }
    let store = room.store.clone();
    let sealing = tokio::spawn(async move {
        for input in inputs {
            while let Err(error) = store.seal(input.clone()).await {
                assert!(matches!(error, RecordError::NoTurnToSeal(_)), "{error}");
                tokio::task::yield_now().await;
            }
        }
    });
    let mut last = false;
    while !last {
        last = sealing.is_finished();
        let copy = tempfile::tempdir().unwrap();
        let removal = Removal::begin(room.dir.path()).unwrap().unwrap();
        removal.copy_all(copy.path(), &removal.hold_still().unwrap()).unwrap();
        for n in 0..RUNS {
            let homes = ["runs", "records"].map(|dir| copy.path().join(dir).join(format!("run-{n}")));
            let there: Vec<&PathBuf> = homes.iter().filter(|home| home.exists()).collect();
            assert_eq!(there.len(), 1, "run-{n}: {there:?}");
            assert_eq!(fs::read_dir(there[0].join("logs")).unwrap().count(), 4, "{there:?}");
        }
        for dir in folders(copy.path()) {
            fs::set_permissions(dir, fs::Permissions::from_mode(0o755)).unwrap();
        }
    }
    sealing.await.unwrap();
}
