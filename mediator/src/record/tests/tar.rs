//! The Record as a tar: the same bytes every time, and tar agrees.

use std::process::Command;

use tokio::io::AsyncReadExt;

use super::*;

async fn bytes(room: &Room) -> Vec<u8> {
    let mut tar = room.store.tar(&room.run).await.unwrap();
    let mut bytes = Vec::new();
    while let Some(chunk) = tar.next().await.unwrap() {
        assert!(chunk.len() <= 256 * 1024, "memory is bounded");
        bytes.extend(chunk);
    }
    bytes
}

/// Runs the real tar on an archive.
fn tar(args: &[&str], archive: &[u8], within: &Path) -> String {
    let file = within.join("record.tar");
    fs::write(&file, archive).unwrap();
    let output = Command::new("tar").args(args).arg("-f").arg(&file).current_dir(within).env("TZ", "UTC").output();
    let output = output.unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    String::from_utf8(output.stdout).unwrap()
}

#[tokio::test]
async fn a_tar_is_reproducible_and_tar_reads_it() {
    let mut room = Room::new();
    let mut input = room.filled().await;
    let big: Vec<u8> = (0..1_000_003u32).map(|n| (n / 7) as u8).collect();
    let (big_hash, empty) = (room.put(&big).await, room.put(b"").await);
    input.artifacts.extend([artifact(0, "big", big_hash, 1_000_003), artifact(0, "empty", empty, 0)]);
    room.store.seal(input.clone()).await.unwrap();

    let once = bytes(&room).await;
    room.reopen();
    assert!(bytes(&room).await == once, "two calls, the same bytes");
    let other = Room::new();
    let mut same = other.filled().await;
    other.put(b"").await;
    other.put(&big).await;
    same.artifacts = input.artifacts;
    other.store.seal(same).await.unwrap();
    assert!(bytes(&other).await == once, "the same Run elsewhere, the same bytes");
    let mut read = Vec::new();
    std::pin::pin!(room.store.tar(&room.run).await.unwrap().into_reader()).read_to_end(&mut read).await.unwrap();
    assert!(read == once, "a reader sees the same bytes");

    let out = tempfile::tempdir().unwrap();
    let listed = tar(&["-t", "--numeric-owner", "-v"], &once, out.path());
    let lines: Vec<&str> = listed.lines().collect();
    assert_eq!(lines.len(), 9);
    for line in &lines {
        assert!(line.starts_with("-r--r--r-- 0/0 "), "{line}");
        assert!(line.contains(" 2023-11-14 22:13 build-4711/"), "{line}");
    }
    let listed = tar(&["-t"], &once, out.path());
    assert!(listed.lines().is_sorted(), "{listed}");

    tar(&["-x"], &once, out.path());
    let content = |root: &Path| {
        let files = tree(root).into_iter().filter(|path| path.is_file());
        files.map(|path| (path.strip_prefix(root).unwrap().to_owned(), fs::read(&path).unwrap())).collect::<Vec<_>>()
    };
    assert!(content(&out.path().join("build-4711")) == content(&room.record()));
}

#[tokio::test]
async fn long_names_come_through() {
    let mut room = Room::new();
    room.run = RunId::new(&"r".repeat(128)).unwrap();
    // Around the 100 bytes that the last part of a ustar name may have, and the longest there is.
    let names: Vec<String> = [91, 92, 93, 128].iter().map(|len| "s".repeat(*len)).collect();
    let steps: Vec<&str> = names.iter().map(String::as_str).collect();
    room.store.append_log(&room.run, 3, 1, 0, b"long\n".to_vec()).await.unwrap();
    room.store.seal(input(&room.run, &steps)).await.unwrap();
    let archive = bytes(&room).await;
    let out = tempfile::tempdir().unwrap();
    let listed = tar(&["-t"], &archive, out.path());
    let mut wanted: Vec<String> =
        names.iter().enumerate().map(|(seq, name)| format!("{}/steps/{seq:02}-{name}.json", room.run)).collect();
    wanted.extend([format!("{}/logs/03-{}.1.log", room.run, names[3]), format!("{}/manifest.json", room.run)]);
    wanted.sort();
    assert_eq!(listed.lines().collect::<Vec<_>>(), wanted);
    // The tar library agrees with the tar program.
    let mut read = ::tar::Archive::new(&*archive);
    let read: Vec<String> =
        read.entries().unwrap().map(|entry| entry.unwrap().path().unwrap().to_str().unwrap().to_owned()).collect();
    assert_eq!(read, wanted);
}

#[tokio::test]
async fn a_damaged_record_is_not_streamed_as_if_it_were_whole() {
    let room = Room::new();
    room.filled().await;
    room.store.seal(input(&room.run, &["test", "judge"])).await.unwrap();
    let log = room.record().join("logs/00-test.1.log");
    fs::set_permissions(&log, fs::Permissions::from_mode(0o644)).unwrap();
    fs::write(&log, "shorter").unwrap();
    let mut tar = room.store.tar(&room.run).await.unwrap();
    let error = loop {
        match tar.next().await {
            Ok(Some(_)) => {}
            Ok(None) => panic!("the tar came to an end"),
            Err(error) => break error,
        }
    };
    assert!(error.to_string().contains("00-test.1.log has 7 bytes instead of 10"), "{error}");
}
