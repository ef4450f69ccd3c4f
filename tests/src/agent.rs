//! An agent process, its files and its owner's command line.

use std::{
    fs::File,
    path::PathBuf,
    process::{Child, Command, Stdio},
};

use serde_json::Value;
use tempfile::TempDir;

use crate::{
    leftovers,
    mediator::{Mediator, Ran, binary, limited, run, signal, write_atomically},
};

/// How an agent is set up.
#[derive(Debug, Clone)]
pub struct AgentOptions<'a> {
    /// Its name, which is its node's id when it has one slot.
    pub name: &'a str,
    /// How many nodes it hosts.
    pub slots: u32,
    /// `[[capability]]` tables in TOML.
    pub capabilities: &'a str,
    /// Further keys of its configuration in TOML.
    pub extra: &'a str,
    /// Where the mediator is; the mediator's own address when `None`.
    pub mediator: Option<String>,
    /// Its state folder; one in its home when `None`.
    pub state_dir: Option<PathBuf>,
    /// How far the wall clock of its machine is off, as `faketime` writes it: `+1d`.
    pub clock: Option<&'a str>,
    /// The most descriptors that its process may have open.
    pub descriptors: Option<u32>,
}

impl<'a> AgentOptions<'a> {
    /// One node that can build.
    #[must_use]
    pub const fn builder(name: &'a str) -> Self {
        Self {
            name,
            slots: 1,
            capabilities: "[[capability]]\nname = \"build\"\nattrs = { os = \"linux\" }\n",
            extra: "",
            mediator: None,
            state_dir: None,
            clock: None,
            descriptors: None,
        }
    }
}

/// A running agent, ended on drop with all that its steps have started. Its files outlive the process.
pub struct Agent {
    /// Configuration, policy and state.
    pub home: TempDir,
    /// Its name.
    pub name: String,
    /// The `HOME` it runs with: its own, or that of whoever runs the test.
    user_home: PathBuf,
    /// What makes the wall clock of its machine wrong.
    clock: Vec<(&'static str, String)>,
    descriptors: Option<u32>,
    child: Option<Child>,
}

impl Agent {
    /// Starts an agent whose steps see the caller's own home directory, with its tool chains, and waits until
    /// it is listed.
    #[must_use]
    pub fn start_as_user(mediator: &Mediator, options: &AgentOptions<'_>) -> Self {
        let mut agent = Self::prepare(mediator, options);
        agent.user_home = std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
        agent.restart();
        mediator.wait_node(options.name, "is listed", |_| true);
        agent
    }

    /// Starts an agent with one node that can build, and waits until it is listed.
    #[must_use]
    pub fn start(mediator: &Mediator, name: &str) -> Self {
        let agent = Self::start_with(mediator, &AgentOptions::builder(name));
        mediator.wait_node(name, "is listed", |_| true);
        agent
    }

    /// Starts an agent; does not wait.
    #[must_use]
    pub fn start_with(mediator: &Mediator, options: &AgentOptions<'_>) -> Self {
        let mut agent = Self::prepare(mediator, options);
        agent.restart();
        agent
    }

    /// Lays out an agent's files without starting it.
    #[must_use]
    pub fn prepare(mediator: &Mediator, options: &AgentOptions<'_>) -> Self {
        let home = tempfile::tempdir().expect("a temporary directory");
        let token = mediator.token("node", &format!("owner-of-{}", options.name));
        std::fs::write(home.path().join("token"), token).expect("write the token");
        let config = format!(
            "name = \"{name}\"\nlabel = \"test machine {name}\"\nmediator = [\"{url}\"]\ntoken_file = \"{home}/token\"\n\
             state_dir = \"{state}\"\nslots = {slots}\ngrace = \"1s\"\n{extra}\n{capabilities}",
            name = options.name,
            url = options.mediator.clone().unwrap_or_else(|| mediator.url()),
            home = home.path().display(),
            state = options.state_dir.clone().unwrap_or_else(|| home.path().join("state")).display(),
            slots = options.slots,
            extra = options.extra,
            capabilities = options.capabilities,
        );
        std::fs::write(home.path().join(format!("{}.toml", options.name)), config).expect("write the configuration");
        let user_home = home.path().to_owned();
        let clock = options.clock.map(crate::clock::shifted).unwrap_or_default();
        Self { home, name: options.name.to_owned(), user_home, clock, descriptors: options.descriptors, child: None }
    }

    /// Starts the process (again).
    pub fn restart(&mut self) {
        assert!(self.child.is_none(), "it is still running");
        // In a folder of its own: the agent watches the one of its policy.
        let path = self.log_path();
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder for the log");
        let log = File::options().create(true).append(true).open(path).expect("a log file");
        let mut command = limited(self.command(&["run"]), self.descriptors);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        self.child = Some(command.spawn().expect("start the agent"));
    }

    /// Starts the process (again), and waits until its node speaks for this life. Until the mediator knows of that, it takes
    /// the last one's advert for true, and what it gives to that life is lost.
    pub fn restart_at(&mut self, mediator: &Mediator) -> Value {
        let before = mediator.node(&self.name).map(|node| node["instance"].clone());
        self.restart();
        mediator.wait_node(&self.name, "speaks for its new life", |node| Some(&node["instance"]) != before.as_ref())
    }

    /// kill -9.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().expect("kill the agent");
            child.wait().expect("wait for the agent");
        }
    }

    /// SIGTERM, without waiting.
    pub fn terminate(&self) {
        signal(self.pid(), "TERM");
    }

    /// Waits for the end of the process. Returns its exit code.
    pub fn wait(&mut self) -> i32 {
        let mut child = self.child.take().expect("a running agent");
        child.wait().expect("wait for the agent").code().unwrap_or(-1)
    }

    /// Its process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.as_ref().expect("a running agent").id()
    }

    /// Whether the process runs.
    pub fn is_running(&mut self) -> bool {
        self.child.as_mut().is_some_and(|child| matches!(child.try_wait(), Ok(None)))
    }

    /// The owner's policy file.
    #[must_use]
    pub fn policy_path(&self) -> PathBuf {
        self.home.path().join(format!("{}.policy.toml", self.name))
    }

    /// Writes the owner's policy file as an editor that renames does.
    pub fn write_policy(&self, text: &str) {
        write_atomically(&self.policy_path(), text);
    }

    /// Sets the drain word in the policy file.
    pub fn set_drain(&self, drain: &str) {
        self.write_policy(&format!("drain = \"{drain}\"\n"));
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(binary("enode"));
        command
            .args(args)
            .arg("--config")
            .arg(self.home.path().join(format!("{}.toml", self.name)))
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", &self.user_home)
            .envs(self.clock.iter().map(|(name, value)| (name, value)))
            .envs(["CARGO_HOME", "RUSTUP_HOME"].into_iter().filter_map(|name| Some((name, std::env::var_os(name)?))));
        command
    }

    /// Runs `enode ARGS…` as the owner.
    pub fn cli(&self, args: &[&str]) -> Ran {
        run(&mut self.command(args))
    }

    /// Starts `enode ARGS…` in the background.
    pub fn spawn_cli(&self, args: &[&str]) -> Child {
        self.command(args)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("start the command")
    }

    /// The agent's own view.
    #[must_use]
    pub fn status(&self) -> Value {
        self.cli(&["status", "--output", "json"]).ok().json()
    }

    fn log_path(&self) -> PathBuf {
        self.home.path().join("log/enode.log")
    }

    /// What it has logged.
    #[must_use]
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.log_path()).unwrap_or_default()
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("--- log of {} ---\n{}", self.name, self.log());
        }
        // First the polite way, so that no step's process outlives the test.
        if self.is_running() {
            self.terminate();
            self.terminate();
            let ended = (0..100).any(|_| {
                std::thread::sleep(std::time::Duration::from_millis(50));
                !self.is_running()
            });
            if !ended {
                self.kill();
            }
        }
        leftovers::end_all_of(self.home.path());
    }
}
