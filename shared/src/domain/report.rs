//! Report: one attempt of a step has ended.
//!
//! An attempt that was answered gets its stored answer before any fence is looked at. Every other report
//! needs a present lease with its nonce that still holds. Then: the step's own end, its course, what it
//! releases, whether the Run is over, and the owner's boundary, in this order (settling wins).

use super::{
    Answer, Cx, Decide, FailReason, Fleet, Refusal, StepState, Touches,
    course::{self, Ended},
    fleet::Speaker,
    line,
};
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
    /// What the mediator found wrong with the outputs: an answer that does not fit its schema.
    pub invalid: Option<String>,
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
        course::proceed(fleet, cx, &self.run);
        line::promotion::scan(fleet, cx);
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
        let state = match (&self.outcome, &self.invalid) {
            (Outcome::NotCompleted { reason, message }, _) => {
                StepState::Failed { reason: *reason, message: message.clone(), at: cx.now }
            }
            (Outcome::Completed { .. }, Some(message)) => {
                StepState::Failed { reason: FailReason::InvalidOutput, message: message.clone(), at: cx.now }
            }
            (Outcome::Completed { exit_code }, None) => StepState::Done { exit_code: Some(*exit_code), at: cx.now },
        };
        let ended = Ended {
            state,
            produced: self.produced.clone(),
            value: self.fork_value.clone(),
            node: Some(self.who.node.clone()),
        };
        let word = course::end_step(fleet, cx, &self.run, self.seq, ended);
        let step = fleet.runs.get_mut(&self.run).and_then(|run| run.step_mut(self.seq));
        if let Some(attempt) = step.and_then(|step| step.attempts.iter_mut().find(|it| it.number == self.attempt)) {
            attempt.answer = Some(Answer { state: word.to_owned(), log_bytes: self.log_bytes });
        }
        cx.changes.attempts.insert((self.run.clone(), self.seq, self.attempt));
    }
}
