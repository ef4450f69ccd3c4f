//! A Run is named by its id, or by a beginning of it that no other has.

use proto::v1::*;
use tonic::Status;

use super::{messages::*, *};

const WHOLE: &str = "01a237f9-0000-7000-8000-000000000001";

fn none<T>() -> Result<T, Status> {
    Err(Status::not_found("there is no run"))
}

fn lists(ids: &[&str]) -> Result<ListRunsResponse, Status> {
    let runs = ids.iter().map(|id| run_view(id, "SUCCEEDED")).collect();
    Ok(ListRunsResponse { observed_at: NOW, runs, next: None })
}

#[tokio::test]
async fn a_beginning_that_one_run_has_is_that_run() {
    let whole = || detail(run_view(WHOLE, "SUCCEEDED"), vec![]);
    for (args, call) in [
        ("show 01a237f9", "get_run"),
        ("logs 01a237f9", "get_log"),
        ("explain 01a237f9", "explain"),
        ("cancel 01a237f9", "cancel"),
        ("answer 01a237f9 ok=yes", "answer"),
        ("watch 01a237f9", "watch_run"),
    ] {
        let fake = Fake::start().await;
        // What an earlier mediator lists, which does not know the question.
        fake.lines().list_runs.then(lists(&[WHOLE, "other-run"]));
        fake.lines().get_run.then(none()).then(Ok(whole()));
        fake.lines().get_log.then(Ok(fake::Says::then_ends(vec![])));
        fake.lines().explain.then(none()).then(Ok(ExplainResponse::default()));
        fake.lines().cancel.then(none()).then(Ok(run_view(WHOLE, "FAILED")));
        fake.lines().answer.then(Ok(run_view(WHOLE, "RUNNING")));
        fake.lines().watch_run.then(Ok(fake::Says::then_ends(vec![whole()])));
        let ran = run(&fake, &args.split(' ').collect::<Vec<_>>()).await;
        assert_eq!(ran.exit, Exit::Ok, "{args}: {ran}");
        let asked = fake.lines().asked.iter().rfind(|it| it.starts_with(call)).cloned().unwrap_or_default();
        assert!(asked.contains(WHOLE), "{args}: {asked}");
    }
}

#[tokio::test]
async fn a_beginning_that_several_have_is_refused_and_a_whole_id_never() {
    let fake = Fake::start().await;
    fake.lines().list_runs.then(lists(&["build-10", "build-11"]));
    fake.lines().get_run.then(none());
    let ran = run(&fake, &["show", "build-1"]).await;
    assert_eq!(ran.exit, Exit::Refused, "{ran}");
    assert!(ran.err.contains("2 Runs") && ran.err.contains("such as build-10 and build-11"), "{ran}");
    let ran = run(&fake, &["show", "build"]).await;
    assert!(ran.err.contains("there is no run"), "too short: {ran}");
    fake.lines().list_runs = fake::Script::default();
    fake.lines().list_runs.then(lists(&["build-10", "build-1", "build-11"]));
    fake.lines().answer.then(Ok(run_view("build-1", "RUNNING")));
    let ran = run(&fake, &["answer", "build-1", "ok=yes"]).await;
    assert_eq!(ran.exit, Exit::Ok, "{ran}");
}

#[tokio::test]
async fn each_command_says_what_it_could_not_do() {
    let fake = Fake::start().await;
    fake.lines().get_run.then(none());
    for (command, says) in [
        ("show", "cannot show Run nobody"),
        ("logs", "cannot read the log of Run nobody"),
        ("record", "cannot fetch the Record of Run nobody"),
    ] {
        let ran = run(&fake, &[command, "nobody"]).await;
        assert!(ran.exit == Exit::Refused && ran.err.contains(says), "{command}: {ran}");
    }
}
