//! Steps that wait for something which nobody brings: a role that was never acquired, a beginning that was lost.

use shared::{
    Duration,
    domain::{Drain, RunState},
};

use crate::world::{ONE, World, node_id, run_id};

/// A Run that begins with a question was not in memory when its turn came; now it is.
fn promoted_unread() -> World {
    let mut world = World::with(&["a"]);
    world.submit("first", ONE);
    world.submit("r", "{requires: [{as: b, capability: build}], steps: [{id: s, ask: {question: well}}]}");
    let mut run = world.fleet.runs.remove(&run_id("r")).unwrap();
    world.work("a");
    let (assigned, _) = world.changes.promoted_unloaded[&run_id("r")].clone();
    (run.state, run.assigned) = (RunState::Running, assigned);
    world.fleet.load_run(run);
    world
}

#[test]
fn a_step_that_the_outcome_of_an_acquire_leaves_without_its_node_fails_and_holds_nobody_up() {
    let mut world = World::with(&["a"]);
    let contract = "{requires: [{as: b, capability: build}],
        steps: [{id: s, acquire: {as: x, capability: gpu, wait: false},
                 dispatch: {from: outcome, to: {acquired: t, unavailable: u}}},
                {id: t, uses: b, run: [x]}, {id: u, uses: b, run: [x]}, {id: v, uses: x, needs: [s, u], run: [x]}]}";
    world.submit("r", contract);
    world.work("a");
    assert_eq!(world.show("r"), "FAILED step_failed: s=DONE t=SKIPPED u=DONE v=FAILED");
    assert_eq!(world.lease("a"), None);
}

#[test]
fn a_run_that_loses_its_node_before_anybody_read_it_still_begins() {
    let mut world = promoted_unread();
    world.drain("a", Drain::AtBoundary).unwrap();
    assert_eq!(world.show("r"), "RUNNING: s=ASKED");
    assert_eq!(world.lease("a"), None);
}

#[test]
fn an_acquire_that_does_not_wait_gets_what_the_same_command_frees() {
    let mut world = World::with(&["a"]);
    world.join("g", &["gpu"]);
    world.join("d", &["disk"]);
    let contract = "{requires: [{as: b, capability: build}, {as: old, capability: gpu}],
        steps: [{id: s, uses: b, run: [x]},
                {id: p, needs: [s], acquire: {as: new, capability: gpu, wait: false}},
                {id: q, needs: [s], acquire: {as: more, capability: disk}, release: [old]},
                {id: t, uses: new, needs: [p, q], run: [x]}]}";
    world.submit("r", contract);
    world.work("a");
    assert_eq!(world.show("r"), "RUNNING: s=DONE p=DONE q=DONE t=PENDING");
    assert_eq!(world.lease("g"), Some("r".to_owned()));
}

#[test]
fn a_question_of_a_run_that_nobody_has_read_is_asked_by_the_next_heartbeat_at_the_latest() {
    let mut world = promoted_unread();
    // The signal that told the node's stream is lost.
    world.advert("a").unwrap();
    assert!(world.changes.work.contains(&node_id("a")), "it is told again");
    assert_eq!(world.claim("a"), None);
    assert_eq!(world.show("r"), "RUNNING: s=ASKED");
}

#[test]
fn nothing_is_reserved_for_a_run_that_may_never_have_so_many_nodes() {
    for limit in [2, 0] {
        let mut world = World::with(&["a", "b", "c"]);
        world.submit("x", ONE);
        let wide = "{requires: [{as: b, capability: build, count: 3}], steps: [{id: s, uses: b, run: [x]}]}";
        world.submit("wide", wide);
        world.settings.max_per_run = limit;
        world.settings.reserve_after = Duration::default();
        world.reap();
        assert_eq!(world.fleet.reservation.is_some(), limit == 0);
        // A limit that comes later lets go of what was reserved.
        world.settings.max_per_run = 2;
        world.reap();
        assert_eq!(world.fleet.reservation, None);
    }
}
