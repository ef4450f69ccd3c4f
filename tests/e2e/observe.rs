//! What people and tools see: fixed keys, order, limits, and nothing secret.

use std::collections::BTreeSet;

use serde_json::Value;
use tests::{Agent, Engine, Mediator, on_both_engines};

use crate::gate::{Gate, quick, waiting};

fn keys(value: &Value) -> BTreeSet<&str> {
    value.as_object().unwrap().keys().map(String::as_str).collect()
}

fn page(mediator: &Mediator, path: &str) -> Value {
    let (status, body) = mediator.get(path);
    assert_eq!(status, 200, "{path}: {body}");
    serde_json::from_str(&body).unwrap()
}

on_both_engines! {
    fn pages_have_exactly_the_fixed_keys(engine: Engine) {
        let mediator = Mediator::start(engine);
        let agent = Agent::start(&mediator, "n1");
        let gate = Gate::new();
        mediator.submit(&waiting(&gate, "held"));
        mediator.wait_step("held", "hold", "CLAIMED");
        agent.set_drain("graceful");
        mediator.wait_node("n1", "drains", |node| node["draining"] == "graceful");
        mediator.submit(&quick("queued"));

        let nodes = page(&mediator, "/v1/nodes");
        assert_eq!(keys(&nodes), BTreeSet::from(["nodes", "observed_at"]));
        assert_eq!(
            keys(&nodes["nodes"][0]),
            BTreeSet::from(["node_id", "label", "instance", "capabilities", "seen_at", "expires_at", "lease", "draining"])
        );
        assert_eq!(keys(&nodes["nodes"][0]["lease"]), BTreeSet::from(["run_id", "not_after"]));

        let runs = page(&mediator, "/v1/runs");
        let held = runs["runs"].as_array().unwrap().iter().find(|run| run["run_id"] == "held").unwrap();
        assert_eq!(keys(held), BTreeSet::from(["run_id", "state", "created_at", "assigned", "current"]));
        assert_eq!(keys(&held["current"][0]), BTreeSet::from(["node", "step", "attempt", "started_at"]));
        assert_eq!(runs["runs"][0]["run_id"], "queued", "newest first");
        assert_eq!(keys(&runs["runs"][0]), BTreeSet::from(["run_id", "state", "created_at"]));

        let one = page(&mediator, "/v1/runs/held");
        assert_eq!(keys(&one["steps"][0]), BTreeSet::from(["seq", "id", "state", "uses", "node", "needs", "attempt", "chosen", "started_at"]));
        let leases = page(&mediator, "/v1/leases");
        assert_eq!(keys(&leases["leases"][0]), BTreeSet::from(["node_id", "run_id", "granted_at", "not_after"]));

        for path in ["/v1/nodes", "/v1/runs", "/v1/runs/held", "/v1/leases", "/metrics"] {
            let (_, body) = mediator.get(path);
            assert!(!body.contains("nonce") && !body.contains("owner-of-n1"), "{path}: {body}");
        }
        gate.open("held");
    }

    fn limits_filters_and_paging(engine: Engine) {
        let mediator = Mediator::start(engine);
        let _agent = Agent::start(&mediator, "n1");
        for number in 0..7 {
            mediator.submit(&quick(&format!("r{number}")));
        }
        mediator.wait_state("r6", "SUCCEEDED");
        let first = page(&mediator, "/v1/runs?limit=3");
        assert_eq!(first["runs"].as_array().unwrap().len(), 3);
        let (mut seen, mut next) = (Vec::new(), Some(String::new()));
        while let Some(after) = next {
            let path = if after.is_empty() { "/v1/runs?limit=3".to_owned() } else { format!("/v1/runs?limit=3&after={after}") };
            let page = page(&mediator, &path);
            seen.extend(page["runs"].as_array().unwrap().iter().map(|run| run["run_id"].as_str().unwrap().to_owned()));
            next = page["next"].as_str().map(str::to_owned);
        }
        assert_eq!(seen, ["r6", "r5", "r4", "r3", "r2", "r1", "r0"]);
        assert_eq!(page(&mediator, "/v1/runs?limit=0&state=SUCCEEDED")["runs"].as_array().unwrap().len(), 7);
        assert_eq!(page(&mediator, "/v1/runs?state=QUEUED")["runs"].as_array().unwrap().len(), 0);
        for bad in ["/v1/runs?limit=-1", "/v1/runs?limit=x", "/v1/runs?since=yesterday", "/v1/runs?state=DONE", "/v1/runs?colour=red", "/v1/runs?after=%00"] {
            let (status, body) = mediator.get(bad);
            assert_eq!(status, 400, "{bad}: {body}");
            assert!(body.contains("message"), "{body}");
        }
        assert_eq!(mediator.get("/v1/runs/none").0, 404);
    }

    // B06: it is visible why a Run waits, and the numbers add up.
    fn b06_explain_says_why_a_run_waits(engine: Engine) {
        let mediator = Mediator::start(engine);
        let agent = Agent::start(&mediator, "n1");
        let draining = Agent::start(&mediator, "n2");
        draining.set_drain("graceful");
        mediator.wait_node("n2", "drains", |node| node["draining"] == "graceful");
        let gate = Gate::new();
        mediator.submit(&waiting(&gate, "held"));
        mediator.wait_step("held", "hold", "CLAIMED");
        mediator.submit(&quick("queued"));
        let why = mediator.json(&["explain", "queued"]);
        let role = &why["roles"][0];
        assert_eq!((role["live"].as_u64(), role["busy"].as_u64(), role["draining"].as_u64(), role["free"].as_u64()), (Some(2), Some(1), Some(1), Some(0)));
        assert_eq!(role["holders"][0]["run_id"], "held");
        assert_eq!(why["place"], 1);
        assert!(why["wakes"].as_array().unwrap().iter().any(|wake| wake == "RunSettled"), "{why}");
        let node = mediator.json(&["explain", "--node", "n2"]);
        assert_eq!(node["lendable"], false);
        assert!(node["reasons"][0].as_str().unwrap().contains("graceful"), "{node}");
        // One that is leased and drains counts once, and both is said of it.
        agent.set_drain("graceful");
        mediator.wait_node("n1", "drains, too", |node| node["draining"] == "graceful");
        let role = &mediator.json(&["explain", "queued"])["roles"][0];
        assert_eq!((role["busy"].as_u64(), role["busy_draining"].as_u64(), role["draining"].as_u64()), (Some(1), Some(1), Some(1)), "{role}");
        let said = mediator.cli(&["explain", "queued"]).ok().stdout;
        assert!(said.contains("2 live nodes satisfy it: 1 busy (1 of them draining as well), 1 draining, 0 free."), "{said}");
        gate.open("held");
        drop(agent);
    }

    // B07, B08: never and not now are told apart at submit, with the nearest miss.
    fn b07_b08_a_contract_no_node_can_meet_is_refused_with_the_nearest_miss(engine: Engine) {
        let mediator = Mediator::start(engine);
        let _agent = Agent::start(&mediator, "n1");
        let file = mediator.home.path().join("never.yaml");
        for (requires, said) in [
            ("{as: b, capability: build, attrs: {board: stm32}}", "board=stm32"),
            ("{as: b, capability: weld}", "capability weld"),
            ("{as: b, capability: build, count: 2}", "2 nodes"),
        ] {
            std::fs::write(&file, format!("requires: [{requires}]\nsteps: [{{id: s, uses: b, run: ['true']}}]\n")).unwrap();
            let ran = mediator.cli(&["submit", file.to_str().unwrap()]);
            assert_eq!(ran.code, 2, "{ran:?}");
            assert!(ran.stderr.contains(said), "{said} in {ran:?}");
            assert_eq!(mediator.cli(&["dry-run", file.to_str().unwrap()]).code, 2);
        }
        let runs = mediator.json(&["runs", "--state", "FAILED"]);
        assert_eq!(runs["runs"][0]["reject"]["code"], 422);
        assert_eq!(runs["runs"][0]["verdict"]["cause"], "rejected");
    }
}
