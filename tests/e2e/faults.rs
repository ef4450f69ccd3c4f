//! Processes that stand still, programs that flood, clocks that are moved while Runs are under way.

use tests::{
    Agent, Engine, Mediator,
    mediator::{signal, step_of},
    on_both_engines, wait_until,
};

use crate::gate::{Gate, on_builder, quick, waiting};

/// A step that notes its process in a file each time it is executed, and then stays.
fn noted(gate: &Gate, id: &str) -> String {
    let file = gate.path("pids").display().to_string();
    on_builder(id, &format!("  - {{id: hold, uses: builder, run: [sh, -c, 'echo $$$$ >> {file}; sleep 600']}}\n"))
}

fn pids(gate: &Gate) -> Vec<String> {
    std::fs::read_to_string(gate.path("pids")).unwrap_or_default().lines().map(str::to_owned).collect()
}

fn is_alive(pid: &str) -> bool {
    std::path::Path::new(&format!("/proc/{pid}")).exists()
}

on_both_engines! {
    // The agent ends the step by its own clock; the mediator wakes up late, closes the Run once, and goes on.
    fn a_mediator_that_stood_still_beyond_the_horizon_closes_what_was_lost_and_goes_on(engine: Engine) {
        let mediator = Mediator::start(engine);
        let _agent = Agent::start(&mediator, "n1");
        let gate = Gate::new();
        mediator.submit(&noted(&gate, "held"));
        wait_until("the step runs", || pids(&gate).len() == 1);
        assert_eq!(mediator.submit(&quick("next"))["run"]["state"], "QUEUED");
        signal(mediator.pid(), "STOP");
        let pid = pids(&gate)[0].clone();
        wait_until("the agent has given the step up", || !is_alive(&pid));
        // The length of the pause is what is tested: the horizon is 3 s.
        std::thread::sleep(std::time::Duration::from_secs(4));
        signal(mediator.pid(), "CONT");
        let page = mediator.wait_state("held", "FAILED");
        // Whichever comes first after the pause: the agent's word that it gave the step up, or the mediator's clock.
        let (reason, message) = (&step_of(&page, "hold")["reason"], &step_of(&page, "hold")["message"]);
        let by_agent = reason == "killed" && message.as_str().is_some_and(|it| it.contains("no mediator answered"));
        assert!(by_agent || reason == "lease_expired", "{page}");
        mediator.wait_state("next", "SUCCEEDED");
        assert_eq!(pids(&gate).len(), 1, "it was executed once");
        assert_eq!(mediator.show("held")["run"]["verdict"], page["run"]["verdict"], "one verdict, for good");
    }

    // The mediator gives the Run up; the agent finds that its time is over, and the node works again.
    fn an_agent_that_stood_still_beyond_the_horizon_ends_its_step_and_works_again(engine: Engine) {
        let mediator = Mediator::start(engine);
        let agent = Agent::start(&mediator, "n1");
        let gate = Gate::new();
        mediator.submit(&noted(&gate, "held"));
        wait_until("the step runs", || pids(&gate).len() == 1);
        assert_eq!(mediator.submit(&quick("next"))["run"]["state"], "QUEUED");
        signal(agent.pid(), "STOP");
        let page = mediator.wait_state("held", "FAILED");
        assert_eq!(page["run"]["verdict"]["cause"], "lease_expired");
        assert_eq!(mediator.state("next"), "QUEUED", "a silent node is given to nobody");
        signal(agent.pid(), "CONT");
        mediator.wait_state("next", "SUCCEEDED");
        let pid = pids(&gate)[0].clone();
        wait_until("its process is gone", || !is_alive(&pid));
        assert_eq!(pids(&gate).len(), 1, "it was executed once");
    }

    fn a_flood_of_output_is_cut_and_said_and_harms_nobody_else(engine: Engine) {
        let mediator = Mediator::start_with(engine, &[("MEDIATOR_LIMITS__LOG_BYTES", "64KiB")]);
        let _agents = ["n1", "n2"].map(|name| Agent::start(&mediator, name));
        let gate = Gate::new();
        mediator.submit(&on_builder("flood", &format!(
            "  - {{id: flood, uses: builder, run: [sh, -c, 'while [ ! -e {} ]; do head -c 1000000 /dev/zero; done']}}\n",
            gate.path("enough").display()
        )));
        wait_until("the limit is reached", || mediator.cli(&["logs", "flood"]).stdout.len() > 64 << 10);
        for id in ["one", "two", "three"] {
            mediator.submit(&quick(id));
            mediator.wait_state(id, "SUCCEEDED");
        }
        assert_eq!(mediator.state("flood"), "RUNNING", "its lease is renewed all the while");
        gate.open("enough");
        mediator.wait_state("flood", "SUCCEEDED");
        wait_until("it is sealed", || mediator.show("flood")["sealed_at"].is_string());
        let log = mediator.cli(&["logs", "flood"]).ok().stdout;
        assert!(log.ends_with("truncated: log limit of 65536 bytes reached\n"), "{}", log.len());
        let manifest = std::fs::read_to_string(mediator.home.path().join("records/flood/manifest.json")).unwrap();
        let manifest: serde_json::Value = serde_json::from_str(&manifest).unwrap();
        assert_eq!(manifest["truncated"], true, "{manifest}");
    }
}

fn observed(mediator: &Mediator) -> jiff::Timestamp {
    mediator.json(&["nodes"])["observed_at"].as_str().unwrap().parse().unwrap()
}

// Where the mediator's own clock is the authority. Set back, its time stands at the latest that is stored.
#[test]
fn a_mediator_whose_clock_was_moved_by_an_hour_keeps_what_is_under_way() {
    let mut mediator = Mediator::start_with(Engine::Sqlite, &[("MEDIATOR_LEASE__RENEW", "2s")]);
    let _agent = Agent::start(&mediator, "n1");
    for (by, word) in [("+1h", "later"), ("-1h", "earlier")] {
        let gate = Gate::new();
        let (held, next) = (format!("held-{word}"), format!("next-{word}"));
        mediator.submit(&waiting(&gate, &held));
        mediator.wait_step(&held, "hold", "CLAIMED");
        assert_eq!(mediator.submit(&quick(&next))["run"]["state"], "QUEUED");
        let before = observed(&mediator);
        mediator.kill();
        mediator.restart_with_clock(by);
        let moved = observed(&mediator).duration_since(before).as_mins();
        assert!(if word == "later" { moved >= 59 } else { (0..59).contains(&moved) }, "{by}: moved by {moved} minutes");
        assert_eq!(mediator.state(&held), "RUNNING", "{by}");
        gate.open(&held);
        let page = mediator.wait_state(&held, "SUCCEEDED");
        assert_eq!(step_of(&page, "hold")["attempt"], 1, "{by}");
        mediator.wait_state(&next, "SUCCEEDED");
    }
}
