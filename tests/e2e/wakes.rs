//! Each of the six wake points promotes a queued Run, with no help from the sweep.

use tests::{Agent, AgentOptions, Engine, Mediator, on_both_engines};

use crate::gate::{Gate, on_builder, quick, waiting};

/// A mediator, one agent, and two Runs: `first` holds the node, `second` waits for it.
fn one_holds_one_waits(engine: Engine) -> (Mediator, Agent, Gate) {
    let mediator = Mediator::start(engine);
    let agent = Agent::start(&mediator, "n1");
    let gate = Gate::new();
    mediator.submit(&waiting(&gate, "first"));
    mediator.wait_step("first", "hold", "CLAIMED");
    assert_eq!(mediator.submit(&quick("second"))["run"]["state"], "QUEUED");
    (mediator, agent, gate)
}

fn assert_promoted_by(mediator: &Mediator, wake: &str) {
    mediator.wait_state("second", "SUCCEEDED");
    assert_eq!(mediator.promotions(wake), 1, "{wake}");
    mediator.assert_no_wake_was_missed();
}

on_both_engines! {
    fn wake_1_run_settled(engine: Engine) {
        let (mediator, _agent, gate) = one_holds_one_waits(engine);
        gate.open("first");
        assert_promoted_by(&mediator, "RunSettled");
    }

    fn wake_2_run_cancelled(engine: Engine) {
        let (mediator, _agent, _gate) = one_holds_one_waits(engine);
        mediator.cli(&["cancel", "first"]).ok();
        assert_promoted_by(&mediator, "RunCancelled");
    }

    fn wake_3_lease_expired(engine: Engine) {
        // Two nodes; the one that holds `first` goes silent. `second` needs the other one, which `first` holds
        // as well, so only the reaper can free it.
        let mediator = Mediator::start(engine);
        let gate = Gate::new();
        let mut silent = Agent::start_with(&mediator, &AgentOptions {
            capabilities: "[[capability]]\nname = \"board\"\n",
            ..AgentOptions::builder("silent")
        });
        mediator.wait_node("silent", "is listed", |_| true);
        let _alive = Agent::start(&mediator, "alive");
        mediator.submit(&format!(
            "run_id: first\nrequires:\n  - {{as: board, capability: board}}\n  - {{as: builder, capability: build}}\n\
             steps:\n  - {{id: hold, uses: board, run: {}}}\n  - {{id: after, uses: builder, run: ['true']}}\n",
            gate.step("never")
        ));
        mediator.wait_step("first", "hold", "CLAIMED");
        assert_eq!(mediator.submit(&quick("second"))["run"]["state"], "QUEUED");
        silent.kill();
        assert_promoted_by(&mediator, "LeaseExpired");
        let page = mediator.show("first");
        assert_eq!(page["run"]["verdict"]["cause"], "lease_expired");
        assert_eq!(page["run"]["verdict"]["node"], "silent");
        gate.open("never");
    }

    fn wake_4_node_restarted(engine: Engine) {
        let (mediator, mut agent, _gate) = one_holds_one_waits(engine);
        agent.kill();
        agent.restart();
        assert_promoted_by(&mediator, "NodeRestarted");
        assert_eq!(mediator.show("first")["run"]["verdict"]["cause"], "node_restarted");
    }

    fn wake_5_partial_release(engine: Engine) {
        let mediator = Mediator::start(engine);
        let _one = Agent::start(&mediator, "n1");
        let _two = Agent::start_with(&mediator, &AgentOptions {
            capabilities: "[[capability]]\nname = \"test\"\n",
            ..AgentOptions::builder("n2")
        });
        mediator.wait_node("n2", "is listed", |_| true);
        let gate = Gate::new();
        mediator.submit(&format!(
            "run_id: first\nrequires:\n  - {{as: builder, capability: build}}\n  - {{as: tester, capability: test}}\n\
             steps:\n  - {{id: build, uses: builder, run: {}, release: [builder]}}\n  - {{id: test, uses: tester, run: {}}}\n",
            gate.step("build"),
            gate.step("test"),
        ));
        mediator.wait_step("first", "build", "CLAIMED");
        assert_eq!(mediator.submit(&quick("second"))["run"]["state"], "QUEUED");
        gate.open("build");
        assert_promoted_by(&mediator, "PartialRelease");
        assert_eq!(mediator.state("first"), "RUNNING");
        gate.open("test");
        mediator.wait_state("first", "SUCCEEDED");
    }

    fn wake_6_advert_opened_by_a_cleared_drain(engine: Engine) {
        let mediator = Mediator::start(engine);
        let agent = Agent::start(&mediator, "n1");
        agent.set_drain("graceful");
        mediator.wait_node("n1", "drains", |node| node["draining"] == "graceful");
        assert_eq!(mediator.submit(&quick("second"))["run"]["state"], "QUEUED");
        agent.set_drain("");
        assert_promoted_by(&mediator, "AdvertOpened");
    }

    fn wake_6_advert_opened_by_a_new_node(engine: Engine) {
        let (mediator, _agent, _gate) = one_holds_one_waits(engine);
        let _other = Agent::start(&mediator, "n2");
        assert_promoted_by(&mediator, "AdvertOpened");
    }

    fn wake_6_advert_opened_by_a_node_that_is_back(engine: Engine) {
        let mediator = Mediator::start(engine);
        let mut agent = Agent::start(&mediator, "n1");
        let _busy = Agent::start(&mediator, "n2");
        let gate = Gate::new();
        mediator.submit(&waiting(&gate, "first"));
        mediator.wait_step("first", "hold", "CLAIMED");
        let held = mediator.leases()[0]["node_id"].as_str().unwrap().to_owned();
        assert_eq!(held, "n1");
        agent.kill();
        mediator.wait_state("first", "FAILED");
        mediator.submit(&on_builder("third", &format!("  - {{id: hold, uses: builder, run: {}}}\n", gate.step("third"))));
        mediator.wait_step("third", "hold", "CLAIMED");
        assert_eq!(mediator.submit(&quick("second"))["run"]["state"], "QUEUED");
        agent.restart();
        assert_promoted_by(&mediator, "AdvertOpened");
        gate.open("first");
        gate.open("third");
    }

    fn submitted_and_startup_have_names_of_their_own(engine: Engine) {
        let mut mediator = Mediator::start(engine);
        let _agent = Agent::start(&mediator, "n1");
        mediator.submit(&quick("one"));
        mediator.wait_state("one", "SUCCEEDED");
        assert_eq!(mediator.promotions("Submitted"), 1);
        mediator.kill();
        mediator.restart();
        mediator.assert_no_wake_was_missed();
    }
}
