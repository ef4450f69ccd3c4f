//! A ticket queue in a folder of its own, and its command line.

use std::{
    collections::BTreeMap,
    path::PathBuf,
    process::{Child, Command, Stdio},
};

use serde_json::Value;
use tempfile::TempDir;

use crate::mediator::{Mediator, Ran, binary, run};

/// A queue. Its commands speak to a mediator, if one is given, as a submitter.
pub struct Queue {
    /// Holds the folder `tickets` and whatever else a test puts there.
    pub home: TempDir,
    env: Vec<(String, String)>,
}

impl Queue {
    /// An empty queue.
    #[must_use]
    pub fn new(mediator: Option<&Mediator>) -> Self {
        let home = tempfile::tempdir().expect("a temporary directory");
        std::fs::create_dir(home.path().join("tickets")).expect("a folder");
        let mut env = vec![("TICKET_QUEUE".to_owned(), home.path().join("tickets").display().to_string())];
        if let Some(mediator) = mediator {
            env.push(("MEDIATOR_URL".to_owned(), mediator.url()));
            env.push(("MEDIATOR_TOKEN".to_owned(), mediator.token("submitter", "tickets")));
        }
        Self { home, env }
    }

    /// Sets a variable for all further commands.
    pub fn set(&mut self, name: &str, value: &str) {
        self.env.retain(|(known, _)| known != name);
        self.env.push((name.to_owned(), value.to_owned()));
    }

    /// Where a file of the queue is.
    #[must_use]
    pub fn path(&self, file: &str) -> PathBuf {
        self.home.path().join("tickets").join(file)
    }

    /// Writes a file as a person's editor does.
    pub fn write(&self, file: &str, text: &str) {
        std::fs::write(self.path(file), text).expect("write a ticket");
    }

    /// The text of a file.
    #[must_use]
    pub fn text(&self, file: &str) -> String {
        std::fs::read_to_string(self.path(file)).unwrap_or_else(|error| panic!("{file}: {error}; {:?}", self.files()))
    }

    /// Every visible file with its text.
    #[must_use]
    pub fn files(&self) -> BTreeMap<String, String> {
        let entries = std::fs::read_dir(self.path("")).expect("the queue").flatten();
        let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
        let visible = names.filter(|name| !name.starts_with('.'));
        visible.filter_map(|name| Some((name.clone(), std::fs::read_to_string(self.path(&name)).ok()?))).collect()
    }

    /// `enode tickets ARGS…`
    #[must_use]
    pub fn command(&self, args: &[&str]) -> Command {
        self.program(&[&["tickets"], args].concat())
    }

    /// `enode ARGS…`
    #[must_use]
    pub fn program(&self, args: &[&str]) -> Command {
        let mut command = Command::new(binary("enode"));
        command.args(args).env_clear().current_dir(self.home.path());
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default()).env("HOME", self.home.path());
        command.envs(self.env.iter().map(|(name, value)| (name, value)));
        command
    }

    /// Runs `enode tickets ARGS…` to its end.
    pub fn cli(&self, args: &[&str]) -> Ran {
        run(&mut self.command(args))
    }

    /// `enode tickets ARGS… --output json`
    pub fn json(&self, args: &[&str]) -> Value {
        self.cli(&[args, &["--output", "json"]].concat()).ok().json()
    }

    /// Starts `enode tickets ARGS…` in the background.
    pub fn spawn(&self, args: &[&str]) -> Child {
        let log = std::fs::File::options().create(true).append(true).open(self.home.path().join("log")).expect("a log");
        let mut command = self.command(args);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        command.spawn().expect("start a worker")
    }

    /// What the workers that were started so have logged.
    #[must_use]
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.home.path().join("log")).unwrap_or_default()
    }

    /// What `list` says of one ticket.
    #[must_use]
    pub fn ticket(&self, stem: &str) -> Value {
        let page = self.json(&["list"]);
        let tickets = page["tickets"].as_array().cloned().unwrap_or_default();
        tickets.into_iter().find(|it| it["stem"] == stem).unwrap_or(Value::Null)
    }

    /// The stems of the line, the next one first.
    #[must_use]
    pub fn line(&self) -> Vec<String> {
        let page = self.json(&["list"]);
        let tickets = page["tickets"].as_array().cloned().unwrap_or_default();
        let placed = tickets.iter().filter(|it| it["place"].is_u64());
        placed.filter_map(|it| it["stem"].as_str().map(str::to_owned)).collect()
    }
}
