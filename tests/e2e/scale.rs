//! Many at once: a long line of waiting Runs, many nodes that come back together, a mediator that is not there yet.

use std::{
    io::Write,
    time::{Duration, Instant},
};

use tests::{Agent, AgentOptions, Client, Engine, Mediator, on_both_engines, wait_until};

use crate::gate::{Gate, quick, waiting};

fn one_of(shape: usize, id: &str) -> String {
    let capability = ["build", "test", "judge"][shape % 3];
    let count = 1 + shape / 3 % 2;
    format!(
        "run_id: {id}\nrequires:\n  - {{as: b, capability: {capability}, count: {count}}}\nsteps:\n  - {{id: s, uses: b, run: ['true']}}\n"
    )
}

const ALL: &str =
    "[[capability]]\nname = \"build\"\n[[capability]]\nname = \"test\"\n[[capability]]\nname = \"judge\"\n";

on_both_engines! {
    // B18: a long line of several shapes holds up neither adverts nor claims, and one row that cannot be read
    // any more is in nobody's way.
    fn b18_a_long_line_and_a_bad_row_hold_nobody_up(engine: Engine) {
        let mut mediator = Mediator::start(engine);
        let all = |name| AgentOptions { capabilities: ALL, ..AgentOptions::builder(name) };
        let agents: Vec<Agent> = ["n1", "n2"].into_iter().map(|name| Agent::start_with(&mediator, &all(name))).collect();
        for (agent, name) in agents.iter().zip(["n1", "n2"]) {
            mediator.wait_node(name, "is listed", |_| true);
            agent.set_drain("graceful");
            mediator.wait_node(name, "drains", |node| node["draining"] == "graceful");
        }
        let client = Client::connect(&mediator);
        let contracts: Vec<String> = (0..2_000).map(|number| one_of(number, &format!("q{number}"))).collect();
        // The first of its shape, so that it is read with the line; the others come as they come.
        client.submit_all(&contracts[..1]);
        client.submit_all(&contracts[1..]);
        // What was written by hand, by a disk or by a later version.
        mediator.sql("UPDATE runs SET contract = '{broken' WHERE run_id = 'q0'");
        mediator.kill();
        mediator.restart();
        // Both nodes work through a part of the line, and are never out of touch meanwhile.
        for (agent, name) in agents.iter().zip(["n1", "n2"]) {
            agent.set_drain("");
            mediator.wait_node(name, "lends", |node| node["draining"].is_null());
        }
        let mut client = Client::connect(&mediator);
        let started = Instant::now();
        wait_until("some of the line have run", || {
            for name in ["n1", "n2"] {
                let node = mediator.node(name).expect("a node with a long line before it stays listed");
                assert!(node["expires_at"].as_str() > node["seen_at"].as_str(), "{node}");
            }
            client.state("q60") == "SUCCEEDED"
        });
        assert!(started.elapsed() < Duration::from_secs(50), "{:?}", started.elapsed());
        // The wide ones of the line wait for two nodes that are free at once, which nothing promises
        // before `queue.reserve_after`.
        for id in ["q1", "q2", "q6"] {
            wait_until(&format!("{id} has run"), || client.state(id) == "SUCCEEDED");
        }
        assert_eq!(mediator.sql("SELECT state FROM runs WHERE run_id = 'q0'"), "QUEUED", "it is left as it is");
    }

    // D01: all agents come back in the same moment; no lease is lost, and every node works again.
    fn d01_d02_all_agents_come_back_at_once_and_no_lease_is_lost(engine: Engine) {
        // A horizon as on two busy cores: 12 s.
        let mut mediator = Mediator::start_with(engine, &[("MEDIATOR_LEASE__RENEW", "2s")]);
        let names = ["a", "b", "c", "d"];
        let options = |name| AgentOptions { slots: 8, ..AgentOptions::builder(name) };
        let _agents: Vec<Agent> = names.into_iter().map(|name| Agent::start_with(&mediator, &options(name))).collect();
        wait_until("all are listed", || mediator.json(&["nodes"])["nodes"].as_array().is_some_and(|all| all.len() == 32));
        let gate = Gate::new();
        let contracts: Vec<String> = (0..32).map(|number| waiting(&gate, &format!("r{number}"))).collect();
        Client::connect(&mediator).submit_all(&contracts);
        wait_until("all nodes work", || mediator.sql("SELECT count(*) FROM steps WHERE state = 'CLAIMED'") == "32");
        let before = mediator.sql("SELECT node_id || run_id FROM leases ORDER BY node_id");
        mediator.kill();
        mediator.restart();
        assert_eq!(mediator.sql("SELECT node_id || run_id FROM leases ORDER BY node_id"), before);
        for number in 0..32 {
            gate.open(&format!("r{number}"));
        }
        let mut client = Client::connect(&mediator);
        for number in 0..32 {
            let id = format!("r{number}");
            wait_until(&format!("{id} ends"), || client.state(&id) == "SUCCEEDED");
        }
        assert_eq!(mediator.sql("SELECT count(*) FROM attempts WHERE attempt > 1"), "0", "each ran once");
    }

    // D04: an agent that finds no mediator tries on; it is listed as soon as there is one.
    fn d04_an_agent_waits_for_its_mediator(engine: Engine) {
        let mut mediator = Mediator::start(engine);
        let mut agent = Agent::prepare(&mediator, &AgentOptions::builder("n1"));
        mediator.kill();
        agent.restart();
        wait_until("it has tried in vain", || agent.log().contains("trying again"));
        assert!(agent.is_running());
        mediator.restart();
        mediator.wait_node("n1", "is listed", |_| true);
        mediator.submit(&quick("after"));
        mediator.wait_state("after", "SUCCEEDED");
    }
}

// D07: somebody looks at the database and leaves a transaction open, so that nothing that has changed since can be
// swept up. Work goes on, and the rows that every grant looks at stay as few as there is work.
#[test]
fn d07_a_transaction_that_is_left_open_holds_up_nothing() {
    let mediator = Mediator::start(Engine::Postgres);
    let _agents = ["n1", "n2"].map(|name| Agent::start(&mediator, name));
    let mut idle = mediator.command_of("sh");
    let mut idle = idle
        .args(["-c", "exec psql -X -q -A -t -d \"$MEDIATOR_DATABASE\""])
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let mut psql = idle.stdin.take().unwrap();
    writeln!(psql, "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM runs;").unwrap();
    let left_open = || {
        mediator.sql("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND state = 'idle in transaction' AND backend_xmin IS NOT NULL")
    };
    wait_until("its snapshot is held", || left_open() != "0");
    let mut client = Client::connect(&mediator);
    let contracts: Vec<String> = (0..200).map(|number| quick(&format!("r{number}"))).collect();
    client.submit_all(&contracts);
    for number in 0..200 {
        let id = format!("r{number}");
        wait_until(&format!("{id} ends"), || client.state(&id) == "SUCCEEDED");
    }
    assert_ne!(left_open(), "0", "it was there all the time");
    assert_eq!(mediator.sql("SELECT (SELECT count(*) FROM leases) || ' ' || (SELECT count(*) FROM nodes)"), "0 2");
    drop(psql);
    idle.wait().unwrap();
}
