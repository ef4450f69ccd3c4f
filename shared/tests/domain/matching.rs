//! Which nodes a Run gets, and what it is told when it gets none.

use shared::domain::Drain;

use crate::world::World;

fn yard() -> World {
    let mut world = World::new();
    world.join("a", &["build:os=linux,cores=8", "flash"]);
    world.join("b", &["build:os=linux,cores=4"]);
    world.join("c", &["build:os=mac,cores=16"]);
    world
}

fn requires(requires: &str) -> String {
    format!("{{requires: [{requires}], steps: [{{id: s, uses: r, run: [x]}}]}}")
}

/// Nodes, or code, role and reason.
fn outcome(world: &mut World, text: &str) -> String {
    let run = world.submit("r", &requires(text)).run;
    match run.reject {
        Some(reject) => format!(
            "{} {}: {}",
            reject.code,
            reject.role.map_or_else(String::new, |role| role.to_string()),
            reject.reason
        ),
        None => {
            let nodes: Vec<&str> = run.assigned.iter().map(|it| it.node.as_str()).collect();
            format!("{} {}", run.state.as_str(), nodes.join(","))
        }
    }
}

#[test]
fn nodes_that_can_do_little_are_used_first_and_what_is_missing_is_named() {
    for (text, wanted) in [
        ("{as: r, capability: build}", "RUNNING b"),
        ("{as: r, capability: build, attrs: {cores: {min: 5}, os: linux}}", "RUNNING a"),
        ("{as: r, capability: build, count: 2, attrs: {os: {any: [linux, mac]}}}", "RUNNING b,c"),
        ("{as: r, capability: build}, {as: q, capability: build, attrs: {os: mac}}", "RUNNING b,c"),
        ("{as: r, capability: flash}", "RUNNING a"),
        (
            "{as: r, capability: build, attrs: {os: bsd}}",
            "422 r: role r wants 1 node with capability build, os=bsd, found 0; 3 of 3 nodes lack os=bsd",
        ),
        (
            "{as: r, capability: build, count: 2, attrs: {cores: {min: 9}}}",
            "422 r: role r wants 2 nodes with capability build, cores>=9, found 1; 2 of 3 nodes lack cores>=9",
        ),
        (
            "{as: r, capability: paint}",
            "422 r: role r wants 1 node with capability paint, found 0; 3 of 3 nodes lack capability paint",
        ),
        (
            "{as: r, capability: build, attrs: {cores: '8'}}",
            "422 r: role r wants 1 node with capability build, cores=8, found 0; 3 of 3 nodes lack cores=8",
        ),
    ] {
        assert_eq!(outcome(&mut yard(), text), wanted, "{text}");
    }
}

#[test]
fn a_run_without_free_nodes_waits_and_one_without_nodes_is_rejected() {
    let mut world = yard();
    for node in ["a", "b", "c"] {
        world.drain(node, Drain::Graceful).unwrap();
    }
    assert_eq!(outcome(&mut world, "{as: r, capability: build}"), "QUEUED ");
    assert_eq!(
        outcome(&mut World::new(), "{as: r, capability: build}"),
        "422 r: role r wants 1 node with capability build, found 0; no node is live"
    );
    let mut world = yard();
    world.wait(60);
    assert!(outcome(&mut world, "{as: r, capability: build}").ends_with("no node is live"));
}

#[test]
fn a_run_over_the_limit_of_nodes_is_rejected_without_a_role() {
    let mut world = yard();
    world.settings.max_per_run = 1;
    assert_eq!(
        outcome(&mut world, "{as: r, capability: build, count: 2}"),
        "422 : the run wants 2 nodes; lease.max_per_run allows 1"
    );
}
