//! Report: one attempt of a step has ended.
//!
//! An attempt that was answered gets its stored answer before any fence is looked at. Every other report
//! needs a present lease with its nonce that still holds. Then: the step's own end, its course, what it
//! releases, whether the Run is over, and the owner's boundary, in this order (settling wins).

use serde_json::json;

use super::fleet::Speaker;
use super::{Answer, Cx, Decide, EventKind, FailReason, Fleet, Refusal, StepState, Touches, course, line, settle};
use crate::{Nonce, RunId, Seq, Timestamp};

/// How the attempt ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The process ended by itself.
    Completed {
        /// Its exit code; 128 + N when signal N ended it.
        exit_code: i32,
    },
    /// It did not start, or did not end by itself.
    NotCompleted {
        /// Why.
        reason: FailReason,
        /// In words.
        message: String,
    },
}

/// A node's word on one attempt.
#[derive(Debug, Clone)]
pub struct Report {
    /// Who speaks.
    pub who: Speaker,
    /// Of which Run.
    pub run: RunId,
    /// Of which step.
    pub seq: Seq,
    /// Of which execution.
    pub attempt: u32,
    /// Under which lease.
    pub nonce: Nonce,
    /// How it ended.
    pub outcome: Outcome,
    /// The names of the step's `out` of which the mediator holds files.
    pub produced: Vec<String>,
    /// For a step that forks: what the mediator read at `dispatch.from`, or why it could not.
    pub fork_value: Option<Result<String, String>>,
    /// How much log belongs to the attempt, in bytes; fewer stored means that it is truncated.
    pub log_bytes: u64,
}

/// What the node is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReportReply {
    /// The step's state word after this report.
    pub step_state: String,
    /// The Run's.
    pub run_state: &'static str,
}

impl Decide for Report {
    type Answer = ReportReply;

    fn touches(&self, _: &Fleet, _: Timestamp) -> Touches {
        [self.run.clone()].into()
    }

    fn decide(&self, fleet: &mut Fleet, cx: &mut Cx<'_>) -> Result<ReportReply, Refusal> {
        if let Some(answer) = self.stored_answer(fleet)? {
            return Ok(answer);
        }
        self.fence(fleet, cx.now)?;
        self.end_step(fleet, cx);
        settle::release_roles(fleet, cx, &self.run, self.seq);
        settle::settle(fleet, cx, &self.run);
        settle::boundary(fleet, cx, &self.who.node);
        settle::announce_ready(fleet, cx, &self.run);
        line::promotion::scan_opened(fleet, cx);
        self.stored_answer(fleet)?.ok_or(Refusal::Stale("the attempt was not recorded"))
    }
}

impl Report {
    /// The answer that this very attempt got before.
    fn stored_answer(&self, fleet: &Fleet) -> Result<Option<ReportReply>, Refusal> {
        let run = fleet.runs.get(&self.run).ok_or_else(|| Refusal::NotFound(format!("run {}", self.run)))?;
        let attempt = run
            .step(self.seq)
            .and_then(|step| step.attempt(self.attempt))
            .ok_or(Refusal::Stale("no such attempt was claimed"))?;
        let ours = attempt.nonce == self.nonce && attempt.node == self.who.node;
        Ok(attempt
            .answer
            .as_ref()
            .filter(|_| ours)
            .map(|answer| ReportReply { step_state: answer.state.clone(), run_state: run.state.as_str() }))
    }

    fn fence(&self, fleet: &Fleet, now: Timestamp) -> Result<(), Refusal> {
        fleet.speaks(&self.who)?;
        let holds = fleet
            .lease(&self.who.node)
            .is_some_and(|lease| lease.run == self.run && lease.nonce == self.nonce && lease.holds(now));
        if !holds {
            return Err(Refusal::Stale("the lease of this work has ended"));
        }
        let step = fleet.runs.get(&self.run).and_then(|run| run.step(self.seq));
        let claimed_here = step.is_some_and(|step| {
            step.attempt == self.attempt
                && matches!(&step.state, StepState::Claimed { node, .. } if *node == self.who.node)
                && step
                    .attempt(self.attempt)
                    .is_some_and(|it| it.instance == self.who.instance && it.nonce == self.nonce)
        });
        if claimed_here { Ok(()) } else { Err(Refusal::Stale("the step is not claimed by this instance")) }
    }

    fn end_step(&self, fleet: &mut Fleet, cx: &mut Cx<'_>) {
        let Some(run) = fleet.runs.get_mut(&self.run) else { return };
        let fork = run.spec(self.seq).and_then(|spec| spec.dispatch.clone());
        let (state, pick) = match (&self.outcome, fork) {
            (Outcome::NotCompleted { reason, message }, _) => {
                (StepState::Failed { reason: *reason, message: message.clone(), at: cx.now }, None)
            }
            (Outcome::Completed { exit_code }, None) => {
                (StepState::Done { exit_code: Some(*exit_code), at: cx.now }, None)
            }
            (Outcome::Completed { exit_code }, Some(fork)) => match self.pick(&fork) {
                Ok(target) => (StepState::Done { exit_code: Some(*exit_code), at: cx.now }, Some((fork, target))),
                Err(message) => (StepState::Failed { reason: FailReason::InvalidOutput, message, at: cx.now }, None),
            },
        };
        let Some(step) = run.step_mut(self.seq) else { return };
        let word = state.as_str();
        step.state = state;
        step.produced.clone_from(&self.produced);
        if let Some(attempt) = step.attempts.iter_mut().find(|it| it.number == self.attempt) {
            attempt.answer = Some(Answer { state: word.to_owned(), log_bytes: self.log_bytes });
        }
        let name = step.name.clone();
        let mut changed = vec![self.seq];
        if let Some((fork, target)) = pick {
            changed.extend(course::fork::decide(run, &fork.to, &target, cx.now));
        }
        cx.changes.steps.extend(changed.into_iter().map(|seq| (self.run.clone(), seq)));
        cx.changes.attempts.insert((self.run.clone(), self.seq, self.attempt));
        cx.changes.event(
            EventKind::StepEnded,
            Some(&self.run),
            Some(&self.who.node),
            json!({"step": name.as_str(), "attempt": self.attempt, "state": word}),
        );
        fleet.touch_run(&self.run, cx);
    }

    fn pick(&self, fork: &crate::contract::Dispatch) -> Result<crate::StepName, String> {
        let value = match &self.fork_value {
            Some(Ok(value)) => value,
            Some(Err(why)) => return Err(format!("dispatch from {}: {why}", fork.from)),
            None => return Err(format!("dispatch from {}: no value was read", fork.from)),
        };
        fork.to.iter().find(|target| target.as_str() == value).cloned().ok_or_else(|| {
            let targets: Vec<&str> = fork.to.iter().map(crate::StepName::as_str).collect();
            format!("dispatch from {}: {value:?} is none of {}", fork.from, targets.join(", "))
        })
    }
}
