//! Logs: resends, gaps, the limit, followers, crowds.

use proptest::prelude::*;

use super::{
    super::{RecordError, log::LogCache},
    *,
};

fn small(log_bytes: u64) -> Limits {
    Limits { log_bytes, ..Limits::default() }
}

fn block_on<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(work)
}

#[tokio::test]
async fn bytes_that_are_stored_are_skipped() {
    let room = Room::new();
    let append = |offset, bytes: &str| room.store.append_log(&room.run, 3, 2, offset, bytes.as_bytes().to_vec());
    assert_eq!(append(0, "hello ").await.unwrap(), 6);
    assert_eq!(append(0, "hello ").await.unwrap(), 6);
    assert_eq!(append(2, "llo world").await.unwrap(), 11);
    assert_eq!(append(4, "").await.unwrap(), 11);
    assert_eq!(room.log(3, 2).await, b"hello world");
    assert_eq!(room.log(3, 1).await, b"", "each attempt has a log of its own");
}

#[tokio::test]
async fn a_gap_is_refused_and_tells_where_to_continue() {
    let mut room = Room::new();
    room.store.append_log(&room.run, 0, 1, 0, b"abc".to_vec()).await.unwrap();
    for _ in 0..2 {
        let refused = room.store.append_log(&room.run, 0, 1, 4, b"e".to_vec()).await.unwrap_err();
        assert!(matches!(refused, RecordError::Gap { offset: 4, stored: 3 }), "{refused}");
        room.reopen();
    }
    assert_eq!(room.log(0, 1).await, b"abc");
}

#[tokio::test]
async fn beyond_the_limit_bytes_are_counted_and_the_last_line_says_so() {
    let mut room = Room::with(small(10));
    let cut = "0123456789\n… truncated: log limit of 10 bytes reached\n";
    assert_eq!(room.store.append_log(&room.run, 0, 1, 0, b"01234567".to_vec()).await.unwrap(), 8);
    assert_eq!(room.store.append_log(&room.run, 0, 1, 8, b"89".to_vec()).await.unwrap(), 10);
    assert_eq!(room.log(0, 1).await, b"0123456789", "exactly full is not cut");
    assert_eq!(room.store.append_log(&room.run, 0, 1, 8, b"89abc".to_vec()).await.unwrap(), 13);
    assert_eq!(room.store.append_log(&room.run, 0, 1, 13, b"def".to_vec()).await.unwrap(), 16);
    assert_eq!(room.log(0, 1).await, cut.as_bytes());

    // A sender whose count the restarted mediator does not know is not held up by a gap.
    room.reopen();
    assert_eq!(room.store.append_log(&room.run, 0, 1, 16, b"ghi".to_vec()).await.unwrap(), 19);
    assert_eq!(room.log(0, 1).await, cut.as_bytes());

    // Another limit after a restart does not open the log again.
    room.store = RecordStore::with_limits(room.dir.path(), small(1_000)).unwrap();
    assert_eq!(room.store.append_log(&room.run, 0, 1, 19, b"jkl".to_vec()).await.unwrap(), 22);
    assert_eq!(room.log(0, 1).await, cut.as_bytes());
}

#[tokio::test]
async fn a_lowered_limit_loses_nothing_that_is_stored() {
    let mut room = Room::with(small(100));
    room.store.append_log(&room.run, 0, 1, 0, b"0123456789".to_vec()).await.unwrap();
    room.store = RecordStore::with_limits(room.dir.path(), small(4)).unwrap();
    assert_eq!(room.store.append_log(&room.run, 0, 1, 10, b"ab".to_vec()).await.unwrap(), 12);
    assert_eq!(room.log(0, 1).await, "0123456789\n… truncated: log limit of 10 bytes reached\n".as_bytes());
}

#[tokio::test]
async fn a_log_is_read_from_anywhere_in_pieces() {
    let room = Room::new();
    room.store.append_log(&room.run, 0, 1, 0, b"0123456789".to_vec()).await.unwrap();
    let read = |from, max| room.store.read_log(&room.run, 0, 1, from, max);
    assert_eq!(read(3, 4).await.unwrap(), b"3456");
    assert_eq!(read(8, 100).await.unwrap(), b"89");
    assert_eq!(read(10, 100).await.unwrap(), b"");
    assert_eq!(read(u64::MAX, 100).await.unwrap(), b"");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_follower_sees_every_byte_and_the_end() {
    let room = Room::new();
    let (store, run) = (room.store.clone(), room.run.clone());
    let follower = tokio::spawn(async move {
        let mut watch = store.watch(&run).await.unwrap();
        let mut seen = Vec::new();
        loop {
            let more = store.read_log(&run, 0, 1, seen.len() as u64, 7).await.unwrap();
            if more.is_empty() && !watch.changed().await {
                return seen;
            }
            seen.extend(more);
        }
    });
    let mut all = Vec::new();
    for line in 0..200 {
        let bytes = format!("line {line}\n").into_bytes();
        room.store.append_log(&room.run, 0, 1, all.len() as u64, bytes.clone()).await.unwrap();
        all.extend(bytes);
    }
    room.store.seal(input(&room.run, &["a"])).await.unwrap();
    assert_eq!(String::from_utf8(follower.await.unwrap()), String::from_utf8(all));
}

#[tokio::test]
async fn the_last_append_before_sealing_is_not_slept_through() {
    let room = Room::new();
    let mut watch = room.store.watch(&room.run).await.unwrap();
    room.store.append_log(&room.run, 0, 1, 0, b"last words".to_vec()).await.unwrap();
    room.store.seal(input(&room.run, &["a"])).await.unwrap();
    assert!(watch.changed().await, "there is something to read");
    assert!(!watch.changed().await, "and then nothing any more");
}

#[tokio::test]
async fn a_watch_of_a_sealed_run_ends_at_once() {
    let mut room = Room::new();
    room.store.seal(input(&room.run, &["a"])).await.unwrap();
    for _ in 0..2 {
        assert!(!room.store.watch(&room.run).await.unwrap().changed().await);
        room.reopen();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_resends_store_each_byte_once() {
    let room = Room::with(Limits { open_logs: 2, ..Limits::default() });
    let all: Vec<u8> = (0..20_000u32).flat_map(u32::to_le_bytes).collect();
    let mut senders = Vec::new();
    for sender in 0..8usize {
        let (store, run, all) = (room.store.clone(), room.run.clone(), all.clone());
        senders.push(tokio::spawn(async move {
            // Two senders a log, which differ in the size of their pieces.
            let (seq, step) = ((sender / 2) as Seq, 700 + 311 * sender);
            let mut at = 0;
            while at < all.len() {
                let piece = all[at..all.len().min(at + step)].to_vec();
                at = store.append_log(&run, seq, 1, at as u64, piece).await.unwrap() as usize;
            }
        }));
    }
    for sender in senders {
        sender.await.unwrap();
    }
    for seq in 0..4 {
        assert!(room.log(seq, 1).await == all, "log {seq}");
    }
}

#[test]
fn a_log_that_is_being_written_is_not_opened_twice() {
    let cache = LogCache::new(1);
    let key = |seq| (RunId::new("r").unwrap(), seq, 1);
    let first = cache.handle(key(1));
    let second = cache.handle(key(2));
    assert!(Arc::ptr_eq(&first, &cache.handle(key(1))));
    assert!(Arc::ptr_eq(&second, &cache.handle(key(2))));
    drop((first, second));
    cache.handle(key(3));
    assert_eq!(cache.held(), 1, "idle logs are let go");
}

#[tokio::test]
async fn many_logs_share_a_few_open_files() {
    let room = Room::with(Limits { open_logs: 3, ..Limits::default() });
    for round in 0..3 {
        for seq in 0..20 {
            room.store.append_log(&room.run, seq, 1, round, b"x".to_vec()).await.unwrap();
        }
    }
    assert_eq!(room.store.0.logs.held(), 3);
    assert_eq!(room.log(7, 1).await, b"xxx");
    room.store.seal(input(&room.run, &["a"; 1])).await.unwrap();
    assert_eq!(room.store.0.logs.held(), 0, "a sealed Run holds no file open");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever pieces of one output come in whatever order, with restarts between, the log is a prefix of
    /// the output, up to its limit, and the answer says where to continue.
    #[test]
    fn overlapping_pieces_make_one_output(
        pieces in prop::collection::vec((0u64..90, 0usize..40, prop::bool::weighted(0.1)), 1..40),
        limit in 1u64..120,
    ) {
        let output: Vec<u8> = (0..130).collect();
        block_on(async {
            let mut room = Room::with(small(limit));
            let (mut stored, mut cut) = (0u64, false);
            for (offset, len, restart) in pieces {
                if restart {
                    room.reopen();
                }
                let piece = output[offset as usize..offset as usize + len].to_vec();
                let end = offset + len as u64;
                let got = room.store.append_log(&room.run, 0, 1, offset, piece).await;
                if cut {
                    prop_assert!(got.unwrap() >= end.max(limit));
                } else if offset > stored {
                    let refused = matches!(got, Err(RecordError::Gap { stored: at, .. }) if at == stored);
                    prop_assert!(refused, "{:?}", got);
                } else {
                    cut = end > limit;
                    prop_assert_eq!(got.unwrap(), stored.max(end));
                    stored = stored.max(end).min(limit);
                }
            }
            let mut wanted = output[..stored as usize].to_vec();
            if cut {
                wanted.extend(format!("\n… truncated: log limit of {limit} bytes reached\n").bytes());
            }
            prop_assert_eq!(room.log(0, 1).await, wanted);
            Ok(())
        })?;
    }
}
