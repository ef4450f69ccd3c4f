//! The real program, killed and told to stop from outside.

use std::process::{Child, Command, Stdio};

use proto::v1::{self, work_item::Item};
use rustix::process::{Pid, Signal, kill_process};

use crate::{fake, reason, sleeper, wait_for, working::WithEnv as _};

struct Agent(Child);

impl Agent {
    fn start(dir: &std::path::Path) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_enode"));
        command.arg("run").arg("--config").arg(dir.join("yard.toml")).stderr(Stdio::null()).stdin(Stdio::null());
        Self(command.env_clear().env("HOME", "/nonexistent").env("PATH", "/usr/bin:/bin").spawn().unwrap())
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.0), signal).unwrap();
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

#[tokio::test]
async fn what_a_killed_agent_left_running_is_killed_before_the_next_one_speaks() {
    let served = fake::serve().await;
    let dir = tempfile::tempdir().unwrap();
    let text = format!("name = \"yard\"\nmediator = \"{}\"\nstate_dir = \"state\"\ndetect = false\n", served.url);
    std::fs::write(dir.path().join("yard.toml"), text).unwrap();
    let mut agent = Agent::start(dir.path());
    served.fake.grant("r1", 1);
    let mark = dir.path().join("mark");
    let script = format!("trap '' TERM; {}", sleeper(&mark));
    served.fake.send(Item::Step(served.fake.step(0, &["sh", "-c", "$S"]).with_env("S", &script))).await;
    let pid = wait_for("the step", || std::fs::read_to_string(&mark).ok()).await.trim().to_owned();
    // Noted right after the start; killed in between, the agent could not know of it.
    wait_for("its note", || dir.path().join("state/groups/yard.json").exists().then_some(())).await;
    agent.signal(Signal::KILL);
    agent.0.wait().unwrap();
    assert!(crate::is_alive(&pid), "nobody else kills it");
    let first = served.fake.with(|world| world.instance.clone());

    let mut agent = Agent::start(dir.path());
    // The last advert of the first life may still be under way.
    let next = |it: &&v1::AdvertiseRequest| it.node.as_ref().is_some_and(|node| node.instance != first);
    let advert = served.fake.until("the next life", |world| world.adverts.iter().find(next).cloned()).await;
    assert!(!crate::is_alive(&pid), "it was killed first");
    assert!(advert.replaces.contains(&first) && advert.running.is_empty() && advert.finished.is_empty(), "{advert:?}");
    assert!(dir.path().join("state/work/yard/r1").exists(), "the lease holds: the folder stays");
    assert!(dir.path().join("state/refused/yard/r1_0_1.log").exists(), "its output is kept for the owner");

    // Work goes on, and SIGTERM ends the agent in peace.
    served.fake.send(Item::Step(served.fake.step(1, &["true"]))).await;
    assert_eq!(reason(&served.fake.report("a report").await).0, "exit 0");
    agent.signal(Signal::TERM);
    let code = tokio::task::spawn_blocking(move || agent.0.wait().unwrap().code()).await.unwrap();
    assert_eq!(code, Some(0));
    assert!(served.fake.with(|world| world.adverts.last().unwrap().goodbye));
}
