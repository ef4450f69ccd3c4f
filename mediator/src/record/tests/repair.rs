//! A crash between any two stages of sealing is repaired by sealing again.

use super::{
    super::{
        RecordError, Sealed,
        seal::{Stage, seal_group},
    },
    *,
};

const STAGES: [Stage; 8] = [
    Stage::Claimed,
    Stage::Logs,
    Stage::Blobs,
    Stage::Steps,
    Stage::Manifest,
    Stage::ReadOnly,
    Stage::Synced,
    Stage::Published,
];

/// Seals up to and with a stage.
fn crash_after(store: &RecordStore, input: &SealInput, last: Stage) {
    let mut reached = Vec::new();
    let answers = seal_group(&store.0, std::slice::from_ref(input), &mut |stage| {
        reached.push(stage);
        if stage == last { Err(RecordError::NotSealed(input.run.id.clone())) } else { Ok(()) }
    });
    assert!(matches!(answers[&input.run.id], Err(RecordError::NotSealed(_))));
    assert_eq!(reached, STAGES[..reached.len()]);
    assert_eq!(reached.last(), Some(&last));
}

/// Names, modes and contents; times differ.
fn content(root: &Path) -> Vec<(PathBuf, u32, Vec<u8>)> {
    let below = |path: PathBuf| path.strip_prefix(root).unwrap().to_owned();
    snapshot(root).into_iter().map(|(path, (mode, _, content))| (below(path), mode, content)).collect()
}

#[tokio::test]
async fn sealing_again_completes_what_a_crash_left() {
    let whole = Room::new();
    let input = whole.filled().await;
    whole.store.seal(input).await.unwrap();
    let wanted = content(&whole.record());
    for stage in STAGES {
        for restart in [false, true] {
            let mut room = Room::new();
            let input = room.filled().await;
            room.put(b"named by no artifact").await;
            crash_after(&room.store, &input, stage);
            if restart {
                room.reopen();
            }
            let context = format!("{stage:?}, restart: {restart}");
            assert_eq!(room.record().exists(), stage == Stage::Published, "{context}");
            let late = room.store.append_log(&room.run, 0, 1, 10, b"late".to_vec()).await.unwrap_err();
            assert!(matches!(late, RecordError::Sealed(_)), "{context}: {late}");
            assert_eq!(room.log(0, 1).await, b"first try\n", "{context}: readable in between");
            let report = room.store.read_small(&room.run, &input.artifacts[0].sha256, 100).await.unwrap();
            assert_eq!(report, b"<report/>", "{context}: readable in between");

            assert_eq!(room.store.seal(input).await.unwrap(), Sealed { truncated: false }, "{context}");
            assert!(content(&room.record()) == wanted, "{context}");
            let left: Vec<_> = fs::read_dir(room.dir.path().join("records")).unwrap().collect();
            assert_eq!(left.len(), 1, "{context}: nothing beside the Record");
        }
    }
}

#[tokio::test]
async fn two_crashes_in_a_row_are_repaired_too() {
    for first in STAGES {
        for second in STAGES {
            let mut room = Room::new();
            let input = room.filled().await;
            crash_after(&room.store, &input, first);
            room.reopen();
            if first != Stage::Published {
                crash_after(&room.store, &input, second);
                room.reopen();
            }
            room.store.seal(input).await.unwrap();
            assert!(room.store.verify(&room.run).await.unwrap().is_empty(), "{first:?}, {second:?}");
        }
    }
}

#[tokio::test]
async fn a_run_without_files_is_repaired_as_well() {
    for stage in STAGES {
        let mut room = Room::new();
        let input = cancelled(&room.run, &["a"]);
        crash_after(&room.store, &input, stage);
        room.reopen();
        room.store.seal(input).await.unwrap();
        assert!(room.store.verify(&room.run).await.unwrap().is_empty(), "{stage:?}");
    }
}
