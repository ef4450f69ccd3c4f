//! Executes the steps of one node, one at a time and in the order in which they came.
//!
//! A worker takes jobs: start a step, or remove what a lease left that has ended. Because both come through
//! one queue, nothing of a new lease starts before everything of the old one is gone. It knows nothing of
//! streams and adverts; results go to the spool and the outbox.

pub mod env;
pub mod group;
pub mod harness;
pub mod inputs;
pub mod log;
pub mod output;
pub mod process;
mod spare;
pub mod step;
pub mod strays;
pub mod tree;
pub mod workspace;

use std::sync::Arc;

use shared::domain::FailReason;
use tokio::sync::mpsc;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use self::{
    group::Notes,
    step::{Done, Lingering},
    workspace::Rooms,
};
use crate::{
    clock::{self, BootTime},
    config::Config,
    policy::quarantine::{Against, End},
    session::{
        core::LeaseKey,
        node::{Job, Stop, StopCause},
        outbox::LogUpload,
        upload::Caller,
        wire::WorkStep,
    },
    spool::{Outcome, Record, Spool},
    state::{AgentState, Stage},
};

/// What a worker works with.
#[derive(Debug, Clone)]
pub struct Bench {
    /// Settings.
    pub config: Arc<Config>,
    /// Whether the agent was told to stop.
    pub agent: Arc<AgentState>,
    /// Calls on behalf of the node.
    pub caller: Caller,
    /// Results.
    pub spool: Spool,
    /// Folders.
    pub rooms: Rooms,
    /// The running group, on disk.
    pub groups: Notes,
    /// Tasks that the worker starts.
    pub tracker: TaskTracker,
    /// The end of the agent.
    pub cancel: CancellationToken,
}

/// How often an idle worker looks whether a process group that did not go has gone.
const LOOK_EVERY: shared::Duration = shared::Duration::from_secs(1);

/// Works until the agent ends.
pub async fn run(bench: Bench, mut jobs: mpsc::UnboundedReceiver<Job>) {
    let mut lingering = Vec::new();
    loop {
        let job = if lingering.is_empty() {
            jobs.recv().await
        } else {
            // Held back because of them, the node gets no work that would make it look again.
            match tokio::time::timeout(LOOK_EVERY.std(), jobs.recv()).await {
                Ok(job) => job,
                Err(_) => {
                    wait_for_old(&bench, &mut lingering, shared::Duration::default()).await;
                    continue;
                }
            }
        };
        match job {
            Some(Job::Start(step)) => start(&bench, &step, &mut lingering).await,
            Some(Job::End(lease)) => clear_away(&bench, lease, &mut lingering).await,
            None => return,
        }
    }
}

async fn start(bench: &Bench, step: &WorkStep, lingering: &mut Vec<Lingering>) {
    let node = &bench.caller.node;
    let began = clock::boot_time();
    let Some(mut orders) = node.begin(step) else {
        tracing::info!(node = %node.id, step = %step.key, "its lease ended while it waited");
        return;
    };
    if bench.agent.stage() >= Stage::Killing {
        node.order_stop(Stop { cause: StopCause::Stopped, grace: shared::Duration::default() });
        orders.mark_changed();
    }
    if !wait_for_old(bench, lingering, bench.config.start_timeout).await {
        let why =
            format!("a process group of an earlier step did not go within {} of SIGKILL", bench.config.start_timeout);
        settle(bench, step, began, Some((step::not_started(step, FailReason::Stuck, why), None)), Against::Machine);
        return;
    }
    let Done { result, against, lingering: left } = step::execute(bench, step, orders).await;
    lingering.extend(left);
    settle(bench, step, began, result, against);
}

/// Spools a result and hands it to the outbox, unless nobody wants it any more.
fn settle(
    bench: &Bench,
    step: &WorkStep,
    began: BootTime,
    result: Option<(Record, Option<LogUpload>)>,
    against: Against,
) {
    let node = &bench.caller.node;
    let Some((record, log)) = result else {
        node.finish(&step.key);
        bench.spool.set_log_aside(&step.key, "its lease ended while it ran");
        return;
    };
    if let Some(end) = end(&record.outcome, against, began.until(clock::boot_time())) {
        node.judge(&step.key.run, end);
    }
    // On disk before it is called finished: an advert must not name a result that a crash would lose.
    if let Err(e) = bench.spool.put(&record) {
        tracing::error!(node = %node.id, step = %step.key, error = %e, "cannot spool the result; it is lost if the agent ends before it is sent");
    }
    if node.finish(&step.key) {
        node.outbox.push(record, log);
    } else {
        if let Some(log) = log {
            log.abort();
        }
        bench.spool.refuse(&record, "the lease had ended before the step did");
    }
}

/// What a result says about this machine.
fn end(outcome: &Outcome, against: Against, took: shared::Duration) -> Option<End> {
    match outcome {
        Outcome::Completed { .. } => Some(End::Completed),
        Outcome::NotCompleted { reason, .. } => {
            let reason = FailReason::ALL.into_iter().find(|known| known.as_str() == reason)?;
            Some(End::Failed(reason, against, took))
        }
    }
}

async fn wait_for_old(bench: &Bench, lingering: &mut Vec<Lingering>, within: shared::Duration) -> bool {
    while let Some(old) = lingering.last_mut() {
        if !old.gone(within).await {
            return false;
        }
        lingering.pop();
    }
    bench.groups.clear();
    bench.caller.node.stuck(None);
    true
}

/// Removes the folder of a lease that has ended.
async fn clear_away(bench: &Bench, lease: LeaseKey, lingering: &mut Vec<Lingering>) {
    if !wait_for_old(bench, lingering, bench.config.start_timeout).await {
        tracing::error!(node = %bench.caller.node.id, run_id = %lease.0, "its folder is not removed: a process still executes in it");
        return;
    }
    let (rooms, keep, cancel) = (bench.rooms.clone(), bench.config.keep_workspace, bench.cancel.clone());
    let remove = move || {
        if let Err(e) = rooms.remove(&lease) {
            tracing::error!(run_id = %lease.0, error = %e, "cannot remove the Run's folder");
        }
    };
    if keep == shared::Duration::default() {
        drop(tokio::task::spawn_blocking(remove).await);
        return;
    }
    bench.tracker.spawn(async move {
        tokio::select! {
            () = tokio::time::sleep(keep.std()) => drop(tokio::task::spawn_blocking(remove).await),
            // The next life of the agent finds it and asks whose it is.
            () = cancel.cancelled() => {}
        }
    });
}
