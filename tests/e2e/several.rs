//! Several mediators, all active, on one PostgreSQL.

use std::{
    io::{BufRead, BufReader},
    time::{Duration, Instant},
};

use serde_json::Value;
use tests::{Agent, AgentOptions, Engine, Mediator, mediator::step_of, wait_for, wait_until};

use crate::gate::{Gate, on_builder, quick, waiting};

/// A horizon that a busy machine does not miss.
const CALM: [(&str, &str); 1] = [("MEDIATOR_LEASE__RENEW", "2s")];

/// Two mediators of one fleet.
fn pair(extra: &[(&str, &str)]) -> (Mediator, Mediator) {
    let first = Mediator::start_with(Engine::Postgres, extra);
    let second = Mediator::start_beside(&first, extra);
    (first, second)
}

/// An agent that knows both, and prefers the first one named.
fn agent(first: &Mediator, second: &Mediator, name: &str) -> Agent {
    let mediator = Some(format!("{}\", \"{}", first.url(), second.url()));
    let agent = Agent::start_with(first, &AgentOptions { mediator, ..AgentOptions::builder(name) });
    first.wait_node(name, "is listed", |_| true);
    agent
}

fn attempts(page: &Value) -> Vec<u64> {
    page["steps"].as_array().unwrap().iter().map(|step| step["attempt"].as_u64().unwrap_or(0)).collect()
}

#[test]
fn what_one_mediator_decides_reaches_the_agents_of_the_other_at_once() {
    // An interval so long that nothing here can come from a heartbeat.
    let (one, two) = pair(&[("MEDIATOR_LEASE__RENEW", "60s")]);
    let _agent = agent(&two, &one, "n1");
    let started = Instant::now();
    let gate = Gate::new();
    // Granted by one, claimed over the stream that is open at two.
    one.submit(&waiting(&gate, "held"));
    one.wait_step("held", "hold", "CLAIMED");
    // Cancelled at one: the agent hears of it from two.
    let pid = wait_for("the step's process", || {
        let line = one.cli(&["logs", "held"]).stdout;
        (!line.is_empty()).then_some(line)
    });
    assert!(pid.contains("waiting"), "the log that two took is read at one");
    one.cli(&["cancel", "held"]).ok();
    let status = || _agent.status()["agent"]["nodes"][0].clone();
    wait_until("the agent has stopped the step", || status()["step"].is_null() && status()["run_id"].is_null());
    one.submit(&quick("next"));
    two.wait_state("next", "SUCCEEDED");
    assert!(started.elapsed() < Duration::from_secs(40), "it took {:?}", started.elapsed());
}

#[test]
fn a_watcher_at_one_sees_what_happens_at_the_other() {
    let (one, two) = pair(&[]);
    let _agent = agent(&two, &one, "n1");
    let gate = Gate::new();
    two.submit(&waiting(&gate, "held"));
    let watching = one.spawn_cli(&["watch", "held", "--timeout", "30s"]);
    let following = one.spawn_cli(&["logs", "held", "--follow"]);
    two.wait_step("held", "hold", "CLAIMED");
    gate.open("held");
    let watched = watching.wait_with_output().unwrap();
    assert!(watched.status.success(), "{watched:?}");
    let followed = following.wait_with_output().unwrap();
    assert_eq!(String::from_utf8_lossy(&followed.stdout), "waiting\n", "{followed:?}");
    // Sealed by whichever it was, and handed out by both.
    for (at, mediator) in [&one, &two].into_iter().enumerate() {
        let out = mediator.home.path().join(format!("{at}.tar"));
        wait_until("the Record is sealed", || {
            mediator.cli(&["record", "held", "--out", out.to_str().unwrap()]).code == 0
        });
    }
}

#[test]
fn c30_one_of_two_mediators_is_killed_in_the_middle_of_everything() {
    let (mut one, two) = pair(&CALM);
    let agents: Vec<Agent> = (0..6)
        .map(|n| if n % 2 == 0 { agent(&one, &two, &format!("n{n}")) } else { agent(&two, &one, &format!("n{n}")) })
        .collect();
    let gate = Gate::new();
    let mut runs = Vec::new();
    // More than there are nodes; some run while it happens, some wait, some are submitted after it.
    for n in 0..20 {
        let id = format!("r{n}");
        let at = if n % 2 == 0 { &one } else { &two };
        at.submit(&if n < 4 { waiting(&gate, &id) } else { three_steps(&id) });
        runs.push(id);
    }
    for id in &runs[..4] {
        two.wait_step(id, "hold", "CLAIMED");
    }
    one.kill_at_once();
    for n in 20..26 {
        let id = format!("r{n}");
        two.submit(&three_steps(&id));
        runs.push(id);
    }
    for id in &runs[..4] {
        gate.open(id);
    }
    for id in &runs {
        let page = two.wait_state(id, "SUCCEEDED");
        assert!(attempts(&page).iter().all(|attempt| *attempt == 1), "{id} ran once: {page}");
    }
    assert!(two.leases().is_empty());
    two.assert_no_wake_was_missed();
    wait_until("every Record is sealed, also those of the dead one", || {
        two.sql("SELECT count(*) FROM runs WHERE sealed_at IS NULL") == "0"
    });
    one.restart();
    one.assert_no_wake_was_missed();
    assert_no_double_lease(&two);
    drop(agents);
}

fn three_steps(id: &str) -> String {
    let step = |name: &str| format!("  - {{id: {name}, uses: builder, run: [sh, -c, 'sleep 0.05']}}\n");
    on_builder(id, &[step("a"), step("b"), step("c")].concat())
}

/// Reads the audit log: a node is granted only when it was released before.
fn assert_no_double_lease(mediator: &Mediator) {
    let log = mediator
        .sql("SELECT node_id, kind, run_id FROM events WHERE kind IN ('lease.granted', 'lease.released') ORDER BY seq");
    let mut held = std::collections::BTreeMap::new();
    for line in log.lines() {
        let mut columns = line.split('|');
        let (node, kind, run) = (columns.next().unwrap(), columns.next().unwrap(), columns.next().unwrap());
        if kind == "lease.granted" {
            assert_eq!(held.insert(node.to_owned(), run.to_owned()), None, "{node} was granted twice:\n{log}");
        } else {
            assert_eq!(held.remove(node).as_deref(), Some(run), "{node} was released by another:\n{log}");
        }
    }
    assert!(log.lines().count() > 1, "there is something to look at");
}

#[test]
fn c12_a_rolling_restart_with_overlap_fails_no_run() {
    let (mut one, mut two) = pair(&CALM);
    let agents: Vec<Agent> = (0..4).map(|n| agent(&one, &two, &format!("n{n}"))).collect();
    let gate = Gate::new();
    one.submit(&waiting(&gate, "long"));
    one.wait_step("long", "hold", "CLAIMED");
    let mut runs = vec!["long".to_owned()];
    for round in 0..4 {
        for at in 0..2 {
            let (stopped, other) = if at == 0 { (&mut one, &two) } else { (&mut two, &one) };
            for n in 0..4 {
                let id = format!("r{round}-{at}-{n}");
                if n % 2 == 0 {
                    stopped.submit(&three_steps(&id))
                } else {
                    other.submit(&three_steps(&id))
                };
                runs.push(id);
            }
            // Every second time without a word.
            if round % 2 == 0 {
                assert_eq!(stopped.stop(), 0);
            } else {
                stopped.kill_at_once();
            }
            let id = format!("r{round}-{at}-meanwhile");
            other.submit(&three_steps(&id));
            runs.push(id);
            stopped.restart();
        }
    }
    assert_eq!(one.state("long"), "RUNNING");
    gate.open("long");
    for id in &runs {
        let page = two.wait_state(id, "SUCCEEDED");
        assert!(attempts(&page).iter().all(|attempt| *attempt == 1), "{id} ran once: {page}");
    }
    assert_eq!(step_of(&one.show("long"), "hold")["attempt"], 1);
    one.assert_no_wake_was_missed();
    two.assert_no_wake_was_missed();
    assert_no_double_lease(&one);
    drop(agents);
}

#[test]
fn a_mediator_with_records_of_its_own_is_refused() {
    let first = Mediator::start(Engine::Postgres);
    let mut second = Mediator::start_beside(&first, &[]);
    assert_eq!(second.stop(), 0);
    // It forgets where the others keep their Records.
    let ran = second.cli(&["serve", "--records-dir", second.home.path().join("mine").to_str().unwrap()]);
    assert_eq!(ran.code, 2, "{ran:?}");
    assert!(ran.stderr.contains("records_dir"), "{ran:?}");
    second.restart();
    first.assert_no_wake_was_missed();
}

#[test]
fn the_command_line_goes_to_the_next_mediator() {
    let (mut one, two) = pair(&[]);
    let _agent = agent(&one, &two, "n1");
    let both = format!("{},{}", one.url(), two.url());
    let gate = Gate::new();
    one.submit(&waiting(&gate, "held"));
    one.wait_step("held", "hold", "CLAIMED");
    // It follows the Run at the first; the Run ends after that one is gone.
    let mut watching = one.spawn_cli(&["--mediator", &both, "watch", "held", "--timeout", "30s"]);
    let mut said = BufReader::new(watching.stdout.take().unwrap());
    said.read_line(&mut String::new()).unwrap();
    one.kill_at_once();
    gate.open("held");
    let watched = watching.wait_with_output().unwrap();
    assert!(watched.status.success(), "{watched:?}");
    let listed = two.cli(&["--mediator", &both, "runs", "--output", "json"]).ok().json();
    assert_eq!(listed["runs"][0]["state"], "SUCCEEDED");
    one.restart();
}
