//! A mediator process and its command line.

use std::{
    fs::File,
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::Arc,
};

use serde_json::Value;
use tempfile::TempDir;

use crate::{
    postgres::Database,
    sqlite::Sqlite,
    wait::{wait_for, wait_until},
};

/// Which store a mediator runs on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Engine {
    /// Embedded.
    Sqlite,
    /// The server that `with-postgres` started.
    Postgres,
}

/// How a command ended and what it said.
#[derive(Debug)]
pub struct Ran {
    /// Exit code; 128 + N for signal N.
    pub code: i32,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

impl Ran {
    /// Panics unless it exited with 0.
    pub fn ok(self) -> Self {
        assert_eq!(self.code, 0, "stdout: {}\nstderr: {}", self.stdout, self.stderr);
        self
    }

    /// Its output as JSON.
    #[must_use]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.stdout)
            .unwrap_or_else(|error| panic!("{error} in {:?}; stderr: {}", self.stdout, self.stderr))
    }
}

/// Runs a command to its end.
pub fn run(command: &mut Command) -> Ran {
    use std::os::unix::process::ExitStatusExt;
    let output = command.stdin(Stdio::null()).output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let signal = output.status.signal().map(|signal| 128 + signal);
    Ran {
        code: output.status.code().or(signal).unwrap_or(-1),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// The same command, of a process that may have only so many descriptors open.
#[must_use]
pub(crate) fn limited(command: Command, descriptors: Option<u32>) -> Command {
    let Some(descriptors) = descriptors else { return command };
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("ulimit -n {descriptors} && exec \"$0\" \"$@\"")]);
    shell.arg(command.get_program()).args(command.get_args()).env_clear();
    shell.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    shell
}

/// A binary of this workspace, beside the running test.
#[must_use]
pub fn binary(name: &str) -> PathBuf {
    let this = std::env::current_exe().expect("the path of this program");
    // target/PROFILE/deps/TEST, or target/PROFILE/BINARY.
    let profile = this.ancestors().skip(1).find(|folder| !folder.ends_with("deps")).expect("target/PROFILE");
    let path = profile.join(name);
    assert!(path.exists(), "{} is missing: build the workspace first (`make test` does)", path.display());
    path
}

/// A running mediator, killed on drop. Its state outlives the process, so that it can be started again.
pub struct Mediator {
    /// Its state directory and whatever else a test puts there.
    pub home: TempDir,
    /// `127.0.0.1:PORT`
    pub address: String,
    database: String,
    // Lives as long as the mediator that uses it.
    postgres: Option<Arc<Database>>,
    extra: Vec<(String, String)>,
    // Further environment of its next life only.
    once: Vec<(&'static str, String)>,
    descriptors: Option<u32>,
    child: Option<Child>,
    // What the sweep had to promote in lives that have ended.
    swept: u64,
}

impl Mediator {
    /// Starts one on an empty store.
    #[must_use]
    pub fn start(engine: Engine) -> Self {
        Self::start_with(engine, &[])
    }

    /// Starts one on an empty store with further environment.
    #[must_use]
    pub fn start_with(engine: Engine, extra: &[(&str, &str)]) -> Self {
        let home = tempfile::tempdir().expect("a temporary directory");
        let (database, postgres) = match engine {
            Engine::Sqlite => (format!("sqlite:{}", home.path().join("mediator.db").display()), None),
            Engine::Postgres => {
                let database = Database::fresh().unwrap_or_else(|error| panic!("PostgreSQL: {error:#}"));
                (database.url(), Some(Arc::new(database)))
            }
        };
        Self::start_in(home, database, postgres, extra)
    }

    /// Starts one on a database of the test's own making.
    #[must_use]
    pub fn start_on(database: Database, extra: &[(&str, &str)]) -> Self {
        let home = tempfile::tempdir().expect("a temporary directory");
        Self::start_in(home, database.url(), Some(Arc::new(database)), extra)
    }

    fn start_in(home: TempDir, database: String, postgres: Option<Arc<Database>>, extra: &[(&str, &str)]) -> Self {
        // Free now, and nobody else on this machine is likely to take it in the next moment.
        let port = TcpListener::bind("127.0.0.1:0").and_then(|it| it.local_addr()).expect("a free port").port();
        let extra = extra.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        let address = format!("127.0.0.1:{port}");
        let mut mediator = Self {
            home,
            address,
            database,
            postgres,
            extra,
            once: Vec::new(),
            descriptors: None,
            child: None,
            swept: 0,
        };
        mediator.restart();
        mediator
    }

    /// Starts another one on the same PostgreSQL database, with a state directory of its own and the same Records.
    #[must_use]
    pub fn start_beside(first: &Self, extra: &[(&str, &str)]) -> Self {
        assert!(first.postgres.is_some(), "an embedded database has one mediator");
        let home = tempfile::tempdir().expect("a temporary directory");
        let records = first.home.path().display().to_string();
        let extra = [extra, &[("MEDIATOR_RECORDS_DIR", &records)]].concat();
        Self::start_in(home, first.database.clone(), first.postgres.clone(), &extra)
    }

    /// Starts one that serves over TLS. Its command line trusts `ca`.
    #[must_use]
    pub fn start_tls(cert: &str, key: &str, ca: &str) -> Self {
        Self::start_with(
            Engine::Sqlite,
            &[("MEDIATOR_TLS__CERT", cert), ("MEDIATOR_TLS__KEY", key), ("MEDIATOR_CA", ca)],
        )
    }

    fn uses_tls(&self) -> bool {
        self.extra.iter().any(|(key, _)| key == "MEDIATOR_TLS__CERT")
    }

    /// Starts the process (again) and waits until it serves.
    pub fn restart(&mut self) {
        assert!(self.child.is_none(), "it is still running");
        let log = File::options().create(true).append(true).open(self.log_path()).expect("a log file");
        let mut command = self.command();
        command.arg("serve");
        let mut command = limited(command, self.descriptors);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        command.envs(std::mem::take(&mut self.once));
        self.child = Some(command.spawn().expect("start the mediator"));
        wait_until("the mediator serves", || {
            if let Some(status) = self.child.as_mut().and_then(|child| child.try_wait().ok().flatten()) {
                panic!("the mediator ended with {status}:\n{}", self.log());
            }
            // Over TLS the command line is the probe.
            if self.uses_tls() { self.cli(&["status"]).code == 0 } else { self.http_status("/readyz") == Some(200) }
        });
    }

    /// Starts the process (again); it may have only so many descriptors open from now on.
    pub fn restart_with_descriptors(&mut self, descriptors: u32) {
        self.descriptors = Some(descriptors);
        self.restart();
    }

    /// Starts the process (again); it is to kill itself at a fail point (`docs/testing.md`).
    pub fn restart_to_die_at(&mut self, point: &str) {
        self.once = vec![("MEDIATOR_FAIL_AT", point.to_owned())];
        self.restart();
    }

    /// Starts the process (again) with a wall clock that is off by this much, as `faketime` writes it: `+1h`.
    pub fn restart_with_clock(&mut self, by: &str) {
        self.once = crate::clock::shifted(by);
        self.restart();
    }

    /// Whether it has ended by itself. It must have been killed then.
    pub fn has_died(&mut self) -> bool {
        use std::os::unix::process::ExitStatusExt;
        let Some(status) = self.child.as_mut().and_then(|child| child.try_wait().expect("look at it")) else {
            return false;
        };
        assert_eq!(status.signal(), Some(9), "it ended in another way\n{}", self.log());
        self.child = None;
        true
    }

    /// kill -9, after a look at what the sweep had to do.
    pub fn kill(&mut self) {
        self.remember_sweeps();
        self.kill_at_once();
    }

    /// kill -9 with no call before it.
    pub fn kill_at_once(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().expect("kill the mediator");
            child.wait().expect("wait for the mediator");
        }
    }

    /// SIGTERM, and waits for its end. Returns its exit code.
    pub fn stop(&mut self) -> i32 {
        self.remember_sweeps();
        let mut child = self.child.take().expect("a running mediator");
        signal(child.id(), "TERM");
        child.wait().expect("wait for the mediator").code().unwrap_or(-1)
    }

    /// Its process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.as_ref().expect("a running mediator").id()
    }

    /// `http://127.0.0.1:PORT`, or https.
    #[must_use]
    pub fn url(&self) -> String {
        format!("{}://{}", if self.uses_tls() { "https" } else { "http" }, self.address)
    }

    fn log_path(&self) -> PathBuf {
        self.home.path().join("mediator.log")
    }

    /// What it has logged.
    #[must_use]
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.log_path()).unwrap_or_default()
    }

    fn command(&self) -> Command {
        self.command_of(binary("mediator"))
    }

    /// Another program with the mediator's environment; it finds `mediator` and PostgreSQL's tools.
    pub fn command_of(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new(program);
        let mut path = vec![binary("mediator").parent().expect("a folder").to_owned()];
        path.extend(crate::postgres::bin_dir());
        path.extend(std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()));
        command
            .env_clear()
            .env("PATH", std::env::join_paths(path).expect("folders without colons"))
            .env("HOME", self.home.path())
            .env("MEDIATOR_LISTEN", &self.address)
            .env("MEDIATOR_STATE_DIR", self.home.path())
            .env("MEDIATOR_DATABASE", &self.database)
            .env("MEDIATOR_LEASE__RENEW", "500ms")
            .env("MEDIATOR_REAP_INTERVAL", "200ms")
            // So often that a test in which a wake point does nothing is seen to need it.
            .env("MEDIATOR_SWEEP_INTERVAL", "200ms")
            .env("MEDIATOR_URL", self.url())
            .envs(self.extra.iter().map(|(key, value)| (key, value)));
        command
    }

    /// Runs `mediator ARGS…` as a person on this host would.
    pub fn cli(&self, args: &[&str]) -> Ran {
        run(self.command().args(args))
    }

    /// `mediator ARGS… --output json`
    pub fn json(&self, args: &[&str]) -> Value {
        self.cli(&[args, &["--output", "json"]].concat()).ok().json()
    }

    /// Starts `mediator ARGS…` in the background.
    pub fn spawn_cli(&self, args: &[&str]) -> Child {
        self.command()
            .args(args)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("start the command")
    }

    /// A fresh token.
    #[must_use]
    pub fn token(&self, role: &str, principal: &str) -> String {
        let ran = self.cli(&["token", "create", "--role", role, "--principal", principal]).ok();
        ran.stdout.trim().to_owned()
    }

    /// Submits a contract and returns the Run's view.
    pub fn submit(&self, contract: &str) -> Value {
        let file = tempfile::NamedTempFile::new_in(self.home.path()).expect("a temporary file");
        std::fs::write(file.path(), contract).expect("write the contract");
        self.json(&["submit", file.path().to_str().expect("a UTF-8 path")])
    }

    /// The Run's page: `{run, steps, …}`.
    #[must_use]
    pub fn show(&self, run: &str) -> Value {
        self.json(&["show", run])
    }

    /// The Run's state word.
    #[must_use]
    pub fn state(&self, run: &str) -> String {
        self.show(run)["run"]["state"].as_str().unwrap_or_default().to_owned()
    }

    /// Waits until a Run is in this state.
    pub fn wait_state(&self, run: &str, state: &str) -> Value {
        wait_for(&format!("{run} is {state}"), || {
            let page = self.show(run);
            (page["run"]["state"] == state).then_some(page)
        })
    }

    /// Waits until a step of a Run is in this state.
    pub fn wait_step(&self, run: &str, step: &str, state: &str) -> Value {
        wait_for(&format!("{step} of {run} is {state}"), || {
            let page = self.show(run);
            let found = step_of(&page, step);
            (found["state"] == state).then_some(found)
        })
    }

    /// A node as `mediator nodes` lists it.
    #[must_use]
    pub fn node(&self, id: &str) -> Option<Value> {
        let page = self.json(&["nodes", "--all"]);
        page["nodes"].as_array()?.iter().find(|node| node["node_id"] == id).cloned()
    }

    /// Waits until a node is listed and `test` holds for it.
    pub fn wait_node(&self, id: &str, what: &str, test: impl Fn(&Value) -> bool) -> Value {
        wait_for(&format!("node {id} {what}"), || self.node(id).filter(|node| test(node)))
    }

    /// Every lease row.
    #[must_use]
    pub fn leases(&self) -> Vec<Value> {
        self.json(&["leases"])["leases"].as_array().cloned().unwrap_or_default()
    }

    /// A plain GET with the admin token: status and body.
    #[must_use]
    pub fn get(&self, path: &str) -> (u16, String) {
        let token = std::fs::read_to_string(self.home.path().join("admin.token")).unwrap_or_default();
        self.get_as(path, token.trim())
    }

    /// A plain GET with a token: status and body.
    #[must_use]
    pub fn get_as(&self, path: &str, token: &str) -> (u16, String) {
        let answer = http(&self.address, path, token).unwrap_or_default();
        let status = answer.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or(0);
        let body = answer.split_once("\r\n\r\n").map(|(_, body)| body.to_owned()).unwrap_or_default();
        (status, body)
    }

    fn http_status(&self, path: &str) -> Option<u16> {
        let answer = http(&self.address, path, "")?;
        answer.split(' ').nth(1)?.parse().ok()
    }

    /// Promotions by a wake point since the process started.
    #[must_use]
    pub fn promotions(&self, wake: &str) -> u64 {
        let (_, body) = self.get("/metrics");
        let name = format!("mediator_promotions_total{{wake=\"{wake}\"}} ");
        body.lines().find_map(|line| line.strip_prefix(&name)?.parse().ok()).unwrap_or(0)
    }

    fn remember_sweeps(&mut self) {
        if self.child.is_some() {
            self.swept += self.promotions("Sweep");
        }
    }

    /// Whatever happened, the sweep must have found nothing to do. Asked at the end of every test.
    pub fn assert_no_wake_was_missed(&self) {
        assert_eq!(self.swept + self.promotions("Sweep"), 0, "the sweep had to promote a run");
    }

    /// Runs a statement in its database, whether it runs or not; one row a line, columns separated by `|`.
    pub fn sql(&self, text: &str) -> String {
        match &self.postgres {
            Some(database) => database.sql(text).unwrap_or_else(|error| panic!("{error:#}")),
            None => Sqlite::open(&self.database_file()).sql(text),
        }
    }

    /// The file of its SQLite database.
    #[must_use]
    pub fn database_file(&self) -> PathBuf {
        self.home.path().join("mediator.db")
    }
}

impl Drop for Mediator {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.kill_at_once();
            eprintln!("--- mediator log ---\n{}", self.log());
            return;
        }
        self.kill();
        assert_eq!(self.swept, 0, "the sweep had to promote a run: a wake point was missed\n{}", self.log());
    }
}

/// The step with this id on a Run's page.
#[must_use]
pub fn step_of(page: &Value, id: &str) -> Value {
    let steps = page["steps"].as_array().cloned().unwrap_or_default();
    steps.into_iter().find(|step| step["id"] == id).unwrap_or(Value::Null)
}

/// Sends a signal to a process that the test started.
pub fn signal(pid: u32, name: &str) {
    let status = Command::new("kill").args([format!("-{name}"), pid.to_string()]).status();
    assert!(status.is_ok_and(|status| status.success()), "kill -{name} {pid}");
}

fn http(address: &str, path: &str, token: &str) -> Option<String> {
    let mut stream = TcpStream::connect(address).ok()?;
    stream.set_read_timeout(Some(std::time::Duration::from_secs(20))).ok()?;
    let auth = if token.is_empty() { String::new() } else { format!("Authorization: Bearer {token}\r\n") };
    write!(stream, "GET {path} HTTP/1.0\r\nHost: {address}\r\n{auth}\r\n").ok()?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).ok()?;
    Some(String::from_utf8_lossy(&answer).into_owned())
}

/// Writes a file that others may read at any moment: beside it, then renamed.
pub fn write_atomically(path: &Path, text: &str) {
    let beside = path.with_extension("new");
    std::fs::write(&beside, text).expect("write beside the file");
    std::fs::rename(&beside, path).expect("rename over the file");
}
