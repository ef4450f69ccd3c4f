//! `submit` without `--wait`, and `dry-run`.

use proto::v1::*;
use tonic::Status;

use super::{messages::*, *};

pub(super) fn accepted(run: RunView) -> Result<SubmitResponse, Status> {
    Ok(SubmitResponse { run: Some(run), existing: false })
}

/// Submits the example with these flags.
pub(super) async fn submit(fake: &Fake, flags: &[&str]) -> Ran {
    submit_text(fake, shared::contract::example(), flags).await
}

async fn submit_text(fake: &Fake, contract: &'static str, flags: &[&str]) -> Ran {
    let args = [&["submit", "-"], flags].concat();
    run_changed(fake, &args, |io| io.stdin = Box::new(Cursor::new(contract))).await
}

#[tokio::test]
async fn the_id_is_drawn_here_and_printed_alone() {
    let fake = Fake::start().await;
    fake.lines().submit.then(accepted(run_view("", "RUNNING")));
    let ran = submit(&fake, &[]).await;
    let id = ran.out.trim_end();
    assert_eq!((ran.exit, id.len(), id.as_bytes()[14]), (Exit::Ok, 36, b'7'), "{ran}");
    assert_eq!(ran.err, format!("Run {id} is RUNNING on builder=yard/0.\n"));
    assert_eq!(fake.lines().submitted[0].run_id, id);
    assert_eq!(fake.lines().submitted[0].contract, shared::contract::example().as_bytes());
}

#[tokio::test]
async fn a_given_id_is_kept_and_the_flag_wins() {
    let fake = Fake::start().await;
    fake.lines().submit.then(accepted(run_view("", "QUEUED")));
    let named: &'static str = format!("run_id: mine\n{}", shared::contract::example()).leak();
    assert_eq!(submit_text(&fake, named, &[]).await.out, "mine\n");
    assert_eq!(submit_text(&fake, named, &["--run-id", "other"]).await.out, "other\n");
    let ids: Vec<_> = fake.lines().submitted.iter().map(|request| request.run_id.clone()).collect();
    assert_eq!(ids, ["mine", "other"]);
}

#[tokio::test]
async fn a_lost_answer_is_asked_for_with_the_same_id() {
    let fake = Fake::start().await;
    let down = || Err(Status::unavailable("starting"));
    fake.lines().submit.then(down()).then(down()).then(accepted(run_view("", "RUNNING")));
    let ran = submit(&fake, &[]).await;
    assert_eq!(ran.exit, Exit::Ok, "{ran}");
    let lines = fake.lines();
    assert_eq!(lines.submitted.len(), 3);
    assert!(lines.submitted.iter().all(|request| request.run_id == ran.out.trim_end()), "{ran}");
    assert_eq!(ran.err.matches("sending again").count(), 1, "{ran}");
}

#[tokio::test]
async fn an_answer_that_never_comes_leaves_the_way_to_ask() {
    let mut fake = Fake::start().await;
    fake.lines().submit.then(Err(Status::unavailable("starting")));
    let ran = submit(&fake, &["--run-id", "r1"]).await;
    assert_eq!(ran.exit, Exit::Unreachable, "{ran}");
    assert!(ran.err.contains("Whether Run r1 was stored is not known. `mediator show r1` tells"), "{ran}");
    // Where nobody listened, nothing was stored.
    fake.stop().await;
    let ran = submit(&fake, &["--run-id", "r1"]).await;
    assert_eq!(ran.exit, Exit::Unreachable, "{ran}");
    assert!(ran.err.contains("Is `mediator serve` running?") && !ran.err.contains("not known"), "{ran}");
}

#[tokio::test]
async fn a_fleet_that_cannot_run_it_refuses() {
    let fake = Fake::start().await;
    fake.lines().submit.then(accepted(rejected("")));
    for flags in [&["--run-id", "build-x"][..], &["--run-id", "build-x", "--wait"]] {
        let ran = submit(&fake, flags).await;
        insta::allow_duplicates! { insta::assert_snapshot!("submit-rejected", ran) };
    }
    let ran = submit(&fake, &["--run-id", "build-x", "--output", "jsonl"]).await;
    assert!(ran.exit == Exit::Refused && ran.out.contains("\"code\":422"), "{ran}");
}

#[tokio::test]
async fn a_known_id_says_so() {
    let fake = Fake::start().await;
    fake.lines().submit.then(Ok(SubmitResponse { run: Some(run_view("", "RUNNING")), existing: true }));
    let ran = submit(&fake, &["--run-id", "r1"]).await;
    assert!(ran.err.starts_with("Run r1 was known already; nothing was stored.\n"), "{ran}");
}

#[tokio::test]
async fn dry_run_tells_all_three_ends() {
    let fake = Fake::start().await;
    let taken = Reject { code: 409, r#as: Some("builder".into()), reason: "3 of 3 nodes are leased".into() };
    fake.lines()
        .dry_run
        .then(Ok(DryRunResponse {
            state: "RUNNING".into(),
            assigned: vec![assigned("builder", "yard/0")],
            reject: None,
        }))
        .then(Ok(DryRunResponse { state: "QUEUED".into(), assigned: vec![], reject: Some(taken) }))
        .then(Ok(DryRunResponse { state: "FAILED".into(), assigned: vec![], reject: rejected("").reject }));
    for name in ["running", "queued", "failed"] {
        let ran =
            run_changed(&fake, &["dry-run", "-"], |io| io.stdin = Box::new(Cursor::new(shared::contract::example())))
                .await;
        insta::assert_snapshot!(format!("dry-run-{name}"), ran);
    }
}
