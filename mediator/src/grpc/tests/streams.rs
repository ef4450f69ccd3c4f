use proto::v1;
use tonic::Code;

use super::*;
use crate::service::{
    bench::one_step,
    sample::{CONTRACT, NOW},
};

fn get(run: &str) -> v1::GetRunRequest {
    v1::GetRunRequest { run_id: run.into() }
}

#[tokio::test]
async fn a_run_is_watched_from_its_present_state_to_its_end() {
    let mut server = Server::start().await;
    server.bench.advert("n1", "build", shared::domain::Policy::default()).await;
    server.bench.submit("first", &one_step("build")).await;
    server.bench.submit("second", &one_step("build")).await;
    let mut runs = server.runs(Role::Observer).await;
    let mut watch = runs.watch_run(get("second")).await.unwrap().into_inner();
    let state = |detail: Option<v1::RunDetail>| detail.unwrap().run.unwrap().state;
    assert_eq!(state(watch.message().await.unwrap()), "QUEUED");
    // What happens to others is not told.
    let step = server.bench.claim("n1").await;
    server.bench.report("n1", &step, 0, None).await;
    assert_eq!(state(watch.message().await.unwrap()), "RUNNING");
    let step = server.bench.claim("n1").await;
    let detail = watch.message().await.unwrap().unwrap();
    assert_eq!(detail.run.unwrap().current[0].step, "only");
    server.bench.report("n1", &step, 3, None).await;
    let detail = watch.message().await.unwrap().unwrap();
    assert_eq!(detail.run.unwrap().state, "FAILED");
    assert_eq!(detail.steps[0].exit_code, Some(3));
    assert_eq!(watch.message().await.unwrap(), None, "the stream ends with the run");
    // One that has ended is told once.
    let mut watch = runs.watch_run(get("second")).await.unwrap().into_inner();
    assert_eq!(state(watch.message().await.unwrap()), "FAILED");
    assert_eq!(watch.message().await.unwrap(), None);
    assert_eq!(runs.watch_run(get("none")).await.unwrap_err().code(), Code::NotFound);
    server.stop().await;
}

#[tokio::test]
async fn streams_end_at_once_when_the_mediator_stops_and_say_why() {
    let mut server = Server::start().await;
    server.bench.submit("waits", CONTRACT).await;
    server.bench.advert("n1", "build", shared::domain::Policy::default()).await;
    server.bench.submit("waits-too", CONTRACT).await;
    let mut runs = server.runs(Role::Observer).await;
    let mut fleet = server.fleet(Role::Observer).await;
    let mut watch = runs.watch_run(get("waits-too")).await.unwrap().into_inner();
    watch.message().await.unwrap();
    let follow = v1::GetLogRequest { run_id: "waits-too".into(), step: String::new(), follow: true };
    let mut log = runs.get_log(follow).await.unwrap().into_inner();
    let mut events = fleet.watch_fleet(v1::WatchFleetRequest::default()).await.unwrap().into_inner();
    server.stop().await;
    assert_eq!(watch.message().await.unwrap_err().code(), Code::Unavailable);
    assert_eq!(log.message().await.unwrap_err().code(), Code::Unavailable);
    assert_eq!(events.message().await.unwrap_err().code(), Code::Unavailable);
}

#[tokio::test]
async fn no_event_is_missed_or_doubled() {
    let mut server = Server::start().await;
    let mut fleet = server.fleet(Role::Observer).await;
    server.bench.advert("before", "build", shared::domain::Policy::default()).await;
    let mut from_now = fleet.watch_fleet(v1::WatchFleetRequest { after: 0 }).await.unwrap().into_inner();
    for n in 0..3 {
        server.bench.advert(&format!("n{n}"), "build", shared::domain::Policy::default()).await;
    }
    for n in 0..3 {
        let event = from_now.message().await.unwrap().unwrap();
        assert_eq!((event.kind.as_str(), event.node_id.unwrap()), ("node.joined", format!("n{n}")));
    }
    // From a number on: more than one batch, and while more come.
    let mut from_one = fleet.watch_fleet(v1::WatchFleetRequest { after: 1 }).await.unwrap().into_inner();
    for n in 0..400 {
        server.bench.submit(&format!("r{n}"), &one_step("nobody")).await;
    }
    let last = server.bench.services.last_event().await.unwrap();
    assert!(last > 400);
    for seq in 2..=last {
        assert_eq!(from_one.message().await.unwrap().unwrap().seq, seq);
    }
    let refused = fleet.watch_fleet(v1::WatchFleetRequest { after: -1 }).await.unwrap_err();
    assert_eq!(refused.code(), Code::InvalidArgument);
    server.stop().await;
}

#[tokio::test]
async fn a_followed_log_comes_as_it_grows_and_ends_with_the_run() {
    let mut server = Server::start().await;
    server.bench.advert("n1", "build", shared::domain::Policy::default()).await;
    server.bench.submit("talks", &one_step("build")).await;
    let mut runs = server.runs(Role::Observer).await;
    let follow = v1::GetLogRequest { run_id: "talks".into(), step: "only".into(), follow: true };
    let mut log = runs.get_log(follow).await.unwrap().into_inner();
    let step = server.bench.claim("n1").await;
    let records = server.bench.services.records.clone();
    for (offset, line) in [(0, "one\n"), (4, "two\n")] {
        records.append_log(&step.run, 0, 1, offset, line.as_bytes().to_vec()).await.unwrap();
        let chunk = log.message().await.unwrap().unwrap();
        assert_eq!((chunk.step.as_str(), chunk.attempt, chunk.data.as_slice()), ("only", 1, line.as_bytes()));
    }
    server.bench.report("n1", &step, 0, None).await;
    assert_eq!(log.message().await.unwrap(), None);
    // Without following: all of it, at once.
    let whole = v1::GetLogRequest { run_id: "talks".into(), step: String::new(), follow: false };
    let mut log = runs.get_log(whole.clone()).await.unwrap().into_inner();
    assert_eq!(log.message().await.unwrap().unwrap().data, b"one\ntwo\n");
    assert_eq!(log.message().await.unwrap(), None);
    let refused = runs.get_log(v1::GetLogRequest { step: "ony".into(), ..whole }).await.unwrap_err();
    assert!(refused.message().contains("there are only"), "{refused}");
    server.stop().await;
}

#[tokio::test]
async fn a_record_that_is_not_there_yet_says_what_to_wait_for() {
    let mut server = Server::start().await;
    server.bench.advert("n1", "build", shared::domain::Policy::default()).await;
    server.bench.submit("open", &one_step("build")).await;
    let mut runs = server.runs(Role::Observer).await;
    let refused = runs.get_record(get("open")).await.unwrap_err();
    assert_eq!(refused.code(), Code::NotFound);
    assert!(refused.message().contains("it is RUNNING"), "{refused}");
    server.bench.cancel("open").await;
    let refused = runs.get_record(get("open")).await.unwrap_err();
    assert!(refused.message().contains("being sealed"), "{refused}");
    server.stop().await;
}

#[tokio::test]
async fn a_dry_run_says_what_a_submit_would_come_to() {
    let mut server = Server::start().await;
    server.bench.advert("n1", "build", shared::domain::Policy::default()).await;
    let mut runs = server.runs(Role::Submitter).await;
    let ask = |contract: String| v1::SubmitRequest { contract: contract.into_bytes(), run_id: String::new() };
    let answer = runs.dry_run(ask(one_step("build"))).await.unwrap().into_inner();
    assert_eq!((answer.state.as_str(), answer.assigned[0].node.as_str()), ("RUNNING", "n1"));
    server.bench.submit("holds", &one_step("build")).await;
    let answer = runs.dry_run(ask(one_step("build"))).await.unwrap().into_inner();
    assert_eq!((answer.state.as_str(), answer.reject.unwrap().code), ("QUEUED", 409));
    let answer = runs.dry_run(ask(one_step("fly"))).await.unwrap().into_inner();
    assert_eq!((answer.state.as_str(), answer.reject.unwrap().code), ("FAILED", 422));
    assert_eq!(runs.list_runs(v1::ListRunsRequest::default()).await.unwrap().into_inner().runs.len(), 1);
    server.stop().await;
}

#[tokio::test]
async fn lists_filter_page_and_explain() {
    let mut server = Server::start().await;
    server.bench.advert("n1", "build", shared::domain::Policy::default()).await;
    for n in 0..5 {
        server.bench.submit(&format!("r{n}"), &one_step("build")).await;
        server.bench.tick();
    }
    let mut runs = server.runs(Role::Observer).await;
    let mut seen = Vec::new();
    let mut after = String::new();
    loop {
        let request = v1::ListRunsRequest { limit: 2, after, ..v1::ListRunsRequest::default() };
        let page = runs.list_runs(request).await.unwrap().into_inner();
        seen.extend(page.runs.into_iter().map(|run| run.run_id));
        match page.next {
            Some(next) => after = next,
            None => break,
        }
    }
    assert_eq!(seen, ["r4", "r3", "r2", "r1", "r0"]);
    let request = v1::ListRunsRequest { state: "RUNNING".into(), ..v1::ListRunsRequest::default() };
    assert_eq!(runs.list_runs(request).await.unwrap().into_inner().runs[0].run_id, "r0");
    let request = v1::ListRunsRequest { since_at: NOW.millis() + 3_000, ..v1::ListRunsRequest::default() };
    assert_eq!(runs.list_runs(request).await.unwrap().into_inner().runs.len(), 2);
    let bad = v1::ListRunsRequest { state: "running".into(), after: "x".into(), since_at: -1, ..Default::default() };
    let fields = tonic_types::StatusExt::get_details_bad_request(&runs.list_runs(bad).await.unwrap_err()).unwrap();
    let fields: Vec<String> = fields.field_violations.into_iter().map(|it| it.field).collect();
    assert_eq!(fields, ["state", "since_at", "after"]);

    use v1::explain_request::Subject;
    let ask = |subject| v1::ExplainRequest { subject: Some(subject) };
    let answer = runs.explain(ask(Subject::RunId("r2".into()))).await.unwrap().into_inner();
    assert_eq!((answer.place, answer.roles[0].busy, answer.roles[0].holders[0].run_id.as_str()), (Some(2), 1, "r0"));
    let answer = runs.explain(ask(Subject::NodeId("n1".into()))).await.unwrap().into_inner();
    assert_eq!((answer.lendable, answer.reasons.len()), (Some(false), 1));
    assert_eq!(runs.explain(ask(Subject::NodeId("n9".into()))).await.unwrap_err().code(), Code::NotFound);
    assert_eq!(runs.explain(v1::ExplainRequest::default()).await.unwrap_err().code(), Code::InvalidArgument);
    server.stop().await;
}
