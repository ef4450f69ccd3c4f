//! Follows one Run to its end, whatever happens to the connection.
//!
//! The stream only wakes: every 15 seconds the Run is asked for by itself, so that a stream that died without a
//! word cannot keep anybody waiting. A broken connection is made anew with growing, jittered pauses, so that
//! many waiting clients do not come back in the same second after a restart.

use std::time::Duration;

use proto::v1::{ExplainRequest, GetRunRequest, RunDetail, RunView, explain_request::Subject};
use shared::RunId;
use tokio::time::{Instant, MissedTickBehavior, interval_at, sleep, sleep_until};
use tonic::Status;

use super::{
    client::Client,
    exit::{Exit, Failure, Outcome},
    output::Io,
    refusal,
};

/// How often the Run is asked for beside the stream.
const CHECK: Duration = if cfg!(test) { Duration::from_millis(100) } else { Duration::from_secs(15) };

/// What wants to hear of every change.
pub(crate) trait Watcher {
    /// The Run changed, or was just looked at for the first time. `why` tells why a queued Run waits.
    fn change(&mut self, io: &mut Io, detail: &RunDetail, why: Option<&str>) -> Outcome<()>;
    /// The connection is gone and will be made anew.
    fn lost(&mut self, io: &mut Io, cause: &str);
}

/// Why following ended.
pub(crate) enum End {
    /// The Run has.
    Run(Box<RunDetail>),
    /// The deadline has come.
    Timeout,
    /// Ctrl-C.
    Interrupted,
}

/// Follows `run` until it has ended, at most until `deadline`. `known`: the mediator was reached before, so that it
/// is worth waiting for it to come back.
pub(crate) async fn follow(
    client: &Client,
    io: &mut Io,
    run: &RunId,
    deadline: Option<Instant>,
    known: bool,
    watcher: &mut (dyn Watcher + Send),
) -> Outcome<End> {
    let interrupt = io.take_interrupt();
    tokio::select! {
        // The Run's end goes before a deadline that comes at the same moment.
        biased;
        end = to_the_end(client, io, run, known, watcher) => end.map(|detail| End::Run(Box::new(detail))),
        () = interrupt => Ok(End::Interrupted),
        () = at(deadline) => Ok(End::Timeout),
    }
}

/// At `deadline`, or never.
pub(crate) async fn at(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}

async fn to_the_end(
    client: &Client,
    io: &mut Io,
    run: &RunId,
    mut known: bool,
    watcher: &mut (dyn Watcher + Send),
) -> Outcome<RunDetail> {
    let what = format!("cannot follow Run {run}");
    let mut pace = Backoff::default();
    loop {
        let status = match connection(client, io, run, &mut pace, &mut known, watcher).await? {
            Ok(detail) => return Ok(detail),
            Err(status) => status,
        };
        if refusal::is_final(&status) || !known {
            return Err(client.failure(&what, &status));
        }
        watcher.lost(io, &refusal::cause(&status));
        sleep(pace.next()).await;
    }
}

/// One connection: until the Run has ended, or the connection has.
async fn connection(
    client: &Client,
    io: &mut Io,
    run: &RunId,
    pace: &mut Backoff,
    known: &mut bool,
    watcher: &mut (dyn Watcher + Send),
) -> Outcome<Result<RunDetail, Status>> {
    let request = GetRunRequest { run_id: run.to_string() };
    let mut stream = match client.attempt(client.runs().watch_run(request.clone())).await {
        Ok(stream) => stream,
        Err(status) => return Ok(Err(status)),
    };
    *known = true;
    let mut check = interval_at(Instant::now() + CHECK, CHECK);
    check.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let (detail, over) = tokio::select! {
            biased;
            message = stream.message() => match message {
                Ok(Some(detail)) => (detail, false),
                // The stream's end means nothing by itself: what counts is what the Run says.
                Ok(None) => match client.attempt(client.runs().get_run(request.clone())).await {
                    Ok(detail) => (detail, true),
                    Err(status) => return Ok(Err(status)),
                },
                Err(status) => return Ok(Err(status)),
            },
            _ = check.tick() => match client.attempt(client.runs().get_run(request.clone())).await {
                Ok(detail) => (detail, false),
                Err(status) => return Ok(Err(status)),
            },
        };
        let view = view(&detail)?;
        if has_ended(view) {
            watcher.change(io, &detail, None)?;
            return Ok(Ok(detail));
        }
        let why = if view.state == "QUEUED" { why(client, run).await } else { None };
        watcher.change(io, &detail, why.as_deref())?;
        if over {
            return Ok(Err(Status::unavailable("the mediator ended the stream")));
        }
        pace.reset();
        check.reset();
    }
}

/// Why a queued Run waits; not worth failing for.
async fn why(client: &Client, run: &RunId) -> Option<String> {
    let request = ExplainRequest { subject: Some(Subject::RunId(run.to_string())) };
    let answer = client.attempt(client.runs().explain(request)).await.ok()?;
    Some(answer.summary).filter(|summary| !summary.is_empty())
}

/// The Run of an answer, which is always there.
pub(crate) fn view(detail: &RunDetail) -> Outcome<&RunView> {
    detail.run.as_ref().ok_or_else(|| Failure::new(Exit::Unreachable, "the mediator's answer holds no Run"))
}

/// SUCCEEDED and FAILED are for ever.
pub(crate) fn has_ended(run: &RunView) -> bool {
    matches!(run.state.as_str(), "SUCCEEDED" | "FAILED")
}

/// The exit code of a Run that has ended.
pub(crate) fn exit(run: &RunView) -> Exit {
    match (run.state.as_str(), &run.reject) {
        ("SUCCEEDED", _) => Exit::Ok,
        (_, Some(_)) => Exit::Refused,
        (_, None) => Exit::RunFailed,
    }
}

/// Pauses that double up to ten seconds, each cut by up to a half.
pub(crate) struct Backoff(Duration);

const FIRST: Duration = Duration::from_millis(200);
const LONGEST: Duration = Duration::from_secs(10);

impl Default for Backoff {
    fn default() -> Self {
        Self(FIRST)
    }
}

impl Backoff {
    pub(crate) fn next(&mut self) -> Duration {
        let pause = self.0.mul_f64(1.0 - crate::clock::random_fraction() / 2.0);
        self.0 = (self.0 * 2).min(LONGEST);
        pause
    }

    pub(crate) fn reset(&mut self) {
        self.0 = FIRST;
    }
}
