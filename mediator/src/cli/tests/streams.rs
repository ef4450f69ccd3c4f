//! `logs`, `record` and the fleet's events.

use proto::v1::*;
use tonic::Status;

use super::{fake::Says, messages::*, *};

fn chunk(step: &str, data: &[u8]) -> LogChunk {
    LogChunk { step: step.into(), attempt: 1, data: data.to_vec() }
}

async fn with_logs(says: Vec<Says<LogChunk>>) -> Fake {
    let fake = Fake::start().await;
    fake.lines().get_run.then(Ok(failed()));
    for one in says {
        fake.lines().get_log.then(Ok(one));
    }
    fake
}

#[tokio::test]
async fn logs_are_bytes() {
    let raw: &[u8] = b"one\x1b[1m\xc3\xa9\ntwo";
    let fake = with_logs(vec![Says::then_ends(vec![chunk("fetch", raw), chunk("test", b"three\n")])]).await;
    let ran = run(&fake, &["logs", "build-1"]).await;
    assert_eq!((ran.exit, ran.out.as_bytes(), ran.err.as_str()), (Exit::Ok, &[raw, b"three\n"].concat()[..], ""));
}

#[tokio::test]
async fn a_prefix_tells_steps_apart() {
    let says = Says::then_ends(vec![
        chunk("fetch", b"one\ntw"),
        chunk("fetch", b"o\nthr"),
        chunk("test", b"a\n\nb"),
        chunk("fetch", b"ee\n"),
        chunk("test", b"end"),
    ]);
    let fake = with_logs(vec![says]).await;
    let wanted = "fetch | one\nfetch | two\nfetch | thr\ntest | a\ntest | \ntest | b\nfetch | ee\ntest | end\n";
    assert_eq!(run(&fake, &["logs", "build-1", "--prefix"]).await.out, wanted);
    assert_eq!(run_changed(&fake, &["logs", "build-1"], |io| io.out_is_terminal = true).await.out, wanted);
    // One step needs no name, and a file none either.
    let ran = run_changed(&fake, &["logs", "build-1", "test"], |io| io.out_is_terminal = true).await;
    assert!(ran.out.starts_with("one\ntwo\n"), "{ran}");
    assert!(run(&fake, &["logs", "build-1"]).await.out.starts_with("one\ntwo\n"));
}

#[tokio::test]
async fn a_followed_log_goes_on_where_it_was() {
    let gone = || Status::unavailable("going down");
    let fake = with_logs(vec![
        Says::then_fails(vec![chunk("test", b"one\ntw")], gone()),
        Says::then_fails(vec![chunk("test", b"one\n")], gone()),
        Says::then_ends(vec![chunk("test", b"on"), chunk("test", b"e\ntwo\nthree\n")]),
    ])
    .await;
    let ran = run(&fake, &["logs", "build-1", "test", "-f"]).await;
    assert_eq!((ran.exit, ran.out.as_str()), (Exit::Ok, "one\ntwo\nthree\n"), "{ran}");
    assert!(fake.lines().asked.last().unwrap().contains("step: \"test\", follow: true"));
}

#[tokio::test]
async fn a_step_that_is_not_there_is_answered_with_those_that_are() {
    let fake = with_logs(vec![]).await;
    let ran = run(&fake, &["logs", "build-1", "tset"]).await;
    assert_eq!(
        ran.to_string(),
        "exit 2\n-- stdout\n-- stderr\nerror: Run build-1 has no step tset\nIts steps are: fetch, judge, test, \
         repair.\n"
    );
}

#[tokio::test]
async fn a_record_is_whole_or_not_there() {
    let fake = Fake::start().await;
    let chunk = |data: &[u8]| Chunk { data: data.to_vec() };
    fake.lines().get_run.then(Ok(RunDetail { sealed_at: None, ..failed() })).then(Ok(failed()));
    fake.lines()
        .get_record
        .then(Ok(Says::then_fails(vec![chunk(b"ab")], Status::unavailable("going down"))))
        .then(Ok(Says::then_ends(vec![chunk(b"ab"), chunk(b"cd")])));
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("r.tar");
    let path = file.display().to_string();
    let ran = run(&fake, &["record", "build-1", "--out", &path]).await;
    assert_eq!((ran.exit, std::fs::read_dir(folder.path()).unwrap().count()), (Exit::Unreachable, 0), "{ran}");
    let ran = run(&fake, &["record", "build-1", "--out", &path]).await;
    assert_eq!((ran.exit, ran.out), (Exit::Ok, format!("{path}\n")));
    assert_eq!(std::fs::read(&file).unwrap(), b"abcd");
    let ran = run(&fake, &["record", "build-1", "--out", &path]).await;
    assert!(ran.exit == Exit::Refused && ran.err.contains("exists already and is left as it is"), "{ran}");
    let ran = run(&fake, &["record", "build-1", "--out", "-"]).await;
    assert_eq!((ran.exit, ran.out.as_str()), (Exit::Ok, "abcd"));
    let ran = run_changed(&fake, &["record", "build-1", "--out", "-"], |io| io.out_is_terminal = true).await;
    assert_eq!(ran.exit, Exit::Refused);
}

#[tokio::test]
async fn a_run_that_goes_on_has_no_record() {
    let fake = Fake::start().await;
    fake.lines().get_run.then(Ok(detail(run_view("build-1", "RUNNING"), vec![])));
    let ran = run(&fake, &["record", "build-1"]).await;
    assert!(ran.exit == Exit::Refused && ran.err.contains("Run build-1 is RUNNING; its Record is sealed"), "{ran}");
}

#[tokio::test]
async fn events_go_on_where_they_were() {
    let fake = Fake::start().await;
    let event = |seq, data: &str| Event {
        seq,
        at: NOW + seq,
        kind: "RunPromoted".into(),
        run_id: Some("build-5".into()),
        node_id: Some("yard/0".into()),
        data: data.into(),
    };
    fake.lines()
        .watch_fleet
        .then(Ok(Says::then_fails(vec![event(7, r#"{"wake":"RunSettled"}"#)], Status::unavailable("going down"))))
        .then(Ok(Says::then_fails(vec![event(8, "{}"), event(9, HOSTILE)], Status::permission_denied("revoked"))));
    let ran = run(&fake, &["watch"]).await;
    insta::assert_snapshot!("watch-fleet", ran);
    let asked = fake.lines().asked.clone();
    assert_eq!(asked, ["watch_fleet: WatchFleetRequest { after: 0 }", "watch_fleet: WatchFleetRequest { after: 7 }"]);
}
