//! Both programs tell a supervisor when they are ready.

use std::{
    os::unix::net::UnixDatagram,
    process::{Child, Command, Stdio},
    time::Duration,
};

use tests::{AgentOptions, Engine, Mediator, mediator::binary};

struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

/// Starts a command under a supervisor's socket and waits for its word.
fn says_ready(command: &mut Command) -> Running {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("notify");
    let socket = UnixDatagram::bind(&path).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    command.env("NOTIFY_SOCKET", &path).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let running = Running(command.spawn().unwrap());
    let mut text = [0; 256];
    let length = socket.recv(&mut text).unwrap_or_else(|error| panic!("{command:?} said nothing: {error}"));
    let text = String::from_utf8_lossy(&text[..length]).into_owned();
    assert!(text.lines().any(|line| line == "READY=1"), "{text:?}");
    running
}

#[test]
fn the_mediator_tells_its_supervisor_when_it_serves() {
    let home = tempfile::tempdir().unwrap();
    let mut command = Command::new(binary("mediator"));
    command.args(["serve", "--listen", "127.0.0.1:0"]).env_clear().env("HOME", home.path());
    drop(says_ready(command.env("MEDIATOR_STATE_DIR", home.path().join("state"))));
}

#[test]
fn the_agent_tells_its_supervisor_when_it_works() {
    let mediator = Mediator::start(Engine::Sqlite);
    let agent = tests::Agent::prepare(&mediator, &AgentOptions::builder("n1"));
    let mut command = Command::new(binary("enode"));
    command.args(["run", "--config"]).arg(agent.home.path().join("n1.toml"));
    let running = says_ready(command.env_clear().env("HOME", agent.home.path()));
    mediator.wait_node("n1", "is listed", |_| true);
    drop(running);
}
