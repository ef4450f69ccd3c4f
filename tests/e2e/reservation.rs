//! A wide Run is not starved by narrow ones, and everybody can see why they wait.

use tests::{Agent, Engine, Mediator, on_both_engines, wait_for};

use crate::gate::{Gate, quick, waiting};

on_both_engines! {
    fn nodes_are_kept_for_a_wide_run_and_both_sides_can_see_it(engine: Engine) {
        let mediator = Mediator::start_with(engine, &[("MEDIATOR_QUEUE__RESERVE_AFTER", "1s")]);
        let _one = Agent::start(&mediator, "n1");
        let _two = Agent::start(&mediator, "n2");
        let gate = Gate::new();
        for id in ["first", "second"] {
            mediator.submit(&waiting(&gate, id));
            mediator.wait_step(id, "hold", "CLAIMED");
        }
        let wide = "run_id: wide\nrequires: [{as: b, capability: build, count: 2}]\nsteps: [{id: s, uses: 'b[1]', run: ['true']}]\n";
        assert_eq!(mediator.submit(wide)["run"]["state"], "QUEUED");
        let explain = |id: &str| mediator.cli(&["explain", id]).ok().stdout;
        wait_for("nodes are kept for it", || explain("wide").contains("n1, n2 are kept for it, 0 of them free already").then_some(()));
        gate.open("first");
        mediator.wait_state("first", "SUCCEEDED");
        let file = mediator.home.path().join("narrow.yaml");
        std::fs::write(&file, quick("narrow")).unwrap();
        let dry = mediator.json(&["dry-run", file.to_str().unwrap()]);
        assert_eq!(dry["state"], "QUEUED", "and a dry run knows: {dry}");
        assert_eq!(mediator.submit(&quick("narrow"))["run"]["state"], "QUEUED", "a younger one does not get the free node");
        let why = explain("narrow");
        assert!(why.contains("n1 is free and kept for run wide, which is older and gathers 2 nodes"), "{why}");
        assert!(explain("wide").contains("1 of them free already"));
        gate.open("second");
        mediator.wait_state("wide", "SUCCEEDED");
        mediator.wait_state("narrow", "SUCCEEDED");
        assert_eq!(mediator.promotions("RunSettled"), 2);
        mediator.assert_no_wake_was_missed();
    }
}
