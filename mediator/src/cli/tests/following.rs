//! `submit --wait` and `watch RUN`: to the end of the Run, whatever happens to the connection.

use proto::v1::*;
use tonic::Status;

use super::{
    fake::Says,
    messages::*,
    submitting::{accepted, submit},
    *,
};

fn running() -> RunDetail {
    let current = CurrentStep { node: "yard/0".into(), step: "test".into(), attempt: 1, started_at: Some(NOW) };
    let run = RunView { current: vec![current], ..run_view("build-1", "RUNNING") };
    detail(run, vec![step(0, "fetch", "DONE"), step(1, "test", "CLAIMED")])
}

fn queued() -> RunDetail {
    detail(run_view("build-1", "QUEUED"), vec![step(0, "fetch", "PENDING"), step(1, "test", "PENDING")])
}

fn succeeded() -> RunDetail {
    detail(run_view("build-1", "SUCCEEDED"), vec![step(0, "fetch", "DONE"), step(1, "test", "DONE")])
}

const WAIT: &[&str] = &["--run-id", "build-1", "--wait"];

#[tokio::test]
async fn the_way_to_success() {
    let fake = Fake::start().await;
    fake.lines().submit.then(accepted(run_view("", "QUEUED")));
    fake.lines().explain.then(Ok(queued_because()));
    fake.lines().get_run.then(Ok(running()));
    fake.lines().watch_run.then(Ok(Says::then_ends(vec![queued(), running(), running(), succeeded()])));
    insta::assert_snapshot!("wait-succeeded", submit(&fake, WAIT).await);
    insta::assert_snapshot!("watch-succeeded", run(&fake, &["watch", "build-1"]).await);
    let ran = run(&fake, &["watch", "build-1", "--output", "jsonl"]).await;
    assert_eq!(ran.out.lines().count(), 3, "{ran}");
    assert!(ran.out.lines().all(|line| serde_json::from_str::<serde_json::Value>(line).is_ok()));
    let ran = submit(&fake, &["--run-id", "build-1", "--wait", "--output", "json"]).await;
    assert!(ran.exit == Exit::Ok && ran.out.contains("\"state\": \"SUCCEEDED\""), "{ran}");
}

#[tokio::test]
async fn the_way_to_failure() {
    let fake = Fake::start().await;
    fake.lines().submit.then(accepted(run_view("", "RUNNING")));
    fake.lines().watch_run.then(Ok(Says::then_ends(vec![running(), failed()])));
    insta::assert_snapshot!("wait-failed", submit(&fake, WAIT).await);
    insta::assert_snapshot!("watch-failed", run(&fake, &["watch", "build-1"]).await);
}

#[tokio::test]
async fn a_rejected_run_is_refused_when_watched_too() {
    let fake = Fake::start().await;
    fake.lines().watch_run.then(Ok(Says::then_ends(vec![detail(rejected("build-1"), vec![])])));
    assert_eq!(run(&fake, &["watch", "build-1"]).await.exit, Exit::Refused);
}

#[tokio::test]
async fn a_stream_that_breaks_is_opened_again() {
    let fake = Fake::start().await;
    fake.lines().submit.then(accepted(run_view("", "RUNNING")));
    fake.lines()
        .watch_run
        .then(Ok(Says::then_fails(vec![running()], Status::unavailable("going down"))))
        .then(Err(Status::unavailable("starting")))
        .then(Ok(Says::then_fails(vec![], Status::internal("a fault"))))
        .then(Ok(Says::then_ends(vec![succeeded()])));
    let ran = submit(&fake, WAIT).await;
    assert_eq!((ran.exit, fake.asked("watch_run")), (Exit::Ok, 4), "{ran}");
    assert!(ran.err.contains("lost the mediator (going down), trying again; the Run goes on"), "{ran}");
}

#[tokio::test]
async fn a_stream_that_ends_early_is_not_the_end_of_the_run() {
    let fake = Fake::start().await;
    fake.lines().get_run.then(Ok(running()));
    fake.lines()
        .watch_run
        .then(Ok(Says::then_ends(vec![running()])))
        .then(Ok(Says::then_ends(vec![running(), succeeded()])));
    let ran = run(&fake, &["watch", "build-1"]).await;
    assert_eq!((ran.exit, fake.asked("watch_run")), (Exit::Ok, 2), "{ran}");
}

#[tokio::test]
async fn a_stream_that_says_nothing_more_keeps_nobody_waiting() {
    let fake = Fake::start().await;
    fake.lines().submit.then(accepted(run_view("", "RUNNING")));
    fake.lines().watch_run.then(Ok(Says::then_hangs(vec![running()])));
    fake.lines().get_run.then(Ok(running())).then(Ok(succeeded()));
    let ran = submit(&fake, WAIT).await;
    assert_eq!((ran.exit, fake.asked("get_run")), (Exit::Ok, 2), "{ran}");
}

#[tokio::test]
async fn a_restart_of_the_mediator_is_survived() {
    let mut fake = Fake::start().await;
    fake.lines().watch_run.then(Ok(Says::then_hangs(vec![running()]))).then(Ok(Says::then_ends(vec![succeeded()])));
    fake.lines().get_run.then(Ok(running()));
    let (out, err) = (Shared::default(), Shared::default());
    let (url, mut io) = (fake.url(), io(&out, &err));
    let watch = tokio::spawn(async move { run_args(&["watch", "build-1", "--mediator", &url], &mut io).await });
    until("the first line", || out.text().contains("test CLAIMED")).await;
    fake.stop().await;
    until("the loss is told", || err.text().contains("lost the mediator")).await;
    fake.serve().await;
    assert_eq!(watch.await.unwrap(), Exit::Ok);
    assert!(out.text().contains("build-1 SUCCEEDED"), "{}", out.text());
}

#[tokio::test]
async fn b09_time_that_runs_out_leaves_the_run() {
    let fake = Fake::start().await;
    fake.lines().submit.then(accepted(run_view("", "RUNNING")));
    fake.lines().watch_run.then(Ok(Says::then_hangs(vec![running()])));
    fake.lines().get_run.then(Ok(running()));
    let ran = submit(&fake, &[WAIT, &["--timeout", "300ms"]].concat()).await;
    insta::assert_snapshot!("wait-timeout", ran);
    assert_eq!(run(&fake, &["watch", "build-1", "--timeout", "300ms"]).await.exit, Exit::Timeout);
    assert_eq!(fake.asked("cancel"), 0);
}

#[tokio::test]
async fn ctrl_c_leaves_the_run_and_says_how_to_cancel() {
    let fake = Fake::start().await;
    fake.lines().submit.then(accepted(run_view("", "RUNNING")));
    fake.lines().watch_run.then(Ok(Says::then_hangs(vec![running()])));
    fake.lines().get_run.then(Ok(running()));
    let (press, pressed) = interrupt();
    let (out, err) = (Shared::default(), Shared::default());
    let (url, mut io) = (fake.url(), io(&out, &err));
    io.stdin = Box::new(Cursor::new(shared::contract::example()));
    io.interrupt = pressed;
    let wait = tokio::spawn(async move {
        run_args(&["submit", "-", "--wait", "--run-id", "build-1", "--mediator", &url], &mut io).await
    });
    until("the progress line", || err.text().contains("now test@yard/0")).await;
    press.send(()).unwrap();
    assert_eq!(wait.await.unwrap(), Exit::Interrupted);
    assert!(err.text().contains("`mediator cancel build-1` ends it"), "{}", err.text());
    assert_eq!(fake.asked("cancel"), 0);
}

#[tokio::test]
async fn a_run_that_is_not_there_is_not_waited_for() {
    let fake = Fake::start().await;
    fake.lines().watch_run.then(Err(Status::not_found("there is no Run build-1")));
    let ran = run(&fake, &["watch", "build-1"]).await;
    assert_eq!(ran.exit, Exit::Refused, "{ran}");
    assert!(ran.err.contains("there is no Run build-1"), "{ran}");
}

#[tokio::test]
async fn on_a_terminal_the_progress_is_one_line_that_is_gone_at_the_end() {
    let fake = Fake::start().await;
    fake.lines().submit.then(accepted(run_view("", "QUEUED")));
    fake.lines().explain.then(Ok(ExplainResponse { summary: format!("{HOSTILE} {HOSTILE}"), ..queued_because() }));
    fake.lines().get_run.then(Ok(succeeded()));
    fake.lines().watch_run.then(Ok(Says::then_ends(vec![queued(), succeeded()])));
    let args = [&["submit", "-"], WAIT].concat();
    let ran = run_changed(&fake, &args, |io| {
        io.stdin = Box::new(Cursor::new(shared::contract::example()));
        io.err_is_terminal = true;
        io.err_width = 40;
    })
    .await;
    let (head, lines) = ran.err.split_once('\r').unwrap();
    assert_eq!(head, "Run build-1\n");
    let lines: Vec<_> = lines.split('\r').map(|line| line.strip_prefix("\x1b[2K").unwrap()).collect();
    assert_eq!(lines, ["QUEUED, 0 of 2 steps over: evil\\u{1b}[…", "SUCCEEDED, 2 of 2 steps over", ""]);
}
