//! PostgreSQL goes away under a mediator that goes on serving.

use std::sync::Arc;

use tests::{
    Agent, Mediator,
    mediator::step_of,
    postgres::{Database, Server},
    wait_for, wait_until,
};

use crate::gate::{Gate, on_builder, quick, waiting};

fn start(server: &Arc<Server>, renew: &str) -> Mediator {
    Mediator::start_on(Database::on(server).unwrap(), &[("MEDIATOR_LEASE__RENEW", renew)])
}

#[test]
fn postgres_is_restarted_under_load_and_nothing_runs_twice() {
    let server = Arc::new(Server::start().unwrap());
    let mediator = start(&server, "5s");
    let agents = ["n1", "n2", "n3"].map(|name| Agent::start(&mediator, name));
    let runs: Vec<String> = (0..12).map(|n| format!("r{n}")).collect();
    for id in &runs {
        let step = |name: &str| format!("  - {{id: {name}, uses: builder, run: [sleep, '0.2']}}\n");
        mediator.submit(&on_builder(id, &[step("a"), step("b"), step("c")].concat()));
    }
    for _ in 0..2 {
        let done = || mediator.sql("SELECT count(*) FROM steps WHERE state = 'DONE'").parse::<u32>().unwrap();
        let before = done();
        wait_until("there is work under way", || done() > before);
        server.pause();
        server.resume().unwrap();
    }
    for id in &runs {
        let page = wait_for(&format!("{id} has ended"), || {
            let ran = mediator.cli(&["show", id, "--output", "json"]);
            let page = (ran.code == 0).then(|| ran.json())?;
            (page["run"]["ended_at"] != serde_json::Value::Null).then_some(page)
        });
        assert_eq!(page["run"]["state"], "SUCCEEDED", "{page}");
        for step in ["a", "b", "c"] {
            assert_eq!(step_of(&page, step)["attempt"], 1, "{page}");
        }
    }
    mediator.assert_no_wake_was_missed();
    drop(agents);
}

// What was committed after the copy is lost; nobody goes on working for it, and nothing hangs.
#[test]
fn postgres_fails_over_to_an_older_copy_and_nothing_hangs() {
    let server = Arc::new(Server::start().unwrap());
    let mediator = start(&server, "2s");
    let agents = ["n1", "n2"].map(|name| Agent::start(&mediator, name));
    let busy = |agent: &Agent| !agent.status()["agent"]["nodes"][0]["step"].is_null();
    let gate = Gate::new();
    mediator.submit(&waiting(&gate, "under-way"));
    mediator.wait_step("under-way", "hold", "CLAIMED");
    server.pause();
    server.save().unwrap();
    server.resume().unwrap();
    wait_until("it serves again", || mediator.cli(&["runs"]).code == 0);
    mediator.submit(&waiting(&gate, "unknown"));
    mediator.wait_step("unknown", "hold", "CLAIMED");
    wait_until("both agents work", || agents.iter().all(busy));
    // It ends, and its end is acknowledged; the copy does not know that.
    gate.open("under-way");
    mediator.wait_state("under-way", "SUCCEEDED");
    server.pause();
    server.restore().unwrap();
    server.resume().unwrap();
    wait_until("the unknown Run is not worked for", || !agents.iter().any(busy));
    wait_until("it serves again", || mediator.cli(&["runs"]).code == 0);
    assert_eq!(mediator.cli(&["show", "unknown"]).code, 2, "no Run is invented");
    wait_until("the Run that the copy shows under way ends", || {
        ["SUCCEEDED", "FAILED"].contains(&mediator.state("under-way").as_str())
    });
    mediator.submit(&quick("next"));
    mediator.wait_state("next", "SUCCEEDED");
    mediator.assert_no_wake_was_missed();
    drop(agents);
}
