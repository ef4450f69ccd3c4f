//! Ask: a question to a person.

use serde_json::{Value, json};

use super::{Ended, end_step, proceed};
use crate::{
    Principal, RunId, Seq, Timestamp,
    domain::{Cx, EventKind, FailReason, Fleet, Step, StepState},
};

/// A row of `asks` that opens or closes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AskChange {
    /// Of which Run.
    pub run: RunId,
    /// Which step.
    pub seq: Seq,
    /// How often the step was begun, this time included.
    pub attempt: u32,
    /// What happened.
    pub kind: AskChangeKind,
}

/// What happens to a question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AskChangeKind {
    /// It was asked.
    Opened {
        /// Until when it can be answered.
        deadline: Option<Timestamp>,
    },
    /// It was answered.
    Answered {
        /// By whom.
        by: Principal,
        /// With what.
        answer: Value,
    },
    /// Nobody needs the answer any more.
    Withdrawn,
}

impl AskChange {
    pub(in crate::domain) fn withdrawn(run: &RunId, step: &Step) -> Self {
        Self { run: run.clone(), seq: step.seq, attempt: step.attempt, kind: AskChangeKind::Withdrawn }
    }
}

/// An output that the mediator itself has stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Artifact {
    /// Of which Run.
    pub run: RunId,
    /// Of which step.
    pub seq: Seq,
    /// Of which attempt.
    pub attempt: u32,
    /// Its name.
    pub name: String,
    /// Of its bytes, hex.
    pub sha256: String,
    /// How many.
    pub size: u64,
}

/// Asks: from now on a person can answer.
pub(super) fn open(fleet: &mut Fleet, cx: &mut Cx<'_>, id: &RunId, seq: Seq) {
    let Some(run) = fleet.runs.get_mut(id) else { return };
    let timeout = run.spec(seq).and_then(|spec| spec.timeout);
    let Some(step) = run.step_mut(seq) else { return };
    step.attempt += 1;
    step.state = StepState::Asked { at: cx.now };
    step.started_at = Some(cx.now);
    step.deadline = timeout.map(|timeout| cx.now + timeout);
    let kind = AskChangeKind::Opened { deadline: step.deadline };
    cx.changes.asks.push(AskChange { run: id.clone(), seq, attempt: step.attempt, kind });
    cx.changes.steps.insert((id.clone(), seq));
    let data = json!({"step": step.name.as_str(), "attempt": step.attempt});
    cx.changes.event(EventKind::StepAsked, Some(id), None, data);
    fleet.touch_run(id, cx);
}

/// Ends an ask that nobody answered in time.
pub(in crate::domain) fn withdraw(fleet: &mut Fleet, cx: &mut Cx<'_>, id: &RunId, seq: Seq) {
    let Some(step) = fleet.runs.get(id).and_then(|run| run.step(seq)) else { return };
    cx.changes.asks.push(AskChange::withdrawn(id, step));
    let message = "nobody answered in time".to_owned();
    let state = StepState::Failed { reason: FailReason::Timeout, message, at: cx.now };
    end_step(fleet, cx, id, seq, Ended { state, produced: Vec::new(), value: None, node: None });
    proceed(fleet, cx, id);
}
