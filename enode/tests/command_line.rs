//! The real binary: files, exit codes, streams. The mediator and the agent are played by this test.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on says where")]

use std::{
    path::{Path, PathBuf},
    process::{Command, Output},
    sync::{Arc, Mutex},
};

use proto::v1::{
    self,
    fleet_service_server::{FleetService, FleetServiceServer},
};
use shared::{InstanceId, NodeId, domain::Drain};
use tonic::{Request, Response, Status};

use enode::{
    local,
    state::{AgentStatus, NodeStatus},
};

struct Yard(tempfile::TempDir);

impl Yard {
    fn new(mediator: &str) -> Self {
        let yard = Self(tempfile::tempdir().unwrap());
        let text = format!("name = \"yard\"\nmediator = \"{mediator}\"\nstate_dir = \"state\"\ndetect = false\n");
        std::fs::write(yard.path("yard.toml"), text).unwrap();
        std::fs::create_dir(yard.state()).unwrap();
        yard
    }
    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }
    fn state(&self) -> PathBuf {
        self.path("state")
    }
    fn policy(&self) -> String {
        std::fs::read_to_string(self.path("yard.policy.toml")).unwrap_or_default()
    }
    fn command(&self, words: &[&str]) -> Command {
        let mut command = enode(words);
        command.arg("--config").arg(self.path("yard.toml"));
        command
    }
    fn run(&self, words: &[&str]) -> Ran {
        self.command(words).output().unwrap().into()
    }
    /// The same without blocking the test's runtime, which plays the other side.
    async fn run_beside(&self, words: &[&str]) -> Ran {
        let mut command = self.command(words);
        tokio::task::spawn_blocking(move || command.output().unwrap().into()).await.unwrap()
    }
}

/// A home of its own, so that no file of this machine counts.
fn enode(words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_enode"));
    command.args(words).env_clear().env("HOME", "/nonexistent").env("PATH", "/usr/bin:/bin");
    command
}

#[derive(Debug)]
struct Ran {
    code: i32,
    out: String,
    err: String,
}

impl From<Output> for Ran {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code().unwrap_or(-1),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

/// What the mediator shows of node `yard`; `None` refuses the token.
#[derive(Clone, Default)]
struct Shown(Arc<Mutex<Option<v1::NodeView>>>);

impl Shown {
    fn set(&self, drain: &str, run_id: Option<&str>) {
        let lease = run_id.map(|run_id| v1::LeaseView { run_id: run_id.to_owned(), not_after: 2_000 });
        let draining = (!drain.is_empty()).then(|| drain.to_owned());
        *self.0.lock().unwrap() =
            Some(v1::NodeView { node_id: "yard".into(), expires_at: 2_000, draining, lease, ..Default::default() });
    }
    fn expire(&self) {
        if let Some(node) = self.0.lock().unwrap().as_mut() {
            node.expires_at = 1_000;
        }
    }
}

#[tonic::async_trait]
impl FleetService for Shown {
    async fn list_nodes(&self, _: Request<v1::ListNodesRequest>) -> Result<Response<v1::ListNodesResponse>, Status> {
        let Some(node) = self.0.lock().unwrap().clone() else { return Err(Status::permission_denied("no such token")) };
        Ok(Response::new(v1::ListNodesResponse { observed_at: 1_000, nodes: vec![node] }))
    }
    async fn list_leases(&self, _: Request<v1::ListLeasesRequest>) -> Result<Response<v1::ListLeasesResponse>, Status> {
        Err(Status::unimplemented(""))
    }
    async fn list_capabilities(
        &self,
        _: Request<v1::ListCapabilitiesRequest>,
    ) -> Result<Response<v1::ListCapabilitiesResponse>, Status> {
        Err(Status::unimplemented(""))
    }
    type WatchFleetStream = tokio_stream::Empty<Result<v1::Event, Status>>;
    async fn watch_fleet(&self, _: Request<v1::WatchFleetRequest>) -> Result<Response<Self::WatchFleetStream>, Status> {
        Err(Status::unimplemented(""))
    }
}

async fn mediator() -> (Shown, String) {
    let shown = Shown::default();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let server = tonic::transport::Server::builder().add_service(FleetServiceServer::new(shown.clone()));
    tokio::spawn(server.serve_with_incoming(tokio_stream::wrappers::TcpListenerStream::new(listener)));
    (shown, url)
}

/// An agent with one node `yard`.
async fn agent(state_dir: &Path, node: NodeStatus) -> Arc<Mutex<NodeStatus>> {
    let node = Arc::new(Mutex::new(node));
    let shown = node.clone();
    let status = move || AgentStatus {
        name: "yard".into(),
        pid: std::process::id(),
        version: "0".into(),
        mediator: "m".into(),
        connected: true,
        stopping: false,
        nodes: vec![shown.lock().unwrap().clone()],
    };
    tokio::spawn(local::serve(local::socket(state_dir), status));
    while local::ask(state_dir).await.is_err() {
        tokio::task::yield_now().await;
    }
    node
}

fn node(drain: Drain) -> NodeStatus {
    NodeStatus {
        node_id: NodeId::new("yard").unwrap(),
        instance: InstanceId::new("i1").unwrap(),
        accepted: true,
        superseded: None,
        drain,
        drain_reason: String::new(),
        reasons: Vec::new(),
        lease: None,
        step: None,
        live_processes: false,
        spooled: 0,
        last_advert_at: None,
        policy_error: String::new(),
    }
}

/// Nothing listens there: the port was free a moment ago and is not handed out again soon.
fn nowhere() -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    format!("http://{}", listener.local_addr().unwrap())
}

#[test]
fn drain_and_undrain_write_the_file_and_say_what_follows() {
    let yard = Yard::new(&nowhere());
    std::fs::write(yard.path("yard.policy.toml"), "# mine\npanel_token = \"hunter2\"\n").unwrap();
    let ran = yard.run(&["drain", "--mode", "at-boundary", "--reason", "night shift"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert_eq!(yard.policy(), "# mine\npanel_token = \"hunter2\"\nreason = \"night shift\"\ndrain = \"at-boundary\"\n");
    assert!(ran.err.contains("no agent runs here now; the next one starts with this drain"), "{ran:?}");
    assert!(!format!("{ran:?}").contains("hunter2"));
    // Without a mode nothing is weakened, and it says so; with one the owner means it.
    let ran = yard.run(&["drain"]);
    assert!(yard.policy().contains("drain = \"at-boundary\"\n"), "{ran:?}");
    assert!(ran.err.contains("says at-boundary, which stays") && ran.out.contains("at-boundary"), "{ran:?}");
    let ran = yard.run(&["drain", "--mode", "graceful"]);
    assert!(ran.code == 0 && yard.policy().contains("drain = \"graceful\"\n"), "{ran:?}");
    yard.run(&["drain", "--mode", "at-boundary"]);
    let ran = yard.run(&["undrain", "--output", "json"]);
    let said: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!((ran.code, &said["before"], &said["drain"]), (0, &"at-boundary".into(), &"".into()));
    assert!(yard.policy().contains("drain = \"\"\n"));
}

#[test]
fn a_token_of_the_panel_that_is_too_short_is_told_the_owner() {
    let yard = Yard::new(&nowhere());
    for (token, told) in [("hunter2", true), ("0123456789abcdef", false)] {
        std::fs::write(yard.path("yard.policy.toml"), format!("panel_token = \"{token}\"\n")).unwrap();
        for words in ["status", "drain", "undrain"] {
            let ran = yard.run(&[words]);
            let said = format!("{}{}", ran.out, ran.err).contains("panel_token is too short");
            assert!(said == told && !format!("{ran:?}").contains(token), "{words}: {ran:?}");
        }
    }
}

#[tokio::test]
async fn what_is_suggested_can_be_typed_and_what_stays_is_told() {
    let yard = Yard::new(&nowhere());
    agent(&yard.state(), node(Drain::None)).await;
    let undrain = format!("enode undrain --config {}\n", yard.path("yard.toml").display());
    let ran = yard.run_beside(&["drain"]).await;
    assert!(ran.err.contains(&format!("to lend again: {undrain}")), "{ran:?}");
    let ran = yard.run_beside(&["undrain", "--quarantine"]).await;
    assert!(ran.out.contains("nothing to lift"), "{ran:?}");
    assert!(ran.err.contains(&format!("own drain (graceful) stays; to lend again: {undrain}")), "{ran:?}");
    yard.run_beside(&["undrain"]).await;
    let ran = yard.run_beside(&["undrain", "--quarantine"]).await;
    assert!(!ran.err.contains("stays"), "{ran:?}");
}

#[test]
fn a_value_that_is_not_there_is_told() {
    let yard = Yard::new(&nowhere());
    std::fs::write(yard.path("yard.policy.toml"), "reason = \"x\"\ndrain =  # later\n").unwrap();
    let ran = yard.run(&["drain"]);
    assert!(ran.err.contains("yard.policy.toml:2: is not TOML: there is no value behind drain =;"), "{ran:?}");
    std::fs::write(yard.path("yard.toml"), "name = \"yard\"\nslots = \n").unwrap();
    let ran = yard.run(&["status"]);
    assert!(ran.err.contains("yard.toml:2: there is no value behind slots =\n"), "{ran:?}");
}

#[test]
fn a_home_that_may_not_be_entered_stops_nobody_who_names_a_file() {
    use std::os::unix::{fs::PermissionsExt, process::CommandExt};
    let yard = Yard::new(&nowhere());
    let closed = tempfile::tempdir().unwrap();
    let home = closed.path().join("home");
    std::fs::create_dir(&home).unwrap();
    for (at, mode) in [(home.as_path(), 0o000), (closed.path(), 0o755), (yard.0.path(), 0o755)] {
        std::fs::set_permissions(at, std::fs::Permissions::from_mode(mode)).unwrap();
    }
    let mut command = yard.command(&["config", "show"]);
    // No permission keeps root out.
    if rustix::process::geteuid().is_root() {
        command.uid(65_534);
    }
    let Ok(output) = command.env("HOME", &home).output() else { return };
    let ran = Ran::from(output);
    assert_eq!(ran.code, 0, "{ran:?}");
}

#[test]
fn a_broken_file_is_refused_with_5_and_replaced_by_force() {
    let yard = Yard::new(&nowhere());
    for words in [&["drain"][..], &["undrain"]] {
        std::fs::write(yard.path("yard.policy.toml"), "drain = \"grace").unwrap();
        let ran = yard.run(words);
        assert_eq!(ran.code, 5, "{ran:?}");
        assert!(ran.err.contains("yard.policy.toml:1: is not TOML") && ran.err.contains("--force"), "{ran:?}");
        assert_eq!(yard.policy(), "drain = \"grace");
        let ran = yard.run(&[words, &["--force"]].concat());
        assert_eq!(ran.code, 0, "{ran:?}");
        assert!(ran.err.contains("was broken before") && ran.err.contains("kept as"), "{ran:?}");
    }
    assert!(yard.path("yard.policy.toml.broken").exists() && yard.path("yard.policy.toml.broken.1").exists());
    std::fs::write(yard.path("yard.policy.toml"), "drain = 7\n").unwrap();
    let ran = yard.run(&["drain"]);
    assert!(ran.code == 0 && ran.err.contains("was broken before"), "{ran:?}");
}

#[test]
fn wait_without_a_mediator_ends_with_4_and_keeps_the_drain() {
    let yard = Yard::new(&nowhere());
    let ran = yard.run(&["drain", "--wait", "--timeout", "300ms"]);
    assert_eq!(ran.code, 4, "{ran:?}");
    assert!(ran.err.contains("the mediator cannot be reached") && ran.err.contains("stays draining"), "{ran:?}");
    assert_eq!(yard.policy(), "drain = \"graceful\"\n");
}

#[tokio::test]
async fn a25_wait_with_a_lease_left_ends_with_3_and_names_the_run() {
    let (shown, url) = mediator().await;
    let yard = Yard::new(&url);
    shown.set("graceful", Some("build-7"));
    agent(&yard.state(), node(Drain::Graceful)).await;
    let ran = yard.run_beside(&["drain", "--wait", "--timeout", "300ms"]).await;
    assert_eq!(ran.code, 3, "{ran:?}");
    assert!(ran.err.contains("waiting: yard: Run build-7"), "{ran:?}");
    assert!(ran.out.is_empty());
}

#[tokio::test]
async fn a18_wait_ends_with_0_only_when_mediator_and_agent_both_say_so() {
    let (shown, url) = mediator().await;
    let yard = Yard::new(&url);
    shown.set("", Some("build-7"));
    let own = agent(&yard.state(), NodeStatus { live_processes: true, ..node(Drain::None) }).await;
    let waiting = yard.run_beside(&["drain", "--wait", "--timeout", "60s"]);
    let play = async {
        // Each step alone is not enough; the file is written before anything is asked.
        while !yard.policy().contains("graceful") {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
        for step in 0..4 {
            match step {
                0 => shown.set("graceful", Some("build-7")),
                1 => own.lock().unwrap().drain = Drain::Graceful,
                2 => shown.set("graceful", None),
                _ => own.lock().unwrap().live_processes = false,
            }
            if step < 3 {
                // Long enough for a look or two; none of them may end the waiting.
                tokio::time::sleep(std::time::Duration::from_millis(1_200)).await;
            }
        }
        enode::clock::boot_time()
    };
    let ended = async { (waiting.await, enode::clock::boot_time()) };
    let ((ran, ended), all_true) = tokio::join!(ended, play);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ended >= all_true, "it ended before everything was true");
    assert!(ran.out.contains("safe to power off"), "{ran:?}");
    for line in ["Run build-7", "processes of a Run are still alive"] {
        assert!(ran.err.contains(line), "{line}: {ran:?}");
    }
}

#[tokio::test]
async fn a17_wait_without_an_agent_ends_when_its_advert_has_expired() {
    let (shown, url) = mediator().await;
    let yard = Yard::new(&url);
    shown.set("graceful", None);
    let ran = yard.run_beside(&["drain", "--wait", "--timeout", "300ms"]).await;
    assert!(ran.code == 3 && ran.err.contains("its last advert still counts"), "{ran:?}");
    shown.expire();
    let ran = yard.run_beside(&["drain", "--wait", "--output", "json"]).await;
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.err.contains("no agent runs here"), "{ran:?}");
    let said: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(said["drained"], true);
}

#[tokio::test]
async fn a_refused_token_and_an_undrain_by_somebody_else_end_with_2() {
    let (shown, url) = mediator().await;
    let yard = Yard::new(&url);
    let ran = yard.run_beside(&["drain", "--wait"]).await;
    assert!(ran.code == 2 && ran.err.contains("no such token"), "{ran:?}");

    shown.set("graceful", Some("build-7"));
    let waiting = yard.run_beside(&["drain", "--wait", "--mode", "at-boundary"]);
    let play = async {
        while !yard.policy().contains("at-boundary") {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
        yard.run_beside(&["undrain"]).await
    };
    let (ran, undrained) = tokio::join!(waiting, play);
    assert_eq!(undrained.code, 0);
    assert!(ran.code == 2 && ran.err.contains("was changed by somebody else"), "{ran:?}");
}

#[tokio::test]
async fn an_agent_that_cannot_use_the_file_ends_the_wait_with_5() {
    let (shown, url) = mediator().await;
    let yard = Yard::new(&url);
    shown.set("", None);
    agent(&yard.state(), NodeStatus { policy_error: "may not be read by this user".into(), ..node(Drain::None) }).await;
    let ran = yard.run_beside(&["drain", "--wait", "--timeout", "60s"]).await;
    assert!(ran.code == 5 && ran.err.contains("may not be read by this user"), "{ran:?}");
}

#[tokio::test]
async fn status_shows_the_agent_and_the_file() {
    let yard = Yard::new(&nowhere());
    let ran = yard.run(&["status"]);
    assert!(ran.code == 1 && ran.out.contains("not running") && ran.err.contains("enode run"), "{ran:?}");
    std::fs::write(yard.path("yard.policy.toml"), "drain = \"grace").unwrap();
    agent(&yard.state(), NodeStatus { superseded: Some("i9".into()), ..node(Drain::Graceful) }).await;
    let ran = yard.run_beside(&["status"]).await;
    assert_eq!(ran.code, 0, "{ran:?}");
    for want in ["BROKEN, nothing is lent", "yard.policy.toml:1", "(connected)", "superseded", "another agent speaks"] {
        assert!(ran.out.contains(want), "{want}: {}", ran.out);
    }
    let ran = yard.run_beside(&["status", "--output", "json"]).await;
    let said: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(said["agent"]["nodes"][0]["superseded"], "i9");
    assert_eq!(said["policy_file"]["state"], "broken");
}

#[test]
fn init_writes_once_and_says_what_next() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("new");
    let words = ["init", "--name", "shed", "--dir", folder.to_str().unwrap()];
    let ran: Ran = enode(&words).output().unwrap().into();
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.err.contains("mediator token create") && ran.err.contains("enode run --config"), "{ran:?}");
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 1, "no policy file is written");
    let before = std::fs::read_to_string(folder.join("shed.toml")).unwrap();
    let ran: Ran = enode(&words).output().unwrap().into();
    assert!(ran.code == 2 && ran.err.contains("is there already"), "{ran:?}");
    assert_eq!(std::fs::read_to_string(folder.join("shed.toml")).unwrap(), before);
    let elsewhere = folder.join("none");
    let dir = elsewhere.to_str().unwrap();
    let ran: Ran = enode(&["init", "--mediator", "127.0.0.1:7471", "--dir", dir]).output().unwrap().into();
    assert!(ran.code == 2 && ran.err.contains("is not http://HOST:PORT") && !elsewhere.exists(), "{ran:?}");
    let ran: Ran = enode(&["init", "--name", "a b"]).output().unwrap().into();
    assert_eq!(ran.code, 2, "{ran:?}");
}

/// A name that was used before on this machine: whoever begins anew should not be surprised by what is taken up.
#[test]
fn init_says_where_its_state_folder_has_served_an_agent() {
    let dir = tempfile::tempdir().unwrap();
    let state = dir.path().join("state");
    let init = |name: &str| -> Ran {
        let folder = dir.path().to_str().unwrap();
        let mut command = enode(&["init", "--name", name, "--dir", folder]);
        command.env("ENODE_STATE_DIR", &state).output().unwrap().into()
    };
    let ran = init("new");
    assert!(ran.code == 0 && !ran.err.contains("has served"), "{ran:?}");
    std::fs::create_dir_all(state.join("identity")).unwrap();
    let ran = init("empty");
    assert!(ran.code == 0 && !ran.err.contains("has served"), "{ran:?}");
    std::fs::write(state.join("identity/old.json"), "{}").unwrap();
    let ran = init("again");
    let said: Vec<_> = ran.err.lines().filter(|line| line.contains("has served")).collect();
    assert!(ran.code == 0 && said.len() == 1 && said[0].contains(state.to_str().unwrap()), "{ran:?}");
}

#[test]
fn faults_of_the_configuration_come_all_at_once_with_2() {
    let yard = Yard::new(&nowhere());
    std::fs::write(yard.path("yard.toml"), "nam = \"x\"\nslots = 0\n").unwrap();
    for words in [&["run"][..], &["status"], &["drain"], &["config", "show"]] {
        let ran = yard.run(words);
        assert_eq!(ran.code, 2, "{ran:?}");
        assert!(ran.err.contains("3 faults") && ran.err.contains("did you mean name?"), "{ran:?}");
        assert!(ran.out.is_empty());
    }
    assert_eq!(yard.policy(), "");
}

#[test]
fn config_show_hides_secrets_and_detect_needs_no_configuration() {
    let yard = Yard::new(&nowhere());
    let out = yard.command(&["config", "show"]).env("ENODE_TOKEN", "hunter2").output().unwrap();
    let ran = Ran::from(out);
    assert!(ran.code == 0 && !format!("{ran:?}").contains("hunter2"), "{ran:?}");
    assert!(ran.out.contains("environment: ENODE_TOKEN") && ran.out.contains("yard.toml:1: name"), "{}", ran.out);
    let ran: Ran = enode(&["detect", "--output", "json"]).output().unwrap().into();
    let said: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    assert!(ran.code == 0 && said["detected"]["os"] == "linux", "{ran:?}");
}

#[test]
fn completions_are_printed_and_a_reader_may_go_away() {
    let ran: Ran = enode(&["completions", "bash"]).output().unwrap().into();
    assert!(ran.code == 0 && ran.out.contains("_enode"), "{ran:?}");
    let line =
        format!("{} completions bash | head -c 1 >/dev/null; exit ${{PIPESTATUS[0]}}", env!("CARGO_BIN_EXE_enode"));
    assert_eq!(Command::new("bash").args(["-c", &line]).status().unwrap().code(), Some(0));
}

#[test]
fn a_second_agent_with_the_same_state_is_refused_with_its_pid() {
    let yard = Yard::new(&nowhere());
    let _lock = local::Lock::take(&yard.state()).unwrap();
    let ran = yard.run(&["run"]);
    assert_eq!(ran.code, 2, "{ran:?}");
    assert!(ran.err.contains(&format!("pid {}", std::process::id())), "{ran:?}");
}

/// Ends the process it started, whatever happens to the test.
struct Running(std::process::Child);

impl Running {
    fn signal(&self, signal: rustix::process::Signal) {
        rustix::process::kill_process(rustix::process::Pid::from_child(&self.0), signal).unwrap();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

#[test]
fn the_agent_answers_status_outlives_sighup_and_ends_on_sigterm_with_0() {
    let yard = Yard::new(&nowhere());
    std::fs::write(yard.path("yard.policy.toml"), "drain = \"graceful\"\n").unwrap();
    let mut agent = Running(yard.command(&["run"]).stderr(std::process::Stdio::null()).spawn().unwrap());
    while yard.run(&["status"]).code != 0 {
        assert!(agent.0.try_wait().unwrap().is_none(), "it ended");
    }
    agent.signal(rustix::process::Signal::HUP);
    let ran = yard.run(&["status"]);
    assert!(ran.code == 0 && ran.out.contains("(not connected)"), "{ran:?}");
    let ran = yard.run(&["run"]);
    assert!(ran.code == 2 && ran.err.contains(&format!("pid {}", agent.0.id())), "{ran:?}");
    assert!(agent.0.try_wait().unwrap().is_none(), "SIGHUP ended it");
    agent.signal(rustix::process::Signal::TERM);
    assert_eq!(agent.0.wait().unwrap().code(), Some(0));
    assert_eq!(yard.policy(), "drain = \"graceful\"\n", "stopping writes nothing");
    assert_eq!(yard.run(&["status"]).code, 1);
}

#[test]
fn a_log_filter_that_is_none_is_refused() {
    let yard = Yard::new(&nowhere());
    let ran: Ran = yard.command(&["run"]).env("ENODE_LOG", "a=b=c").output().unwrap().into();
    assert!(ran.code == 2 && ran.err.contains("ENODE_LOG"), "{ran:?}");
}
