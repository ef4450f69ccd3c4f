//! The owner's word: each mode against each moment.

use shared::domain::{Drain, Refusal};

use crate::world::{ONE, TWO, World};

/// What became of Run `r`, who holds `n`, and what may be claimed there.
fn after(world: &mut World) -> String {
    let lease = world.lease("n").unwrap_or_else(|| "free".to_owned());
    let shown = world.show("r");
    let claim = match world.try_claim("n") {
        Ok(Some(step)) => format!("claims {}", step.name),
        Ok(None) => "claims nothing".to_owned(),
        Err(Refusal::Superseded { .. }) => "refused".to_owned(),
        Err(other) => other.to_string(),
    };
    format!("{shown} | {lease} | {claim}")
}

/// Its name, and what leads to it.
type Moment = (&'static str, fn(&mut World));

#[test]
fn each_mode_at_each_moment() {
    let moments: [Moment; 4] = [
        ("queued", |world| {
            world.submit("other", ONE);
            world.submit("r", TWO);
        }),
        ("idle lease", |world| {
            world.submit("r", TWO);
        }),
        ("running", |world| {
            world.submit("r", TWO);
            world.claim("n").unwrap();
        }),
        ("between steps", |world| {
            world.submit("r", TWO);
            world.work("n");
        }),
    ];
    let table = [
        ("queued", Drain::None, "QUEUED: s=PENDING t=PENDING | other | claims s"),
        ("queued", Drain::Graceful, "QUEUED: s=PENDING t=PENDING | other | claims s"),
        ("queued", Drain::AtBoundary, "QUEUED: s=PENDING t=PENDING | free | claims nothing"),
        ("idle lease", Drain::None, "RUNNING: s=PENDING t=PENDING | r | claims s"),
        ("idle lease", Drain::Graceful, "RUNNING: s=PENDING t=PENDING | r | claims s"),
        ("idle lease", Drain::AtBoundary, "FAILED drain: s=SKIPPED t=SKIPPED | free | claims nothing"),
        ("running", Drain::None, "RUNNING: s=CLAIMED t=PENDING | r | claims s"),
        ("running", Drain::Graceful, "RUNNING: s=CLAIMED t=PENDING | r | claims s"),
        ("running", Drain::AtBoundary, "RUNNING: s=CLAIMED t=PENDING | r | claims s"),
        ("between steps", Drain::None, "RUNNING: s=DONE t=PENDING | r | claims t"),
        ("between steps", Drain::Graceful, "RUNNING: s=DONE t=PENDING | r | claims t"),
        ("between steps", Drain::AtBoundary, "FAILED drain: s=DONE t=SKIPPED | free | claims nothing"),
    ];
    let mut seen = 0;
    for (moment, prepare) in moments {
        for mode in [Drain::None, Drain::Graceful, Drain::AtBoundary] {
            let mut world = World::with(&["n"]);
            prepare(&mut world);
            world.drain("n", mode).unwrap();
            let (.., wanted) = table.iter().find(|row| (row.0, row.1) == (moment, mode)).unwrap();
            assert_eq!(after(&mut world), *wanted, "{moment}, {mode:?}");
            seen += 1;
        }
    }
    assert_eq!(seen, table.len());
}

#[test]
fn a_boundary_comes_with_the_report_and_settling_wins() {
    let mut world = World::with(&["n"]);
    world.submit("r", TWO);
    let step = world.claim("n").unwrap();
    world.drain("n", Drain::AtBoundary).unwrap();
    let reply = world.report("n", &step, 0).unwrap();
    assert_eq!((reply.step_state.as_str(), reply.run_state), ("DONE", "FAILED"));
    assert_eq!(world.show("r"), "FAILED drain: s=DONE t=SKIPPED");

    let mut world = World::with(&["n"]);
    world.submit("r", ONE);
    let step = world.claim("n").unwrap();
    world.drain("n", Drain::AtBoundary).unwrap();
    world.report("n", &step, 0).unwrap();
    assert_eq!(world.show("r"), "SUCCEEDED judged: s=DONE");

    let mut world = World::with(&["n"]);
    world.submit("r", TWO);
    let step = world.claim("n").unwrap();
    world.drain("n", Drain::AtBoundary).unwrap();
    world.report_lost("n", &step).unwrap();
    assert_eq!(world.show("r"), "FAILED step_failed: s=FAILED t=SKIPPED");
}

#[test]
fn a_word_taken_back_before_the_boundary_changes_nothing() {
    let mut world = World::with(&["n"]);
    world.submit("r", TWO);
    let step = world.claim("n").unwrap();
    world.drain("n", Drain::AtBoundary).unwrap();
    world.drain("n", Drain::None).unwrap();
    world.report("n", &step, 0).unwrap();
    world.work("n");
    assert_eq!(world.show("r"), "SUCCEEDED judged: s=DONE t=DONE");
}

#[test]
fn the_run_on_several_nodes_is_stopped_everywhere_when_one_that_it_needs_goes() {
    let mut world = World::with(&["m", "n"]);
    let both = "{requires: [{as: b, capability: build, count: 2}], steps: [{id: s, uses: b, run: [x], needs: []}, {id: t, uses: 'b[1]', run: [x], needs: []}, {id: u, uses: b, run: [x]}]}";
    world.submit("r", both);
    let on_m = world.claim("m").unwrap();
    world.claim("n").unwrap();
    world.drain("m", Drain::AtBoundary).unwrap();
    assert_eq!(world.show("r"), "RUNNING: s=CLAIMED t=CLAIMED u=PENDING");
    world.report("m", &on_m, 0).unwrap();
    assert_eq!(world.show("r"), "FAILED drain: s=DONE t=FAILED u=SKIPPED");
    let stopped: Vec<String> = world.changes.stop.iter().map(|it| it.0.to_string()).collect();
    assert_eq!(stopped, ["m", "n"]);
}

#[test]
fn a_draining_node_gets_nothing_new_and_opens_with_the_word_taken_back() {
    for mode in [Drain::Graceful, Drain::AtBoundary] {
        let mut world = World::with(&["n"]);
        world.drain("n", mode).unwrap();
        assert_eq!(world.submit("r", ONE).run.state.as_str(), "QUEUED");
        // Not even a restart or a change of something else opens it.
        world.restart("n", &[]).unwrap();
        world.agent("n").capabilities = crate::world::capabilities(&["build", "more"]);
        world.advert("n").unwrap();
        assert_eq!((world.state("r"), world.lease("n")), ("QUEUED", None));
        world.drain("n", Drain::None).unwrap();
        assert_eq!(world.promoted(), ["r@AdvertOpened"]);
    }
}

#[test]
fn a_stopping_agent_keeps_its_lease_and_claims_nothing() {
    let mut world = World::with(&["n"]);
    world.submit("r", TWO);
    let step = world.claim("n").unwrap();
    world.agent("n").stopping = true;
    world.advert("n").unwrap();
    world.report("n", &step, 0).unwrap();
    assert_eq!(after(&mut world), "RUNNING: s=DONE t=PENDING | r | claims nothing");
    world.agent("n").goodbye = true;
    world.advert("n").unwrap();
    assert_eq!(world.lease("n").as_deref(), Some("r"));
    // The next instance goes on where this one stopped: nothing was running.
    world.agent("n").stopping = false;
    world.agent("n").goodbye = false;
    world.restart("n", &[]).unwrap();
    world.open("n").unwrap();
    world.work("n");
    assert_eq!(world.show("r"), "SUCCEEDED judged: s=DONE t=DONE");
}
