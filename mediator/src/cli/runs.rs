//! `runs` and `cancel`.

use proto::v1::{CancelRequest, ListRunsRequest, RunView};
use shared::RunId;

use super::{
    age::{between, length, short},
    args::Runs,
    client::Client,
    exit::{Exit, Outcome},
    output::{Format, Io, clean, cut},
    table::{self, or_dash},
    words,
};

pub(crate) async fn runs(client: &Client, io: &mut Io, format: Format, args: Runs) -> Outcome {
    let all = args.state.is_none() && args.work.is_none() && args.since.is_none() && args.after.is_none();
    let request = ListRunsRequest {
        state: args.state.unwrap_or_default().to_uppercase(),
        work: args.work.map(|work| work.to_string()).unwrap_or_default(),
        since_at: args.since.map_or(0, |since| since.instant(crate::clock::Clock::system().now()).millis()),
        limit: args.limit,
        after: args.after.unwrap_or_default(),
    };
    let page = client.call("cannot list the Runs", client.runs().list_runs(request)).await?;
    io.list(format, &page, &page.runs, |colour| run_table(page.observed_at, &page.runs, colour))?;
    if page.runs.is_empty() {
        io.note(if all { "No Run has been submitted yet: `mediator submit FILE` does." } else { "No Run fits." });
    }
    if let Some(next) = &page.next {
        io.note(format_args!("There are more: add --after {}", clean(next)));
    }
    Ok(Exit::Ok)
}

fn run_table(now: i64, runs: &[RunView], colour: bool) -> comfy_table::Table {
    let mut table = table::new(&["RUN", "STATE", "CAUSE", "WORK", "NODES", "CURRENT", "AGE", "TOOK"], colour);
    for run in runs {
        table.add_row(vec![
            clean(&run.run_id).into(),
            table::state(clean(&run.state)),
            or_dash(cut(&run.verdict.as_ref().map(words::cause).unwrap_or_default(), 48)).into(),
            or_dash(cut(run.work_id.as_deref().unwrap_or_default(), 32)).into(),
            or_dash(cut(&nodes(run), 40)).into(),
            or_dash(cut(&words::current(run), 40)).into(),
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
    let request = CancelRequest { run_id: run.to_string() };
    let view = client.call(&format!("cannot cancel Run {run}"), client.runs().cancel(request)).await?;
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
