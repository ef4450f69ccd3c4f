//! A full disk gives a clear error, leaves nothing half written, and loses nothing that is stored.

use std::process::Command;

use super::{super::RecordError, *};

/// A file system of one megabyte.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    /// None where this process may not mount; says so.
    fn mount() -> Option<Self> {
        let dir = tempfile::tempdir().unwrap();
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", "size=1m", "tmpfs"]).arg(dir.path()).output();
        if mounted.is_ok_and(|output| output.status.success()) {
            return Some(Self(dir));
        }
        skipped("mounting a small disk needs root");
        None
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let unmounted = Command::new("umount").arg(self.0.path()).status().unwrap();
        assert!(unmounted.success());
    }
}

#[expect(clippy::print_stderr, reason = "a test that was skipped must be seen")]
fn skipped(why: &str) {
    eprintln!("SKIPPED: {why}");
}

fn used(store: &RecordStore) -> Vec<PathBuf> {
    tree(&store.0.layout.tmp)
}

#[tokio::test]
async fn a_full_disk_refuses_clearly_and_loses_nothing() {
    let Some(disk) = SmallDisk::mount() else { return };
    let store = RecordStore::open(disk.0.path()).unwrap();
    let run = RunId::new("build-4711").unwrap();
    store.append_log(&run, 0, 1, 0, b"kept\n".to_vec()).await.unwrap();

    let mut writer = store.blob_writer(&run).await.unwrap();
    let error = loop {
        if let Err(error) = writer.write(vec![1; 100_000]).await {
            break error;
        }
    };
    assert!(matches!(error, RecordError::NoSpace { .. }), "{error}");
    assert_eq!(used(&store).len(), 1, "the half written file is gone");

    // Fill the disk with a log; what was acknowledged of it stays readable.
    let mut stored = 5;
    let error = loop {
        match store.append_log(&run, 0, 1, stored, vec![b'x'; 30_000]).await {
            Ok(now) => stored = now,
            Err(error) => break error,
        }
    };
    assert!(matches!(error, RecordError::NoSpace { .. }), "{error}");
    assert_eq!(store.read_log(&run, 0, 1, 0, usize::MAX).await.unwrap().len() as u64, stored);

    // Sealing waits for space, and goes on from where it stood.
    let filler = disk.0.path().join("filler");
    while fs::write(&filler, vec![0; fs::metadata(&filler).map_or(0, |it| it.len() as usize) + 4096]).is_ok() {}
    let input = input(&run, &["a"]);
    let error = store.seal(input.clone()).await.unwrap_err();
    assert!(matches!(error, RecordError::NoSpace { .. }), "{error}");
    fs::remove_file(&filler).unwrap();
    store.seal(input).await.unwrap();
    assert!(store.verify(&run).await.unwrap().is_empty());
    assert_eq!(store.read_log(&run, 0, 1, 0, usize::MAX).await.unwrap().len() as u64, stored);
}
