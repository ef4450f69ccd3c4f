//! Waiting until this machine is drained, and saying what it waits for.

use std::path::Path;

use anyhow::anyhow;
use shared::{Duration, domain::Drain};

use super::{
    super::{
        Exit, Failure,
        out::{self, Out},
        remote::{Remote, RemoteError},
    },
    verdict::{self, Blocker, Local},
};
use crate::{
    clock,
    config::Config,
    local::{self, AskError},
    policy::file::{self, Seen},
};

/// Between two looks.
const PERIOD: Duration = Duration::from_millis(500);
/// The same progress is repeated this often.
const REPEAT: Duration = Duration::from_secs(10);
/// How long the agent may take to read the file that was just written, before its error counts.
const READ_WITHIN: Duration = Duration::from_secs(5);

/// Whatever ends the waiting: the word is written, and only its owner takes it back.
const STAYS: &str = "the machine stays draining, but whether it is drained cannot be seen";

/// Returns when it is drained. `None`: waits for ever.
pub(super) async fn until_drained(
    config: &Config,
    want: Drain,
    timeout: Option<Duration>,
    out: &Out,
) -> Result<(), Failure> {
    let remote = Remote::new(config).map_err(|error| Failure::new(Exit::Refused, error.context(STAYS)))?;
    let started = clock::boot_time();
    let mut teller = Teller { out, last: Vec::new(), said_at: None };
    let mut told_absent = false;
    loop {
        undone(&config.policy_file, want)?;
        // The mediator first: what its snapshot shows can only get better while the agent is asked.
        let view = remote.nodes().await;
        let local = match local::ask(&config.state_dir).await {
            Ok(agent) => Local::Running(Box::new(agent)),
            Err(AskError::NotRunning(_)) => Local::Absent,
            Err(other) => Local::Unknown(other.to_string()),
        };
        if matches!(local, Local::Absent) && !told_absent {
            told_absent = true;
            out.note("no agent runs here: the mediator's view alone counts, and processes that a killed agent left cannot be seen");
        }
        let gone = started.until(clock::boot_time());
        if gone >= READ_WITHIN
            && let Some(error) = verdict::policy_error(&local, want)
        {
            return Err(Failure::new(
                Exit::PolicyRefused,
                anyhow!("{STAYS}: the agent cannot use the policy file: {error}"),
            ));
        }
        let mut blockers = match &view {
            Ok(view) => verdict::blockers(&config.nodes(), want, view, &local, clock::now()),
            Err(RemoteError::Refused(why)) => {
                let error = anyhow!(
                    "{STAYS}: the mediator refuses to list its nodes: {why}; --wait needs the token of this node (token_file)"
                );
                return Err(Failure::new(Exit::Refused, error));
            }
            Err(RemoteError::Unreachable(why)) => {
                vec![Blocker {
                    what: format!("the mediator cannot be reached: {why}"),
                    run_id: None,
                    running_for: None,
                }]
            }
        };
        if blockers.is_empty() {
            return Ok(());
        }
        for blocker in &mut blockers {
            if let Some(run_id) = &blocker.run_id {
                let progress = remote.progress(run_id).await;
                if let Some((ended, all)) = progress.steps {
                    blocker.what.push_str(&format!(", {ended} of {all} steps ended"));
                }
                if progress.asked {
                    blocker.what.push_str(", waiting for a person");
                }
            }
        }
        teller.tell(&blockers);
        let left = timeout.map(|timeout| Duration::from_millis(timeout.millis().saturating_sub(gone.millis())));
        if left == Some(Duration::default()) {
            return Err(over(&blockers, view.is_err()));
        }
        tokio::time::sleep(left.unwrap_or(PERIOD).min(PERIOD).std()).await;
    }
}

/// The last look decides which it was.
fn over(blockers: &[Blocker], unreachable: bool) -> Failure {
    let exit = if unreachable { Exit::Unreachable } else { Exit::Timeout };
    let what: Vec<_> = blockers.iter().map(|blocker| blocker.what.as_str()).collect();
    Failure::new(exit, anyhow!("not drained in time; the machine stays draining: {}", what.join("; ")))
}

/// Somebody released the machine, or weakened the drain, while we wait.
fn undone(path: &Path, want: Drain) -> Result<(), Failure> {
    match file::look(path) {
        Seen::Written(written) if written.drain.is_some_and(|drain| drain < want) => Err(Failure::new(
            Exit::Refused,
            anyhow!("{} was changed by somebody else: it no longer says {want}", path.display()),
        )),
        _ => Ok(()),
    }
}

/// Tells once a change, and again now and then.
struct Teller<'a> {
    out: &'a Out,
    last: Vec<String>,
    said_at: Option<clock::BootTime>,
}

impl Teller<'_> {
    fn tell(&mut self, blockers: &[Blocker]) {
        let now = clock::boot_time();
        let what: Vec<String> = blockers.iter().map(|blocker| blocker.what.clone()).collect();
        let due = self.said_at.is_none_or(|at| at.until(now) >= REPEAT);
        if what == self.last && !due {
            return;
        }
        for blocker in blockers {
            let running =
                blocker.running_for.map(|span| format!(", running for {}", out::span(span))).unwrap_or_default();
            self.out.note(format!("waiting: {}{running}", blocker.what));
        }
        self.last = what;
        self.said_at = Some(now);
    }
}
