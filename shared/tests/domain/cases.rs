//! Cases that users of other systems reported, where the rules alone show what ours does. `docs/public-cases.md`
//! lists all of them.

use shared::domain::{Drain, Wake};

use crate::world::{ONE, TWO, World, capabilities, run_id};

const DAY: u64 = 86_400;

/// Goes on for this long, with an advert of each node in every interval.
fn pass(world: &mut World, nodes: &[&str], seconds: u64) {
    for _ in 0..seconds / 10 {
        world.wait(10);
        for node in nodes {
            world.advert(node).unwrap();
        }
        world.reap();
    }
}

#[test]
fn a30_neither_time_nor_a_restart_ends_a_drain() {
    for drain in [Drain::Graceful, Drain::AtBoundary] {
        let mut world = World::with(&["n"]);
        world.drain("n", drain).unwrap();
        world.submit("waits", ONE);
        pass(&mut world, &["n"], DAY);
        world.restart("n", &[]).unwrap();
        pass(&mut world, &["n"], 600);
        // Silent for long, and back.
        world.wait(DAY);
        world.reap();
        world.advert("n").unwrap();
        assert_eq!((world.state("waits"), world.lease("n")), ("QUEUED", None));
        world.drain("n", Drain::None).unwrap();
        world.expect_promoted("waits", Wake::AdvertOpened);
    }
}

#[test]
fn a31_a_capability_that_is_withdrawn_ends_nothing_and_takes_nothing_new() {
    let on_gpu =
        "{requires: [{as: b, capability: gpu}], steps: [{id: s, uses: b, run: [x]}, {id: t, uses: b, run: [x]}]}";
    let mut world = World::new();
    world.join("n", &["build", "gpu"]);
    world.submit("running", on_gpu);
    let first = world.claim("n").unwrap();
    world.submit("waiting", on_gpu);
    world.agent("n").capabilities = capabilities(&["build"]);
    world.advert("n").unwrap();
    world.report("n", &first, 0).unwrap();
    world.work("n");
    assert_eq!(world.show("running"), "SUCCEEDED judged: s=DONE t=DONE");
    // Not drained: what needs something else is served.
    assert_eq!((world.state("waiting"), world.promoted()), ("QUEUED", vec![]));
    world.submit("other", ONE);
    world.work("n");
    assert_eq!(world.state("other"), "SUCCEEDED");
    world.agent("n").capabilities = capabilities(&["build", "gpu"]);
    world.advert("n").unwrap();
    world.expect_promoted("waiting", Wake::AdvertOpened);
}

#[test]
fn b16_a_wide_run_is_not_starved_by_an_endless_stream_of_narrow_ones() {
    let wide = "{requires: [{as: b, capability: build, count: 2}], steps: [{id: s, uses: b, run: [x]}, {id: t, uses: 'b[1]', run: [x]}]}";
    let mut world = World::with(&["m", "n"]);
    // One of the two nodes is always taken: they end in turns, and two more wait at any time.
    let mut number = 0;
    let mut narrow = |world: &mut World| {
        number += 1;
        world.submit(&format!("narrow-{number}"), TWO);
    };
    narrow(&mut world);
    world.work("m");
    narrow(&mut world);
    world.submit("wide", wide);
    narrow(&mut world);
    narrow(&mut world);
    let mut rounds = 0;
    while world.state("wide") == "QUEUED" {
        for node in ["m", "n"] {
            narrow(&mut world);
            pass(&mut world, &["m", "n"], 10);
            if let Some(step) = world.claim(node) {
                world.report(node, &step, 0).unwrap();
            }
        }
        rounds += 1;
        assert!(rounds < 60, "it has waited for {} minutes", rounds / 3);
    }
    assert!(rounds >= 10, "narrow ones went first for a while: {rounds}");
}

#[test]
fn c28_a_cancel_frees_a_silent_node_at_once_and_it_counts_only_until_its_advert_ends() {
    let mut world = World::with(&["n"]);
    world.submit("held", ONE);
    let step = world.claim("n").unwrap();
    world.wait(40);
    // Nobody knows whether it is off: its last word still counts, so that what waits may be put there.
    world.submit("next", ONE);
    world.cancel("held").unwrap();
    world.expect_promoted("next", Wake::RunCancelled);
    assert_eq!(world.show("held"), "FAILED cancelled: s=FAILED");
    world.cancel("next").unwrap();
    world.wait(20);
    world.reap();
    // From here on only the node itself can change that.
    world.submit(
        "later",
        "{when_unmatched: queue, requires: [{as: b, capability: build}], steps: [{id: s, uses: b, run: [x]}]}",
    );
    assert_eq!((world.state("later"), world.lease("n")), ("QUEUED", None));
    world.report("n", &step, 0).unwrap_err();
    world.advert("n").unwrap();
    world.expect_promoted("later", Wake::AdvertOpened);
}

#[test]
fn e08_zero_repeats_are_none() {
    let with = |key: &str| {
        format!("{{{key} requires: [{{as: b, capability: build}}], steps: [{{id: s, uses: b, run: [x]}}]}}")
    };
    for (key, state) in [("", "FAILED"), ("on_lost: {retry: 0},", "FAILED"), ("on_lost: {retry: 1},", "QUEUED")] {
        let mut world = World::with(&["n"]);
        world.submit("r", &with(key));
        world.claim("n").unwrap();
        world.wait(60);
        world.reap();
        assert_eq!(world.state("r"), state, "{key}");
    }
}

#[test]
fn a_node_whose_run_cannot_be_read_goes_to_others() {
    let mut world = World::with(&["n"]);
    world.submit("r", ONE);
    world.submit("q", ONE);
    // As it is when its row was broken after it had been promoted unread.
    world.fleet.unload_run(&run_id("r"));
    assert!(world.claim("n").is_none());
    assert_eq!(world.lease("n").as_deref(), Some("q"));
    assert_eq!(world.claim("n").unwrap().run, run_id("q"));
}
