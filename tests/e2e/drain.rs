//! The owner's word: each mode × a running step, between steps, an idle lease, a queued Run.

use std::time::{Duration, Instant};

use tests::{Agent, Engine, Mediator, mediator::step_of, on_both_engines, wait_until};

use crate::gate::{Gate, on_builder, quick, waiting};

fn two_steps(gate: &Gate, id: &str) -> String {
    on_builder(
        id,
        &format!(
            "  - {{id: one, uses: builder, run: {}}}\n  - {{id: two, uses: builder, run: {}}}\n",
            gate.step("one"),
            gate.step("two")
        ),
    )
}

fn started(engine: Engine) -> (Mediator, Agent, Gate) {
    let mediator = Mediator::start(engine);
    let agent = Agent::start(&mediator, "n1");
    (mediator, agent, Gate::new())
}

fn wait_draining(mediator: &Mediator, mode: &str) {
    mediator.wait_node("n1", "drains", |node| node["draining"] == mode);
}

on_both_engines! {
    fn graceful_lets_a_run_go_on_to_its_end(engine: Engine) {
        let (mediator, agent, gate) = started(engine);
        mediator.submit(&two_steps(&gate, "held"));
        mediator.wait_step("held", "one", "CLAIMED");
        agent.set_drain("graceful");
        wait_draining(&mediator, "graceful");
        assert_eq!(mediator.submit(&quick("next"))["run"]["state"], "QUEUED");
        gate.open("one");
        mediator.wait_step("held", "two", "CLAIMED");
        gate.open("two");
        mediator.wait_state("held", "SUCCEEDED");
        assert_eq!(mediator.state("next"), "QUEUED", "a free node that drains takes nothing");
        agent.set_drain("");
        mediator.wait_state("next", "SUCCEEDED");
        mediator.assert_no_wake_was_missed();
    }

    // A28: the running step ends normally, nothing more is claimed, the Run is closed and says why.
    fn a28_at_boundary_ends_a_run_after_the_running_step(engine: Engine) {
        let (mediator, agent, gate) = started(engine);
        mediator.submit(&two_steps(&gate, "held"));
        mediator.wait_step("held", "one", "CLAIMED");
        agent.set_drain("at-boundary");
        wait_draining(&mediator, "at-boundary");
        assert_eq!(mediator.state("held"), "RUNNING", "the running step is left alone");
        gate.open("one");
        let page = mediator.wait_state("held", "FAILED");
        assert_eq!(page["run"]["verdict"]["cause"], "drain");
        assert_eq!(page["run"]["verdict"]["node"], "n1");
        assert_eq!(step_of(&page, "one")["state"], "DONE");
        assert_eq!(step_of(&page, "two")["state"], "SKIPPED");
        assert_eq!(mediator.leases(), Vec::<serde_json::Value>::new());
    }

    // A23: settling wins over the boundary.
    fn a23_the_last_step_settles_a_run_on_its_own_merit(engine: Engine) {
        let (mediator, agent, gate) = started(engine);
        mediator.submit(&waiting(&gate, "held"));
        mediator.wait_step("held", "hold", "CLAIMED");
        agent.set_drain("at-boundary");
        wait_draining(&mediator, "at-boundary");
        gate.open("held");
        let page = mediator.wait_state("held", "SUCCEEDED");
        assert_eq!(page["run"]["verdict"]["cause"], "judged");
    }

    // A33, A36: an idle lease on an at-boundary node is closed at once, also while another node works.
    fn a33_a36_an_idle_lease_is_given_back_at_once(engine: Engine) {
        let (mediator, agent, gate) = started(engine);
        let _other = Agent::start(&mediator, "n2");
        let contract = format!(
            "run_id: wide\nrequires:\n  - {{as: pair, capability: build, count: 2}}\nsteps:\n  \
             - {{id: elsewhere, uses: 'pair[1]', run: {}}}\n  - {{id: here, uses: pair, run: ['true']}}\n",
            gate.step("elsewhere")
        );
        mediator.submit(&contract);
        mediator.wait_step("wide", "elsewhere", "CLAIMED");
        let page = mediator.show("wide");
        assert_eq!(page["run"]["assigned"][0]["node"], "n1", "{page}");
        agent.set_drain("at-boundary");
        let page = mediator.wait_state("wide", "FAILED");
        assert_eq!(page["run"]["verdict"]["cause"], "drain");
        assert_eq!(step_of(&page, "elsewhere")["reason"], "run_closed");
    }

    // A04: clearing the file promotes the oldest waiting Run, with no other event.
    fn a04_clearing_the_file_promotes_what_waits(engine: Engine) {
        let (mediator, agent, gate) = started(engine);
        mediator.submit(&two_steps(&gate, "a"));
        mediator.wait_step("a", "one", "CLAIMED");
        assert_eq!(mediator.submit(&quick("b"))["run"]["state"], "QUEUED");
        agent.set_drain("at-boundary");
        wait_draining(&mediator, "at-boundary");
        gate.open("one");
        mediator.wait_state("a", "FAILED");
        assert_eq!(mediator.state("b"), "QUEUED");
        agent.write_policy("");
        mediator.wait_state("b", "SUCCEEDED");
        mediator.assert_no_wake_was_missed();
    }

    // A01: never shown draining without a lease while a process of a Run is alive.
    fn a01_drain_wait_returns_only_when_the_node_is_free(engine: Engine) {
        let (mediator, agent, gate) = started(engine);
        mediator.submit(&waiting(&gate, "held"));
        mediator.wait_step("held", "hold", "CLAIMED");
        let mut waiting_owner = agent.spawn_cli(&["drain", "--mode", "graceful", "--reason", "moving house", "--wait"]);
        wait_draining(&mediator, "graceful");
        assert_eq!(mediator.node("n1").unwrap()["drain_reason"], "moving house");
        assert!(waiting_owner.try_wait().unwrap().is_none(), "it must wait for the lease");
        gate.open("held");
        assert_eq!(waiting_owner.wait().unwrap().code(), Some(0));
        // What was promised stays true: nothing is granted after it was seen.
        let node = mediator.node("n1").unwrap();
        assert!(node["lease"].is_null(), "{node}");
        assert_eq!(mediator.submit(&quick("late"))["run"]["state"], "QUEUED");
        assert_eq!(mediator.leases(), Vec::<serde_json::Value>::new());
    }

    fn a26_drain_wait_has_a_timeout_of_its_own(engine: Engine) {
        let (mediator, agent, gate) = started(engine);
        mediator.submit(&waiting(&gate, "held"));
        mediator.wait_step("held", "hold", "CLAIMED");
        let ran = agent.cli(&["drain", "--wait", "--timeout", "1s"]);
        assert_eq!(ran.code, 3, "{ran:?}");
        assert!(ran.stderr.contains("held"), "it says which run it waits for: {ran:?}");
        gate.open("held");
    }

    fn drain_wait_tells_an_unreachable_mediator_apart(engine: Engine) {
        let (mut mediator, agent, _gate) = started(engine);
        mediator.kill();
        let ran = agent.cli(&["drain", "--wait", "--timeout", "1s"]);
        assert_eq!(ran.code, 4, "{ran:?}");
        mediator.restart();
        wait_draining(&mediator, "graceful");
    }

    // A09, A30: the file is the only truth over restarts of either side.
    fn a09_a_drain_survives_restarts_of_both_sides(engine: Engine) {
        let (mut mediator, mut agent, _gate) = started(engine);
        agent.cli(&["drain", "--mode", "graceful"]).ok();
        wait_draining(&mediator, "graceful");
        agent.kill();
        mediator.kill();
        mediator.restart();
        agent.restart();
        wait_draining(&mediator, "graceful");
        assert_eq!(mediator.submit(&quick("late"))["run"]["state"], "QUEUED");
        agent.cli(&["undrain"]).ok();
        mediator.wait_state("late", "SUCCEEDED");
        mediator.assert_no_wake_was_missed();
    }

    // A11: other keys and capabilities do not touch the drain.
    fn a11_other_keys_of_the_file_do_not_touch_the_drain(engine: Engine) {
        let (mediator, agent, _gate) = started(engine);
        agent.write_policy("drain = \"graceful\"\nreason = \"one\"\n");
        mediator.wait_node("n1", "says one", |node| node["drain_reason"] == "one");
        agent.write_policy("drain = \"graceful\"\nreason = \"two\"\npanel_token = \"secret-of-the-owner\"\n");
        mediator.wait_node("n1", "says two", |node| node["drain_reason"] == "two" && node["draining"] == "graceful");
        let (_, body) = mediator.get("/v1/nodes");
        assert!(!body.contains("secret-of-the-owner"));
        assert!(!mediator.cli(&["nodes", "--output", "json"]).stdout.contains("secret-of-the-owner"));
    }

    // A41: a broken file never lends by surprise.
    fn a41_a_broken_file_never_lends_by_surprise(engine: Engine) {
        let (mediator, agent, _gate) = started(engine);
        agent.set_drain("at-boundary");
        wait_draining(&mediator, "at-boundary");
        for broken in ["drain = ", "drain = \"at-bound", "drain = \"tomorrow\"", "drain = 7", "\u{0}\u{1}"] {
            agent.write_policy(broken);
            let node = mediator.wait_node("n1", "shows the error", |node| {
                node["policy_error"].as_str().is_some_and(|error| !error.is_empty())
            });
            assert_eq!(node["draining"], "at-boundary", "{broken:?}: {node}");
            agent.set_drain("at-boundary");
            mediator.wait_node("n1", "is mended", |node| node["policy_error"].is_null());
        }
        agent.set_drain("");
        mediator.wait_node("n1", "lends", |node| node["draining"].is_null());
        agent.write_policy("drain = \"gracefully\"\n");
        mediator.wait_node("n1", "holds back", |node| node["draining"] == "graceful");
    }

    // A05: toggling never gives a second lease or verdict.
    fn a05_a_toggled_file_gives_one_verdict(engine: Engine) {
        let (mediator, agent, _gate) = started(engine);
        for round in 0..12 {
            let id = format!("toggled-{round}");
            mediator.submit(&on_builder(&id, "  - {id: one, uses: builder, run: [sleep, '0.1']}\n  - {id: two, uses: builder, run: [sleep, '0.1']}\n"));
            agent.set_drain(if round % 2 == 0 { "at-boundary" } else { "" });
            agent.set_drain(if round % 3 == 0 { "graceful" } else { "" });
        }
        agent.set_drain("");
        for round in 0..12 {
            let id = format!("toggled-{round}");
            wait_until(&format!("{id} ends"), || matches!(mediator.state(&id).as_str(), "SUCCEEDED" | "FAILED"));
            let page = mediator.show(&id);
            let cause = page["run"]["verdict"]["cause"].as_str().unwrap().to_owned();
            assert!(cause == "judged" || cause == "drain", "{page}");
        }
        mediator.assert_no_wake_was_missed();
    }

    // A34: nothing central can drain or release a node.
    fn a34_no_call_of_any_role_changes_a_drain(engine: Engine) {
        let (mediator, agent, _gate) = started(engine);
        agent.set_drain("graceful");
        wait_draining(&mediator, "graceful");
        for command in [&["cancel", "nothing"][..], &["explain", "--node", "n1"], &["nodes"], &["status"]] {
            mediator.cli(command);
        }
        let help = mediator.cli(&["--help"]).stdout;
        assert!(!help.contains("drain") || help.contains("owner"), "{help}");
        assert_eq!(mediator.node("n1").unwrap()["draining"], "graceful");
    }

    // A21, A22: a planned stop of the agent lets the step end, reports it and says goodbye.
    fn a21_sigterm_lets_the_running_step_end(engine: Engine) {
        let (mediator, mut agent, gate) = started(engine);
        mediator.submit(&two_steps(&gate, "held"));
        mediator.wait_step("held", "one", "CLAIMED");
        agent.terminate();
        mediator.wait_node("n1", "is stopping", |node| node["stopping"] == true);
        gate.open("one");
        assert_eq!(agent.wait(), 0);
        assert_eq!(step_of(&mediator.show("held"), "one")["state"], "DONE");
        assert_eq!(mediator.state("held"), "RUNNING", "a stop between two steps loses nothing");
        agent.restart();
        mediator.wait_step("held", "two", "CLAIMED");
        gate.open("two");
        mediator.wait_state("held", "SUCCEEDED");
        mediator.assert_no_wake_was_missed();
    }

    // E04: killed at once, and what it had said by then is there.
    fn e04_a_second_sigterm_kills_the_step_and_says_so(engine: Engine) {
        let (mediator, mut agent, gate) = started(engine);
        mediator.submit(&waiting(&gate, "held"));
        mediator.wait_step("held", "hold", "CLAIMED");
        let log = || mediator.cli(&["logs", "held", "hold"]).ok().stdout;
        wait_until("it has said something", || log() == "waiting\n");
        agent.terminate();
        mediator.wait_node("n1", "is stopping", |node| node["stopping"] == true);
        agent.terminate();
        assert_eq!(agent.wait(), 0);
        let page = mediator.wait_state("held", "FAILED");
        assert_eq!(page["run"]["verdict"]["cause"], "step_failed");
        assert_eq!(step_of(&page, "hold")["reason"], "stopped");
        assert_eq!(log(), "waiting\n");
    }
}

#[test]
fn a_saved_policy_is_shown_without_waiting_for_the_next_heartbeat() {
    // An interval far longer than the test may take: only the file's event can bring the advert.
    let mediator = Mediator::start_with(Engine::Sqlite, &[("MEDIATOR_LEASE__RENEW", "10m")]);
    let agent = Agent::start(&mediator, "n1");
    let saved = Instant::now();
    agent.set_drain("graceful");
    wait_draining(&mediator, "graceful");
    assert!(saved.elapsed() < Duration::from_secs(60));
}
