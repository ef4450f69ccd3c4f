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

    fn what_is_revoked_is_refused_by_a_mediator_that_serves(engine: Engine) {
        let mediator = Mediator::start(engine);
        let token = mediator.token("observer", "watcher");
        assert_eq!(mediator.get_as("/v1/nodes", &token).0, 200);
        let listed = mediator.json(&["token", "list"]);
        let row = listed.as_array().unwrap().iter().find(|row| row["principal"] == "watcher").unwrap().clone();
        mediator.cli(&["token", "revoke", row["id"].as_str().unwrap()]).ok();
        wait_until("the token is refused", || mediator.get_as("/v1/nodes", &token).0 == 401);
        let (_, body) = mediator.get_as("/v1/nodes", &token);
        assert!(body.contains("was revoked at"), "{body}");
        let short = ["token", "create", "--role", "observer", "--principal", "watcher", "--expires", "1s"];
        let short = mediator.cli(&short).ok().stdout.trim().to_owned();
        wait_until("the token has run out", || mediator.get_as("/v1/nodes", &short).1.contains("expired at"));
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

/// A pipe in the place of a file that the mediator reads while it serves, and of one that it reads at its start.
#[test]
fn a_pipe_in_the_place_of_a_tls_file_holds_up_nothing() {
    let pki = Pki::new();
    let (cert, key) = (pki.file("server.crt"), pki.file("server.key"));
    let mut mediator = Mediator::start_tls(&cert, &key, &pki.file("ca.crt"));
    std::fs::remove_file(&key).unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, &key, rustix::fs::Mode::RWXU).unwrap();
    wait_until("the mediator says so", || mediator.log().contains("a pipe, not a regular file"));
    let token = mediator.home.path().join("admin.token");
    mediator.cli(&["--token-file", token.to_str().unwrap(), "nodes"]).ok();
    assert_eq!(mediator.stop(), 0);
    let ran = run(Command::new(tests::mediator::binary("mediator"))
        .args(["serve", "--tls-cert", &cert, "--tls-key", &key])
        .env_clear()
        .env("HOME", pki.home.path())
        .env("MEDIATOR_STATE_DIR", pki.home.path()));
    assert_eq!(ran.code, 2, "{ran:?}");
    assert!(ran.stderr.contains("a pipe"), "{ran:?}");
}

/// An authority with a server's certificate, and what `pki issue` made of it.
struct Pki {
    home: tempfile::TempDir,
}

impl Pki {
    fn new() -> Self {
        let pki = Self { home: tempfile::tempdir().unwrap() };
        pki.command(&["pki", "init", "--out", &pki.dir(), "--host", "localhost"]);
        pki
    }

    fn dir(&self) -> String {
        self.file("")
    }

    fn file(&self, name: &str) -> String {
        self.home.path().join("pki").join(name).to_str().unwrap().to_owned()
    }

    fn command(&self, args: &[&str]) {
        let mut command = Command::new(tests::mediator::binary("mediator"));
        run(command.args(args).env_clear().env("HOME", self.home.path())).ok();
    }

    fn issue(&self, role: &str, principal: &str) {
        self.command(&["pki", "issue", "--dir", &self.dir(), "--role", role, "--principal", principal]);
    }
}

#[test]
fn a_small_fleet_with_certificates_and_no_token() {
    let pki = Pki::new();
    pki.issue("admin", "boss");
    pki.issue("node", "yard");
    let ca = pki.file("ca.crt");
    let mediator = Mediator::start_with(
        Engine::Sqlite,
        &[
            ("MEDIATOR_TLS__CERT", &pki.file("server.crt")),
            ("MEDIATOR_TLS__KEY", &pki.file("server.key")),
            ("MEDIATOR_TLS__CLIENT_CA", &ca),
            ("MEDIATOR_TLS__CLIENT_AUTH", "required"),
            ("MEDIATOR_CA", &ca),
            ("MEDIATOR_CLIENT_CERT", &pki.file("boss.crt")),
            ("MEDIATOR_CLIENT_KEY", &pki.file("boss.key")),
        ],
    );
    let extra = format!(
        "ca_file = \"{ca}\"\ncert_file = \"{}\"\nkey_file = \"{}\"\n",
        pki.file("yard.crt"),
        pki.file("yard.key")
    );
    let mut agent = Agent::prepare(&mediator, &AgentOptions { extra: &extra, ..AgentOptions::builder("n1") });
    // Its certificate is all it has: the token that the test support writes beside it is taken away.
    let config = agent.home.path().join("n1.toml");
    let text = std::fs::read_to_string(&config).unwrap();
    let without: Vec<&str> = text.lines().filter(|line| !line.starts_with("token_file")).collect();
    std::fs::write(&config, without.join("\n")).unwrap();
    agent.restart();
    mediator.wait_node("n1", "is listed", |_| true);
    mediator.submit(&quick("certified"));
    mediator.wait_state("certified", "SUCCEEDED");
    // Nobody gets in without one, whatever token there is.
    let ran = run(Command::new(tests::mediator::binary("mediator"))
        .args(["--mediator", &mediator.url(), "--ca", &ca, "nodes"])
        .env_clear()
        .env("HOME", pki.home.path())
        .env("MEDIATOR_STATE_DIR", mediator.home.path()));
    assert_ne!(ran.code, 0, "{ran:?}");
    // A revoked agent is told so and is heard no more.
    mediator.cli(&["pki", "revoke", &pki.file("yard.crt")]).ok();
    wait_until("the agent is told", || agent.log().contains("revoked"));
    wait_until("its node is lost", || mediator.json(&["status"])["nodes"]["live"] == 0);
}

#[test]
fn new_certificates_are_taken_without_a_restart() {
    let (pki, other) = (Pki::new(), Pki::new());
    let mediator = Mediator::start_tls(&pki.file("server.crt"), &pki.file("server.key"), &pki.file("ca.crt"));
    let trusts = |ca: &str| mediator.cli(&["--ca", ca, "nodes"]).code == 0;
    assert!(!trusts(&other.file("ca.crt")));
    // Broken files change nothing, and are told of.
    std::fs::write(pki.file("server.crt"), "nonsense").unwrap();
    wait_until("the log tells of it", || mediator.log().contains("the old ones stay in force"));
    assert!(trusts(&pki.file("ca.crt")));
    for name in ["server.key", "server.crt"] {
        std::fs::copy(other.file(name), pki.file(name)).unwrap();
    }
    wait_until("the new certificate is shown", || trusts(&other.file("ca.crt")));
    assert!(!trusts(&pki.file("ca.crt")));
}
