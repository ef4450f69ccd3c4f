//! Executes one step, from its folders to its result.

use rustix::process::Pid;
use shared::{contract::ANSWER_FILE, domain::FailReason};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::{
    Bench,
    env::{self, Program},
    group::{self},
    harness::{self, HarnessError},
    inputs,
    log::{LogFile, Printed},
    output,
    process::{self, Ended, Process},
    strays::Strays,
    workspace::{Room, RoomError},
};
use crate::{
    clock,
    config::harness::Answer,
    policy::quarantine::Against,
    session::{
        node::{Stop, StopCause},
        outbox::LogUpload,
        wire::WorkStep,
    },
    spool::{Artifact, Outcome, Record},
};

/// A process group that was killed and has not gone.
#[derive(Debug)]
pub struct Lingering {
    process: Option<Process>,
    group: Pid,
    strays: Strays,
}

impl Lingering {
    /// Waits for it. False: it is still there.
    pub async fn gone(&mut self, within: shared::Duration) -> bool {
        if let Some(process) = &mut self.process {
            if tokio::time::timeout(within.std(), process.ended()).await.is_err() {
                return false;
            }
            if matches!(process.reap(within, || self.strays.look()).await, Ok(None)) {
                return false;
            }
            self.process = None;
            self.strays.reaped();
        }
        group::gone(self.group, within).await && self.strays.gone(within).await
    }
}

/// How a step came out.
#[derive(Debug)]
pub struct Done {
    /// None: nobody wants it.
    pub result: Option<(Record, Option<LogUpload>)>,
    /// What it speaks against if it did not complete.
    pub against: Against,
    /// What is left of its process group.
    pub lingering: Option<Lingering>,
}

fn failed(reason: FailReason, message: impl ToString) -> Outcome {
    Outcome::NotCompleted { reason: reason.as_str().to_owned(), message: message.to_string() }
}

/// What became of a step that did not complete, and what that speaks against.
type Failure = (Outcome, Against);

/// The machine's own doing.
fn own(reason: FailReason, message: impl ToString) -> Failure {
    (failed(reason, message), Against::Machine)
}

/// What a stop says in the report, if there is one.
fn stopped(cause: StopCause) -> Option<Outcome> {
    match cause {
        StopCause::Stopped => Some(failed(FailReason::Stopped, "the agent was told to stop")),
        StopCause::TimeToLive => {
            Some(failed(FailReason::Killed, "no mediator answered for as long as the lease was promised to hold"))
        }
        StopCause::Superseded | StopCause::LeaseEnded => None,
    }
}

/// The result of a step of which nothing was started.
#[must_use]
pub fn not_started(step: &WorkStep, reason: FailReason, message: impl ToString) -> Record {
    record(step, failed(reason, message))
}

fn record(step: &WorkStep, outcome: Outcome) -> Record {
    Record {
        run_id: step.key.run.clone(),
        seq: step.key.seq,
        attempt: step.key.attempt,
        step_id: step.step.clone(),
        nonce: step.nonce,
        outcome,
        log_bytes: 0,
        out: std::path::PathBuf::new(),
        artifacts: Vec::new(),
        ended_at: clock::now(),
        refused: None,
    }
}

/// Executes a step.
pub async fn execute(bench: &Bench, step: &WorkStep, mut orders: watch::Receiver<Option<Stop>>) -> Done {
    let mut lingering = None;
    match attempt(bench, step, &mut orders, &mut lingering).await {
        Ok((record, log, against)) => Done { result: Some((record, Some(log))), against, lingering },
        Err(Some((outcome, against))) => Done { result: Some((record(step, outcome), None)), against, lingering },
        Err(None) => Done { result: None, against: Against::Others, lingering },
    }
}

/// `Err`: it did not come to a process; with nothing in it, nobody wants to know.
async fn attempt(
    bench: &Bench,
    step: &WorkStep,
    orders: &mut watch::Receiver<Option<Stop>>,
    lingering: &mut Option<Lingering>,
) -> Result<(Record, LogUpload, Against), Option<Failure>> {
    let (rooms, spool) = (bench.rooms.clone(), bench.spool.clone());
    let (key, nonce, first) = (step.key.clone(), step.nonce, step.first_on_node);
    // Both in one go: each turn of the threads that may block costs as much as what it does.
    let (room, log) = tokio::task::spawn_blocking(move || (rooms.enter(&key, nonce, first), spool.create_log(&key)))
        .await
        .map_err(|e| Some(own(FailReason::CouldNotStart, e)))?;
    let room = room.map_err(|e| {
        let reason = match e {
            RoomError::Lost(_) => FailReason::WorkspaceLost,
            RoomError::Io { .. } => FailReason::CouldNotStart,
        };
        Some((failed(reason, &e), e.against()))
    })?;
    tokio::select! {
        biased;
        stop = orders.wait_for(Option::is_some) => {
            let cause = stop.ok().and_then(|stop| *stop).map_or(StopCause::LeaseEnded, |stop| stop.cause);
            return Err(stopped(cause).map(|outcome| (outcome, Against::Others)));
        }
        fetched = inputs::fetch(&bench.caller, step, &room.input) => {
            fetched.map_err(|e| Some((failed(FailReason::InputMissing, &e), e.against())))?;
        }
    }
    let program =
        program(bench, step, &room).map_err(|e| Some((failed(FailReason::CouldNotStart, &e), e.against())))?;
    let log = log.map(|file| LogFile::new(file, bench.config.log_bytes)).map_err(|e| {
        let path = bench.spool.log_path(&step.key);
        Some(own(FailReason::CouldNotStart, format!("cannot write its log {}: {e}", path.display())))
    })?;
    // Before the program is there: an agent that is killed between the two must find it again.
    if let Err(e) = bench.groups.intend(&step.key.run, &room.out) {
        tracing::error!(step = %step.key, error = %e, "cannot note that a process group is about to start");
    }
    let strays = Strays::of(&room.out);
    let started = strays.start(|| {
        let started = process::start(&program, &room.run)?;
        let leader = started.0.group();
        Ok((started, leader))
    });
    let (mut process, pipe) = started.map_err(|e: process::StartError| {
        bench.groups.clear();
        bench.spool.remove(&step.key);
        Some((failed(FailReason::CouldNotStart, &e), e.against()))
    })?;
    let group = process.group();
    bench.caller.node.group(group, &room.out);
    if let Err(e) = bench.groups.write(group, &step.key.run, &room.out) {
        tracing::error!(group = group.as_raw_pid(), error = %e, "cannot note the process group: a killed agent would not find it again");
    }
    tracing::info!(node = %bench.caller.node.id, step = %step.key, group = group.as_raw_pid(), "started");
    let upload = start_upload(bench, step, &log);
    let over = CancellationToken::new();
    let copy = bench.tracker.spawn(log.copy(pipe, process.take_stdout(), over.clone()));
    let (ended, status) = run(bench, step, process, strays, orders, lingering).await;
    over.cancel();
    let Ok((mut log, printed)) = copy.await else {
        return Err(Some(own(FailReason::Killed, "the agent could not read the program's output")));
    };
    let mut against = Against::Others;
    let mut record = record(step, outcome(step, ended, status).ok_or(None).inspect_err(|_| upload.abort())?);
    if matches!(record.outcome, Outcome::Completed { .. }) {
        if let Err(why) = answer(bench, step, &printed, &room).await {
            log.append(format!("[enode] there is no {ANSWER_FILE}: {why}\n").as_bytes()).await;
        }
        match collect(bench, &room).await {
            Ok((files, skipped)) => {
                record.artifacts = files;
                for line in skipped {
                    log.append(format!("[enode] {line}\n").as_bytes()).await;
                }
            }
            Err(refused) => (record.outcome, against) = refused,
        }
    }
    record.log_bytes = log.close();
    record.out = room.out;
    record.ended_at = clock::now();
    Ok((record, upload, against))
}

/// What is to be started.
fn program(bench: &Bench, step: &WorkStep, room: &Room) -> Result<Program, HarnessError> {
    let (config, node) = (&bench.config, &bench.caller.node.id);
    let own = |name: &str| std::env::var_os(name);
    match &step.agent {
        Some(task) => harness::program(step, task, &config.harnesses, node, room, &config.pass_env, own),
        None => Ok(env::program(step, node, room, &config.pass_env, own)?),
    }
}

/// Makes the answer of a harness that prints it.
async fn answer(bench: &Bench, step: &WorkStep, printed: &Printed, room: &Room) -> Result<(), String> {
    let harness = step.agent.as_ref().and_then(|task| bench.config.harnesses.get(&task.harness));
    match harness.map(|harness| &harness.answer) {
        Some(Answer::Stdout(pointer)) => harness::keep_answer(printed, pointer.as_deref(), &room.out).await,
        Some(Answer::File) | None => Ok(()),
    }
}

fn start_upload(bench: &Bench, step: &WorkStep, log: &LogFile) -> LogUpload {
    let (caller, written) = (bench.caller.clone(), log.written());
    let (key, nonce, path) = (step.key.clone(), step.nonce, bench.spool.log_path(&step.key));
    let cancel = bench.cancel.clone();
    bench.tracker.spawn(async move {
        tokio::select! {
            sent = caller.put_log(&key, nonce, &path, written) => sent,
            () = cancel.cancelled() => Err(crate::session::retry::CallError::retry("the agent stops")),
        }
    })
}

/// Waits for the process, and for its group and what left the group to be gone.
async fn run(
    bench: &Bench,
    step: &WorkStep,
    mut process: Process,
    strays: Strays,
    orders: &mut watch::Receiver<Option<Stop>>,
    lingering: &mut Option<Lingering>,
) -> (Ended, Option<std::process::ExitStatus>) {
    let node = &bench.caller.node;
    let (grace, stuck) = (bench.config.grace, bench.config.start_timeout);
    let group = process.group();
    let (ended, dead) = process.supervise(step.timeout, orders, grace, stuck).await;
    // From now on nobody but us touches the group: it is about to lose its number.
    node.leader_ended();
    let status = if dead { process.reap(stuck, || strays.look()).await } else { Ok(None) };
    let status = match status {
        Ok(Some(status)) => Some(status),
        Ok(None) => {
            tracing::error!(node = %node.id, group = group.as_raw_pid(), "a killed process does not end, or is traced by another one");
            node.stuck(Some(stuck_text(group, stuck)));
            *lingering = Some(Lingering { process: Some(process), group, strays });
            return (ended, None);
        }
        Err(e) => {
            tracing::error!(error = %e, "no exit status");
            None
        }
    };
    strays.reaped();
    if group::gone(group, stuck).await && strays.gone(stuck).await {
        bench.groups.clear();
        node.gone();
    } else {
        tracing::error!(node = %node.id, group = group.as_raw_pid(), "a killed process group does not go");
        node.stuck(Some(stuck_text(group, stuck)));
        *lingering = Some(Lingering { process: None, group, strays });
    }
    (ended, status)
}

fn stuck_text(group: Pid, within: shared::Duration) -> String {
    format!("process group {} or what left it did not go within {within} of SIGKILL", group.as_raw_pid())
}

fn outcome(step: &WorkStep, ended: Ended, status: Option<std::process::ExitStatus>) -> Option<Outcome> {
    match (ended, status) {
        (Ended::Stopped(cause), _) => stopped(cause),
        (Ended::TimedOut, _) => {
            let limit = step.timeout.unwrap_or_default();
            Some(failed(FailReason::Timeout, format!("it ran longer than its timeout of {limit}")))
        }
        (Ended::ByItself, Some(status)) => Some(Outcome::Completed { exit_code: process::exit_code(status) }),
        (Ended::ByItself, None) => Some(failed(FailReason::Killed, "its exit status could not be read")),
    }
}

async fn collect(bench: &Bench, room: &Room) -> Result<(Vec<Artifact>, Vec<String>), Failure> {
    let (out, limit) = (room.out.clone(), bench.config.artifact_bytes);
    match tokio::task::spawn_blocking(move || output::collect(&out, limit)).await {
        Ok(Ok(found)) => Ok((found.files, found.skipped)),
        Ok(Err(e)) => Err((failed(FailReason::OutputRefused, &e), e.against())),
        Err(e) => Err(own(FailReason::OutputRefused, e)),
    }
}
