//! A whole agent, with real processes, against a mediator that does what the test says.
#![expect(clippy::unwrap_used, reason = "tests")]

mod fake;
mod killed;
mod leases;
#[expect(unreachable_pub, reason = "it belongs to the support of the end-to-end tests")]
#[path = "../../../tests/src/leftovers.rs"]
mod leftovers;
mod results;
mod stopping;
mod working;

use std::path::{Path, PathBuf};

use enode::{
    app::{self, StopChannel},
    config::Config,
};
use fake::{Fake, Served};
use proto::v1;
use shared::Duration;
use tokio::{sync::mpsc, task::JoinHandle};

/// One agent with one node `yard`, and its mediator.
struct Yard {
    served: Served,
    state: tempfile::TempDir,
    agent: Option<(mpsc::Sender<()>, JoinHandle<anyhow::Result<()>>)>,
    config: Config,
}

impl std::ops::Deref for Yard {
    type Target = Fake;
    fn deref(&self) -> &Fake {
        &self.served.fake
    }
}

impl Yard {
    async fn new() -> Self {
        Self::with(|_| {}).await
    }

    async fn with(change: impl FnOnce(&mut Config)) -> Self {
        let served = fake::serve().await;
        let state = tempfile::tempdir().unwrap();
        let mut config = Config::with_defaults("yard", state.path());
        config.mediator = vec![served.url.clone()];
        config.policy_file = state.path().join("yard.policy.toml");
        config.grace = Duration::from_millis(200);
        change(&mut config);
        let mut yard = Self { served, state, agent: None, config };
        yard.start();
        yard
    }

    fn start(&mut self) {
        let (stop, stops) = mpsc::channel(4);
        let agent = tokio::spawn(app::run_until(self.config.clone(), StopChannel(stops)));
        self.agent = Some((stop, agent));
    }

    async fn order_stop(&self) {
        self.agent.as_ref().unwrap().0.send(()).await.unwrap();
    }

    async fn ended(&mut self) {
        let (_stop, agent) = self.agent.take().unwrap();
        tokio::time::timeout(std::time::Duration::from_secs(30), agent).await.expect("it ends").unwrap().unwrap();
    }

    async fn stop(&mut self) {
        self.order_stop().await;
        self.ended().await;
    }

    fn path(&self, path: &str) -> PathBuf {
        self.state.path().join(path)
    }

    /// Names in a folder of the state directory.
    fn names(&self, path: &str) -> Vec<String> {
        names(&self.path(path))
    }

    /// Waits for a file that a program writes.
    async fn appears(&self, path: &Path) -> String {
        wait_for(&format!("{}", path.display()), || {
            std::fs::read_to_string(path).ok().filter(|text| text.ends_with('\n')).map(|text| text.trim().to_owned())
        })
        .await
    }
}

impl Drop for Yard {
    fn drop(&mut self) {
        // The agent lives on this runtime, and ends with it whatever its steps do.
        leftovers::end_all_of(self.state.path());
    }
}

/// But for spare files and folders.
fn names(dir: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(dir).into_iter().flatten();
    let names = entries.map(|it| it.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.filter(|name| !name.starts_with('.')).collect();
    names.sort();
    names
}

/// Looks until it is there.
async fn wait_for<T>(what: &str, look: impl Fn() -> Option<T>) -> T {
    let wait = async {
        loop {
            if let Some(found) = look() {
                return found;
            }
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(30), wait)
        .await
        .unwrap_or_else(|_| panic!("never came: {what}"))
}

/// Whether a process executes.
fn is_alive(pid: &str) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/stat"))
        .is_ok_and(|stat| !stat.rsplit_once(')').unwrap().1.trim_start().starts_with('Z'))
}

async fn dies(pid: &str) {
    wait_for(&format!("the end of process {pid}"), || (!is_alive(pid)).then_some(())).await;
}

/// Why the step did not complete.
fn reason(report: &v1::ReportRequest) -> (String, String) {
    match report.outcome.clone().unwrap() {
        v1::report_request::Outcome::NotCompleted(it) => (it.reason, it.message),
        v1::report_request::Outcome::Completed(it) => (format!("exit {}", it.exit_code), String::new()),
    }
}

/// A script that writes its process id and then does not end.
fn sleeper(mark: &Path) -> String {
    format!("echo $$ > {0}.tmp; mv {0}.tmp {0}; while :; do sleep 1000; done", mark.display())
}
