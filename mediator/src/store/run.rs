//! Rows of `runs`.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use shared::{
    NodeId, Principal, RunId, StepName, Timestamp,
    contract::Contract,
    domain::{Assigned, Cause, Finding, Holds, Reject, Run, RunState, Shape, Verdict},
};

use super::{
    batch::{Kind, Rows, Verb, Write},
    error::StoreError,
    row::{Bad, Row},
    sql::{Value, listed},
};

pub(super) const LOAD: super::sql::Query = listed!(
    "runs.load",
    "SELECT run_id, rev, state, principal, contract, contract_hash, place, assigned, reject, verdict, work_id, \
     starts, losses, created_at, ended_at, sealed_at FROM runs WHERE run_id",
    "ORDER BY run_id"
);

pub(super) static INSERT: Write = Write {
    name: "runs.insert",
    table: "runs",
    verb: Verb::Insert,
    keys: 1,
    columns: &[
        ("run_id", Kind::Text),
        ("rev", Kind::Int),
        ("state", Kind::Text),
        ("principal", Kind::Text),
        ("contract", Kind::Text),
        ("contract_hash", Kind::Text),
        ("shape", Kind::Text),
        ("place", Kind::Int),
        ("assigned", Kind::Text),
        ("reject", Kind::Text),
        ("verdict", Kind::Text),
        ("work_id", Kind::Text),
        ("starts", Kind::Int),
        ("losses", Kind::Int),
        ("created_at", Kind::Int),
        ("ended_at", Kind::Int),
    ],
};

/// What may change. Contract, principal, shape, place and birth never do.
pub(super) static UPDATE: Write = Write {
    name: "runs.update",
    table: "runs",
    verb: Verb::Update(""),
    keys: 1,
    columns: &[
        ("run_id", Kind::Text),
        ("rev", Kind::Int),
        ("state", Kind::Text),
        ("assigned", Kind::Text),
        ("verdict", Kind::Text),
        ("starts", Kind::Int),
        ("losses", Kind::Int),
        ("ended_at", Kind::Int),
    ],
};

/// A Run that was promoted without being loaded: only where it still waits.
pub(super) static PROMOTE: Write = Write {
    name: "runs.promote",
    table: "runs",
    verb: Verb::Update(" AND runs.state = 'QUEUED'"),
    keys: 1,
    columns: &[("run_id", Kind::Text), ("rev", Kind::Int), ("state", Kind::Text), ("assigned", Kind::Text)],
};

pub(super) fn insert(rows: &mut Rows, run: &Run, rev: i64) -> Result<(), StoreError> {
    rows.push(vec![
        Value::show(&run.id),
        Value::int(rev),
        Value::text(run.state.as_str()),
        Value::show(&run.principal),
        Value::text(serde_json::json!(*run.contract).to_string()),
        Value::text(&*run.contract_hash),
        Value::text(&*Shape::new(&run.contract.requires).hash),
        Value::int(run.place),
        Value::text(assigned(&run.assigned)),
        Value::Text(run.reject.as_ref().map(|it| serde_json::json!(it).to_string())),
        Value::Text(run.state.verdict().map(verdict)),
        Value::maybe(run.work_id.as_ref()),
        Value::int(run.starts),
        Value::int(run.losses),
        Value::at(run.created_at),
        Value::maybe_at(run.ended_at),
    ])
}

pub(super) fn update(rows: &mut Rows, run: &Run, rev: i64) -> Result<(), StoreError> {
    rows.push(vec![
        Value::show(&run.id),
        Value::int(rev),
        Value::text(run.state.as_str()),
        Value::text(assigned(&run.assigned)),
        Value::Text(run.state.verdict().map(verdict)),
        Value::int(run.starts),
        Value::int(run.losses),
        Value::maybe_at(run.ended_at),
    ])
}

pub(super) fn promote(rows: &mut Rows, run: &RunId, nodes: &[Assigned], rev: i64) -> Result<(), StoreError> {
    rows.push(vec![
        Value::show(run),
        Value::int(rev),
        Value::text(RunState::Running.as_str()),
        Value::text(assigned(nodes)),
    ])
}

fn assigned(nodes: &[Assigned]) -> String {
    serde_json::json!(nodes).to_string()
}

/// A Run without its steps, and when its Record was sealed.
pub(super) fn read(row: &Row) -> Result<(Run, Option<Timestamp>), StoreError> {
    decode(row).map_err(|bad| bad.of("runs", key(row)))
}

fn decode(row: &Row) -> Result<(Run, Option<Timestamp>), Bad> {
    let contract: Contract = row.json("contract")?;
    let run = Run {
        id: row.parse("run_id")?,
        principal: row.parse("principal")?,
        contract: Arc::new(contract),
        contract_hash: row.text("contract_hash")?.into(),
        state: state(row)?,
        place: row.int("place")?,
        assigned: row.json("assigned")?,
        reject: row.maybe_json::<Reject>("reject")?,
        work_id: row.maybe_parse("work_id")?,
        starts: row.number("starts")?,
        losses: row.number("losses")?,
        created_at: row.at("created_at")?,
        ended_at: row.maybe_at("ended_at")?,
        steps: Vec::new(),
    };
    Ok((run, row.maybe_at("sealed_at")?))
}

fn state(row: &Row) -> Result<RunState, Bad> {
    let verdict = || read_verdict(row)?.ok_or_else(|| Bad::new("verdict", "is missing from a run that has ended"));
    match row.text("state")? {
        "QUEUED" => Ok(RunState::Queued),
        "RUNNING" => Ok(RunState::Running),
        "VERIFYING" => Ok(RunState::Verifying),
        "SUCCEEDED" => Ok(RunState::Succeeded(verdict()?)),
        "FAILED" => Ok(RunState::Failed(verdict()?)),
        other => Err(Bad::new("state", format!("{other:?} is not a state that this version knows"))),
    }
}

/// The row's key as text, whatever it is.
pub(super) fn key(row: &Row) -> String {
    row.text("run_id").unwrap_or("?").to_owned()
}

/// The verdict as stored: the cause's word, what it is about, and the findings.
#[derive(Serialize, Deserialize)]
struct Stored {
    cause: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    node: Option<NodeId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    by: Option<Principal>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    step: Option<StepName>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    findings: Vec<StoredFinding>,
}

#[derive(Serialize, Deserialize)]
struct StoredFinding {
    condition: String,
    holds: String,
}

fn verdict(verdict: &Verdict) -> String {
    let cause = &verdict.cause;
    let mut stored = Stored { cause: cause.as_str().to_owned(), node: None, by: None, step: None, findings: vec![] };
    match cause {
        Cause::Judged | Cause::Rejected => {}
        Cause::StepFailed(step) => stored.step = Some(step.clone()),
        Cause::Cancelled(by) => stored.by = Some(by.clone()),
        Cause::Drain(node) | Cause::LeaseExpired(node) | Cause::NodeRestarted(node) => stored.node = Some(node.clone()),
    }
    stored.findings = verdict
        .findings
        .iter()
        .map(|it| StoredFinding { condition: it.condition.clone(), holds: it.holds.as_str().to_owned() })
        .collect();
    serde_json::json!(stored).to_string()
}

pub(super) fn read_verdict(row: &Row) -> Result<Option<Verdict>, Bad> {
    let Some(stored) = row.maybe_json::<Stored>("verdict")? else { return Ok(None) };
    let bad = |what: String| Bad::new("verdict", what);
    let lacks = |what: &str| bad(format!("cause {} lacks its {what}", stored.cause));
    let node = || stored.node.clone().ok_or_else(|| lacks("node"));
    let cause = match stored.cause.as_str() {
        "judged" => Cause::Judged,
        "rejected" => Cause::Rejected,
        "step_failed" => Cause::StepFailed(stored.step.clone().ok_or_else(|| lacks("step"))?),
        "cancelled" => Cause::Cancelled(stored.by.clone().ok_or_else(|| lacks("by"))?),
        "drain" => Cause::Drain(node()?),
        "lease_expired" => Cause::LeaseExpired(node()?),
        "node_restarted" => Cause::NodeRestarted(node()?),
        other => return Err(bad(format!("{other:?} is not a cause that this version knows"))),
    };
    let findings = stored.findings.iter().map(|it| {
        let holds = [Holds::Held, Holds::Failed, Holds::Vacuous]
            .into_iter()
            .find(|holds| holds.as_str() == it.holds)
            .ok_or_else(|| bad(format!("{:?} is not an outcome of a condition", it.holds)))?;
        Ok(Finding { condition: it.condition.clone(), holds })
    });
    Ok(Some(Verdict { cause, findings: findings.collect::<Result<_, Bad>>()? }))
}
