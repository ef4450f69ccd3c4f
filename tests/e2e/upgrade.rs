//! A database as an older commit wrote it (`tests/fixtures/make`) is taken up by today's mediator.

use std::path::Path;

use tests::{Agent, AgentOptions, Engine, Mediator, mediator::step_of, on_both_engines};

/// A stopped mediator on the fixture's database.
fn fixture(engine: Engine) -> Mediator {
    let mut mediator = Mediator::start(engine);
    assert_eq!(mediator.stop(), 0);
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/abe4ede");
    match engine {
        Engine::Sqlite => {
            for file in ["mediator.db", "mediator.db-wal", "mediator.db-shm"] {
                std::fs::remove_file(mediator.home.path().join(file)).ok();
            }
            std::fs::File::create(mediator.database_file()).unwrap();
            mediator.sql(&std::fs::read_to_string(dir.join("sqlite.sql")).unwrap());
        }
        Engine::Postgres => {
            mediator.sql("DROP SCHEMA public CASCADE; CREATE SCHEMA public");
            mediator.sql(&std::fs::read_to_string(dir.join("postgres.sql")).unwrap());
        }
    }
    // As if it had never seen a newer mediator.
    std::fs::remove_file(mediator.home.path().join("fleet-id")).unwrap();
    std::fs::remove_file(mediator.home.path().join("admin.token")).unwrap();
    mediator
}

on_both_engines! {
    fn an_older_database_is_brought_forward_and_its_runs_go_on(engine: Engine) {
        let mut mediator = fixture(engine);
        assert_eq!(mediator.sql("SELECT count(*) FROM schema_migrations"), "1");
        mediator.restart();
        for (run, state) in
            [("succeeded", "SUCCEEDED"), ("failed", "FAILED"), ("rejected", "FAILED"), ("running", "RUNNING"), ("queued", "QUEUED")]
        {
            assert_eq!(mediator.state(run), state, "{run}");
        }
        let listed = mediator.json(&["runs"]);
        assert_eq!(listed["runs"].as_array().unwrap().len(), 5, "{listed}");
        assert_eq!(mediator.json(&["runs", "--work", "gerrit:Iqueued"])["runs"][0]["run_id"], "queued");
        assert_eq!(mediator.show("rejected")["run"]["reject"]["reason"].as_str().map(str::is_empty), Some(false));
        assert!(mediator.json(&["token", "list"]).as_array().is_some_and(|all| all.len() >= 4));
        assert_eq!(mediator.leases().len(), 1);
        assert!(mediator.sql("SELECT count(*) FROM events").parse::<u32>().unwrap() > 9);
        // Its agent comes back, as the process that follows the one which the older mediator knew.
        let mut agent = Agent::prepare(&mediator, &AgentOptions::builder("n1"));
        let identity = agent.home.path().join("state/identity");
        std::fs::create_dir_all(&identity).unwrap();
        let instance = mediator.sql("SELECT instance FROM nodes WHERE node_id = 'n1'");
        std::fs::write(identity.join("n1.json"), format!(r#"{{"acknowledged": "{instance}", "started": []}}"#)).unwrap();
        agent.restart();
        let page = mediator.wait_state("running", "SUCCEEDED");
        assert_eq!(step_of(&page, "s")["attempt"], 1);
        mediator.wait_state("queued", "SUCCEEDED");
        assert_eq!(mediator.promotions("RunSettled"), 1);
        mediator.assert_no_wake_was_missed();
        drop(agent);
    }

    // Downgrade: refused with a clear message, and nothing is touched.
    fn a_database_of_a_newer_version_is_refused_untouched(engine: Engine) {
        let mut mediator = fixture(engine);
        mediator.sql("INSERT INTO schema_migrations (version, name) VALUES (99, '0099_wings')");
        let look = |mediator: &Mediator| {
            mediator.sql("SELECT version, name FROM schema_migrations ORDER BY 1")
                + &mediator.sql("SELECT * FROM fleet")
                + &mediator.sql("SELECT run_id, state, rev FROM runs ORDER BY 1")
                + &mediator.sql("SELECT count(*) FROM tokens")
        };
        let before = look(&mediator);
        for command in [&["serve"][..], &["gc", "--older-than", "1d"], &["token", "list"], &["recover"]] {
            let ran = mediator.cli(command);
            assert_eq!(ran.code, 2, "{command:?}: {ran:?}");
            assert!(ran.stderr.contains("0099_wings"), "{command:?}: {ran:?}");
            assert_eq!(look(&mediator), before, "{command:?}");
        }
        mediator.sql("DELETE FROM schema_migrations WHERE version = 99");
        mediator.restart();
        assert_eq!(mediator.state("running"), "RUNNING");
    }
}
