//! Bad input gets an error that says where, what and what instead; nothing stored is lost.

use tests::{Agent, AgentOptions, Engine, Mediator, mediator::step_of, on_both_engines, wait_until};

use crate::gate::{Gate, on_builder, quick, waiting};

on_both_engines! {
    fn a_bad_contract_is_refused_with_place_and_reason(engine: Engine) {
        let mediator = Mediator::start(engine);
        let _agent = Agent::start(&mediator, "n1");
        let big = format!("# {}\n{}", "x".repeat(2 << 20), quick("big"));
        let cases = [
            (on_builder("a", "  - {id: s, uses: builder, run: ['true'], colour: red}\n"), "colour"),
            (on_builder("b", "  - {id: s, uses: builder, needs: [t], run: ['true']}\n  - {id: t, uses: builder, needs: [s], run: ['true']}\n"), "needs"),
            (on_builder("c", "  - {id: s, uses: tester, run: ['true']}\n"), "tester"),
            (on_builder("d", "  - {id: s, uses: builder, run: ['true'], loop: {back_to: s, max: 2}}\n"), "not supported yet"),
            (on_builder("e", "  - {id: s, uses: builder, run: [echo, '$NOPE']}\n"), "NOPE"),
            (big, "1048576 bytes"),
            ("requires: [\n".to_owned(), "line"),
        ];
        for (text, said) in cases {
            let file = mediator.home.path().join("bad.yaml");
            std::fs::write(&file, &text).unwrap();
            let ran = mediator.cli(&["submit", file.to_str().unwrap()]);
            assert_eq!(ran.code, 2, "{said}: {ran:?}");
            assert!(ran.stderr.contains(said) || said == "line", "{said} in {}", ran.stderr);
        }
        assert_eq!(mediator.json(&["runs"])["runs"].as_array().unwrap().len(), 0, "nothing was stored");
    }

    fn a_full_disk_under_out_is_the_steps_own_failure_and_loses_nothing_else(engine: Engine) {
        let mediator = Mediator::start(engine);
        let agent = Agent::start_with(&mediator, &AgentOptions { extra: "artifact_bytes = 100000\n", ..AgentOptions::builder("n1") });
        mediator.wait_node("n1", "is listed", |_| true);
        mediator.submit(&on_builder(
            "full",
            "  - {id: full, uses: builder, run: [sh, -c, 'echo before; head -c 200000 /dev/zero > $OUT/huge'], out: [huge]}\n",
        ));
        let page = mediator.wait_state("full", "FAILED");
        let step = step_of(&page, "full");
        assert_eq!(step["reason"], "output_refused");
        assert!(step["message"].as_str().unwrap().contains("huge"), "{step}");
        assert_eq!(mediator.cli(&["logs", "full", "full"]).ok().stdout, "before\n");
        mediator.submit(&quick("next"));
        mediator.wait_state("next", "SUCCEEDED");
        drop(agent);
    }
}

#[test]
fn a_database_that_is_gone_is_said_and_survived() {
    // The directory of the database loses its files under a running mediator: every answer is an error, none a
    // crash or a silent success.
    let mut mediator = Mediator::start(Engine::Sqlite);
    let _agent = Agent::start(&mediator, "n1");
    let gate = Gate::new();
    mediator.submit(&waiting(&gate, "held"));
    mediator.wait_step("held", "hold", "CLAIMED");
    mediator.kill();
    let (database, aside) = (mediator.home.path().join("mediator.db"), mediator.home.path().join("aside"));
    std::fs::create_dir(&aside).unwrap();
    for name in ["mediator.db", "mediator.db-wal", "mediator.db-shm"] {
        drop(std::fs::rename(mediator.home.path().join(name), aside.join(name)));
    }
    std::fs::create_dir(&database).unwrap();
    let ran = mediator.cli(&["serve"]);
    assert_eq!(ran.code, 2, "{ran:?}");
    assert!(ran.stderr.contains("mediator.db"), "{ran:?}");
    std::fs::remove_dir(&database).unwrap();
    for name in ["mediator.db", "mediator.db-wal", "mediator.db-shm"] {
        drop(std::fs::rename(aside.join(name), mediator.home.path().join(name)));
    }
    mediator.restart();
    gate.open("held");
    mediator.wait_state("held", "SUCCEEDED");
}

#[test]
fn a_locked_database_is_waited_for_and_then_said() {
    let mediator = Mediator::start(Engine::Sqlite);
    let agent = Agent::start(&mediator, "n1");
    let lock = rusqlite_free_lock(&mediator);
    let file = mediator.home.path().join("c.yaml");
    std::fs::write(&file, quick("late")).unwrap();
    let ran = mediator.cli(&["submit", file.to_str().unwrap()]);
    drop(lock);
    assert!(ran.code == 0 || ran.code == 4, "{ran:?}");
    mediator.cli(&["submit", file.to_str().unwrap()]).ok();
    mediator.wait_state("late", "SUCCEEDED");
    drop(agent);
}

/// Holds the database's write lock through Python's own SQLite until dropped.
fn rusqlite_free_lock(mediator: &Mediator) -> impl Drop {
    struct Locked(std::process::Child);
    impl Drop for Locked {
        fn drop(&mut self) {
            drop(self.0.kill());
            drop(self.0.wait());
        }
    }
    let ready = mediator.home.path().join("locked");
    let script = format!(
        "import sqlite3,time,pathlib\nc=sqlite3.connect({:?},isolation_level=None)\nc.execute('BEGIN IMMEDIATE')\npathlib.Path({:?}).touch()\ntime.sleep(600)\n",
        mediator.home.path().join("mediator.db"),
        ready
    );
    let child = std::process::Command::new("python3").args(["-c", &script]).spawn().unwrap();
    let locked = Locked(child);
    wait_until("the lock is taken", || ready.exists());
    locked
}
