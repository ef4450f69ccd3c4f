//! One more resource on the way: waited for, not there, or held by a Run that waits in turn.

use tests::{Agent, AgentOptions, Engine, Mediator, mediator::step_of, on_both_engines};

use crate::gate::{Gate, on_builder};

fn start_tester(mediator: &Mediator) -> Agent {
    let capabilities = "[[capability]]\nname = \"test\"\n";
    let agent = Agent::start_with(mediator, &AgentOptions { capabilities, ..AgentOptions::builder("n2") });
    mediator.wait_node("n2", "is listed", |_| true);
    agent
}

/// A Run that holds the tester until its gate opens.
fn holder(gate: &Gate, id: &str) -> String {
    format!(
        "run_id: {id}\nrequires: [{{as: t, capability: test}}]\nsteps:\n  - {{id: hold, uses: t, run: {}}}\n",
        gate.step(id)
    )
}

/// A Run that acquires a tester on the way.
fn acquiring(id: &str, how: &str, more: &str) -> String {
    on_builder(
        id,
        &format!(
            "  - {{id: make, uses: builder, run: [sh, -c, 'echo made > $OUT/made'], out: [made]}}\n  \
             - {{id: more, acquire: {{as: extra, capability: test{how}}}{more}}}\n  \
             - {{id: use, uses: extra, in: {{from: [make/made]}}, run: [sh, -c, 'cat $IN/made; echo on $NODE_ID'], release: [extra]}}\n"
        ),
    )
}

const FORK: &str = ", dispatch: {from: outcome, to: {acquired: use, unavailable: without, deadlock: without}}";
const WITHOUT: &str = "  - {id: without, needs: [more], uses: builder, run: [echo, alone]}\n";

on_both_engines! {
    fn a_waiting_acquire_is_served_when_the_node_is_free(engine: Engine) {
        let mediator = Mediator::start(engine);
        let _builder = Agent::start(&mediator, "n1");
        let _tester = start_tester(&mediator);
        let gate = Gate::new();
        mediator.submit(&holder(&gate, "holds"));
        mediator.wait_step("holds", "hold", "CLAIMED");
        mediator.submit(&acquiring("wants", "", ""));
        let step = mediator.wait_step("wants", "more", "WAITING");
        assert!(step["deadline_at"].is_null(), "{step}");
        let page = mediator.cli(&["show", "wants"]).ok().stdout;
        assert!(page.contains("step more waits for role extra: a node with capability test"), "{page}");
        let why = mediator.cli(&["explain", "wants"]).ok().stdout;
        assert!(why.contains("step more waits") && why.contains("role extra") && why.contains("run holds on n2"), "{why}");
        gate.open("holds");
        let page = mediator.wait_state("wants", "SUCCEEDED");
        assert_eq!(step_of(&page, "use")["node"], "n2");
        assert_eq!(mediator.cli(&["logs", "wants", "use"]).ok().stdout, "made\non n2\n");
        assert_eq!(mediator.promotions("RunSettled"), 1);
        mediator.assert_no_wake_was_missed();
    }

    fn an_acquire_that_does_not_wait_ends_at_once_and_a_fork_can_catch_it(engine: Engine) {
        let mediator = Mediator::start(engine);
        let _builder = Agent::start(&mediator, "n1");
        let _tester = start_tester(&mediator);
        let gate = Gate::new();
        let caught = |id: &str| acquiring(id, ", wait: false", FORK) + WITHOUT;
        mediator.submit(&caught("free"));
        let page = mediator.wait_state("free", "SUCCEEDED");
        assert_eq!((step_of(&page, "use")["state"].as_str(), step_of(&page, "without")["state"].as_str()), (Some("DONE"), Some("SKIPPED")));
        mediator.submit(&holder(&gate, "holds"));
        mediator.wait_step("holds", "hold", "CLAIMED");
        mediator.submit(&caught("taken"));
        let page = mediator.wait_state("taken", "SUCCEEDED");
        assert_eq!((step_of(&page, "more")["state"].as_str(), step_of(&page, "without")["state"].as_str()), (Some("DONE"), Some("DONE")));
        assert_eq!(step_of(&page, "use")["state"], "SKIPPED");
        // Nobody catches it: the step and its Run have failed, and say of what.
        mediator.submit(&acquiring("fails", ", wait: false", ""));
        let page = mediator.wait_state("fails", "FAILED");
        let step = step_of(&page, "more");
        assert_eq!((step["reason"].as_str(), page["run"]["verdict"]["cause"].as_str()), (Some("unavailable"), Some("step_failed")));
        assert!(step["message"].as_str().unwrap().contains("role extra (capability test)"), "{step}");
        // And one that waits, but not for ever.
        mediator.submit(&(acquiring("patient", "", &format!(", timeout: 400ms{FORK}")) + WITHOUT));
        let step = mediator.wait_step("patient", "more", "WAITING");
        assert!(step["deadline_at"].is_string(), "{step}");
        let page = mediator.wait_state("patient", "SUCCEEDED");
        assert_eq!(step_of(&page, "without")["state"], "DONE");
        gate.open("holds");
        mediator.wait_state("holds", "SUCCEEDED");
    }

    fn runs_that_wait_for_each_other_are_found_and_the_younger_gives_way(engine: Engine) {
        let mediator = Mediator::start(engine);
        let _builder = Agent::start(&mediator, "n1");
        let _tester = start_tester(&mediator);
        let gate = Gate::new();
        let crossed = |id: &str, has: &str, wants: &str| format!(
            "run_id: {id}\nrequires: [{{as: own, capability: {has}}}]\nsteps:\n  - {{id: hold, uses: own, run: {}}}\n  \
             - {{id: more, acquire: {{as: other, capability: {wants}}}}}\n  - {{id: use, uses: other, run: ['true']}}\n",
            gate.step(id)
        );
        mediator.submit(&crossed("older", "build", "test"));
        mediator.submit(&crossed("younger", "test", "build"));
        for id in ["older", "younger"] {
            mediator.wait_step(id, "hold", "CLAIMED");
        }
        gate.open("older");
        mediator.wait_step("older", "more", "WAITING");
        gate.open("younger");
        let page = mediator.wait_state("younger", "FAILED");
        assert_eq!((step_of(&page, "more")["reason"].as_str(), page["run"]["verdict"]["cause"].as_str()), (Some("deadlock"), Some("step_failed")));
        let page = mediator.wait_state("older", "SUCCEEDED");
        assert_eq!(step_of(&page, "use")["node"], "n2");
        assert_eq!(mediator.promotions("RunSettled"), 1);
        assert_eq!(mediator.leases().len(), 0);
    }

    fn a_run_may_not_acquire_more_than_the_limit(engine: Engine) {
        let mediator = Mediator::start_with(engine, &[("MEDIATOR_LEASE__MAX_PER_RUN", "1")]);
        let _builder = Agent::start(&mediator, "n1");
        let _tester = start_tester(&mediator);
        mediator.submit(&(acquiring("wide", "", FORK) + WITHOUT));
        let page = mediator.wait_state("wide", "SUCCEEDED");
        assert_eq!(step_of(&page, "without")["state"], "DONE", "waiting would not help: {page}");
    }
}
