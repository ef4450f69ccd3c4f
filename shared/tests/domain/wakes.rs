//! The six wake points, each alone: a queued Run is promoted by exactly that one.

use shared::domain::{Drain, Rescan, Wake};

use crate::world::{ONE, TWO, World};

/// One node, held by `holder` with two steps; `next` waits.
fn queued() -> World {
    let mut world = World::with(&["n"]);
    assert_eq!(world.submit("holder", TWO).run.state.as_str(), "RUNNING");
    assert_eq!(world.promoted(), ["holder@Submitted"]);
    assert_eq!(world.submit("next", ONE).run.state.as_str(), "QUEUED");
    assert_eq!(world.promoted(), [""; 0]);
    world
}

#[test]
fn wake_1_run_settled() {
    let mut world = queued();
    world.work("n");
    assert_eq!((world.promoted(), world.state("next")), (vec![], "QUEUED"));
    world.work("n");
    world.expect_promoted("next", Wake::RunSettled);
    assert_eq!(world.show("holder"), "SUCCEEDED judged: s=DONE t=DONE");
}

#[test]
fn wake_1_by_a_step_that_did_not_complete() {
    let mut world = queued();
    let step = world.claim("n").unwrap();
    world.report_lost("n", &step).unwrap();
    world.expect_promoted("next", Wake::RunSettled);
    assert_eq!(world.show("holder"), "FAILED step_failed: s=FAILED t=SKIPPED");
}

#[test]
fn wake_2_run_cancelled() {
    let mut world = queued();
    world.cancel("holder").unwrap();
    world.expect_promoted("next", Wake::RunCancelled);
}

#[test]
fn wake_2_by_a_boundary() {
    let mut world = World::with(&["n", "m"]);
    let both = "{requires: [{as: b, capability: build, count: 2}], steps: [{id: s, uses: b, run: [x]}, {id: t, uses: 'b[1]', run: [x]}]}";
    world.submit("holder", both);
    world.submit("next", ONE);
    // The first node of the role is m: the node is needed, the Run is closed, the other node is free.
    world.drain("m", Drain::AtBoundary).unwrap();
    world.expect_promoted("next", Wake::RunCancelled);
    assert_eq!(world.show("holder"), "FAILED drain: s=SKIPPED t=SKIPPED");
    assert_eq!((world.lease("m"), world.lease("n").as_deref()), (None, Some("next")));
}

#[test]
fn wake_3_frees_no_silent_node() {
    let mut world = queued();
    world.wait(59);
    world.advert("n").unwrap();
    world.wait(60);
    assert_eq!(world.reap(), 1);
    // The lease is gone and so is the node: nobody can be promoted onto it.
    assert_eq!(
        (world.promoted(), world.show("holder").as_str()),
        (vec![], "FAILED lease_expired: s=SKIPPED t=SKIPPED")
    );
    world.advert("n").unwrap();
    world.expect_promoted("next", Wake::AdvertOpened);
}

#[test]
fn wake_3_lease_expired() {
    let mut world = World::with(&["m", "n"]);
    let both = "{requires: [{as: b, capability: build, count: 2}], steps: [{id: s, uses: b, run: [x]}, {id: t, uses: 'b[1]', run: [x]}]}";
    world.submit("holder", both);
    world.submit("next", ONE);
    world.wait(40);
    world.advert("n").unwrap();
    world.wait(20);
    assert_eq!(world.reap(), 1);
    world.expect_promoted("next", Wake::LeaseExpired);
    assert_eq!(world.lease("n").as_deref(), Some("next"));
}

#[test]
fn wake_3_also_where_the_run_goes_on() {
    let mut world = World::with(&["m", "n"]);
    let both = "{requires: [{as: b, capability: build, count: 2}], steps: [{id: s, uses: b, run: [x]}, {id: t, uses: 'b[1]', run: [x]}]}";
    world.submit("holder", both);
    world.work("m");
    world.submit("next", ONE);
    // m was silent for too long, and is back before the reaper comes: its lease is not revived.
    world.wait(50);
    world.advert("n").unwrap();
    world.wait(20);
    world.advert("m").unwrap();
    assert_eq!(world.reap(), 1);
    world.expect_promoted("next", Wake::LeaseExpired);
    assert_eq!((world.lease("m").as_deref(), world.state("holder")), (Some("next"), "RUNNING"));
}

#[test]
fn wake_4_node_restarted() {
    let mut world = queued();
    world.claim("n").unwrap();
    world.restart("n", &[]).unwrap();
    world.expect_promoted("next", Wake::NodeRestarted);
    assert_eq!(world.show("holder"), "FAILED node_restarted: s=FAILED t=SKIPPED");
}

#[test]
fn wake_5_partial_release() {
    let mut world = World::new();
    world.join("n", &["build"]);
    world.join("j", &["judge"]);
    let holder = "{requires: [{as: b, capability: build}, {as: j, capability: judge}],
                   steps: [{id: s, uses: b, run: [x], release: [b]}, {id: t, uses: j, run: [x]}]}";
    world.submit("holder", holder);
    world.submit("next", ONE);
    world.work("n");
    world.expect_promoted("next", Wake::PartialRelease);
    assert_eq!((world.state("holder"), world.lease("j").as_deref()), ("RUNNING", Some("holder")));
}

#[test]
fn wake_5_by_a_boundary_on_a_node_that_is_done() {
    let mut world = World::with(&["m", "n"]);
    let holder = "{requires: [{as: b, capability: build, count: 2}],
                   steps: [{id: s, uses: b, run: [x]}, {id: t, uses: 'b[1]', run: [x]}]}";
    world.submit("holder", holder);
    world.work("m");
    world.submit("next", ONE);
    world.drain("m", Drain::AtBoundary).unwrap();
    // Given back and held by its owner; the Run goes on.
    assert_eq!((world.promoted(), world.lease("m"), world.state("holder")), (vec![], None, "RUNNING"));
    world.drain("m", Drain::None).unwrap();
    world.expect_promoted("next", Wake::AdvertOpened);
}

#[test]
fn wake_6_advert_opened() {
    let mut world = World::with(&["n"]);
    world.drain("n", Drain::Graceful).unwrap();
    world.submit("next", ONE);
    assert_eq!(world.state("next"), "QUEUED");
    world.drain("n", Drain::None).unwrap();
    world.expect_promoted("next", Wake::AdvertOpened);
}

#[test]
fn wake_6_by_a_node_that_is_new_or_can_do_more_or_goes_on() {
    let mut world = queued();
    world.join("m", &["build"]);
    world.expect_promoted("next", Wake::AdvertOpened);

    let mut world = queued();
    world.join("m", &["other"]);
    assert_eq!(world.promoted(), [""; 0]);
    world.agent("m").capabilities = crate::world::capabilities(&["other", "build"]);
    world.advert("m").unwrap();
    world.expect_promoted("next", Wake::AdvertOpened);

    let mut world = World::with(&["n"]);
    world.agent("n").stopping = true;
    world.advert("n").unwrap();
    world.submit("next", ONE);
    world.agent("n").stopping = false;
    world.restart("n", &[]).unwrap();
    world.expect_promoted("next", Wake::AdvertOpened);
}

#[test]
fn a_plain_renewal_and_the_sweep_promote_nobody() {
    let mut world = queued();
    world.advert("n").unwrap();
    assert_eq!(world.promoted(), [""; 0]);
    world.apply(&Rescan::Sweep).unwrap();
    assert_eq!(world.promoted(), [""; 0]);
}

#[test]
fn b17_nobody_overtakes_an_older_run_and_a_wide_one_blocks_no_narrow_one() {
    let mut world = World::with(&["m", "n"]);
    world.submit("holder", ONE);
    let wide = "{requires: [{as: b, capability: build, count: 2}], steps: [{id: s, uses: b, run: [x]}]}";
    world.submit("wide", wide);
    assert_eq!(world.submit("narrow", ONE).run.state.as_str(), "RUNNING");
    world.submit("late", ONE);
    let (holder, narrow) =
        (world.run("holder").assigned[0].node.to_string(), world.run("narrow").assigned[0].node.to_string());
    world.work(&narrow);
    world.expect_promoted("late", Wake::RunSettled);
    world.work(&narrow);
    world.work(&holder);
    world.expect_promoted("wide", Wake::RunSettled);
}

#[test]
fn one_wake_serves_as_many_as_there_are_nodes_oldest_first() {
    let mut world = World::with(&["m", "n"]);
    let wide = "{requires: [{as: b, capability: build, count: 2}], steps: [{id: s, uses: b, run: [x]}]}";
    world.submit("wide", wide);
    for run in ["first", "second", "third"] {
        world.submit(run, ONE);
    }
    // One that was cancelled in line is passed over and holds nothing.
    world.cancel("second").unwrap();
    assert_eq!((world.show("second").as_str(), world.fleet.queue.len()), ("FAILED cancelled: s=SKIPPED", 2));
    world.cancel("wide").unwrap();
    assert_eq!(world.promoted(), ["first@RunCancelled", "third@RunCancelled"]);
}

#[test]
fn a_queued_run_that_is_not_loaded_is_promoted_by_its_row() {
    let mut world = queued();
    let next = crate::world::run_id("next");
    world.fleet.runs.remove(&next);
    world.cancel("holder").unwrap();
    assert_eq!(world.promoted(), ["next@RunCancelled"]);
    let (assigned, rev) = &world.changes.promoted_unloaded[&next];
    assert_eq!((assigned[0].node.as_str(), *rev), ("n", world.fleet.rev));
    assert!(!world.changes.runs.contains(&next));
}

#[test]
fn after_an_outage_of_the_mediator_nothing_is_lost() {
    let mut world = queued();
    world.reap();
    // Nobody could renew: the mediator itself was away.
    world.wait(3_600);
    world.apply(&Rescan::Startup).unwrap();
    assert_eq!(world.reap(), 0);
    assert_eq!((world.state("holder"), world.lease("n").as_deref()), ("RUNNING", Some("holder")));
    world.work("n");
    world.work("n");
    world.expect_promoted("next", Wake::RunSettled);
    // It does not revive what had run out while the mediator was there.
    let mut world = queued();
    world.wait(60);
    world.fleet.reaped_at = Some(world.now);
    world.wait(3_600);
    world.apply(&Rescan::Startup).unwrap();
    assert_eq!(world.reap(), 1);
}

#[test]
fn a_node_that_executes_a_step_is_told_of_the_next_one_when_that_has_ended() {
    let mut world = World::with(&["n", "m"]);
    let text = "{requires: [{as: b, capability: build, count: 2}], steps: [{id: long, uses: b, needs: [], run: [x]}, \
                {id: later, uses: b, needs: [], run: [x]}, {id: short, uses: 'b[1]', needs: [], run: [x]}]}";
    world.submit("r", text);
    let (long, short) = (world.claim("m").unwrap(), world.claim("n").unwrap());
    assert_eq!((long.name.as_str(), short.name.as_str()), ("long", "short"));
    world.report("n", &short, 0).unwrap();
    assert!(world.changes.work.is_empty(), "{:?}", world.changes.work);
    world.report("m", &long, 0).unwrap();
    assert_eq!(world.changes.work, [crate::world::node_id("m")].into());
}
