//! Either side is killed and comes back; two agents claim one node.

use tests::{Agent, AgentOptions, Engine, Mediator, mediator::step_of, on_both_engines, wait_until};

use crate::gate::{Gate, on_builder, quick, waiting};

on_both_engines! {
    // B12, C10: no Run lost, no attempt counted, no lease dropped.
    fn b12_c10_a_killed_mediator_loses_nothing(engine: Engine) {
        let mut mediator = Mediator::start(engine);
        let _one = Agent::start(&mediator, "n1");
        let _two = Agent::start(&mediator, "n2");
        let gate = Gate::new();
        for id in ["a", "b"] {
            mediator.submit(&waiting(&gate, id));
            mediator.wait_step(id, "hold", "CLAIMED");
        }
        for id in ["c", "d", "e"] {
            assert_eq!(mediator.submit(&quick(id))["run"]["state"], "QUEUED");
        }
        let before = mediator.leases().len();
        mediator.kill();
        mediator.restart();
        assert_eq!(mediator.leases().len(), before);
        gate.open("a");
        gate.open("b");
        for id in ["a", "b", "c", "d", "e"] {
            let page = mediator.wait_state(id, "SUCCEEDED");
            let attempts: Vec<_> = page["steps"].as_array().unwrap().iter().map(|step| step["attempt"].clone()).collect();
            assert_eq!(attempts, [1], "{id} ran once");
        }
        mediator.assert_no_wake_was_missed();
    }

    // A22, C18: the step ends while the mediator is away; its result is not lost.
    fn a22_a_result_survives_the_mediators_absence(engine: Engine) {
        let mut mediator = Mediator::start(engine);
        let agent = Agent::start(&mediator, "n1");
        let gate = Gate::new();
        mediator.submit(&waiting(&gate, "held"));
        mediator.wait_step("held", "hold", "CLAIMED");
        mediator.kill();
        gate.open("held");
        wait_until("the result is spooled", || agent.status()["agent"]["nodes"][0]["spooled"] == 1);
        mediator.restart();
        let page = mediator.wait_state("held", "SUCCEEDED");
        assert_eq!(step_of(&page, "hold")["attempt"], 1);
        assert!(mediator.cli(&["logs", "held", "hold"]).ok().stdout.contains("waiting"));
    }

    // A22: both go away right after the step has ended; the next life of the agent brings the result.
    fn a22_a_spooled_result_survives_both(engine: Engine) {
        let mut mediator = Mediator::start(engine);
        let mut agent = Agent::start(&mediator, "n1");
        let gate = Gate::new();
        mediator.submit(&waiting(&gate, "held"));
        mediator.wait_step("held", "hold", "CLAIMED");
        mediator.kill();
        gate.open("held");
        wait_until("the result is spooled", || agent.status()["agent"]["nodes"][0]["spooled"] == 1);
        agent.kill();
        mediator.restart();
        agent.restart();
        mediator.wait_state("held", "SUCCEEDED");
        mediator.assert_no_wake_was_missed();
    }

    // C22: a killed agent's step is lost as soon as its next life shows up, and never runs on.
    fn c22_a_killed_agent_leaves_no_process_behind(engine: Engine) {
        let mediator = Mediator::start(engine);
        let mut agent = Agent::start(&mediator, "n1");
        let proof = tempfile::tempdir().unwrap();
        let pid_file = proof.path().join("pid");
        mediator.submit(&on_builder(
            "held",
            &format!("  - {{id: hold, uses: builder, run: [sh, -c, 'echo $$$$ > {}; sleep 600']}}\n", pid_file.display()),
        ));
        wait_until("the step runs", || std::fs::read_to_string(&pid_file).is_ok_and(|pid| pid.ends_with('\n')));
        let pid = std::fs::read_to_string(&pid_file).unwrap().trim().to_owned();
        agent.kill();
        agent.restart();
        mediator.wait_state("held", "FAILED");
        wait_until("the orphan is gone", || !std::path::Path::new(&format!("/proc/{pid}")).exists());
    }

    // C22: a node that stays away is noticed within its horizon.
    fn c22_a_silent_node_is_noticed(engine: Engine) {
        let mediator = Mediator::start(engine);
        let mut agent = Agent::start(&mediator, "n1");
        let gate = Gate::new();
        mediator.submit(&waiting(&gate, "held"));
        mediator.wait_step("held", "hold", "CLAIMED");
        agent.kill();
        let page = mediator.wait_state("held", "FAILED");
        assert_eq!(page["run"]["verdict"]["cause"], "lease_expired");
        assert_eq!(step_of(&page, "hold")["reason"], "lease_expired");
        gate.open("held");
    }

    // C20: a step longer than the horizon runs once.
    fn c20_a_step_longer_than_the_horizon_runs_once(engine: Engine) {
        let mediator = Mediator::start_with(engine, &[("MEDIATOR_LEASE__RENEW", "200ms")]);
        let _agent = Agent::start(&mediator, "n1");
        mediator.submit(&on_builder("long", "  - {id: long, uses: builder, run: [sleep, '6']}\n"));
        let page = mediator.wait_state("long", "SUCCEEDED");
        assert_eq!(step_of(&page, "long")["attempt"], 1);
    }

    // Two agents with one node id: the second is refused and waits, and says so.
    fn two_agents_with_one_node_id(engine: Engine) {
        let mediator = Mediator::start(engine);
        let mut first = Agent::start(&mediator, "n1");
        let gate = Gate::new();
        mediator.submit(&waiting(&gate, "held"));
        mediator.wait_step("held", "hold", "CLAIMED");
        // The same owner's token on a copied configuration.
        let second = Agent::prepare(&mediator, &AgentOptions::builder("n1"));
        std::fs::copy(first.home.path().join("token"), second.home.path().join("token")).unwrap();
        let mut second = second;
        second.restart();
        wait_until("the second says that it is superseded", || {
            let ran = second.cli(&["status", "--output", "json"]);
            ran.code == 0 && ran.json()["agent"]["nodes"][0]["superseded"].as_str().is_some_and(|why| !why.is_empty())
        });
        assert_eq!(mediator.state("held"), "RUNNING");
        gate.open("held");
        mediator.wait_state("held", "SUCCEEDED");
        // Once the first is gone for good and its advert has expired, the second takes over.
        let spoke = mediator.node("n1").unwrap()["instance"].clone();
        first.kill();
        mediator.wait_node("n1", "has another speaker", |node| node["instance"] != spoke);
        mediator.submit(&quick("next"));
        mediator.wait_state("next", "SUCCEEDED");
        assert!(second.is_running());
    }

    // B11: agents need no restart after the mediator's.
    fn b11_work_reaches_every_agent_after_a_restart(engine: Engine) {
        let mut mediator = Mediator::start(engine);
        let agents: Vec<Agent> = ["n1", "n2", "n3"].into_iter().map(|name| Agent::start(&mediator, name)).collect();
        mediator.kill();
        mediator.restart();
        let gate = Gate::new();
        for id in ["a", "b", "c"] {
            mediator.submit(&waiting(&gate, id));
        }
        for id in ["a", "b", "c"] {
            mediator.wait_step(id, "hold", "CLAIMED");
            gate.open(id);
            mediator.wait_state(id, "SUCCEEDED");
        }
        drop(agents);
        mediator.assert_no_wake_was_missed();
    }

    // B26: the same run id twice, also at the same moment, is one Run.
    fn b26_the_same_submission_twice_is_one_run(engine: Engine) {
        let mediator = Mediator::start(engine);
        let _agent = Agent::start(&mediator, "n1");
        let file = mediator.home.path().join("same.yaml");
        std::fs::write(&file, quick("same")).unwrap();
        let file = file.to_str().unwrap();
        let racing: Vec<_> = (0..4).map(|_| mediator.spawn_cli(&["submit", file])).collect();
        for mut child in racing {
            assert!(child.wait().unwrap().success());
        }
        mediator.wait_state("same", "SUCCEEDED");
        assert_eq!(mediator.json(&["runs"])["runs"].as_array().unwrap().len(), 1);
        std::fs::write(file, quick("same").replace("true", "false")).unwrap();
        let ran = mediator.cli(&["submit", file]);
        assert_eq!(ran.code, 2, "{ran:?}");
        assert!(ran.stderr.contains("same"), "{ran:?}");
    }
}
