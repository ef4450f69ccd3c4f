//! Blobs: whole or not at all.

use tokio::io::AsyncReadExt;

use super::{super::RecordError, *};

fn left_in_tmp(room: &Room) -> usize {
    fs::read_dir(room.dir.path().join("runs/.tmp/own")).unwrap().count()
}

#[tokio::test]
async fn what_was_written_is_read_back() {
    let room = Room::new();
    let bytes: Vec<u8> = (0..300_000u32).map(|n| n as u8).collect();
    let digest = room.put(&bytes).await;
    assert!(room.store.has_blob(&room.run, 300_000, &digest).await.unwrap());
    let mut blob = room.store.open_blob(&room.run, &digest).await.unwrap();
    let mut read = Vec::new();
    blob.file.read_to_end(&mut read).await.unwrap();
    assert_eq!((blob.size, read == bytes), (300_000, true));
    let path = room.dir.path().join(format!("runs/build-4711/blobs/{digest}"));
    assert_eq!(fs::metadata(path).unwrap().permissions().mode() & 0o777, 0o444);
    assert_eq!(left_in_tmp(&room), 0);
}

#[tokio::test]
async fn a_mismatch_of_hash_or_size_leaves_nothing() {
    let room = Room::new();
    for (size, digest) in [(3, Digest::of(b"other")), (4, Digest::of(b"abc"))] {
        let mut writer = room.store.blob_writer(&room.run).await.unwrap();
        writer.write(b"abc".to_vec()).await.unwrap();
        let refused = writer.ready(size, &digest).await.unwrap_err();
        assert!(matches!(refused, RecordError::Checksum { .. }), "{refused}");
        assert!(!room.store.has_blob(&room.run, size, &digest).await.unwrap());
        assert!(!room.store.has_blob(&room.run, 3, &Digest::of(b"abc")).await.unwrap());
    }
    assert_eq!(left_in_tmp(&room), 0);
}

#[tokio::test]
async fn a_file_over_the_limit_is_refused_while_it_comes() {
    let room = Room::with(Limits { blob_bytes: 5, ..Limits::default() });
    room.put(b"12345").await;
    let mut writer = room.store.blob_writer(&room.run).await.unwrap();
    writer.write(b"123".to_vec()).await.unwrap();
    let refused = writer.write(b"456".to_vec()).await.unwrap_err();
    assert!(matches!(refused, RecordError::TooLarge { limit: 5, .. }), "{refused}");
    assert_eq!(left_in_tmp(&room), 0);
    assert!(writer.write(b"4".to_vec()).await.is_err(), "a writer that failed does not go on");
}

#[tokio::test]
async fn a_writer_that_is_given_up_leaves_nothing_and_a_crash_is_tidied() {
    let mut room = Room::new();
    let mut writer = room.store.blob_writer(&room.run).await.unwrap();
    writer.write(b"half".to_vec()).await.unwrap();
    assert_eq!(left_in_tmp(&room), 1);
    drop(writer);
    assert_eq!(left_in_tmp(&room), 0);
    fs::write(room.dir.path().join("runs/.tmp/own/left-by-a-crash"), "half").unwrap();
    room.reopen();
    assert_eq!(left_in_tmp(&room), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn writers_of_the_same_file_do_not_disturb_each_other() {
    let room = Room::new();
    let bytes = vec![7; 200_000];
    let writers: Vec<_> = (0..8)
        .map(|_| {
            let (store, run, bytes) = (room.store.clone(), room.run.clone(), bytes.clone());
            tokio::spawn(async move { put(&store, &run, &bytes).await })
        })
        .collect();
    for writer in writers {
        let digest = writer.await.unwrap();
        let read = room.store.read_small(&room.run, &digest, 1 << 20).await.unwrap();
        assert!(read == bytes);
    }
    assert_eq!(left_in_tmp(&room), 0);
}

#[tokio::test]
async fn a_small_file_is_read_only_up_to_its_limit() {
    let room = Room::new();
    let digest = room.put(b"ship").await;
    assert_eq!(room.store.read_small(&room.run, &digest, 4).await.unwrap(), b"ship");
    let refused = room.store.read_small(&room.run, &digest, 3).await.unwrap_err();
    assert!(matches!(refused, RecordError::TooLarge { limit: 3, .. }), "{refused}");
    let unknown = room.store.read_small(&room.run, &Digest::of(b""), 3).await.unwrap_err();
    assert!(matches!(unknown, RecordError::NoBlob { .. }), "{unknown}");
}

#[test]
fn only_a_sha_256_is_a_digest() {
    let good = Digest::of(b"abc").to_string();
    assert_eq!(good, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    assert_eq!(good.to_uppercase().parse::<Digest>().unwrap(), Digest::of(b"abc"));
    let wide = "é".repeat(32);
    for bad in ["", "..", &good[1..], &format!("{good}0"), &good.replace('b', "/"), &good.replace('b', "g"), &wide] {
        assert!(bad.parse::<Digest>().is_err(), "{bad}");
    }
}
