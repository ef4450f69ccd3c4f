//! Rows of `steps` and `attempts`.

use serde::{Deserialize, Serialize};
use shared::{
    RunId, Seq, Timestamp,
    contract::StepKind,
    domain::{Attempt, FailReason, Run, Step, StepState},
};

use super::{
    batch::{Kind, Rows, Verb, Write},
    error::StoreError,
    lease,
    row::{Bad, Row},
    run,
    sql::{Query, Value, listed},
};

pub(super) const LOAD: Query = listed!(
    "steps.load",
    "SELECT run_id, seq, name, kind, state, node_id, attempt, round, tries, needs, chosen, picked, started_at, \
     ended_at, deadline, result FROM steps WHERE run_id",
    "ORDER BY run_id, seq"
);
pub(super) const LOAD_ATTEMPTS: Query = listed!(
    "attempts.load",
    "SELECT run_id, seq, attempt, starts, node_id, instance, nonce, claimed_at, answer FROM attempts WHERE run_id",
    "ORDER BY run_id, seq, attempt"
);

pub(super) static UPSERT: Write = Write {
    name: "steps.upsert",
    table: "steps",
    verb: Verb::Upsert,
    keys: 2,
    columns: &[
        ("run_id", Kind::Text),
        ("seq", Kind::Int),
        ("name", Kind::Text),
        ("uses", Kind::Text),
        ("kind", Kind::Text),
        ("state", Kind::Text),
        ("node_id", Kind::Text),
        ("attempt", Kind::Int),
        ("round", Kind::Int),
        ("tries", Kind::Int),
        ("needs", Kind::Text),
        ("chosen", Kind::Bool),
        ("picked", Kind::Bool),
        ("started_at", Kind::Int),
        ("ended_at", Kind::Int),
        ("deadline", Kind::Int),
        ("result", Kind::Text),
    ],
};

pub(super) static UPSERT_ATTEMPTS: Write = Write {
    name: "attempts.upsert",
    table: "attempts",
    verb: Verb::Upsert,
    keys: 3,
    columns: &[
        ("run_id", Kind::Text),
        ("seq", Kind::Int),
        ("attempt", Kind::Int),
        ("starts", Kind::Int),
        ("node_id", Kind::Text),
        ("instance", Kind::Text),
        ("nonce", Kind::Text),
        ("claimed_at", Kind::Int),
        ("answer", Kind::Text),
    ],
};

/// What a step came to, as stored.
#[derive(Default, Serialize, Deserialize)]
struct Stored {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    exit_code: Option<i32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    message: Option<String>,
    /// Since when it is ASKED or CLAIMED, where `started_at` does not say it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    since: Option<i64>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    produced: Vec<String>,
}

pub(super) fn upsert(rows: &mut Rows, run: &Run, step: &Step) -> Result<(), StoreError> {
    let mut result = Stored { produced: step.produced.clone(), ..Stored::default() };
    // A step that has ended keeps the node of its last attempt, for whoever looks at the table.
    let mut node = step.attempts.last().map(|attempt| &attempt.node);
    match &step.state {
        StepState::Pending | StepState::Waiting | StepState::Skipped { .. } => {}
        StepState::Claimed { node: on, at } => {
            node = Some(on);
            result.since = (step.started_at != Some(*at)).then(|| at.millis());
        }
        StepState::Asked { at } => result.since = Some(at.millis()),
        StepState::Done { exit_code, .. } => result.exit_code = *exit_code,
        StepState::Failed { reason, message, .. } => {
            result.reason = Some(reason.as_str().to_owned());
            result.message = Some(message.clone());
        }
    }
    rows.push(vec![
        Value::show(&run.id),
        Value::int(step.seq),
        Value::show(&step.name),
        Value::maybe(run.spec(step.seq).and_then(|spec| spec.uses.as_ref())),
        Value::text(step.kind.as_str()),
        Value::text(step.state.as_str()),
        Value::maybe(node),
        Value::int(step.attempt),
        Value::int(step.round),
        Value::int(step.tries),
        Value::text(serde_json::json!(step.needs).to_string()),
        Value::flag(step.chosen),
        Value::Bool(step.picked),
        Value::maybe_at(step.started_at),
        Value::maybe_at(step.ended_at()),
        Value::maybe_at(step.deadline),
        Value::text(serde_json::json!(result).to_string()),
    ])
}

pub(super) fn upsert_attempt(rows: &mut Rows, run: &RunId, seq: Seq, attempt: &Attempt) -> Result<(), StoreError> {
    rows.push(vec![
        Value::show(run),
        Value::int(seq),
        Value::int(attempt.number),
        Value::int(attempt.starts),
        Value::show(&attempt.node),
        Value::show(&attempt.instance),
        Value::text(attempt.nonce.reveal()),
        Value::at(attempt.claimed_at),
        Value::Text(attempt.answer.as_ref().map(|it| serde_json::json!(it).to_string())),
    ])
}

/// A step without its attempts.
pub(super) fn read(row: &Row) -> Result<Step, StoreError> {
    decode(row).map_err(|bad| bad.of("steps", key(row)))
}

fn key(row: &Row) -> String {
    let seq = row.int("seq").map_or_else(|_| "?".to_owned(), |seq| seq.to_string());
    format!("{}/{seq}", run::key(row))
}

fn decode(row: &Row) -> Result<Step, Bad> {
    let result: Stored = row.json("result")?;
    let started_at = row.maybe_at("started_at")?;
    let kind = row.text("kind")?;
    Ok(Step {
        seq: row.number("seq")?,
        name: row.parse("name")?,
        kind: [StepKind::Run, StepKind::Agent, StepKind::Acquire, StepKind::Ask]
            .into_iter()
            .find(|it| it.as_str() == kind)
            .ok_or_else(|| Bad::new("kind", format!("{kind:?} is not a kind that this version knows")))?,
        state: state(row, &result, started_at)?,
        attempt: row.number("attempt")?,
        round: row.number("round")?,
        tries: row.number("tries")?,
        needs: row.json("needs")?,
        chosen: row.flag("chosen")?,
        picked: row.maybe_flag("picked")?,
        started_at,
        deadline: row.maybe_at("deadline")?,
        produced: result.produced,
        attempts: Vec::new(),
    })
}

fn state(row: &Row, result: &Stored, started_at: Option<Timestamp>) -> Result<StepState, Bad> {
    let ended = || row.maybe_at("ended_at")?.ok_or_else(|| Bad::new("ended_at", "is missing from a step that ended"));
    let since = || {
        let since = result.since.map(Timestamp::from_millis).or(started_at);
        since.ok_or_else(|| Bad::new("started_at", "is missing from a step that is claimed or asked"))
    };
    Ok(match row.text("state")? {
        "PENDING" => StepState::Pending,
        "WAITING" => StepState::Waiting,
        "CLAIMED" => StepState::Claimed { node: row.parse("node_id")?, at: since()? },
        "ASKED" => StepState::Asked { at: since()? },
        "DONE" => StepState::Done { exit_code: result.exit_code, at: ended()? },
        "FAILED" => {
            let reason =
                result.reason.as_deref().ok_or_else(|| Bad::new("result", "a FAILED step lacks its reason"))?;
            let reason: FailReason = reason.parse().map_err(|why: String| Bad::new("result", why))?;
            StepState::Failed { reason, message: result.message.clone().unwrap_or_default(), at: ended()? }
        }
        "SKIPPED" => StepState::Skipped { at: ended()? },
        other => return Err(Bad::new("state", format!("{other:?} is not a state that this version knows"))),
    })
}

pub(super) fn read_attempt(row: &Row) -> Result<(Seq, Attempt), StoreError> {
    decode_attempt(row).map_err(|bad| bad.of("attempts", key(row)))
}

fn decode_attempt(row: &Row) -> Result<(Seq, Attempt), Bad> {
    let attempt = Attempt {
        number: row.number("attempt")?,
        starts: row.number("starts")?,
        node: row.parse("node_id")?,
        instance: row.parse("instance")?,
        nonce: lease::nonce(row)?,
        claimed_at: row.at("claimed_at")?,
        answer: row.maybe_json("answer")?,
    };
    Ok((row.number("seq")?, attempt))
}
