//! Machines whose wall clock is wrong.

use tests::{
    Agent, AgentOptions, Engine, Mediator,
    clock::shifted,
    mediator::{signal, step_of},
    on_both_engines, wait_for, wait_until,
};

use crate::gate::{Gate, waiting};

const DAY: i64 = 86_400_000;
/// Far above what anything here takes, far below what the clocks are off.
const HOUR: i64 = 3_600_000;

/// A time of day on a page, in milliseconds.
fn millis(value: &serde_json::Value) -> i64 {
    let text = value.as_str().unwrap_or_else(|| panic!("{value} is no time"));
    text.parse::<jiff::Timestamp>().unwrap_or_else(|error| panic!("{text}: {error}")).as_millisecond()
}

/// What must hold while the clock of `n1` is a day off; its horizon is 3 s.
fn a_wrong_clock_changes_nothing(mediator: &Mediator, agent: &Agent, off: i64) {
    let (held, lost) = (format!("held{off}"), format!("lost{off}"));
    let gate = Gate::new();
    mediator.submit(&waiting(&gate, &held));
    mediator.wait_step(&held, "hold", "CLAIMED");
    let first = millis(&mediator.leases()[0]["not_after"]);
    // Its lease is renewed: the first horizon has passed and it still holds.
    let page = wait_for("the first horizon has passed", || {
        let page = mediator.json(&["leases"]);
        (millis(&page["observed_at"]) > first).then_some(page)
    });
    let lease = &page["leases"][0];
    assert_eq!(lease["run_id"], held.as_str(), "{page}");
    let ahead = millis(&lease["not_after"]) - millis(&page["observed_at"]);
    assert!((1..=3_000).contains(&ahead), "the lease lives for a horizon of the mediator's time: {ahead} ms");

    // The owner's word counts at once, and only the time that the agent writes beside it is wrong.
    agent.write_policy("drain = \"graceful\"\nreason = \"mine\"\n");
    let node = mediator.wait_node("n1", "drains", |node| node["draining"] == "graceful");
    let observed = millis(&mediator.json(&["nodes"])["observed_at"]);
    assert!((millis(&node["drain_since_at"]) - observed - off).abs() < HOUR, "the clock of the agent is off: {node}");
    for key in ["seen_at", "expires_at"] {
        assert!((millis(&node[key]) - observed).abs() < HOUR, "{key} is the mediator's: {node}");
    }
    gate.open(&held);
    mediator.wait_state(&held, "SUCCEEDED");
    agent.write_policy("drain = \"\"\n");
    mediator.wait_node("n1", "lends", |node| node["draining"].is_null());

    // Silence is found as soon as ever, and not before.
    mediator.submit(&waiting(&gate, &lost));
    mediator.wait_step(&lost, "hold", "CLAIMED");
    signal(agent.pid(), "STOP");
    let last = mediator.node("n1").unwrap();
    let page = mediator.wait_state(&lost, "FAILED");
    assert_eq!(page["run"]["verdict"]["cause"], "lease_expired");
    assert!(millis(&page["run"]["ended_at"]) >= millis(&last["seen_at"]) + 3_000, "not before its horizon: {page}");
    assert_eq!(step_of(&page, "hold")["reason"], "lease_expired");
    // It finds by a clock that has no date that its time is over, and kills before it talks.
    signal(agent.pid(), "CONT");
    wait_until("its process is gone", || agent.status()["agent"]["nodes"][0]["live_processes"] == false);
}

on_both_engines! {
    // C01: only the mediator's time decides; what an agent says about time is shown and nothing else.
    fn c01_an_agent_whose_clock_is_a_day_off_is_served_like_any_other(engine: Engine) {
        let mediator = Mediator::start(engine);
        for (by, off) in [("+1d", DAY), ("-1d", -DAY)] {
            let options = AgentOptions { clock: Some(by), ..AgentOptions::builder("n1") };
            let mut agent = Agent::prepare(&mediator, &options);
            agent.restart_at(&mediator);
            a_wrong_clock_changes_nothing(&mediator, &agent, off);
        }
    }
}

// C03: mediators whose clocks differ by ten minutes share a database. Only the database's time decides, whichever
// of them reaps, so that neither takes a lease that is alive or overlooks one that is not.
#[test]
fn c03_a_mediator_whose_clock_is_wrong_takes_no_live_lease() {
    let calm = ("MEDIATOR_LEASE__RENEW", "1s");
    for by in ["+10m", "-10m"] {
        let wrong_time = shifted(by);
        let extra: Vec<(&str, &str)> =
            std::iter::once(calm).chain(wrong_time.iter().map(|(key, value)| (*key, value.as_str()))).collect();
        // The first one to start is the one that reaps.
        let wrong = Mediator::start_with(Engine::Postgres, &extra);
        let right = Mediator::start_beside(&wrong, &[calm]);
        let observed = |at: &Mediator| millis(&at.json(&["nodes"])["observed_at"]);
        assert!((observed(&wrong) - observed(&right)).abs() < 60_000, "both show the database's time");
        let mut agents = [("n1", right.url()), ("n2", wrong.url())].map(|(name, url)| {
            Agent::start_with(&right, &AgentOptions { mediator: Some(url), ..AgentOptions::builder(name) })
        });
        let gate = Gate::new();
        for (at, id) in [(&right, "held"), (&wrong, "too")] {
            at.wait_node("n1", "is listed", |_| true);
            at.wait_node("n2", "is listed", |_| true);
            at.submit(&waiting(&gate, id));
            at.wait_step(id, "hold", "CLAIMED");
        }
        let ends = || right.leases().iter().map(|it| millis(&it["not_after"])).min();
        let first = ends().unwrap();
        wait_until("a horizon has passed", || observed(&right) > first && ends().is_some_and(|end| end > first));
        for id in ["held", "too"] {
            let page = right.show(id);
            assert_eq!(
                (&page["run"]["state"], &step_of(&page, "hold")["attempt"]),
                (&"RUNNING".into(), &1.into()),
                "{page}"
            );
        }
        for agent in &mut agents {
            agent.kill();
        }
        let gone = observed(&right);
        for id in ["held", "too"] {
            let page = right.wait_state(id, "FAILED");
            assert_eq!(page["run"]["verdict"]["cause"], "lease_expired", "{page}");
            let after = millis(&page["run"]["ended_at"]) - gone;
            assert!((3_000..60_000).contains(&after), "{id} was found after {after} ms");
        }
    }
}
