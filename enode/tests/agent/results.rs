//! Results on their way: lost answers, refusals, restarts.

use proto::v1::work_item::Item;

use crate::{Yard, reason};

#[tokio::test]
async fn a_report_whose_answer_was_lost_is_sent_again_and_nothing_runs_twice() {
    let yard = Yard::new().await;
    yard.with(|world| world.lose_answers = 1);
    yard.grant("r1", 1);
    yard.send(Item::Step(yard.step(0, &["sh", "-c", "echo x >> runs; cat runs"]))).await;
    yard.until("two reports", |world| (world.reports.len() == 2).then_some(())).await;
    yard.advert("it is settled", |it| it.running.is_empty() && it.finished.is_empty()).await;
    assert_eq!(yard.with(|world| world.logs["r1/0/1"].clone()), b"x\n");
    assert!(yard.names("spool/yard").is_empty() && yard.names("refused/yard").is_empty());
}

#[tokio::test]
async fn the_report_that_ended_the_lease_is_not_called_refused() {
    let yard = Yard::new().await;
    yard.with(|world| {
        world.lose_answers = 1;
        world.run_state = "SUCCEEDED".to_owned();
    });
    yard.grant("r1", 1);
    yard.send(Item::Step(yard.step(0, &["true"]))).await;
    yard.until("the report again, although the lease is gone", |world| (world.reports.len() == 2).then_some(())).await;
    yard.advert("it is settled", |it| it.finished.is_empty()).await;
    crate::wait_for("an empty spool", || yard.names("spool/yard").is_empty().then_some(())).await;
    assert!(yard.names("refused/yard").is_empty());
    crate::wait_for("no folder", || yard.names("work/yard").is_empty().then_some(())).await;
}

#[tokio::test]
async fn a_result_that_cannot_be_said_becomes_one_that_can() {
    let yard = Yard::new().await;
    yard.with(|world| world.refuse_reports = Some(tonic::Status::invalid_argument("no")));
    yard.grant("r1", 1);
    yard.send(Item::Step(yard.step(0, &["true"]))).await;
    let report = yard.until("a second report", |world| world.reports.get(1).cloned()).await;
    let (reason, message) = reason(&report);
    assert_eq!((reason.as_str(), message.as_str()), ("killed", "the mediator refused its result: no"));
    crate::wait_for("a refused result", || (!yard.names("refused/yard").is_empty()).then_some(())).await;
    assert_eq!(yard.with(|world| world.reports.len()), 2, "and no more");
}

#[tokio::test]
async fn credentials_that_are_mended_bring_the_true_outcome() {
    for code in [tonic::Code::Unauthenticated, tonic::Code::PermissionDenied, tonic::Code::Unimplemented] {
        let yard = Yard::new().await;
        yard.with(|world| world.refuse_reports = Some(tonic::Status::new(code, "no")));
        yard.grant("r1", 1);
        yard.send(Item::Step(yard.step(0, &["true"]))).await;
        yard.until("a second try", |world| (world.reports.len() >= 2).then_some(())).await;
        yard.with(|world| world.refuse_reports = None);
        yard.advert("it is settled", |it| it.running.is_empty() && it.finished.is_empty()).await;
        let said = yard.with(|world| world.reports.iter().map(|it| reason(it).0).collect::<Vec<_>>());
        assert!(said.iter().all(|it| it == "exit 0"), "{code:?}: {said:?}");
        assert!(yard.names("refused/yard").is_empty());
    }
}

#[tokio::test]
async fn a_spooled_result_is_sent_by_the_next_life_after_its_first_advert() {
    let mut yard = Yard::new().await;
    yard.grant("r1", 1);
    yard.with(|world| world.refuse_reports = Some(tonic::Status::unavailable("not now")));
    yard.send(Item::Step(yard.step(0, &["sh", "-c", "echo said; echo made > $OUT/file; exit 5"]))).await;
    yard.report("a first try").await;
    // The second order keeps the agent from waiting for a mediator that does not answer.
    yard.order_stop().await;
    yard.order_stop().await;
    yard.ended().await;
    assert_eq!(yard.names("spool/yard"), ["r1_0_1.json", "r1_0_1.log"]);
    let first = yard.with(|world| {
        world.refuse_reports = None;
        world.reports.clear();
        world.adverts.clear();
        world.artifacts.clear();
        world.logs.clear();
        world.instance.clone()
    });
    yard.start();
    let report = yard.report("the result").await;
    assert_eq!(reason(&report).0, "exit 5");
    let (adverts, log, made) =
        yard.with(|world| (world.adverts.clone(), world.logs["r1/0/1"].clone(), world.artifacts["file"].clone()));
    assert!(adverts[0].replaces.contains(&first));
    assert_eq!(adverts[0].finished, [report.step.clone().unwrap()]);
    assert_eq!(report.node.unwrap().instance, adverts[0].node.as_ref().unwrap().instance);
    assert_eq!((log.as_slice(), made.as_slice()), (b"said\n".as_slice(), b"made\n".as_slice()));
    crate::wait_for("an empty spool", || yard.names("spool/yard").is_empty().then_some(())).await;
    yard.stop().await;
}

#[tokio::test]
async fn a_spooled_result_whose_lease_is_gone_is_not_sent() {
    let mut yard = Yard::new().await;
    yard.grant("r1", 1);
    yard.with(|world| world.refuse_reports = Some(tonic::Status::unavailable("not now")));
    yard.send(Item::Step(yard.step(0, &["true"]))).await;
    yard.report("a first try").await;
    yard.order_stop().await;
    yard.order_stop().await;
    yard.ended().await;
    yard.release();
    yard.with(|world| {
        world.refuse_reports = None;
        world.reports.clear();
    });
    yard.start();
    crate::wait_for("a refused result", || (yard.names("refused/yard") == ["r1_0_1.json", "r1_0_1.log"]).then_some(()))
        .await;
    crate::wait_for("no folder", || yard.names("work/yard").is_empty().then_some(())).await;
    assert!(yard.with(|world| world.reports.is_empty()));
}
