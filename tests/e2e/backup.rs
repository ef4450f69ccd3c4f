//! Backup and restore with the very commands of `docs/operating.md`.

use std::{path::Path, process::Command};

use tests::{Agent, Engine, Mediator, mediator::run, on_both_engines, wait_until};

use crate::gate::{Gate, quick, waiting};

/// The indented commands under a heading of the manual.
fn manual(heading: &str) -> Vec<String> {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join("docs/operating.md");
    let text = std::fs::read_to_string(page).unwrap();
    let part = text.split(&format!("### {heading}\n")).nth(1).unwrap_or_else(|| panic!("no heading {heading:?}"));
    let part = part.split("\n#").next().unwrap();
    let commands: Vec<String> = part.lines().filter_map(|line| line.strip_prefix("    ")).map(str::to_owned).collect();
    assert!(!commands.is_empty(), "{heading} shows no command");
    commands
}

/// Runs the manual's commands as they stand, with the test's places for the manual's.
fn follow(heading: &str, mediator: &Mediator, backup: &Path) {
    for command in manual(heading) {
        // What starts and stops a service is the test's own to do.
        if command.starts_with("systemctl ") {
            continue;
        }
        let command = command
            .replace("/var/backups/fleet", backup.to_str().unwrap())
            .replace("/var/lib/mediator", mediator.home.path().to_str().unwrap());
        let ran = run(&mut mediator.shell(&command));
        assert_eq!(ran.code, 0, "{command}: {ran:?}");
    }
}

fn sealed(mediator: &Mediator, run: &str) {
    mediator.submit(&quick(run));
    mediator.wait_state(run, "SUCCEEDED");
    wait_until("it is sealed", || {
        mediator.sql(&format!("SELECT count(*) FROM runs WHERE run_id = '{run}' AND sealed_at IS NOT NULL")) == "1"
    });
}

on_both_engines! {
    fn a_restored_backup_serves_and_what_came_after_it_counts_for_nothing(engine: Engine) {
        let (save, restore) = match engine {
            Engine::Sqlite => ("Backup of an embedded database", "Restore of an embedded database"),
            Engine::Postgres => ("Backup with PostgreSQL", "Restore with PostgreSQL"),
        };
        let mut mediator = Mediator::start_with(engine, &[("MEDIATOR_LEASE__RENEW", "1s")]);
        let agents = ["n1", "n2"].map(|name| Agent::start(&mediator, name));
        let gate = Gate::new();
        sealed(&mediator, "before");
        mediator.submit(&waiting(&gate, "under-way"));
        mediator.wait_step("under-way", "hold", "CLAIMED");
        let place = tempfile::tempdir().unwrap();
        let backup = place.path().join("fleet");
        // While it serves.
        follow(save, &mediator, &backup);
        // What the backup does not know: a Run that ended and was sealed, and one that runs under a lease.
        sealed(&mediator, "after");
        mediator.submit(&waiting(&gate, "unknown"));
        mediator.wait_step("unknown", "hold", "CLAIMED");
        let busy = |agent: &Agent| !agent.status()["agent"]["nodes"][0]["step"].is_null();
        wait_until("both agents work", || agents.iter().all(busy));
        mediator.kill();
        follow(restore, &mediator, &backup);
        mediator.restart();
        wait_until("the agents have stopped what nobody knows any more", || !agents.iter().any(busy));
        let page = mediator.wait_state("under-way", "FAILED");
        assert_eq!(page["run"]["verdict"]["cause"], "lease_expired", "{page}");
        for run in ["after", "unknown"] {
            assert_eq!(mediator.cli(&["show", run]).code, 2, "no Run is invented");
        }
        assert!(mediator.leases().is_empty());
        let out = mediator.home.path().join("before.tar");
        mediator.cli(&["record", "before", "--out", out.to_str().unwrap()]).ok();
        // Whoever lost their Run sends it again, with the same id, and it gets a Record of its own.
        mediator.wait_node("n1", "is lent again", |node| node["lease"].is_null());
        sealed(&mediator, "after");
        let out = mediator.home.path().join("after.tar");
        mediator.cli(&["record", "after", "--out", out.to_str().unwrap()]).ok();
        std::fs::remove_dir_all(mediator.home.path().with_extension("lost")).ok();
        assert_eq!(mediator.cli(&["logs", "before"]).code, 0);
        mediator.assert_no_wake_was_missed();
        drop(agents);
    }
}

#[test]
fn a_backup_goes_to_an_empty_directory_only() {
    let mediator = Mediator::start(Engine::Sqlite);
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("mine"), "x").unwrap();
    let ran = mediator.cli(&["backup", dir.path().to_str().unwrap()]);
    assert_eq!(ran.code, 2, "{ran:?}");
    assert!(ran.stderr.contains("not empty"), "{ran:?}");
}

#[test]
fn recover_is_refused_while_a_mediator_serves() {
    let first = Mediator::start(Engine::Postgres);
    let mut second = Mediator::start_beside(&first, &[]);
    assert_eq!(second.stop(), 0);
    for mediator in [&first, &second] {
        let ran = mediator.cli(&["recover"]);
        assert_ne!(ran.code, 0, "{ran:?}");
        assert!(ran.stderr.contains("stop"), "{ran:?}");
    }
    second.restart();
}

/// The manual's commands are for a shell.
trait Shell {
    fn shell(&self, command: &str) -> Command;
}

impl Shell for Mediator {
    fn shell(&self, command: &str) -> Command {
        let mut shell = self.command_of("sh");
        shell.args(["-euc", command]);
        shell
    }
}
