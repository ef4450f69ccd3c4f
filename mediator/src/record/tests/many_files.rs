//! 10,000 files of one Run with 256 file descriptors.

use std::process::Command;

use super::*;

const FILES: u32 = 10_000;

/// Starts the test below in a process of its own, because the limit holds for a whole process.
#[test]
fn ten_thousand_files_need_few_descriptors() {
    let inner = "record::tests::many_files::inner";
    let script = "ulimit -n 256 && exec \"$0\" --exact \"$1\" --ignored --nocapture";
    let output = Command::new("sh").args(["-c", script]).arg(std::env::current_exe().unwrap()).arg(inner).output();
    let output = output.unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("1 passed"), "{said}{}", String::from_utf8_lossy(&output.stderr));
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "is run by the test above"]
async fn inner() {
    // Syncs are not what is tested here: in memory, where the machine has such a place.
    let shm = Path::new("/dev/shm");
    let dir = if shm.is_dir() { tempfile::tempdir_in(shm) } else { tempfile::tempdir() }.unwrap();
    let room = Room { store: RecordStore::open(dir.path()).unwrap(), dir, run: RunId::new("wide").unwrap() };
    let mut input = input(&room.run, &["a"]);
    let writers: Vec<_> = (0..32)
        .map(|writer| {
            let (store, run) = (room.store.clone(), room.run.clone());
            tokio::spawn(async move {
                let mut files = Vec::new();
                for n in (writer..FILES).step_by(32) {
                    let digest = put(&store, &run, &n.to_le_bytes()).await;
                    files.push(artifact(0, &format!("out/{n}"), digest, 4));
                    store.append_log(&run, n % 500, 1, 0, b"a log each\n".to_vec()).await.unwrap();
                }
                files
            })
        })
        .collect();
    for writer in writers {
        input.artifacts.extend(writer.await.unwrap());
    }
    assert!(!room.store.seal(input).await.unwrap().truncated);
    assert_eq!(room.store.verify(&room.run).await.unwrap(), Vec::<String>::new());
    let (mut tar, mut size) = (room.store.tar(&room.run).await.unwrap(), 0);
    while let Some(chunk) = tar.next().await.unwrap() {
        size += chunk.len();
    }
    assert!(size > FILES as usize * 1024);
}
