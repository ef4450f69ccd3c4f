//! Told to stop.

use proto::v1::work_item::Item;

use crate::{Yard, reason, sleeper, working::WithEnv as _};

#[tokio::test]
async fn what_runs_may_end_and_the_last_advert_says_goodbye() {
    let mut yard = Yard::new().await;
    yard.grant("r1", 1);
    let (mark, go) = (yard.path("mark"), yard.path("go"));
    let script = format!("echo $$ > {}; while [ ! -e {} ]; do sleep 0.01; done", mark.display(), go.display());
    yard.send(Item::Step(yard.step(0, &["sh", "-c", "$S"]).with_env("S", &script))).await;
    yard.appears(&mark).await;
    yard.order_stop().await;
    yard.advert("it says that it stops", |it| it.stopping && !it.goodbye && it.running.len() == 1).await;
    std::fs::write(go, "").unwrap();
    yard.ended().await;
    assert_eq!(reason(&yard.report("a report").await).0, "exit 0");
    let last = yard.with(|world| world.adverts.last().cloned().unwrap());
    assert!(last.goodbye && last.stopping && last.running.is_empty(), "{last:?}");
    assert_eq!(yard.names("work/yard"), ["r1"], "the lease holds still: a restart loses nothing");
}

#[tokio::test]
async fn a_step_that_was_claimed_before_the_mediator_heard_of_the_stop_is_done() {
    let mut yard = Yard::new().await;
    yard.grant("r1", 1);
    yard.until("a work stream", |world| (world.streams_opened > 0).then_some(())).await;
    let gate = std::sync::Arc::new(tokio::sync::Notify::new());
    yard.with(|world| world.hold_advert = Some(gate.clone()));
    yard.until("an advert on its way", |world| (world.held == 1).then_some(())).await;
    yard.order_stop().await;
    while !enode::local::ask(yard.state.path()).await.unwrap().stopping {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    let (mark, go) = (yard.path("mark"), yard.path("go"));
    let script = format!("echo $$ > {}; while [ ! -e {} ]; do sleep 0.01; done", mark.display(), go.display());
    yard.send(Item::Step(yard.step(0, &["sh", "-c", "$S"]).with_env("S", &script))).await;
    yard.appears(&mark).await;
    gate.notify_one();
    yard.advert("it says that it stops", |it| it.stopping && !it.goodbye && it.running.len() == 1).await;
    std::fs::write(go, "").unwrap();
    yard.ended().await;
    assert_eq!(reason(&yard.report("a report").await).0, "exit 0");
}

#[tokio::test]
async fn e04_a_second_order_kills_and_reports_stopped() {
    let mut yard = Yard::new().await;
    yard.grant("r1", 1);
    let mark = yard.path("mark");
    yard.send(Item::Step(
        yard.step(0, &["sh", "-c", "$S"]).with_env("S", &format!("trap '' TERM; {}", sleeper(&mark))),
    ))
    .await;
    let pid = yard.appears(&mark).await;
    yard.order_stop().await;
    yard.advert("it says that it stops", |it| it.stopping).await;
    yard.order_stop().await;
    yard.ended().await;
    assert!(!crate::is_alive(&pid));
    assert_eq!(reason(&yard.report("a report").await).0, "stopped");
}

#[tokio::test]
async fn the_stop_timeout_does_the_same() {
    let mut yard = Yard::with(|config| config.stop_timeout = shared::Duration::from_millis(300)).await;
    yard.grant("r1", 1);
    let mark = yard.path("mark");
    yard.send(Item::Step(yard.step(0, &["sh", "-c", "$S"]).with_env("S", &sleeper(&mark)))).await;
    let pid = yard.appears(&mark).await;
    yard.stop().await;
    assert!(!crate::is_alive(&pid));
    assert_eq!(reason(&yard.report("a report").await).0, "stopped");
}

/// Nobody is there to be told anything, and nothing is here to tell.
#[tokio::test]
async fn an_agent_without_a_mediator_ends_at_once_unless_it_has_something_to_give_back() {
    const AT_ONCE: std::time::Duration = std::time::Duration::from_secs(2);
    let mut yard = Yard::with(|config| config.mediator = vec!["http://127.0.0.1:1".to_owned()]).await;
    crate::wait_for("the agent", || yard.path("enode.sock").exists().then_some(())).await;
    tokio::time::timeout(AT_ONCE, yard.stop()).await.expect("it ends at once");

    // A mediator that has gone, with a lease and without one.
    for is_leased in [false, true] {
        let mut yard = Yard::new().await;
        if is_leased {
            yard.grant("r1", 1);
        }
        // The second comes when the first was answered.
        for what in ["an advert", "another one"] {
            yard.advert(what, |_| true).await;
        }
        yard.with(|world| world.refuse = Some(tonic::Status::unavailable("it is gone")));
        yard.order_stop().await;
        let mut agent = yard.agent.take().unwrap().1;
        let ended = tokio::time::timeout(AT_ONCE, &mut agent).await;
        assert_eq!(ended.is_ok(), !is_leased);
        agent.abort();
    }
}
