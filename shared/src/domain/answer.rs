//! Answer: a person's word on an open question.

use serde_json::Value;

use super::{
    Artifact, AskChange, AskChangeKind, Cx, Decide, Fleet, Refusal, Run, StepState, Touches,
    course::{self, Ended},
    line,
};
use crate::{
    Principal, RunId, Seq, StepName, Timestamp,
    contract::{ANSWER_FILE, Dispatch},
};

/// A person's answer to an open ask. That it fits the form was looked at before.
#[derive(Debug, Clone)]
pub struct AnswerAsk {
    /// Of which Run.
    pub run: RunId,
    /// Which step.
    pub step: StepName,
    /// Which asking of it; an answer to an earlier one is refused.
    pub attempt: u32,
    /// Who answers.
    pub by: Principal,
    /// The answer.
    pub answer: Value,
    /// SHA-256 of the answer as it was stored, hex.
    pub sha256: String,
    /// Bytes of the answer as it was stored.
    pub size: u64,
}

impl Decide for AnswerAsk {
    type Answer = Run;

    fn touches(&self, _: &Fleet, _: Timestamp) -> Touches {
        [self.run.clone()].into()
    }

    fn decide(&self, fleet: &mut Fleet, cx: &mut Cx<'_>) -> Result<Run, Refusal> {
        let (seq, value) = self.check(fleet)?;
        let Self { run: id, attempt, by, answer, sha256, size, .. } = self.clone();
        cx.changes.asks.push(AskChange { run: id.clone(), seq, attempt, kind: AskChangeKind::Answered { by, answer } });
        let name = ANSWER_FILE.to_owned();
        cx.changes.artifacts.push(Artifact { run: id.clone(), seq, attempt, name: name.clone(), sha256, size });
        // While everybody waited for this answer no lease could run out; from now on they can, from a fresh start. Where
        // others were at work meanwhile a lease that has run out stays so.
        for node in fleet.nodes_held_by(&id) {
            fleet.renew_lease(&node, cx);
        }
        let state = StepState::Done { exit_code: None, at: cx.now };
        course::end_step(fleet, cx, &id, seq, Ended { state, produced: vec![name], value, node: None });
        course::proceed(fleet, cx, &id);
        line::promotion::scan(fleet, cx);
        fleet.runs.get(&id).cloned().ok_or_else(|| Refusal::NotFound(format!("run {id}")))
    }
}

impl AnswerAsk {
    /// The step's position and what its fork would choose by. Everything that can be wrong with an answer is told to
    /// the person while the question is still open.
    fn check(&self, fleet: &Fleet) -> Result<(Seq, Option<Result<String, String>>), Refusal> {
        let run = fleet.runs.get(&self.run).ok_or_else(|| Refusal::NotFound(format!("run {}", self.run)))?;
        let found =
            run.contract.step(&self.step).and_then(|(seq, spec)| Some((run.step(seq)?, spec.ask.as_ref()?, spec)));
        let (step, ask, spec) =
            found.ok_or_else(|| Refusal::NotFound(format!("ask {} in run {}", self.step, self.run)))?;
        if !matches!(step.state, StepState::Asked { .. }) || step.attempt != self.attempt {
            return Err(Refusal::NotAsked(format!("step {} is {}", self.step, step.state.as_str())));
        }
        if !ask.answerers.is_empty() && !ask.answerers.contains(&self.by) {
            return Err(Refusal::not_an_answerer(&self.by, &ask.answerers));
        }
        let value = match &spec.dispatch {
            Some(fork) => Some(Ok(self.choice(fork).map_err(Refusal::BadAnswer)?)),
            None => None,
        };
        Ok((step.seq, value))
    }

    fn choice(&self, fork: &Dispatch) -> Result<String, String> {
        let (_, pointer) = fork.source();
        let values = || fork.to.values().join(", ");
        let value = self.answer.pointer(pointer);
        let value = value.ok_or_else(|| format!("{pointer} is missing; it must be one of {}", values()))?;
        let word = value.as_str().filter(|word| fork.to.chosen_by(word).is_some());
        word.map(str::to_owned).ok_or_else(|| format!("{pointer} is {value}; it must be one of {}", values()))
    }
}
