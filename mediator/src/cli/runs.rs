//! `runs` and `cancel`.

use proto::v1::{CancelRequest, ListRunsRequest, RunView, run_service_client::RunServiceClient};
use shared::RunId;

use super::{
    age::{between, length, short},
    args::Runs,
    client::Client,
    exit::{Exit, Outcome},
    output::{Format, Io, Look, clean},
    table::{self, or_dash},
    words,
};

pub(crate) async fn runs(client: &Client, io: &mut Io, format: Format, args: Runs) -> Outcome {
    let no_system = args.work.as_ref().is_some_and(|work| !work.as_str().contains(':'));
    let all = args.state.is_none() && args.work.is_none() && args.since.is_none() && args.after.is_none();
    let request = ListRunsRequest {
        state: args.state.unwrap_or_default().to_uppercase(),
        work: args.work.map(|work| work.to_string()).unwrap_or_default(),
        since_at: args.since.map_or(0, |since| since.instant(crate::clock::Clock::system().now()).millis()),
        limit: args.limit,
        after: args.after.unwrap_or_default(),
        begins: String::new(),
    };
    let page = client.call("cannot list the Runs", client.runs().list_runs(request)).await?;
    io.list(format, &page, &page.runs, |look| run_table(page.observed_at, &page.runs, look))?;
    if page.runs.is_empty() {
        io.note(if all { "No Run has been submitted yet: `mediator submit FILE` does." } else { "No Run fits." });
        if no_system {
            io.note(
                "--work takes a whole work id, SYSTEM:ID, such as ticket:1a2b3c4d; `mediator runs` shows them as WORK.",
            );
        }
    }
    if let Some(next) = &page.next {
        io.note(format_args!("There are more: add --after {}", clean(next)));
    }
    Ok(Exit::Ok)
}

fn run_table(now: i64, runs: &[RunView], look: Look) -> comfy_table::Table {
    let mut table = table::new(&["RUN", "STATE", "CAUSE", "WORK", "NODES", "CURRENT", "AGE", "TOOK"], look);
    for run in runs {
        table.add_row(vec![
            clean(&run.run_id).into(),
            table::state(clean(&run.state)),
            or_dash(look.cut(&run.verdict.as_ref().map(words::cause).unwrap_or_default(), 48)).into(),
            or_dash(look.cut(run.work_id.as_deref().unwrap_or_default(), 32)).into(),
            or_dash(look.cut(&nodes(run), 40)).into(),
            or_dash(look.cut(&words::current(run), 40)).into(),
            short(between(run.created_at, now)).into(),
            run.ended_at.map_or("-".into(), |end| length(between(run.created_at, end))).into(),
        ]);
    }
    table
}

/// The leased nodes, each once.
fn nodes(run: &RunView) -> String {
    let mut names: Vec<&str> = Vec::new();
    for assigned in &run.assigned {
        if !names.contains(&assigned.node.as_str()) {
            names.push(&assigned.node);
        }
    }
    names.join(" ")
}

pub(crate) async fn cancel(client: &Client, io: &mut Io, format: Format, run: &RunId) -> Outcome {
    let cancel = |mut runs: RunServiceClient<_>, run_id| async move { runs.cancel(CancelRequest { run_id }).await };
    let (run, view) = client.call_of("cannot cancel Run", run, cancel).await?;
    match format {
        Format::Json => io.json(&view)?,
        Format::Jsonl => io.json_line(&view)?,
        Format::Table => io.line(words::sentence(&view))?,
    }
    if view.verdict.as_ref().is_none_or(|verdict| verdict.cause != "cancelled") {
        io.note(format_args!("Run {run} had ended before; nothing was changed."));
    }
    Ok(Exit::Ok)
}
