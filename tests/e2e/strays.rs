//! Processes that leave their step's group end with their step all the same.

use std::path::{Path, PathBuf};

use tests::{Agent, AgentOptions, Engine, Mediator, leftovers, wait_until};

use crate::gate::{Gate, on_builder, waiting};

/// Notes its process in `$1` and stays, in a session of its own and orphaned; with `wiped`, without environment.
const DAEMON: &str = r#"
if [ "$2" = wiped ]; then wipe="env -i"; fi
( setsid $wipe /bin/sh -c "trap '' TERM; echo \$\$ > $1; while :; do /bin/sleep 1; done" & )
while [ ! -s "$1" ]; do sleep 0.01; done
"#;

struct Scene {
    mediator: Mediator,
    agent: Agent,
    gate: Gate,
}

fn scene(slots: u32) -> Scene {
    let mediator = Mediator::start(Engine::Sqlite);
    let agent = Agent::start_with(&mediator, &AgentOptions { slots, ..AgentOptions::builder("n1") });
    let gate = Gate::new();
    std::fs::write(gate.path("daemon.sh"), DAEMON).unwrap();
    for slot in 0..slots {
        let node = if slots == 1 { "n1".to_owned() } else { format!("n1/{slot}") };
        mediator.wait_node(&node, "is listed", |_| true);
    }
    Scene { mediator, agent, gate }
}

impl Scene {
    /// A contract of one step that leaves a daemon and then ends, or waits for its gate.
    fn leaves(&self, id: &str, how: &str, waits: bool) -> (String, PathBuf) {
        let pid = self.gate.path(&format!("{id}.pid"));
        let then = if waits {
            format!("while [ ! -e {} ]; do sleep 0.05; done", self.gate.path(id).display())
        } else {
            "true".to_owned()
        };
        let run = format!("[sh, -c, 'sh {} {} {how}; {then}']", self.gate.path("daemon.sh").display(), pid.display());
        (on_builder(id, &format!("  - {{id: leave, uses: builder, run: {run}}}\n")), pid)
    }

    fn live(&self) -> Vec<bool> {
        let status = self.agent.status();
        status["agent"]["nodes"].as_array().unwrap().iter().map(|node| node["live_processes"] == true).collect()
    }
}

fn pid(file: &Path) -> String {
    std::fs::read_to_string(file).unwrap_or_default().trim().to_owned()
}

fn exists(pid: &str) -> bool {
    assert!(!pid.is_empty());
    Path::new(&format!("/proc/{pid}")).exists()
}

#[test]
fn a_daemon_ends_with_its_step_whatever_it_has_left() {
    let it = scene(1);
    for how in ["kept", "wiped"] {
        let (contract, file) = it.leaves(how, how, false);
        it.mediator.submit(&contract);
        it.mediator.wait_state(how, "SUCCEEDED");
        // Before its step is reported, and its number with it: nobody is left unwaited for.
        assert!(!exists(&pid(&file)), "{how}");
        // The same when its step is stopped.
        let id = format!("{how}-stopped");
        let (contract, file) = it.leaves(&id, how, true);
        it.mediator.submit(&contract);
        wait_until("the daemon is there", || !pid(&file).is_empty());
        let daemon = pid(&file);
        assert!(exists(&daemon), "it lives as long as its step");
        it.mediator.cli(&["cancel", &id]).ok();
        wait_until("the daemon is gone", || !exists(&daemon));
        wait_until("nothing is alive", || it.live() == [false]);
    }
}

#[test]
fn a_daemon_of_a_killed_agent_is_found_at_the_next_start() {
    let mut it = scene(1);
    let (contract, file) = it.leaves("held", "kept", true);
    it.mediator.submit(&contract);
    wait_until("the daemon is there", || !pid(&file).is_empty());
    let daemon = pid(&file);
    it.agent.kill();
    assert!(exists(&daemon));
    it.agent.restart();
    wait_until("the daemon is gone", || !exists(&daemon));
    let page = it.mediator.wait_state("held", "FAILED");
    assert_eq!(page["run"]["verdict"]["cause"], "node_restarted");
}

#[test]
fn a_daemon_that_nobody_can_name_counts_on_every_node_until_the_last_step_beside_it_ends() {
    let it = scene(2);
    it.mediator.submit(&waiting(&it.gate, "beside"));
    it.mediator.wait_step("beside", "hold", "CLAIMED");
    let (contract, file) = it.leaves("left", "wiped", false);
    it.mediator.submit(&contract);
    it.mediator.wait_state("left", "SUCCEEDED");
    let daemon = pid(&file);
    assert!(exists(&daemon), "it might be the other step's");
    assert_eq!(it.live(), [true, true], "so neither machine is free");
    // One that can be named goes at once, and leaves the other step alone.
    let (contract, file) = it.leaves("named", "kept", false);
    it.mediator.submit(&contract);
    it.mediator.wait_state("named", "SUCCEEDED");
    assert!(!exists(&pid(&file)));
    assert_eq!(it.mediator.state("beside"), "RUNNING");
    it.gate.open("beside");
    it.mediator.wait_state("beside", "SUCCEEDED");
    wait_until("the daemon is gone", || !exists(&daemon));
    wait_until("nothing is alive", || it.live() == [false, false]);
}

/// Of the tests themselves: what they leave behind would run on beside the next ones.
#[test]
fn what_a_killed_agents_steps_have_started_ends_with_its_test() {
    let scene = scene(1);
    let (contract, daemon) = scene.leaves("left", "", true);
    scene.mediator.submit(&contract);
    wait_until("it runs", || !pid(&daemon).is_empty());
    let folder = scene.agent.home.path().to_owned();
    let Scene { mediator: _mediator, mut agent, gate: _gate } = scene;
    agent.kill();
    assert!(leftovers::of(&folder).len() >= 2, "the step and its daemon");
    drop(agent);
    assert_eq!(leftovers::of(&folder), []);
}
