//! What a lease, its end, and who speaks for the node mean for what runs.

use std::sync::Arc;

use proto::v1::{self, work_item::Item};
use tokio::sync::Notify;

use crate::{Yard, fake, reason, sleeper, working::WithEnv as _};

/// Starts a step that does not end; returns its process.
async fn start_sleeper(yard: &Yard, run: &str, number: u8) -> String {
    yard.grant(run, number);
    let mark = yard.path(&format!("mark-{run}-{number}"));
    let step = yard.step(0, &["sh", "-c", "$S"]).with_env("S", &sleeper(&mark));
    yard.send(Item::Step(step)).await;
    yard.appears(&mark).await
}

#[tokio::test]
async fn a_step_is_listed_from_receipt_and_runs_once_however_often_it_comes() {
    let yard = Yard::new().await;
    yard.grant("r1", 1);
    let (count, go) = (yard.path("count"), yard.path("go"));
    let script = format!("echo x >> {}; while [ ! -e {} ]; do sleep 0.01; done", count.display(), go.display());
    let step = yard.step(0, &["sh", "-c", "$S"]).with_env("S", &script);
    yard.send(Item::Step(step.clone())).await;
    yard.advert("an advert that lists it", |it| it.running.len() == 1).await;
    yard.send(Item::Step(step.clone())).await;
    yard.break_stream();
    yard.until("a second stream", |world| (world.streams_opened >= 2).then_some(())).await;
    yard.send(Item::Step(step.clone())).await;
    std::fs::write(go, "").unwrap();
    yard.report("a report").await;
    yard.send(Item::Step(step)).await;
    yard.advert("it is settled", |it| it.running.is_empty() && it.finished.is_empty()).await;
    assert_eq!(yard.appears(&count).await, "x");
    assert_eq!(yard.with(|world| world.reports.len()), 1);
}

#[tokio::test]
async fn a_lease_that_is_missing_stops_the_work_and_takes_its_folder() {
    let yard = Yard::new().await;
    let pid = start_sleeper(&yard, "r1", 1).await;
    assert_eq!(yard.names("work/yard"), ["r1"]);
    yard.release();
    crate::dies(&pid).await;
    crate::wait_for("an empty work folder", || yard.names("work/yard").is_empty().then_some(())).await;
    yard.advert("it is forgotten", |it| it.running.is_empty() && it.finished.is_empty()).await;
    assert!(yard.with(|world| world.reports.is_empty()), "nobody wants that result");
}

#[tokio::test]
async fn an_answer_older_than_the_grant_stops_nothing() {
    let yard = Yard::new().await;
    yard.until("a work stream", |world| (world.streams_opened > 0).then_some(())).await;
    let gate = Arc::new(Notify::new());
    yard.with(|world| world.hold_advert = Some(gate.clone()));
    yard.until("an advert on its way", |world| (world.held == 1).then_some(())).await;
    let pid = start_sleeper(&yard, "r1", 1).await;
    gate.notify_one();
    yard.advert("the next one", |it| it.running.len() == 1).await;
    yard.advert("and one after its answer", |it| it.running.len() == 1).await;
    assert!(crate::is_alive(&pid));
}

#[tokio::test]
async fn a_notice_over_the_work_stream_stops_at_once() {
    let yard = Yard::new().await;
    yard.with(|world| world.interval_ms = 300_000);
    yard.advert("one with the long interval", |_| true).await;
    let pid = start_sleeper(&yard, "r1", 1).await;
    let rev = yard.with(|world| world.rev);
    let nonce = format!("{:032x}", 1);
    let stop = |nonce: &str, rev| Item::Stop(v1::StopRun { run_id: "r1".into(), nonce: nonce.into(), rev });
    yard.send(stop(&format!("{:032x}", 9), rev + 1)).await;
    yard.send(stop(&nonce, rev - 1)).await;
    yard.send(Item::AdvertNow(v1::AdvertNow {})).await;
    yard.advert("an advert on demand", |it| it.running.len() == 1).await;
    assert!(crate::is_alive(&pid), "another nonce and an old notice stop nothing");
    yard.with(|world| {
        world.rev += 1;
        world.leases.clear();
    });
    yard.send(stop(&nonce, rev + 1)).await;
    crate::dies(&pid).await;
}

#[tokio::test]
async fn another_nonce_for_the_same_run_starts_in_a_fresh_folder_after_the_old_group_is_gone() {
    let yard = Yard::new().await;
    let old = start_sleeper(&yard, "r1", 1).await;
    std::fs::write(yard.path("work/yard/r1/run/left"), "x").unwrap();
    yard.grant("r1", 2);
    let script = format!("ls; kill -0 {old} 2>/dev/null && echo alive; echo end");
    let step = yard.step(0, &["sh", "-c", "$S"]).with_env("S", &script);
    yard.send(Item::Step(v1::Step { attempt: 2, ..step })).await;
    let report = yard.report("the new attempt").await;
    assert_eq!(report.step.unwrap().attempt, 2);
    assert_eq!(yard.with(|world| world.logs["r1/0/2"].clone()), b"end\n");
    crate::dies(&old).await;
}

#[tokio::test]
async fn without_an_answer_work_is_killed_before_its_leases_end() {
    let yard = Yard::new().await;
    let pid = start_sleeper(&yard, "r1", 1).await;
    yard.with(|world| world.ttl_ms = 1_500);
    yard.advert("one with the short time", |_| true).await;
    yard.advert("and the next", |_| true).await;
    yard.with(|world| world.refuse = Some(tonic::Status::unavailable("away")));
    crate::dies(&pid).await;
    yard.with(|world| world.refuse = None);
    let (reason, message) = reason(&yard.report("a report").await);
    assert_eq!(reason, "killed");
    assert!(message.contains("as long as the lease was promised"), "{message}");
}

#[tokio::test]
async fn a_superseded_node_kills_its_step_and_waits_as_somebody_new() {
    let yard = Yard::new().await;
    let pid = start_sleeper(&yard, "r1", 1).await;
    let first = yard.with(|world| world.instance.clone());
    yard.with(|world| world.instance = "another".to_owned());
    crate::dies(&pid).await;
    let advert = yard.advert("a new instance", |it| it.node.as_ref().is_some_and(|node| node.instance != first)).await;
    assert!(advert.replaces.is_empty() && advert.running.is_empty(), "{advert:?}");
    let status = enode::local::ask(yard.state.path()).await.unwrap();
    assert!(status.nodes[0].superseded.is_some() && !status.nodes[0].live_processes, "{status:?}");
    yard.advert("it tries on", |_| true).await;
    // The other one's advert has expired.
    yard.with(|world| world.instance.clear());
    yard.until("work again", |world| (!world.stream.is_empty() && world.instance != first).then_some(())).await;
    assert!(yard.with(|world| world.reports.is_empty()));
}

#[tokio::test]
async fn a_refusal_of_what_was_said_before_the_newest_stream_is_ignored() {
    let yard = Yard::new().await;
    let pid = start_sleeper(&yard, "r1", 1).await;
    let gate = Arc::new(Notify::new());
    yard.with(|world| {
        world.hold_advert = Some(gate.clone());
        world.refuse_held = Some(fake::superseded());
    });
    yard.until("an advert on its way", |world| (world.held == 1).then_some(())).await;
    let (instance, opened) = yard.with(|world| (world.instance.clone(), world.streams_opened));
    yard.break_stream();
    yard.until("a new stream", |world| (world.streams_opened > opened).then_some(())).await;
    gate.notify_one();
    let advert = yard.advert("the next one", |_| true).await;
    let advert = yard.advert("and one more", |it| it.advert_no > advert.advert_no).await;
    assert_eq!(advert.node.unwrap().instance, instance);
    assert_eq!(advert.running.len(), 1);
    assert!(crate::is_alive(&pid));
}

#[tokio::test]
async fn an_acknowledged_stream_replaces_those_before_it() {
    let yard = Yard::new().await;
    for opened in 2..5 {
        yard.until("a stream", |world| (world.streams_opened >= opened - 1).then_some(())).await;
        yard.break_stream();
        yard.until("a new stream", |world| (world.streams_opened >= opened).then_some(())).await;
    }
    yard.advert("only the newest is named", |it| it.node.as_ref().is_some_and(|node| node.streams.len() == 1)).await;
}

#[tokio::test]
async fn a_step_that_comes_under_at_boundary_was_claimed_before_it_and_is_done() {
    let yard = Yard::new().await;
    yard.grant("r1", 1);
    let before = yard.step(0, &["true"]);
    std::fs::write(yard.path("yard.policy.toml"), "drain = \"at-boundary\"\n").unwrap();
    let drained = |it: &v1::AdvertiseRequest| it.policy.as_ref().is_some_and(|it| it.drain == "at-boundary");
    yard.advert("the owner's word", drained).await;
    yard.advert("and once more, so that the answer has arrived", drained).await;
    yard.send(Item::Step(before)).await;
    assert_eq!(reason(&yard.report("claimed before").await).0, "exit 0");
}

#[tokio::test]
async fn a_stale_refusal_keeps_the_result_for_the_owner() {
    let yard = Yard::new().await;
    yard.with(|world| world.refuse_reports = Some(fake::stale()));
    yard.grant("r1", 1);
    yard.send(Item::Step(yard.step(0, &["echo", "done"]))).await;
    yard.report("a report").await;
    crate::wait_for("a refused result", || (yard.names("refused/yard") == ["r1_0_1.json", "r1_0_1.log"]).then_some(()))
        .await;
    assert_eq!(std::fs::read(yard.path("refused/yard/r1_0_1.log")).unwrap(), b"done\n");
    let text = std::fs::read_to_string(yard.path("refused/yard/r1_0_1.json")).unwrap();
    assert!(text.contains("\"refused\": \"STALE: told by the test\""), "{text}");
    assert!(yard.names("spool/yard").is_empty());
}
