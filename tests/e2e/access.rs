//! Who may do what, and the way onto a network.

use std::process::Command;

use tests::{Agent, AgentOptions, Engine, Mediator, mediator::run, on_both_engines, wait_until};

use crate::gate::quick;

on_both_engines! {
    fn a_token_opens_only_its_own_doors(engine: Engine) {
        let mediator = Mediator::start(engine);
        let _agent = Agent::start(&mediator, "n1");
        let file = mediator.home.path().join("c.yaml");
        std::fs::write(&file, quick("watched")).unwrap();
        let file = file.to_str().unwrap().to_owned();
        let as_token = |token: &str, args: &[&str]| {
            let path = mediator.home.path().join("some.token");
            std::fs::write(&path, token).unwrap();
            mediator.cli(&[&["--token-file", path.to_str().unwrap()], args].concat()).code
        };
        let observer = mediator.token("observer", "watcher");
        let submitter = mediator.token("submitter", "worker");
        let other = mediator.token("submitter", "another");
        let node = mediator.token("node", "somebody");
        assert_eq!(as_token(&observer, &["nodes"]), 0);
        assert_eq!(as_token(&observer, &["submit", &file]), 2);
        assert_eq!(as_token(&submitter, &["submit", &file]), 0);
        mediator.wait_state("watched", "SUCCEEDED");
        assert_eq!(as_token(&other, &["cancel", "watched"]), 2);
        assert_eq!(as_token(&node, &["submit", &file]), 2);
        assert_eq!(as_token("made-up", &["nodes"]), 2);
        for path in ["/v1/nodes", "/v1/runs", "/v1/leases", "/metrics"] {
            assert_eq!(mediator.get_as(path, "made-up").0, 401, "{path}");
            assert_eq!(mediator.get_as(path, "").0, 401, "{path}");
            assert_eq!(mediator.get_as(path, &observer).0, 200, "{path}");
        }
        assert_eq!(mediator.get_as("/healthz", "").0, 200);
    }

    // A34: a forged advert for somebody else's node is refused.
    fn a34_an_advert_for_anothers_node_is_refused(engine: Engine) {
        let mediator = Mediator::start(engine);
        let _owner = Agent::start(&mediator, "n1");
        let forger = Agent::prepare(&mediator, &AgentOptions::builder("n1"));
        std::fs::write(forger.home.path().join("token"), mediator.token("node", "a-stranger")).unwrap();
        let mut forger = forger;
        forger.restart();
        wait_until("the stranger is told", || forger.log().contains("another principal") || !forger.is_running());
        assert!(mediator.node("n1").unwrap()["draining"].is_null());
    }
}

#[test]
fn the_network_needs_tls() {
    let home = tempfile::tempdir().unwrap();
    let ran = run(Command::new(tests::mediator::binary("mediator"))
        .args(["serve", "--listen", "0.0.0.0:0"])
        .env_clear()
        .env("HOME", home.path())
        .env("MEDIATOR_STATE_DIR", home.path()));
    assert_eq!(ran.code, 2, "{ran:?}");
    assert!(ran.stderr.contains("TLS") || ran.stderr.contains("tls"), "{ran:?}");
}

#[test]
fn a_small_fleet_over_tls() {
    let pki = tempfile::tempdir().unwrap();
    let dir = pki.path().join("pki");
    let made = run(Command::new(tests::mediator::binary("mediator"))
        .args(["pki", "init", "--out", dir.to_str().unwrap(), "--host", "localhost", "--host", "127.0.0.1"])
        .env_clear()
        .env("HOME", pki.path()));
    assert_eq!(made.code, 0, "{made:?}");
    let file = |name: &str| dir.join(name).to_str().unwrap().to_owned();
    let ca = file("ca.crt");
    let mediator = Mediator::start_tls(&file("server.crt"), &file("server.key"), &ca);
    let agent = Agent::start_with(
        &mediator,
        &AgentOptions { extra: &format!("ca_file = \"{ca}\"\n"), ..AgentOptions::builder("n1") },
    );
    mediator.wait_node("n1", "is listed", |_| true);
    mediator.submit(&quick("secure"));
    mediator.wait_state("secure", "SUCCEEDED");
    // A client that was not told whom to trust refuses by itself, with words.
    let ran = run(Command::new(tests::mediator::binary("mediator"))
        .args(["--mediator", &mediator.url(), "nodes"])
        .env_clear()
        .env("HOME", pki.path())
        .env("MEDIATOR_STATE_DIR", mediator.home.path()));
    assert_eq!(ran.code, 2, "{ran:?}");
    assert!(ran.stderr.contains("--ca"), "{ran:?}");
    drop(agent);
}
