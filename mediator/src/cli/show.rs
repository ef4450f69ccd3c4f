//! `show`: one Run on one page.

use proto::v1::{GetRunRequest, RunDetail, RunView, StepView, run_service_client::RunServiceClient};
use shared::{RunId, Timestamp};

use super::{
    age::{between, length, short},
    client::Client,
    exit::{Exit, Outcome},
    follow,
    output::{Format, Io, Look, clean, cut},
    table::{self, or_dash},
    words,
};

/// The Run of this id, or the only one whose id begins so, with its whole id. `what` is "cannot … Run".
pub(crate) async fn get(client: &Client, what: &str, run: &RunId) -> Outcome<(RunId, RunDetail)> {
    let ask = |mut runs: RunServiceClient<_>, run_id| async move { runs.get_run(GetRunRequest { run_id }).await };
    client.call_of(what, run, ask).await
}

pub(crate) async fn show(client: &Client, io: &mut Io, format: Format, run: &RunId) -> Outcome {
    let (_, detail) = get(client, "cannot show Run", run).await?;
    match format {
        Format::Json => io.json(&detail)?,
        Format::Jsonl => io.json_line(&detail)?,
        Format::Table => page(io, &detail)?,
    }
    Ok(Exit::Ok)
}

fn page(io: &mut Io, detail: &RunDetail) -> Outcome<()> {
    let run = follow::view(detail)?;
    for (name, value) in facts(detail, run) {
        io.line(format_args!("{name:<9} {value}"))?;
    }
    if !detail.steps.is_empty() {
        let table = step_table(detail, io.look());
        io.line("")?;
        io.line(table.trim_fmt())?;
    }
    // Tables cut long texts; here the whole of what a step said stands.
    for step in detail.steps.iter().filter(|step| step.message.as_deref().is_some_and(|text| !text.is_empty())) {
        let text = step.message.as_deref().unwrap_or_default();
        io.line(format_args!("\nstep {}: {}", clean(&step.id), super::output::clean_lines(text)))?;
    }
    for step in &detail.steps {
        if let Some(by) = &step.answered_by {
            let when = step.ended_at.map(|at| format!(" at {}", Timestamp::from_millis(at))).unwrap_or_default();
            io.line(format_args!("\nstep {}: answered by {}{when}", clean(&step.id), clean(by)))?;
        }
        if let Some(what) = &step.waits_for {
            io.line(waits(run, step, what, detail.observed_at))?;
        }
    }
    if !detail.findings.is_empty() {
        io.line("\nConditions")?;
        for finding in &detail.findings {
            io.line(format_args!("  {:<8} {}", clean(&finding.outcome), clean(&finding.condition)))?;
        }
    }
    let id = clean(&run.run_id);
    let waits = run.state == "QUEUED";
    io.line("")?;
    if waits {
        io.line(format_args!("Why it waits: mediator explain {id}"))?;
    } else if run.reject.is_none() {
        io.line(format_args!("Logs:   mediator logs {id} [STEP]"))?;
    }
    if detail.sealed_at.is_some() {
        io.line(format_args!("Record: mediator record {id}"))?;
    } else if !follow::has_ended(run) {
        io.line(format_args!("Follow: mediator watch {id}"))?;
    }
    Ok(())
}

/// "step ok asks, 5m left: Ship it?", and what to do about it.
fn waits(run: &RunView, step: &StepView, what: &str, now: i64) -> String {
    let left = step.deadline_at.map(|end| format!(", {} left", length(between(now, end)))).unwrap_or_default();
    let what = super::output::clean_lines(what);
    let id = clean(&step.id);
    if step.state == "ASKED" {
        format!(
            "\nstep {id} asks{left}: {what}\n  mediator answer {} --step {id} …    (the fields: mediator asks)",
            clean(&run.run_id)
        )
    } else {
        format!("\nstep {id} waits for {what}{left}\n  Who holds it: mediator explain {}", clean(&run.run_id))
    }
}

/// "2 times (1 for a lost node, 1 for a drain)"
fn again(detail: &RunDetail) -> String {
    let times = if detail.starts == 1 { "once".to_owned() } else { format!("{} times", detail.starts) };
    let drains = detail.starts.saturating_sub(detail.losses);
    let why = [(detail.losses, "for a lost node"), (drains, "for a drain")];
    let why = why.iter().filter(|(count, _)| *count > 0).map(|(count, why)| format!("{count} {why}"));
    format!("{times} ({})", why.collect::<Vec<_>>().join(", "))
}

fn facts(detail: &RunDetail, run: &RunView) -> Vec<(&'static str, String)> {
    let now = detail.observed_at;
    let at = |ms| format!("{} ({} ago)", Timestamp::from_millis(ms), short(between(ms, now)));
    let mut facts = vec![("Run", clean(&run.run_id)), ("State", clean(&run.state))];
    if let Some(verdict) = &run.verdict {
        facts.push(("Verdict", clean(&words::cause(verdict))));
    }
    if let Some(reject) = &run.reject {
        facts.push(("Rejected", clean(&words::reason(reject))));
    }
    if let Some(work) = &run.work_id {
        facts.push(("Work", clean(work)));
    }
    if !run.assigned.is_empty() {
        facts.push(("Nodes", clean(&words::assigned(&run.assigned))));
    }
    if detail.starts > 0 {
        facts.push(("Restarted", again(detail)));
    }
    facts.push(("Created", at(run.created_at)));
    if let Some(end) = run.ended_at {
        facts.push(("Ended", format!("{}, took {}", at(end), length(between(run.created_at, end)))));
    }
    if let Some(sealed) = detail.sealed_at {
        facts.push(("Sealed", at(sealed)));
    }
    facts
}

fn step_table(detail: &RunDetail, look: Look) -> comfy_table::Table {
    let heads = ["#", "STEP", "STATE", "CHOSEN", "NODE", "ATTEMPT", "RESULT", "TOOK", "NEEDS", "PRODUCED"];
    let mut table = table::new(&heads, look);
    for step in &detail.steps {
        table.add_row(vec![
            step.seq.to_string().into(),
            clean(&step.id).into(),
            table::state(clean(&step.state)),
            chosen(step).into(),
            or_dash(clean(step.node.as_deref().unwrap_or_default())).into(),
            attempt(step).into(),
            // The whole of it stands below.
            or_dash(cut(&words::result(step), 48)).into(),
            took(step, detail.observed_at).into(),
            or_dash(look.cut(&step.needs.join(" "), 32)).into(),
            or_dash(look.cut(&step.produced.join(" "), 40)).into(),
        ]);
    }
    table
}

/// How often it was executed, and in which pass of a loop it is: "3 (round 1)".
fn attempt(step: &StepView) -> String {
    match (step.attempt, step.round) {
        // 0 means that it has not run.
        (0, 0) => "-".into(),
        (0, round) => format!("- (round {round})"),
        (attempt, 0) => attempt.to_string(),
        (attempt, round) => format!("{attempt} (round {round})"),
    }
}

/// SKIPPED alone does not tell a step that no fork picked from one that was picked and then fell out of reach.
fn chosen(step: &StepView) -> &'static str {
    match (step.chosen, step.state.as_str()) {
        (true, _) => "yes",
        (false, "SKIPPED") => "no",
        (false, _) => "-",
    }
}

fn took(step: &StepView, now: i64) -> String {
    match (step.started_at, step.ended_at) {
        (Some(start), Some(end)) => length(between(start, end)),
        (Some(start), None) => format!("{} so far", length(between(start, now))),
        (None, _) => "-".into(),
    }
}
