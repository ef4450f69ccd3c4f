//! How a Run ends, who is told why, and what survives a crash at that moment.

use std::time::Duration;

use serde_json::Value;
use tests::{Agent, AgentOptions, Engine, Mediator, mediator::step_of, on_both_engines, wait_for};

use crate::gate::{Gate, on_builder, quick, waiting};

fn listed(mediator: &Mediator, id: &str) -> Value {
    let page = mediator.json(&["runs"]);
    page["runs"].as_array().unwrap().iter().find(|run| run["run_id"] == id).cloned().unwrap()
}

on_both_engines! {
    // C17, C16, E09: what ended a Run is told apart in the list and on its page, and a step that was stopped says
    // by what.
    fn c17_c16_e09_each_way_to_end_is_told_apart(engine: Engine) {
        let mediator = Mediator::start(engine);
        let mut agent = Agent::start(&mediator, "n1");
        let gate = Gate::new();
        let two = |id: &str| on_builder(id, &format!(
            "  - {{id: hold, uses: builder, run: {}}}\n  - {{id: after, uses: builder, run: ['true']}}\n", gate.step(id)
        ));
        mediator.submit(&two("drained"));
        mediator.wait_step("drained", "hold", "CLAIMED");
        agent.set_drain("at-boundary");
        mediator.wait_node("n1", "drains", |node| node["draining"] == "at-boundary");
        gate.open("drained");
        mediator.wait_state("drained", "FAILED");
        agent.set_drain("");
        mediator.wait_node("n1", "lends", |node| node["draining"].is_null());

        mediator.submit(&two("cancelled"));
        mediator.wait_step("cancelled", "hold", "CLAIMED");
        mediator.cli(&["cancel", "cancelled"]).ok();

        mediator.submit(&on_builder("broken", "  - {id: hold, uses: builder, run: ['false']}\n"));
        mediator.wait_state("broken", "FAILED");

        mediator.submit(&on_builder("slow", "  - {id: hold, uses: builder, timeout: 300ms, run: [sleep, '600']}\n"));
        mediator.wait_state("slow", "FAILED");

        mediator.submit(&two("restarted"));
        mediator.wait_step("restarted", "hold", "CLAIMED");
        agent.kill();
        agent.restart();
        mediator.wait_state("restarted", "FAILED");

        mediator.submit(&two("lost"));
        mediator.wait_step("lost", "hold", "CLAIMED");
        agent.kill();
        mediator.wait_state("lost", "FAILED");

        let expected = [
            ("drained", "drain", "node", "n1", None),
            ("cancelled", "cancelled", "by", "", Some("run_closed")),
            ("broken", "judged", "cause", "judged", None),
            ("slow", "step_failed", "step", "hold", Some("timeout")),
            ("restarted", "node_restarted", "node", "n1", Some("node_restarted")),
            ("lost", "lease_expired", "node", "n1", Some("lease_expired")),
        ];
        for (id, cause, key, value, reason) in expected {
            let (row, page) = (listed(&mediator, id), mediator.show(id));
            assert_eq!(row["verdict"]["cause"], cause, "{id}: {row}");
            assert!(row["verdict"]["by"].is_null(), "who cancelled is in the detail only: {row}");
            let verdict = &page["run"]["verdict"];
            assert_eq!(verdict["cause"], cause, "{id}: {verdict}");
            let said = verdict[key].as_str().unwrap_or_default();
            assert!(!said.is_empty() && (value.is_empty() || said == value), "{id}: {key} of {verdict}");
            if let Some(reason) = reason {
                assert_eq!(step_of(&page, "hold")["reason"], reason, "{id}: {page}");
            }
            // People see the same words in both places.
            let table = mediator.cli(&["runs"]).ok().stdout;
            let line = table.lines().find(|line| line.contains(id)).unwrap();
            assert!(line.contains(cause), "{line}");
            assert!(mediator.cli(&["show", id]).ok().stdout.contains(cause));
        }
        for id in ["drained", "cancelled", "restarted", "lost"] {
            gate.open(id);
        }
    }

    // C11: a step's release, the wake and the report are one: kill -9 right after leaves all of it or nothing.
    fn c11_a_release_and_its_wake_survive_a_kill_right_after(engine: Engine) {
        let mut mediator = Mediator::start(engine);
        let _builder = Agent::start(&mediator, "n1");
        let _tester = Agent::start_with(&mediator, &AgentOptions {
            capabilities: "[[capability]]\nname = \"test\"\n",
            ..AgentOptions::builder("n2")
        });
        mediator.wait_node("n2", "is listed", |_| true);
        let gate = Gate::new();
        for round in 0..4_u64 {
            let (first, second) = (format!("first-{round}"), format!("second-{round}"));
            mediator.submit(&format!(
                "run_id: {first}\nrequires:\n  - {{as: builder, capability: build}}\n  - {{as: tester, capability: test}}\n\
                 steps:\n  - {{id: build, uses: builder, run: {}, release: [builder]}}\n  - {{id: test, uses: tester, run: {}}}\n",
                gate.step(&first), gate.step(&second)
            ));
            mediator.wait_step(&first, "build", "CLAIMED");
            assert_eq!(mediator.submit(&quick(&second))["run"]["state"], "QUEUED");
            gate.open(&first);
            // Another moment in each round: the moment is what is tested.
            std::thread::sleep(Duration::from_millis(30 * round));
            mediator.kill_at_once();
            let rows = mediator.sql(&format!(
                "SELECT (SELECT state FROM steps WHERE run_id = '{first}' AND name = 'build') || ' ' || \
                 (SELECT state FROM runs WHERE run_id = '{second}') || ' ' || \
                 (SELECT count(*) FROM leases WHERE node_id = 'n1' AND run_id = '{first}')"
            ));
            let (step, rest) = rows.split_once(' ').unwrap();
            if step == "DONE" {
                assert!(rest == "RUNNING 0" || rest.starts_with("SUCCEEDED"), "{rows}");
            } else {
                assert_eq!(rest, "QUEUED 1", "{rows}");
            }
            mediator.restart();
            mediator.wait_state(&second, "SUCCEEDED");
            gate.open(&second);
            mediator.wait_state(&first, "SUCCEEDED");
        }
    }

    // A35: nodes that drain or have gone are no candidates, and the answer says which of it, in words.
    fn a35_draining_and_vanished_nodes_are_no_candidates(engine: Engine) {
        let mediator = Mediator::start(engine);
        let mut agent = Agent::start(&mediator, "n1");
        agent.write_policy("drain = \"graceful\"\nreason = \"lent to a neighbour\"\n");
        mediator.wait_node("n1", "drains", |node| node["draining"] == "graceful");
        assert_eq!(mediator.submit(&quick("waits"))["run"]["state"], "QUEUED");
        let why = mediator.cli(&["explain", "waits"]).ok().stdout;
        assert!(why.contains("drain") || why.contains("graceful"), "{why}");
        let why = mediator.cli(&["explain", "--node", "n1"]).ok().stdout;
        assert!(why.contains("draining (graceful)") && why.contains("lent to a neighbour"), "{why}");
        agent.kill();
        let why = wait_for("the node has expired", || {
            let why = mediator.cli(&["explain", "--node", "n1"]).stdout;
            why.contains("last seen").then_some(why)
        });
        assert!(!why.contains("transport"), "{why}");
        let why = mediator.cli(&["explain", "waits"]).ok().stdout;
        assert!(why.contains("last seen") || why.contains("not seen"), "{why}");
        assert_eq!(mediator.leases().len(), 0);
        assert_eq!(mediator.state("waits"), "QUEUED", "a queued run waits for a node that may come back");
        agent.set_drain("");
        agent.restart();
        mediator.wait_state("waits", "SUCCEEDED");
    }

    // B04: a node that gains a capability while everything else is taken is a wake point.
    fn b04_a_new_capability_promotes_what_waits(engine: Engine) {
        let mediator = Mediator::start(engine);
        let _busy = Agent::start(&mediator, "n1");
        let mut other = Agent::start_with(&mediator, &AgentOptions {
            capabilities: "[[capability]]\nname = \"test\"\n",
            ..AgentOptions::builder("n2")
        });
        mediator.wait_node("n2", "is listed", |_| true);
        let gate = Gate::new();
        mediator.submit(&waiting(&gate, "first"));
        mediator.wait_step("first", "hold", "CLAIMED");
        assert_eq!(mediator.submit(&quick("second"))["run"]["state"], "QUEUED");
        let config = other.home.path().join("n2.toml");
        let text = std::fs::read_to_string(&config).unwrap();
        std::fs::write(&config, format!("{text}[[capability]]\nname = \"build\"\nattrs = {{ os = \"linux\" }}\n")).unwrap();
        other.kill();
        other.restart();
        let page = mediator.wait_state("second", "SUCCEEDED");
        assert_eq!(step_of(&page, "quick")["node"], "n2");
        assert_eq!(mediator.promotions("AdvertOpened"), 1);
        gate.open("first");
    }

    // C26: what a node does is read from its lease alone: when a Run has ended its node is free, in every list,
    // and gets work again, also after it has registered anew.
    fn c26_a_node_is_what_its_lease_says(engine: Engine) {
        let mediator = Mediator::start(engine);
        let mut agent = Agent::start(&mediator, "n1");
        let gate = Gate::new();
        for round in 0..3 {
            let id = format!("r{round}");
            mediator.submit(&waiting(&gate, &id));
            mediator.wait_step(&id, "hold", "CLAIMED");
            assert_eq!(mediator.node("n1").unwrap()["lease"]["run_id"], id);
            assert_eq!(mediator.leases()[0]["run_id"], id);
            gate.open(&id);
            mediator.wait_state(&id, "SUCCEEDED");
            assert!(mediator.node("n1").unwrap()["lease"].is_null());
            assert_eq!(mediator.leases().len(), 0);
            agent.kill();
            agent.restart_at(&mediator);
        }
        mediator.submit(&quick("last"));
        mediator.wait_state("last", "SUCCEEDED");
    }
}
