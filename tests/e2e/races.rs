//! Two things at the same moment: whichever comes first, one rule holds.

use std::{
    sync::atomic::{AtomicBool, AtomicU32, Ordering},
    time::Duration,
};

use tests::{
    Agent, Client, Engine, Mediator,
    mediator::{signal, step_of},
    on_both_engines, wait_until,
};

use crate::gate::{Gate, on_builder, quick, waiting};

/// Submits quick Runs until told to stop, while `meanwhile` happens. Returns how many.
fn under_a_flood(mediator: &Mediator, prefix: &str, meanwhile: impl FnOnce(&AtomicU32)) -> u32 {
    let (stop, count) = (AtomicBool::new(false), AtomicU32::new(0));
    let mut client = Client::connect(mediator);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::SeqCst) {
                let number = count.load(Ordering::SeqCst);
                client.submit(&quick(&format!("{prefix}-{number}"))).unwrap();
                count.store(number + 1, Ordering::SeqCst);
                std::thread::sleep(Duration::from_millis(5));
            }
        });
        // Whatever it finds, the flood ends.
        struct End<'a>(&'a AtomicBool);
        impl Drop for End<'_> {
            fn drop(&mut self) {
                self.0.store(true, Ordering::SeqCst);
            }
        }
        let _end = End(&stop);
        meanwhile(&count);
    });
    count.load(Ordering::SeqCst)
}

fn ended(mediator: &Mediator) -> usize {
    mediator.json(&["runs", "--limit", "1000"])["runs"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|run| run["state"] != "QUEUED")
        .count()
}

on_both_engines! {
    // A20: the file is saved and the node is shown draining without a lease: it is safe to power off. Nothing is
    // granted after that was seen, however much is submitted.
    fn a20_nothing_is_granted_once_a_drained_node_was_shown(engine: Engine) {
        let mediator = Mediator::start(engine);
        let agent = Agent::start(&mediator, "n1");
        for (round, mode) in ["graceful", "at-boundary"].into_iter().enumerate() {
            let count = under_a_flood(&mediator, &format!("flood-{round}"), |count| {
                wait_until("the flood flows", || count.load(Ordering::SeqCst) > 3);
                agent.set_drain(mode);
                mediator.wait_node("n1", "is drained", |node| node["draining"] == mode && node["lease"].is_null());
                let (begun, seen) = (ended(&mediator), count.load(Ordering::SeqCst));
                wait_until("more was submitted", || count.load(Ordering::SeqCst) > seen + 20);
                assert_eq!(mediator.leases().len(), 0);
                assert_eq!(ended(&mediator), begun, "a run left the queue");
            });
            agent.set_drain("");
            let mut client = Client::connect(&mediator);
            for number in 0..count {
                let id = format!("flood-{round}-{number}");
                wait_until(&format!("{id} ends"), || matches!(client.state(&id).as_str(), "SUCCEEDED" | "FAILED"));
            }
        }
    }

    // B01: the node is freed by each wake point while submits race; whoever comes first, nothing that could run
    // stays behind. The sweep, which could hide it, is looked at when the mediator goes.
    fn b01_a_run_that_is_parked_while_the_node_is_freed_is_not_forgotten(engine: Engine) {
        let mediator = Mediator::start(engine);
        let mut agent = Agent::start(&mediator, "n1");
        let gate = Gate::new();
        for (round, how) in ["settled", "cancelled", "released", "opened", "restarted", "settled"].into_iter().enumerate() {
            let held = format!("held-{round}");
            let steps = format!(
                "  - {{id: hold, uses: builder, run: {}, release: [builder]}}\n",
                gate.step(&held)
            );
            match how {
                "opened" => {
                    agent.set_drain("graceful");
                    mediator.wait_node("n1", "drains", |node| node["draining"] == "graceful");
                }
                "released" => drop(mediator.submit(&on_builder(&held, &steps))),
                _ => drop(mediator.submit(&waiting(&gate, &held))),
            }
            if how != "opened" {
                mediator.wait_step(&held, "hold", "CLAIMED");
            }
            let count = under_a_flood(&mediator, &format!("raced-{round}"), |count| {
                wait_until("the flood flows", || count.load(Ordering::SeqCst) > 1);
                match how {
                    "cancelled" => drop(mediator.cli(&["cancel", &held]).ok()),
                    "opened" => agent.set_drain(""),
                    "restarted" => {
                        agent.kill();
                        agent.restart();
                    }
                    _ => gate.open(&held),
                }
                let seen = count.load(Ordering::SeqCst);
                wait_until("some more came", || count.load(Ordering::SeqCst) > seen + 3);
            });
            let mut client = Client::connect(&mediator);
            for number in 0..count {
                let id = format!("raced-{round}-{number}");
                wait_until(&format!("{id} ends ({how})"), || matches!(client.state(&id).as_str(), "SUCCEEDED" | "FAILED"));
            }
        }
        assert_eq!(mediator.leases().len(), 0);
    }

    // B13: while submits, ends and cancels race, a Run that runs holds all its nodes and a node serves one Run.
    fn b13_leases_and_running_runs_always_agree(engine: Engine) {
        let mediator = Mediator::start(engine);
        let _agents: Vec<Agent> = ["n1", "n2", "n3"].into_iter().map(|name| Agent::start(&mediator, name)).collect();
        let pair = |id: &str| format!(
            "run_id: {id}\nrequires:\n  - {{as: pair, capability: build, count: 2}}\nsteps:\n  - {{id: s, uses: pair, run: [sleep, '0.05']}}\n"
        );
        let running = "SELECT r.run_id || '=' || (SELECT count(*) FROM leases l WHERE l.run_id = r.run_id) FROM runs r WHERE r.state = 'RUNNING'";
        let stray = "SELECT count(*) FROM leases l JOIN runs r ON r.run_id = l.run_id WHERE r.state <> 'RUNNING'";
        let mut client = Client::connect(&mediator);
        let total = 30;
        for number in 0..total {
            let id = format!("r{number}");
            client.submit(&if number % 2 == 0 { pair(&id) } else { quick(&id) }).unwrap();
            if number % 5 == 4 {
                mediator.cli(&["cancel", &format!("r{}", number - 1)]);
            }
            for line in mediator.sql(running).lines() {
                let (run, held) = line.split_once('=').unwrap();
                let pair = run[1..].parse::<u32>().unwrap() % 2 == 0;
                assert_eq!(held, if pair { "2" } else { "1" }, "nodes of {run}");
            }
            assert_eq!(mediator.sql(stray), "0", "a lease of a run that does not run");
        }
        for number in 0..total {
            let id = format!("r{number}");
            wait_until(&format!("{id} ends"), || matches!(client.state(&id).as_str(), "SUCCEEDED" | "FAILED"));
        }
        assert_eq!(mediator.leases().len(), 0);
    }

    // B14: the agent is killed at whatever moment of submit and claim; each Run ends, and says how.
    fn b14_no_run_is_lost_with_an_agent_that_dies_at_any_moment(engine: Engine) {
        let mediator = Mediator::start(engine);
        let mut agents: Vec<Agent> = ["n1", "n2"].into_iter().map(|name| Agent::start(&mediator, name)).collect();
        let mut ids = Vec::new();
        for round in 0..5_u64 {
            let mut client = Client::connect(&mediator);
            for number in 0..4 {
                let id = format!("r{round}-{number}");
                if let Ok(_state) = client.submit(&quick(&id)) {
                    ids.push(id);
                }
                // Another moment in each round: the moment is what is tested.
                std::thread::sleep(Duration::from_millis(7 * round));
                if number == 1 {
                    agents[(round % 2) as usize].kill();
                }
            }
            agents[(round % 2) as usize].restart();
        }
        let mut client = Client::connect(&mediator);
        for id in &ids {
            wait_until(&format!("{id} ends"), || matches!(client.state(id).as_str(), "SUCCEEDED" | "FAILED"));
            let page = mediator.show(id);
            let cause = page["run"]["verdict"]["cause"].as_str().unwrap_or_default().to_owned();
            assert!(["judged", "node_restarted", "lease_expired"].contains(&cause.as_str()), "{page}");
        }
        assert_eq!(ids.len(), 20);
        assert_eq!(mediator.leases().len(), 0);
    }

    // C07: a result and the reaper at the same moment: one verdict, which fits the step's end.
    fn c07_a_report_that_races_the_reaper_leaves_one_verdict(engine: Engine) {
        let mediator = Mediator::start_with(engine, &[
            ("MEDIATOR_LEASE__RENEW", "300ms"), ("MEDIATOR_LEASE__FACTOR", "4"), ("MEDIATOR_REAP_INTERVAL", "50ms"),
        ]);
        let agent = Agent::start(&mediator, "n1");
        let gate = Gate::new();
        for round in 0..6_u64 {
            let id = format!("raced-{round}");
            // Its node may have been silent for too long until a moment ago.
            mediator.submit(&format!("when_unmatched: queue\n{}", waiting(&gate, &id)));
            mediator.wait_step(&id, "hold", "CLAIMED");
            signal(agent.pid(), "STOP");
            gate.open(&id);
            // Around the end of the horizon of 1.2 s, a little later each time.
            std::thread::sleep(Duration::from_millis(800 + 100 * round));
            signal(agent.pid(), "CONT");
            wait_until(&format!("{id} ends"), || matches!(mediator.state(&id).as_str(), "SUCCEEDED" | "FAILED"));
            wait_until("its record is sealed", || mediator.show(&id)["sealed_at"].is_string());
            let page = mediator.show(&id);
            let (cause, step) = (page["run"]["verdict"]["cause"].clone(), step_of(&page, "hold"));
            match page["run"]["state"].as_str().unwrap() {
                "SUCCEEDED" => assert_eq!((cause, &step["state"]), ("judged".into(), &"DONE".into()), "{page}"),
                _ => assert_eq!(step["state"], "FAILED", "{page}"),
            }
            let ends = format!("SELECT count(*) FROM events WHERE run_id = '{id}' AND kind = 'run.closed'");
            assert_eq!(mediator.sql(&ends), "1", "{}", mediator.sql(&format!("SELECT kind FROM events WHERE run_id = '{id}'")));
        }
    }
}
