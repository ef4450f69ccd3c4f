//! `submit` and `dry-run`.

use std::{path::Path, time::Duration};

use proto::v1::{RunDetail, RunView, SubmitRequest, SubmitResponse};
use shared::RunId;
use tokio::time::{Instant, sleep};

use super::{
    args::Submit,
    client::Client,
    contract,
    exit::{Exit, Failure, Outcome},
    follow::{self, Backoff, End},
    output::{Format, Io, clean},
    progress::Progress,
    refusal, words,
};

/// How long a submit without `--timeout` is sent again: long enough for a restart when the caller waits anyway.
const PATIENCE: Duration = Duration::from_secs(if cfg!(test) { 1 } else { 5 });
const PATIENCE_OF_WAIT: Duration = Duration::from_secs(30);

pub(crate) async fn submit(client: &Client, io: &mut Io, format: Format, args: Submit) -> Outcome {
    let (contract, parsed) = contract::load(io, &args.file)?;
    let run = match args.run_id.or(parsed.run_id) {
        Some(run) => run,
        None => RunId::new(&crate::clock::fresh_run_id()).map_err(|e| Failure::refused(e.to_string()))?,
    };
    let deadline = args.timeout.map(|timeout| Instant::now() + timeout.std());
    let request = SubmitRequest { contract, run_id: run.to_string() };
    let patience = if args.wait { PATIENCE_OF_WAIT } else { PATIENCE };
    let until = deadline.unwrap_or_else(|| Instant::now() + patience);
    let answer = send(client, io, &run, request, until).await?;
    let Some(view) = &answer.run else {
        return Err(Failure::new(Exit::Unreachable, "the mediator's answer holds no Run"));
    };
    if answer.existing {
        io.note(format_args!("Run {run} was known already; nothing was stored."));
    }
    if let Some(reject) = &view.reject {
        match format {
            Format::Json => io.json(&answer)?,
            Format::Jsonl => io.json_line(&answer)?,
            Format::Table => {}
        }
        return Err(Failure::refused(words::reason(reject))
            .advise(format!("`mediator nodes` shows what there is; `mediator show {run}` keeps this answer.")));
    }
    if args.wait {
        io.note(format_args!("Run {run}"));
        return wait(client, io, format, &run, deadline).await;
    }
    match format {
        Format::Json => io.json(&answer)?,
        Format::Jsonl => io.json_line(&answer)?,
        Format::Table => {
            io.note(standing(view));
            io.line(&run)?;
        }
    }
    Ok(Exit::Ok)
}

/// Sends until there is an answer, always with the same id.
async fn send(
    client: &Client,
    io: &mut Io,
    run: &RunId,
    request: SubmitRequest,
    until: Instant,
) -> Outcome<SubmitResponse> {
    let (mut pace, mut progress, mut sent) = (Backoff::default(), Progress::default(), false);
    let within = shared::Duration::from_secs((until - Instant::now()).as_secs());
    let mut interrupt = io.take_interrupt();
    loop {
        let mut wire = client.runs();
        let answer = tokio::select! {
            answer = client.attempt(wire.submit(request.clone())) => answer,
            () = &mut interrupt => return Err(unknown(run, Failure::new(Exit::Interrupted, "interrupted"))),
        };
        let status = match answer {
            Ok(answer) => {
                progress.done(io);
                // Ctrl-C means something to the wait that follows, too.
                io.interrupt = interrupt;
                return Ok(answer);
            }
            Err(status) => status,
        };
        let failure = client.failure(&format!("cannot submit Run {run}"), &status);
        if !refusal::is_unreachable(&status) {
            progress.done(io);
            return Err(failure);
        }
        // Where no connection was made, nothing can have been stored.
        sent |= !refusal::never_connected(&status);
        let pause = pace.next();
        if Instant::now() + pause > until {
            progress.done(io);
            return Err(if sent { unknown(run, failure) } else { failure });
        }
        progress.say(
            io,
            format!("no answer from {} ({}), sending again for up to {within}", client.url(), refusal::cause(&status)),
        );
        tokio::select! {
            () = sleep(pause) => {}
            () = &mut interrupt => return Err(unknown(run, Failure::new(Exit::Interrupted, "interrupted"))),
        }
    }
}

/// It may have been stored, and its answer lost.
fn unknown(run: &RunId, failure: Failure) -> Failure {
    let before = failure.advice.as_ref().map(|advice| format!("{advice}\n")).unwrap_or_default();
    failure.advise(format!(
        "{before}Whether Run {run} was stored is not known. `mediator show {run}` tells, and submitting again with --run-id {run} \
         is safe."
    ))
}

async fn wait(client: &Client, io: &mut Io, format: Format, run: &RunId, deadline: Option<Instant>) -> Outcome {
    let mut progress = Progress::default();
    let end = follow::follow(client, io, run, deadline, true, &mut progress).await;
    progress.done(io);
    match end? {
        End::Run(detail) => ended(io, format, &detail),
        End::Timeout => Err(timed_out(run)),
        End::Interrupted => Err(interrupted(run)),
    }
}

/// The time is up, the Run is not.
pub(crate) fn timed_out(run: &RunId) -> Failure {
    Failure::new(Exit::Timeout, format!("Run {run} has not ended within --timeout; it goes on")).advise(format!(
        "`mediator watch {run}` waits on, `mediator explain {run}` says what it waits for, `mediator cancel {run}` ends \
         it."
    ))
}

/// The person is gone, the Run is not.
pub(crate) fn interrupted(run: &RunId) -> Failure {
    Failure::new(Exit::Interrupted, format!("interrupted; Run {run} goes on"))
        .advise(format!("`mediator watch {run}` waits on, `mediator cancel {run}` ends it."))
}

fn ended(io: &mut Io, format: Format, detail: &RunDetail) -> Outcome {
    let run = follow::view(detail)?;
    match format {
        Format::Json => io.json(detail)?,
        Format::Jsonl => io.json_line(detail)?,
        Format::Table => io.line(words::sentence(run))?,
    }
    why_failed(io, detail)?;
    Ok(follow::exit(run))
}

/// Where to look after a Run that FAILED.
pub(crate) fn why_failed(io: &mut Io, detail: &RunDetail) -> Outcome<()> {
    let run = follow::view(detail)?;
    if run.state != "FAILED" || run.reject.is_some() {
        return Ok(());
    }
    for step in &detail.steps {
        let bad_exit = step.exit_code.is_some_and(|code| code != 0);
        if step.state == "FAILED" || bad_exit {
            let id = clean(&step.id);
            io.note(format_args!("step {id}: {}", clean(&words::result(step))));
            io.note(format_args!("  mediator logs {} {id}", clean(&run.run_id)));
        }
    }
    for finding in detail.findings.iter().filter(|finding| finding.outcome == "failed") {
        io.note(format_args!("condition failed: {}", clean(&finding.condition)));
    }
    Ok(())
}

/// What has become of a Run right after its submit.
fn standing(run: &RunView) -> String {
    let id = clean(&run.run_id);
    match run.state.as_str() {
        "QUEUED" => format!("Run {id} is QUEUED; `mediator explain {id}` says what it waits for."),
        "RUNNING" if !run.assigned.is_empty() => {
            format!("Run {id} is RUNNING on {}.", clean(&words::assigned(&run.assigned)))
        }
        state => format!("Run {id} is {}.", clean(state)),
    }
}

pub(crate) async fn dry_run(client: &Client, io: &mut Io, format: Format, file: &Path) -> Outcome {
    let (contract, _) = contract::load(io, file)?;
    let request = SubmitRequest { contract, run_id: String::new() };
    let answer = client.call("cannot try this contract", client.runs().dry_run(request)).await?;
    match format {
        Format::Json => io.json(&answer)?,
        Format::Jsonl => io.json_line(&answer)?,
        Format::Table if answer.state != "FAILED" => {
            let mut text = format!("would be {}", clean(&answer.state));
            if !answer.assigned.is_empty() {
                text.push_str(&format!(" on {}", clean(&words::assigned(&answer.assigned))));
            }
            if let Some(reject) = &answer.reject {
                text.push_str(&format!(": {}", clean(&words::reason(reject))));
            }
            io.line(text)?;
        }
        Format::Table => {}
    }
    if answer.state == "FAILED" {
        let why = answer.reject.as_ref().map_or_else(|| "it would be refused".to_owned(), words::reason);
        return Err(Failure::refused(why).advise("`mediator nodes` shows what there is."));
    }
    Ok(Exit::Ok)
}
