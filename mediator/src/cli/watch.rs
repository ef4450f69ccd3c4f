//! `watch`: one Run to its end, or the fleet's events.

use std::collections::BTreeMap;

use proto::v1::{Event, RunDetail, RunView, StepView, WatchFleetRequest};
use shared::{Duration, RunId, Timestamp};
use tokio::time::{Instant, sleep};

use super::{
    client::Client,
    exit::{Exit, Failure, Outcome},
    follow::{self, Backoff, End, Watcher},
    output::{Format, Io, clean},
    progress::Progress,
    refusal, submit, words,
};

pub(crate) async fn run(
    client: &Client,
    io: &mut Io,
    format: Format,
    run: &RunId,
    timeout: Option<Duration>,
) -> Outcome {
    let deadline = timeout.map(|timeout| Instant::now() + timeout.std());
    let meant = client.meant(run).await?;
    let run = meant.as_ref().unwrap_or(run);
    let mut changes = Changes { format, state: String::new(), steps: BTreeMap::new(), progress: Progress::default() };
    let end = follow::follow(client, io, run, deadline, false, &mut changes).await;
    changes.progress.done(io);
    match end? {
        End::Run(detail) => {
            submit::why_failed(io, &detail)?;
            Ok(follow::exit(follow::view(&detail)?))
        }
        End::Timeout => Err(submit::timed_out(run)),
        End::Interrupted => Err(submit::interrupted(run)),
    }
}

/// Prints what differs from the time before.
struct Changes {
    format: Format,
    state: String,
    /// State and attempt of each step, by position.
    steps: BTreeMap<u32, (String, u32)>,
    progress: Progress,
}

impl Watcher for Changes {
    fn change(&mut self, io: &mut Io, detail: &RunDetail, why: Option<&str>) -> Outcome<()> {
        self.progress.done(io);
        let run = follow::view(detail)?;
        let mut lines = Vec::new();
        // A new state comes before the steps it opens, but a Run ends after its steps.
        let state = format!("{} {}", Timestamp::from_millis(of_run(detail, run)), words::sentence(run));
        let ended = follow::has_ended(run);
        let turned = self.state != run.state;
        if turned && !ended {
            lines.push(state.clone());
        }
        for step in &detail.steps {
            let now = (step.state.clone(), step.attempt);
            let before = self.steps.insert(step.seq, now.clone());
            let quiet = step.state == "PENDING" && before.is_none();
            if before.as_ref() != Some(&now) && !quiet {
                let at = step.ended_at.or(step.started_at).unwrap_or(detail.observed_at);
                lines.push(format!("{} {}", Timestamp::from_millis(at), step_line(step)));
            }
        }
        if turned && ended {
            lines.push(state);
        }
        self.state.clone_from(&run.state);
        match self.format {
            Format::Table => lines.iter().try_for_each(|line| io.line(line))?,
            // A look that found nothing new is no line.
            Format::Json | Format::Jsonl if lines.is_empty() => {}
            Format::Json | Format::Jsonl => io.json_line(detail)?,
        }
        if let Some(why) = why {
            self.progress.say(io, format!("QUEUED: {why}"));
        }
        Ok(())
    }

    fn lost(&mut self, io: &mut Io, cause: &str) {
        self.progress.lost(io, cause);
    }
}

/// When the Run came into its state, as far as its own times say; else when it was seen in it.
fn of_run(detail: &RunDetail, run: &RunView) -> i64 {
    let first = || detail.steps.iter().filter_map(|step| step.started_at).min();
    let entered = match run.state.as_str() {
        _ if run.ended_at.is_some() => run.ended_at,
        // Back in line for the second time: when is not known.
        "QUEUED" if detail.starts == 0 => Some(run.created_at),
        "RUNNING" if detail.starts == 0 => first(),
        _ => None,
    };
    entered.unwrap_or(detail.observed_at)
}

/// "step test CLAIMED on yard/0", "step test DONE exit 0".
fn step_line(step: &StepView) -> String {
    let mut text = format!("step {} {}", step.id, step.state);
    if let (Some(node), "CLAIMED") = (&step.node, step.state.as_str()) {
        text.push_str(&format!(" on {node}"));
    }
    if step.attempt > 1 {
        text.push_str(&format!(" attempt {}", step.attempt));
    }
    let result = words::result(step);
    if !result.is_empty() {
        text.push_str(&format!(" {result}"));
    }
    clean(&text)
}

pub(crate) async fn fleet(client: &Client, io: &mut Io, format: Format, timeout: Option<Duration>) -> Outcome {
    let deadline = timeout.map(|timeout| Instant::now() + timeout.std());
    let interrupt = io.take_interrupt();
    tokio::select! {
        end = events(client, io, format) => end,
        () = interrupt => Ok(Exit::Interrupted),
        () = follow::at(deadline) => Err(Failure::new(Exit::Timeout, "the time of --timeout is over")),
    }
}

/// Goes on where it was after a lost connection, so that no event is missed or shown twice.
async fn events(client: &Client, io: &mut Io, format: Format) -> Outcome {
    let (mut after, mut known, mut pace, mut progress) = (0, false, Backoff::default(), Progress::default());
    loop {
        let stream = client.attempt(client.fleet().watch_fleet(WatchFleetRequest { after })).await;
        let status = match stream {
            Err(status) => status,
            Ok(mut stream) => {
                if !known {
                    io.note("Watching the fleet; Ctrl-C ends it.");
                }
                known = true;
                loop {
                    match stream.message().await {
                        Ok(Some(event)) => {
                            progress.done(io);
                            pace.reset();
                            after = event.seq;
                            match format {
                                Format::Table => io.line(event_line(&event))?,
                                Format::Json | Format::Jsonl => io.json_line(&event)?,
                            }
                        }
                        Ok(None) => break tonic::Status::unavailable("the mediator ended the stream"),
                        Err(status) => break status,
                    }
                }
            }
        };
        if refusal::is_final(&status) || !known {
            return Err(client.failure("cannot watch the fleet", &status));
        }
        progress.say(io, format!("lost the mediator ({}), trying again", refusal::cause(&status)));
        sleep(pace.next()).await;
    }
}

fn event_line(event: &Event) -> String {
    let mut text = format!("{} {} {}", Timestamp::from_millis(event.at), event.seq, event.kind);
    if let Some(run) = &event.run_id {
        text.push_str(&format!(" run={run}"));
    }
    if let Some(node) = &event.node_id {
        text.push_str(&format!(" node={node}"));
    }
    if !matches!(event.data.as_str(), "" | "{}" | "null") {
        text.push_str(&format!(" {}", event.data));
    }
    clean(&text)
}
