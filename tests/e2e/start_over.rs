//! Runs that start over, and what they keep; Runs that wait for a machine that nobody has yet.

use std::path::Path;

use tests::{Agent, AgentOptions, Engine, Mediator, mediator::step_of, on_both_engines, wait_until};

use crate::gate::{Gate, on_builder, quick};

/// A kept step, one that waits for its gate, and one after it. The first two leave a line each time they are run.
fn kept(gate: &Gate, id: &str, keys: &str) -> String {
    on_builder(
        id,
        &format!(
            "  - {{id: fetch, uses: builder, keep: true, out: [src], run: [sh, -c, 'echo x >> {fetched}; echo source > $OUT/src']}}\n  \
             - {{id: build, uses: builder, in: {{from: [src]}}, \
             run: [sh, -c, 'cat $IN/src; echo $ATTEMPT >> {built}; while [ ! -e {open} ]; do sleep 0.05; done']}}\n  \
             - {{id: after, uses: builder, run: ['true']}}\n{keys}\n",
            fetched = gate.path("fetched").display(),
            built = gate.path("built").display(),
            open = gate.path(id).display(),
        ),
    )
}

fn lines(file: &Path) -> usize {
    std::fs::read_to_string(file).unwrap_or_default().lines().count()
}

on_both_engines! {
    fn a_lost_run_starts_over_as_often_as_it_may_and_keeps_what_it_promised(engine: Engine) {
        let mediator = Mediator::start(engine);
        let mut agent = Agent::start(&mediator, "n1");
        let gate = Gate::new();
        let built = gate.path("built");
        mediator.submit(&kept(&gate, "again", "on_lost: {retry: 1}"));
        wait_until("it builds", || lines(&built) == 1);
        agent.kill();
        agent.restart();
        wait_until("it builds again", || lines(&built) == 2);
        let page = mediator.show("again");
        assert_eq!((page["starts"].as_u64(), page["losses"].as_u64()), (Some(1), Some(1)), "{page}");
        assert_eq!(mediator.promotions("NodeRestarted"), 1);
        let said = mediator.cli(&["show", "again"]).ok().stdout;
        assert!(said.contains("Restarted once (1 for a lost node)"), "{said}");
        gate.open("again");
        let page = mediator.wait_state("again", "SUCCEEDED");
        assert_eq!(lines(&gate.path("fetched")), 1, "a kept step is not repeated");
        assert_eq!((step_of(&page, "fetch")["attempt"].as_u64(), step_of(&page, "build")["attempt"].as_u64()), (Some(1), Some(2)));
        assert!(mediator.cli(&["logs", "again", "build"]).ok().stdout.contains("source"), "its output is still there");
        mediator.assert_no_wake_was_missed();
    }

    fn with_no_retry_left_a_loss_is_the_end(engine: Engine) {
        let mediator = Mediator::start(engine);
        let mut agent = Agent::start(&mediator, "n1");
        let gate = Gate::new();
        let built = gate.path("built");
        mediator.submit(&kept(&gate, "twice", "on_lost: {retry: 1}"));
        for times in 1..=2 {
            wait_until("it builds", || lines(&built) == times);
            agent.kill();
            agent.restart();
        }
        let page = mediator.wait_state("twice", "FAILED");
        assert_eq!((page["run"]["verdict"]["cause"].as_str(), page["starts"].as_u64()), (Some("node_restarted"), Some(1)));
        assert_eq!(lines(&built), 2);
        // A node that stays away counts like one that comes back: the Run goes to another.
        let _other = Agent::start(&mediator, "n2");
        mediator.wait_node("n1", "is back", |node| node["lease"].is_null());
        agent.set_drain("graceful");
        mediator.wait_node("n1", "drains", |node| node["draining"] == "graceful");
        agent.set_drain("");
        mediator.wait_node("n1", "lends", |node| node["draining"].is_null());
        std::fs::remove_file(&built).unwrap();
        mediator.submit(&kept(&gate, "moves", "on_lost: {retry: 1}"));
        wait_until("it builds", || lines(&built) == 1);
        assert_eq!(step_of(&mediator.show("moves"), "build")["node"], "n1");
        agent.kill();
        wait_until("it builds elsewhere", || lines(&built) == 2);
        assert_eq!(step_of(&mediator.show("moves"), "build")["node"], "n2");
        assert_eq!(mediator.promotions("LeaseExpired"), 1);
        gate.open("moves");
        gate.open("twice");
        mediator.wait_state("moves", "SUCCEEDED");
    }

    fn a_drained_run_goes_back_into_the_queue(engine: Engine) {
        let mediator = Mediator::start(engine);
        let agent = Agent::start(&mediator, "n1");
        let capabilities = "[[capability]]\nname = \"test\"\n";
        let _tester = Agent::start_with(&mediator, &AgentOptions { capabilities, ..AgentOptions::builder("n2") });
        mediator.wait_node("n2", "is listed", |_| true);
        let gate = Gate::new();
        let (fetched, built) = (gate.path("fetched"), gate.path("built"));
        let wide = kept(&gate, "back", "on_drain: requeue").replace("steps:", "  - {as: tester, capability: test}\nsteps:");
        mediator.submit(&wide);
        wait_until("it builds", || lines(&built) == 1);
        mediator.submit("run_id: other\nrequires: [{as: t, capability: test}]\nsteps: [{id: s, uses: t, run: ['true']}]\n");
        assert_eq!(mediator.state("other"), "QUEUED");
        agent.set_drain("at-boundary");
        mediator.wait_node("n1", "drains", |node| node["draining"] == "at-boundary");
        assert_eq!(mediator.state("back"), "RUNNING", "what runs goes on to its end");
        gate.open("back");
        mediator.wait_state("back", "QUEUED");
        mediator.wait_state("other", "SUCCEEDED");
        assert_eq!(mediator.promotions("RunCancelled"), 1, "what it gave back serves others");
        let page = mediator.show("back");
        assert_eq!((page["starts"].as_u64(), page["losses"].as_u64()), (Some(1), Some(0)));
        assert_eq!(page["run"]["assigned"].as_array().map_or(0, Vec::len), 0);
        agent.set_drain("");
        let page = mediator.wait_state("back", "SUCCEEDED");
        assert_eq!(mediator.promotions("AdvertOpened"), 1);
        assert_eq!((lines(&fetched), lines(&built)), (1, 2), "the kept step is not repeated, the other is");
        assert_eq!((step_of(&page, "fetch")["attempt"].as_u64(), step_of(&page, "build")["attempt"].as_u64()), (Some(1), Some(2)));
    }

    fn a_run_may_wait_for_a_machine_that_nobody_has_yet(engine: Engine) {
        let mediator = Mediator::start(engine);
        let file = mediator.home.path().join("early.yaml");
        std::fs::write(&file, format!("{}when_unmatched: queue\n", quick("early"))).unwrap();
        let dry = mediator.json(&["dry-run", file.to_str().unwrap()]);
        assert_eq!(dry["state"], "QUEUED", "a dry run comes to the same: {dry}");
        let view = mediator.submit(&format!("{}when_unmatched: queue\n", quick("early")));
        assert_eq!(view["run"]["state"], "QUEUED");
        let why = mediator.cli(&["explain", "early"]).ok().stdout;
        assert!(why.contains("no live node offers capability build"), "{why}");
        let _agent = Agent::start(&mediator, "n1");
        mediator.wait_state("early", "SUCCEEDED");
        assert_eq!(mediator.promotions("AdvertOpened"), 1);
    }

    fn roles_that_must_be_apart_share_no_node(engine: Engine) {
        let mediator = Mediator::start(engine);
        let _one = Agent::start(&mediator, "n1");
        let two = |id: &str, apart: &str| format!(
            "run_id: {id}\nrequires: [{{as: a, capability: build}}, {{as: b, capability: build{apart}}}]\nsteps:\n  \
             - {{id: one, uses: a, run: ['true']}}\n  - {{id: two, uses: b, run: ['true']}}\n"
        );
        mediator.submit(&two("shared", ""));
        let page = mediator.wait_state("shared", "SUCCEEDED");
        assert_eq!(step_of(&page, "one")["node"], step_of(&page, "two")["node"]);
        let file = mediator.home.path().join("apart.yaml");
        std::fs::write(&file, two("never", ", apart: true")).unwrap();
        let ran = mediator.cli(&["submit", file.to_str().unwrap()]);
        assert_eq!(ran.code, 2, "one node cannot be two: {ran:?}");
        let _other = Agent::start(&mediator, "n2");
        mediator.submit(&two("apart", ", apart: true"));
        let page = mediator.wait_state("apart", "SUCCEEDED");
        assert_ne!(step_of(&page, "one")["node"], step_of(&page, "two")["node"]);
    }

    fn work_is_followed_across_runs(engine: Engine) {
        let mediator = Mediator::start(engine);
        let _agent = Agent::start(&mediator, "n1");
        for (id, change) in [("first", "I5c9"), ("second", "I5c9"), ("third", "other")] {
            mediator.submit(&on_builder(id, &format!(
                "  - {{id: s, uses: builder, run: [echo, about, $WORK_ID]}}\nwork: {{system: gerrit, change_id: {change}}}\n"
            )));
            mediator.wait_state(id, "SUCCEEDED");
        }
        assert_eq!(mediator.cli(&["logs", "second"]).ok().stdout, "about gerrit:I5c9\n");
        let page = mediator.json(&["runs", "--work", "gerrit:I5c9"]);
        let found: Vec<_> = page["runs"].as_array().unwrap().iter().map(|run| run["run_id"].as_str().unwrap()).collect();
        assert_eq!(found, ["second", "first"]);
        assert_eq!(page["runs"][0]["work_id"], "gerrit:I5c9");
    }
}
