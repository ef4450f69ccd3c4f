//! `mediator gc`: what is old, over and sealed goes; nothing else does.

use std::path::Path;

use tests::{Agent, Engine, Mediator, on_both_engines, wait_until};

use crate::gate::{Gate, quick, waiting};

const FORTY_DAYS: i64 = 40 * 86_400_000;

/// Makes a Run, its events and its files older than they are.
fn age(mediator: &Mediator, run: &str) {
    mediator.sql(&format!(
        "UPDATE runs SET created_at = created_at - {FORTY_DAYS}, ended_at = ended_at - {FORTY_DAYS} WHERE run_id = '{run}'"
    ));
    mediator.sql(&format!("UPDATE events SET at = at - {FORTY_DAYS} WHERE run_id = '{run}'"));
}

/// Dates a folder back.
fn age_folder(path: &Path) {
    let past = std::time::SystemTime::now() - std::time::Duration::from_secs(40 * 86_400);
    std::fs::File::open(path).unwrap().set_modified(past).unwrap();
}

fn sealed(mediator: &Mediator, run: &str) {
    mediator.submit(&quick(run));
    mediator.wait_state(run, "SUCCEEDED");
    wait_until("it is sealed", || {
        mediator.sql(&format!("SELECT count(*) FROM runs WHERE run_id = '{run}' AND sealed_at IS NOT NULL")) == "1"
    });
}

fn rows(mediator: &Mediator, run: &str) -> u64 {
    let tables = ["runs", "steps", "attempts", "artifacts", "asks", "events"];
    let count = |table: &&str| mediator.sql(&format!("SELECT count(*) FROM {table} WHERE run_id = '{run}'"));
    tables.iter().map(|table| count(table).parse::<u64>().unwrap()).sum()
}

on_both_engines! {
    fn gc_removes_what_is_old_and_sealed_while_it_serves(engine: Engine) {
        let mediator = Mediator::start(engine);
        let _agents = ["n1", "n2"].map(|name| Agent::start(&mediator, name));
        let gate = Gate::new();
        sealed(&mediator, "old");
        sealed(&mediator, "new");
        mediator.submit(&waiting(&gate, "held"));
        mediator.wait_step("held", "hold", "CLAIMED");
        for run in ["old", "held"] {
            age(&mediator, run);
        }
        let records = mediator.home.path().join("records");
        let dry = mediator.json(&["gc", "--older-than", "30d", "--dry-run"]);
        assert_eq!((&dry["runs"], &dry["dry_run"]), (&1.into(), &true.into()), "{dry}");
        assert!(dry["record_files"].as_u64().unwrap() > 1 && dry["events"].as_u64().unwrap() > 1, "{dry}");
        assert!(records.join("old").exists() && rows(&mediator, "old") > 0, "nothing was removed");

        let removed = mediator.json(&["gc", "--older-than", "30d"]);
        for what in ["runs", "events", "record_files", "record_bytes"] {
            assert_eq!(removed[what], dry[what], "{what}: {removed} {dry}");
        }
        assert_eq!(rows(&mediator, "old"), 0);
        assert!(!records.join("old").exists());
        assert_eq!(mediator.cli(&["show", "old"]).code, 2);
        assert!(records.join("new").exists());
        assert_eq!(mediator.state("new"), "SUCCEEDED");
        assert_eq!(mediator.state("held"), "RUNNING");
        assert!(rows(&mediator, "held") > 3, "its events stay with it, however old");
        // The id is free, and the new Run has a Record of its own.
        sealed(&mediator, "old");
        assert!(records.join("old").exists());
        gate.open("held");
        mediator.wait_state("held", "SUCCEEDED");
        let again = mediator.json(&["gc", "--older-than", "30d"]);
        assert_eq!(again["runs"], 0, "{again}");
        mediator.assert_no_wake_was_missed();
    }

    fn gc_forgets_nodes_that_are_long_gone_and_hold_nothing(engine: Engine) {
        let mediator = Mediator::start(engine);
        let gate = Gate::new();
        let gone = Agent::start(&mediator, "n1");
        let _here = Agent::start(&mediator, "n2");
        let holds = Agent::start(&mediator, "n3");
        for name in ["n1", "n2", "n3"] {
            mediator.wait_node(name, "is there", |_| true);
        }
        mediator.submit(&waiting(&gate, "held"));
        mediator.wait_step("held", "hold", "CLAIMED");
        let holder = mediator.sql("SELECT node_id FROM leases");
        // Whoever is not the holder goes.
        let (leaves, id) = if holder == "n1" { (holds, "n3") } else { (gone, "n1") };
        drop(leaves);
        mediator.sql(&format!("UPDATE nodes SET seen_at = seen_at - {FORTY_DAYS}, expires_at = seen_at - {FORTY_DAYS} WHERE node_id IN ('{id}')"));
        let count = |args: &[&str]| mediator.json(args)["nodes"].clone();
        assert_eq!(count(&["gc", "--older-than", "30d"]), 0, "only when it is asked for");
        assert_eq!(count(&["gc", "--older-than", "30d", "--nodes", "--dry-run"]), 1);
        assert_eq!(count(&["gc", "--older-than", "30d", "--nodes"]), 1);
        assert_eq!(mediator.sql(&format!("SELECT count(*) FROM nodes WHERE node_id = '{id}'")), "0");
        let listed = mediator.json(&["nodes", "--all"]);
        let ids: Vec<_> = listed["nodes"].as_array().unwrap().iter().filter_map(|it| it["node_id"].as_str()).collect();
        assert_eq!(ids.len(), 2, "{ids:?}");
        // What was held goes on, and a node that comes back is a new one.
        gate.open("held");
        mediator.wait_state("held", "SUCCEEDED");
        let _back = Agent::start(&mediator, id);
        mediator.wait_node(id, "is back", |_| true);
        mediator.submit(&quick("after"));
        mediator.wait_state("after", "SUCCEEDED");
    }

    fn gc_never_takes_an_unsealed_run_and_numbers_of_events_go_on(engine: Engine) {
        let mut mediator = Mediator::start(engine);
        let agent = Agent::start(&mediator, "n1");
        sealed(&mediator, "sealed");
        sealed(&mediator, "unsealed");
        drop(agent);
        assert_eq!(mediator.stop(), 0);
        age(&mediator, "sealed");
        age(&mediator, "unsealed");
        mediator.sql("UPDATE events SET at = 1");
        mediator.sql("UPDATE runs SET sealed_at = NULL WHERE run_id = 'unsealed'");
        let last = mediator.sql("SELECT max(seq) FROM events");
        let removed = mediator.json(&["gc", "--older-than", "30d"]);
        assert_eq!(removed["runs"], 1, "{removed}");
        assert!(rows(&mediator, "unsealed") > 3);
        assert_eq!(mediator.sql("SELECT max(seq) FROM events"), last, "or a number would be given twice");
        mediator.restart();
        assert_eq!(mediator.state("unsealed"), "SUCCEEDED");
    }

    // Killed between its renames and its commit, or between its commit and the removal of files.
    fn a_gc_that_was_killed_leaves_nothing_half(engine: Engine) {
        let mut mediator = Mediator::start(engine);
        let _agent = Agent::start(&mediator, "n1");
        sealed(&mediator, "kept");
        sealed(&mediator, "gone");
        let home = mediator.home.path().to_owned();
        assert_eq!(mediator.stop(), 0);
        let aside = home.join("removing");
        std::fs::create_dir_all(&aside).unwrap();
        for run in ["kept", "gone"] {
            let from = home.join("records").join(run);
            std::fs::set_permissions(&from, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
            std::fs::rename(from, aside.join(run)).unwrap();
        }
        for table in ["artifacts", "attempts", "steps", "runs"] {
            mediator.sql(&format!("DELETE FROM {table} WHERE run_id = 'gone'"));
        }
        mediator.restart();
        let out = home.join("kept.tar");
        mediator.cli(&["record", "kept", "--out", out.to_str().unwrap()]).ok();
        assert!(!aside.join("kept").exists() && !aside.join("gone").exists());
        // Nothing of the old one is in the way of a new Run with its id.
        sealed(&mediator, "gone");
        mediator.cli(&["record", "gone", "--out", home.join("gone.tar").to_str().unwrap()]).ok();
    }

    fn gc_finds_files_that_belong_to_no_run(engine: Engine) {
        let mediator = Mediator::start(engine);
        let _agent = Agent::start(&mediator, "n1");
        sealed(&mediator, "real");
        let home = mediator.home.path();
        for name in ["records/nobody", "records/.nobody2.sealing", "runs/nobody3", "runs/real", "records/young"] {
            std::fs::create_dir_all(home.join(name).join("logs")).unwrap();
            std::fs::write(home.join(name).join("logs/0.1"), "1234").unwrap();
            if name != "records/young" {
                age_folder(&home.join(name));
            }
        }
        std::fs::write(home.join("runs/.tmp/of-another"), "").ok();
        let removed = mediator.json(&["gc", "--older-than", "30d"]);
        assert_eq!((&removed["stray_files"], &removed["stray_bytes"]), (&4.into(), &16.into()), "{removed}");
        assert!(home.join("records/young").exists(), "a Run may just be on its way");
        assert!(home.join("records/real").exists());
        for name in ["records/nobody", "records/.nobody2.sealing", "runs/nobody3", "runs/real"] {
            assert!(!home.join(name).exists(), "{name}");
        }
    }
}
