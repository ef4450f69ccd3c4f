//! A step whose role was never acquired.

use crate::world::World;

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
