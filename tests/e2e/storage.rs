//! Disks and databases that fail under the programs: said clearly, survived, and nothing stored is lost.

use std::{path::Path, process::Command};

use tests::{Agent, AgentOptions, Engine, Mediator, mediator::step_of, sqlite::Sqlite, wait_for, wait_until};

use crate::gate::{Gate, on_builder, quick, waiting};

/// A file system of four megabytes.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    /// None where this process may not mount; says so.
    fn mount() -> Option<Self> {
        let dir = tempfile::tempdir().unwrap();
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", "size=4m", "tmpfs"]).arg(dir.path()).output();
        if mounted.is_ok_and(|output| output.status.success()) {
            return Some(Self(dir));
        }
        eprintln!("SKIPPED: mounting a small disk needs root");
        None
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // Lazily: a step that was just killed may not have let go of it.
        let unmounted = Command::new("umount").arg("-l").arg(self.0.path()).status().unwrap();
        assert!(unmounted.success());
    }
}

#[test]
fn a_full_disk_under_out_is_the_steps_own_failure_and_the_agent_goes_on() {
    let Some(disk) = SmallDisk::mount() else { return };
    let mediator = Mediator::start(Engine::Sqlite);
    let ballast = disk.0.path().join("ballast");
    std::fs::write(&ballast, vec![1; 1 << 20]).unwrap();
    // It is smaller than what a node keeps free.
    let extra = "[disk]\nmin_free = \"0\"\n";
    let state_dir = Some(disk.0.path().join("state"));
    let options = AgentOptions { state_dir, extra, ..AgentOptions::builder("n1") };
    let mut agent = Agent::start_with(&mediator, &options);
    mediator.wait_node("n1", "is listed", |_| true);
    let gate = Gate::new();
    let (said, go) = (gate.path("said"), gate.path("go"));
    // It notes what the file system said where there is room, and stays until the test has looked at the agent.
    mediator.submit(&on_builder(
        "full",
        &format!(
            "  - {{id: fill, uses: builder, out: [huge], run: [sh, -c, 'head -c 20000000 /dev/zero > $OUT/huge 2> {said}; code=$?; \
             while [ ! -e {go} ]; do sleep 0.05; done; cat {said} >&2; exit $code']}}\n",
            said = said.display(),
            go = go.display()
        ).replace("$?", "$$?").replace("$code", "$$code"),
    ));
    wait_until("the disk is full", || std::fs::read_to_string(&said).is_ok_and(|text| text.contains("No space left")));
    assert!(agent.is_running());
    assert_eq!(mediator.state("full"), "RUNNING", "the lease is renewed with a full disk");
    gate.open("go");
    // A result that finds no room waits for some; the owner makes it.
    std::fs::remove_file(&ballast).unwrap();
    let page = mediator.wait_state("full", "FAILED");
    let step = step_of(&page, "fill");
    assert_eq!((&step["state"], &step["exit_code"]), (&"DONE".into(), &1.into()), "{step}");
    assert!(mediator.cli(&["logs", "full", "fill"]).ok().stdout.contains("No space left"), "{step}");
    mediator.submit(&quick("next"));
    mediator.wait_state("next", "SUCCEEDED");
    assert!(agent.is_running());
    drop(agent);
}

const FILES: [&str; 3] = ["mediator.db", "mediator.db-wal", "mediator.db-shm"];

fn take_away(home: &Path) {
    std::fs::create_dir(home.join("aside")).unwrap();
    for name in FILES {
        drop(std::fs::rename(home.join(name), home.join("aside").join(name)));
    }
}

fn bring_back(home: &Path) {
    for name in FILES {
        drop(std::fs::rename(home.join("aside").join(name), home.join(name)));
    }
    std::fs::remove_dir(home.join("aside")).unwrap();
}

fn try_submit(mediator: &Mediator, id: &str) -> tests::Ran {
    let file = mediator.home.path().join(format!("{id}.yaml"));
    std::fs::write(&file, quick(id)).unwrap();
    mediator.cli(&["submit", file.to_str().unwrap()])
}

#[test]
fn a_database_that_cannot_be_opened_is_said_at_the_start() {
    let mut mediator = Mediator::start(Engine::Sqlite);
    let _agent = Agent::start(&mediator, "n1");
    let gate = Gate::new();
    mediator.submit(&waiting(&gate, "held"));
    mediator.wait_step("held", "hold", "CLAIMED");
    mediator.kill();
    take_away(mediator.home.path());
    std::fs::create_dir(mediator.database_file()).unwrap();
    let ran = mediator.cli(&["serve"]);
    assert_eq!(ran.code, 2, "{ran:?}");
    assert!(ran.stderr.contains("mediator.db"), "{ran:?}");
    std::fs::remove_dir(mediator.database_file()).unwrap();
    bring_back(mediator.home.path());
    mediator.restart();
    gate.open("held");
    mediator.wait_state("held", "SUCCEEDED");
}

#[test]
fn a_database_that_is_gone_while_it_serves_is_said_and_loses_nothing() {
    // A horizon longer than the absence: what runs goes on.
    let mut mediator = Mediator::start_with(Engine::Sqlite, &[("MEDIATOR_LEASE__RENEW", "10s")]);
    let _agent = Agent::start(&mediator, "n1");
    let gate = Gate::new();
    mediator.submit(&waiting(&gate, "held"));
    mediator.wait_step("held", "hold", "CLAIMED");
    mediator.submit(&quick("waits"));
    take_away(mediator.home.path());
    // The client tries for a while before it gives up: 4, could not answer.
    let ran = try_submit(&mediator, "gone");
    assert_eq!(ran.code, 4, "{ran:?}");
    assert!(!ran.stderr.trim().is_empty(), "{ran:?}");
    mediator.kill_at_once();
    bring_back(mediator.home.path());
    mediator.restart();
    assert_eq!(mediator.state("held"), "RUNNING");
    assert_eq!(mediator.state("waits"), "QUEUED");
    assert_eq!(mediator.cli(&["show", "gone"]).code, 2, "what was refused was not stored");
    gate.open("held");
    mediator.wait_state("held", "SUCCEEDED");
    mediator.wait_state("waits", "SUCCEEDED");
}

#[test]
fn a_database_locked_by_another_process_is_waited_for_and_then_said() {
    let mediator = Mediator::start_with(Engine::Sqlite, &[("MEDIATOR_LEASE__RENEW", "10s")]);
    let _agent = Agent::start(&mediator, "n1");
    let lock = Sqlite::open(&mediator.database_file()).into_write_lock();
    let ran = try_submit(&mediator, "late");
    assert_eq!(ran.code, 4, "{ran:?}");
    drop(lock);
    wait_for("it is taken once the lock is gone", || (try_submit(&mediator, "late").code == 0).then_some(()));
    mediator.wait_state("late", "SUCCEEDED");
}

/// A full disk under a folder: filled to the last byte, and emptied again.
fn fill(disk: &SmallDisk) -> std::path::PathBuf {
    let ballast = disk.0.path().join("ballast");
    let mut file = std::fs::File::create(&ballast).unwrap();
    while std::io::Write::write_all(&mut file, &[1; 4_096]).is_ok() {}
    ballast
}

#[test]
fn a_full_state_disk_or_database_disk_shows_at_readyz() {
    let (Some(state), Some(database)) = (SmallDisk::mount(), SmallDisk::mount()) else { return };
    let url = format!("sqlite:{}", database.0.path().join("mediator.db").display());
    let extra = [("MEDIATOR_STATE_DIR", state.0.path().to_str().unwrap()), ("MEDIATOR_DATABASE", &*url)];
    let mediator = Mediator::start_with(Engine::Sqlite, &extra);
    for (disk, says) in [(&state, "the state directory cannot be written"), (&database, "the store cannot be written")]
    {
        let ballast = fill(disk);
        wait_until("readyz tells", || {
            let (status, body) = mediator.get_as("/readyz", "");
            status == 503 && body.contains(says) && body.contains("space")
        });
        assert_eq!(mediator.get_as("/healthz", "").0, 200, "it is alive all the same");
        std::fs::remove_file(ballast).unwrap();
        wait_until("it is ready again", || mediator.get_as("/readyz", "").0 == 200);
    }
}
