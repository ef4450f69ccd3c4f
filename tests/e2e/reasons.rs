//! A node's own reasons not to be lent, beside its owner's word: each comes and goes by itself.

use tests::{Agent, AgentOptions, Engine, Mediator, mediator::step_of, on_both_engines, wait_until};

use crate::gate::quick;

/// The reasons that `enode status` lists.
fn sources(agent: &Agent) -> Vec<String> {
    let status = agent.status();
    let reasons = status["agent"]["nodes"][0]["reasons"].as_array().cloned().unwrap_or_default();
    reasons.iter().map(|reason| reason["source"].as_str().unwrap().to_owned()).collect()
}

fn counts(mediator: &Mediator, state: &str) -> usize {
    mediator.json(&["runs", "--state", state])["runs"].as_array().map_or(0, Vec::len)
}

on_both_engines! {
    // B19: a machine on which nothing starts does not eat the queue, and only its owner lends it again.
    fn b19_a_node_that_fails_everything_is_quarantined_until_its_owner_ends_it(engine: Engine) {
        let mediator = Mediator::start(engine);
        let extra = "[quarantine]\nafter = 3\nwithin = \"10s\"\n";
        let options = AgentOptions { extra, ..AgentOptions::builder("n1") };
        let mut agent = Agent::start_with(&mediator, &options);
        mediator.wait_node("n1", "is listed", |_| true);
        // The folder in which its Runs work cannot be used.
        let work = agent.home.path().join("state/work/n1");
        std::fs::remove_dir(&work).unwrap();
        std::fs::write(&work, "not a folder").unwrap();
        for number in 0..10 {
            mediator.submit(&quick(&format!("r{number}")));
        }
        let node = mediator.wait_node("n1", "is held back", |node| node["draining"] == "graceful");
        let said = node["drain_reason"].as_str().unwrap();
        assert!(said.starts_with("quarantine: 3 Runs in a row") && said.contains("could_not_start"), "{node}");
        wait_until("what it had is over", || mediator.leases().is_empty());
        let failed = counts(&mediator, "FAILED");
        assert!((3..=5).contains(&failed), "a grant or two may cross the advert: {failed}");
        assert_eq!(counts(&mediator, "QUEUED"), 10 - failed, "the others wait for a machine that works");
        assert_eq!(step_of(&mediator.show("r0"), "quick")["reason"], "could_not_start");
        let why = mediator.cli(&["explain", "--node", "n1"]).ok().stdout;
        assert!(why.contains("quarantine") && why.contains("enode undrain --quarantine"), "{why}");

        // The owner's drain comes and goes beside it, and a restart of the mended agent forgets nothing.
        agent.set_drain("at-boundary");
        mediator.wait_node("n1", "drains", |node| node["draining"] == "at-boundary");
        assert_eq!(sources(&agent), ["owner", "quarantine"]);
        agent.cli(&["undrain"]).ok();
        mediator.wait_node("n1", "is held back by one reason", |node| node["draining"] == "graceful");
        assert_eq!(sources(&agent), ["quarantine"]);
        agent.terminate();
        agent.wait();
        std::fs::remove_file(&work).unwrap();
        let node = agent.restart_at(&mediator);
        assert_eq!(node["draining"], "graceful", "{node}");
        assert_eq!(counts(&mediator, "QUEUED"), 10 - failed);
        let ran = agent.cli(&["undrain", "--quarantine"]).ok();
        assert!(ran.stderr.contains("n1: its quarantine ends"), "{ran:?}");
        wait_until("all that waited has run", || counts(&mediator, "SUCCEEDED") == 10 - failed);
        assert_eq!(sources(&agent), [""; 0]);
        mediator.assert_no_wake_was_missed();
    }

    fn a_disk_that_is_too_full_holds_a_node_back_beside_its_owner(engine: Engine) {
        let mediator = Mediator::start(engine);
        let options = AgentOptions { extra: "[disk]\nmin_free = \"999999TiB\"\n", ..AgentOptions::builder("n1") };
        let agent = Agent::start_with(&mediator, &options);
        let node = mediator.wait_node("n1", "is listed", |_| true);
        assert_eq!(node["draining"], "graceful", "from its first advert on: {node}");
        assert!(node["drain_reason"].as_str().unwrap().starts_with("disk: "), "{node}");
        assert_eq!(mediator.submit(&quick("waits"))["run"]["state"], "QUEUED");
        agent.cli(&["drain", "--mode", "at-boundary", "--reason", "mine"]).ok();
        let node = mediator.wait_node("n1", "drains", |node| node["draining"] == "at-boundary");
        assert!(node["drain_reason"].as_str().unwrap().starts_with("mine; disk: "), "{node}");
        assert_eq!(sources(&agent), ["owner", "disk"]);
        let ran = agent.cli(&["undrain"]).ok();
        assert!(ran.stderr.contains("is not lent all the same: disk"), "{ran:?}");
        mediator.wait_node("n1", "is held back by its disk", |node| node["draining"] == "graceful");
        let shown = agent.cli(&["status"]).ok().stdout;
        assert!(shown.contains("n1: not lent: disk (graceful for "), "{shown}");
        assert_eq!(mediator.state("waits"), "QUEUED");
    }
}
