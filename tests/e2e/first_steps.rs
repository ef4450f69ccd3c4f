//! What somebody meets who does something for the first time: each mistake says what it is and what to do.

use std::process::Command;

use tests::{
    Engine, Mediator,
    mediator::{binary, run},
};

use crate::gate::quick;

/// `mediator ARGS…` of somebody who has nothing but the program.
fn stranger(home: &std::path::Path, args: &[&str]) -> tests::Ran {
    run(Command::new(binary("mediator")).args(args).env_clear().env("HOME", home).current_dir(home))
}

#[test]
fn a_wrong_authority_a_wrong_host_and_a_wrong_scheme_are_told_apart() {
    let home = tempfile::tempdir().unwrap();
    for out in ["pki", "other"] {
        stranger(home.path(), &["pki", "init", "--out", out, "--host", "localhost"]).ok();
    }
    let file = |name: &str| home.path().join(name).display().to_string();
    let mediator = Mediator::start_tls(&file("pki/server.crt"), &file("pki/server.key"), &file("pki/ca.crt"));
    let plain = Mediator::start(Engine::Sqlite);
    let port = |mediator: &Mediator| mediator.address.rsplit(':').next().unwrap().to_owned();
    let (tls, none) = (format!("https://localhost:{}", port(&mediator)), format!("https://localhost:{}", port(&plain)));
    let bare = format!("http://localhost:{}", port(&mediator));
    let ca = file("pki/ca.crt");
    // An address that leads here and is not in the certificate.
    let other = format!("https://[::ffff:127.0.0.1]:{}", port(&mediator));
    for (args, says, advises) in [
        (&["--mediator", &tls, "--ca", &file("other/ca.crt")][..], "not made by the authority in --ca", "--ca FILE"),
        (&["--mediator", &other, "--ca", &ca], "is for another host", "pki init --host"),
        (&["--mediator", &none, "--ca", &ca], "this server has no TLS", "http://"),
    ] {
        let ran = stranger(home.path(), &[&["nodes"], args].concat());
        assert_eq!(ran.code, 4, "{args:?}: {ran:?}");
        assert!(ran.stderr.contains(says) && ran.stderr.contains(advises), "{args:?}: {ran:?}");
        assert!(!ran.stderr.contains("serve` running"), "somebody is there: {ran:?}");
    }
    // Here the server hangs up, and in which moment decides what is seen of it.
    let ran = stranger(home.path(), &["nodes", "--mediator", &bare]);
    assert!(ran.code == 4 && ran.stderr.contains("https:// and --ca FILE"), "{ran:?}");
}

#[test]
fn a_client_without_a_token_hears_where_it_goes() {
    let mediator = Mediator::start(Engine::Sqlite);
    let home = tempfile::tempdir().unwrap();
    let wrong = home.path().join("wrong");
    std::fs::write(&wrong, "no-such-token").unwrap();
    for args in [&["runs"][..], &["runs", "--token-file", wrong.to_str().unwrap()]] {
        let ran = stranger(home.path(), &[args, &["--mediator", &mediator.url()]].concat());
        assert_eq!(ran.code, 2, "{ran:?}");
        assert!(ran.stderr.contains("--token-file FILE") && ran.stderr.contains("MEDIATOR_TOKEN"), "{ran:?}");
        // Only who gave none is told where this host's own would have been.
        let looked = ["state/mediator/admin.token is not there", "MEDIATOR_STATE_DIR", "no token was given"];
        assert!(looked.iter().all(|it| ran.stderr.contains(it) == (args.len() == 1)), "{ran:?}");
        assert!(!ran.stderr.contains("authorization"), "a header is no advice at a command line: {ran:?}");
    }
}

#[test]
fn nothing_is_made_when_the_address_or_the_certificate_is_no_good() {
    let mediator = Mediator::start(Engine::Sqlite);
    let home = tempfile::tempdir().unwrap();
    stranger(home.path(), &["pki", "init", "--out", "pki", "--host", "localhost"]).ok();
    std::fs::write(home.path().join("garbage"), "not a certificate").unwrap();
    let cases = [
        (&["--listen", &mediator.address][..], "cannot listen on"),
        (&["--listen", "127.0.0.1:0", "--tls-cert", "garbage", "--tls-key", "pki/server.key"], "tls.cert garbage"),
        (&["--listen", "127.0.0.1:0", "--tls-cert", "none", "--tls-key", "pki/server.key"], "none"),
    ];
    for (args, says) in cases {
        let ran = stranger(home.path(), &[&["serve", "--state-dir", "state"], args].concat());
        assert_eq!(ran.code, 2, "{ran:?}");
        assert!(ran.stderr.contains(says), "{says}: {ran:?}");
        assert!(ran.stderr.matches("(os error").count() <= 1, "said once: {ran:?}");
        assert!(!home.path().join("state").exists(), "{args:?} made something: {ran:?}");
    }
}

#[test]
fn a_fleet_without_runs_and_a_run_without_logs_say_so() {
    let mediator = Mediator::start(Engine::Sqlite);
    let ran = mediator.cli(&["runs"]).ok();
    assert!(ran.stderr.contains("No Run has been submitted yet"), "{ran:?}");
    let agent = tests::Agent::start(&mediator, "n1");
    agent.set_drain("graceful");
    mediator.wait_node("n1", "drains", |node| node["draining"] == "graceful");
    assert_eq!(mediator.submit(&quick("later"))["run"]["state"], "QUEUED");
    let ran = mediator.cli(&["logs", "later"]).ok();
    assert_eq!(ran.stdout, "");
    assert!(ran.stderr.contains("nothing has run yet") && ran.stderr.contains("mediator explain later"), "{ran:?}");
    agent.set_drain("");
    mediator.wait_state("later", "SUCCEEDED");
    assert_eq!(mediator.cli(&["logs", "later"]).ok().stderr, "");
    let why = mediator.cli(&["explain", "later"]).ok();
    assert!(why.stdout.contains("SUCCEEDED") && !why.stdout.contains("free"), "who is free now is no news: {why:?}");
}

#[test]
fn an_agent_whose_token_is_refused_says_so_loudly_and_its_drain_stays() {
    let mediator = Mediator::start(Engine::Sqlite);
    let mut agent = tests::Agent::prepare(&mediator, &tests::AgentOptions::builder("n1"));
    std::fs::write(agent.home.path().join("token"), "made-up").unwrap();
    agent.restart();
    tests::wait_until("it is said", || {
        agent.log().lines().any(|line| line.contains("ERROR") && line.contains("refuses this agent's token"))
    });
    let ran = agent.cli(&["drain", "--wait"]);
    assert_eq!(ran.code, 2, "{ran:?}");
    assert!(ran.stderr.contains("stays draining") && ran.stderr.contains("token_file"), "{ran:?}");
    assert!(std::fs::read_to_string(agent.policy_path()).unwrap().contains("drain = \"graceful\""));
}
