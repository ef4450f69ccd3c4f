//! Questions to people: which are open, and what somebody answers.

use std::collections::BTreeSet;

use serde_json::Value;
use shared::{
    Principal, RunId, StepName, Timestamp,
    domain::{AnswerAsk, FailReason, Refusal, Run, Step, StepState},
};

use super::Services;
use super::explain::age;
pub use crate::store::AskRow as OpenAsk;
use crate::{
    error::Error,
    json,
    record::{Digest, RecordError},
    schema,
    store::AnswerRow,
};

/// Largest answer, in bytes of JSON.
const ANSWER_BYTES: usize = 1 << 20;

/// An answer as it came in.
#[derive(Debug, Clone)]
pub struct AnswerCommand {
    /// Of which Run.
    pub run: RunId,
    /// Which step; none where the Run has only one open question.
    pub step: Option<StepName>,
    /// Which asking of it; none for the present one.
    pub attempt: Option<u32>,
    /// JSON.
    pub answer: Vec<u8>,
    /// Who answers.
    pub by: Principal,
}

impl Services {
    /// Every open question, oldest first, and whether this principal may answer it.
    ///
    /// # Errors
    /// A store that is not available.
    pub async fn asks(&self, principal: &Principal) -> Result<(Timestamp, Vec<(OpenAsk, bool)>), Error> {
        let mut read = self.store.read().await?;
        let asks = read.asks().await?;
        let with = |ask: OpenAsk| {
            let may = may_answer(&ask, principal);
            (ask, may)
        };
        Ok((read.now(), asks.into_iter().map(with).collect()))
    }

    /// Ends a question. Everything that can be wrong with the answer is told while the question is still open.
    ///
    /// # Errors
    /// No such open question; an answer that is not JSON, does not fit the form or leads nowhere; a store that is not
    /// available.
    pub async fn answer(&self, command: AnswerCommand) -> Result<Run, Error> {
        let AnswerCommand { run, step, attempt, answer, by } = command;
        if answer.len() > ANSWER_BYTES {
            return Err(Error::invalid("answer", format!("has {} bytes; at most {ANSWER_BYTES}", answer.len())));
        }
        let value: Value =
            json::read(&answer).map_err(|error| Error::invalid("answer", format!("is not JSON: {error}")))?;
        let ask = self.open_ask(&run, step.as_ref(), attempt).await?;
        // The domain decides; but nobody whom it will refuse leaves bytes in the Run's folder.
        if !may_answer(&ask, &by) {
            return Err(Refusal::not_an_answerer(&by, &ask.answerers).into());
        }
        if let Some(form) = ask.question.get("form") {
            let fault = schema::mismatch(form.clone(), value.clone()).await;
            let fault = fault.map_err(|why| Error::invalid("answer", why))?;
            if let Some(fault) = fault {
                return Err(Error::invalid("answer", format!("does not fit the form: {fault}")));
            }
        }
        let bytes = serde_json::to_vec(&value).map_err(|error| Error::invalid("answer", error.to_string()))?;
        let (sha256, size) = (Digest::of(&bytes), bytes.len() as u64);
        if let Err(error) = self.records.put_small(&run, &sha256, &bytes).await {
            // The Run has ended meanwhile, and with it the question.
            if matches!(error, RecordError::Sealed(_)) {
                self.open_ask(&run, Some(&ask.step), Some(ask.attempt)).await?;
            }
            return Err(error.into());
        }
        let sha256 = sha256.to_string();
        let (step, attempt) = (ask.step, ask.attempt);
        self.writer.apply(AnswerAsk { run, step, attempt, by, answer: value, sha256, size }).await
    }

    async fn open_ask(&self, run: &RunId, step: Option<&StepName>, attempt: Option<u32>) -> Result<OpenAsk, Error> {
        let mut read = self.store.read().await?;
        let asks = read.asks().await?;
        let mut open = asks.into_iter().filter(|ask| {
            ask.run == *run
                && step.is_none_or(|step| ask.step == *step)
                && attempt.is_none_or(|attempt| ask.attempt == attempt)
        });
        let Some(first) = open.next() else {
            let Some((row, _)) = read.run(run).await? else { return Err(super::observe::no_run(run)) };
            let answers = read.answers(&BTreeSet::from([run.clone()])).await?;
            return Err(Error::NotFound(none_open(&row, step, attempt, &answers, read.now())));
        };
        match open.next() {
            None => Ok(first),
            Some(other) => {
                let message =
                    format!("the run asks several questions ({}, {}, …); name the step", first.step, other.step);
                Err(Error::invalid("step", message))
            }
        }
    }
}

fn may_answer(ask: &OpenAsk, principal: &Principal) -> bool {
    ask.answerers.is_empty() || ask.answerers.contains(principal)
}

/// Why there is nothing to answer: another step, too late, too early, or somebody was quicker.
fn none_open(
    run: &Run,
    step: Option<&StepName>,
    attempt: Option<u32>,
    answers: &[AnswerRow],
    now: Timestamp,
) -> String {
    let asking: Vec<&Step> = run.steps.iter().filter(|it| is_ask(run, it)).collect();
    let names = |steps: &[&Step]| steps.iter().map(|it| it.name.to_string()).collect::<Vec<_>>().join(", ");
    let meant: Vec<&Step> = asking.iter().copied().filter(|it| step.is_none_or(|step| it.name == *step)).collect();
    let what = match (meant.as_slice(), step) {
        ([], _) if asking.is_empty() => "none of its steps asks".to_owned(),
        ([], Some(step)) if run.steps.iter().any(|it| it.name == *step) => {
            format!("its step {step} does not ask; {} can", names(&asking))
        }
        ([], Some(step)) => format!("it has no step {step}; it asks at {}", names(&asking)),
        (meant, _) => meant.iter().map(|it| stands(it, attempt, answers, now)).collect::<Vec<_>>().join("; "),
    };
    format!("open question in run {}: {what}; `mediator asks` lists those there are", run.id)
}

fn is_ask(run: &Run, step: &Step) -> bool {
    run.spec(step.seq).is_some_and(|spec| spec.ask.is_some())
}

fn stands(step: &Step, attempt: Option<u32>, answers: &[AnswerRow], now: Timestamp) -> String {
    let id = &step.name;
    if let Some(other) = attempt.filter(|it| *it != step.attempt) {
        return format!("step {id} has no attempt {other} open, its present one is {}", step.attempt);
    }
    let answer = answers.iter().rev().find(|it| (it.seq, it.attempt) == (step.seq, step.attempt));
    if let Some(answer) = answer {
        return format!("step {id} was answered {} ago by {}", age(now.since(answer.at)), answer.by);
    }
    match &step.state {
        StepState::Pending => format!("step {id} has not asked yet"),
        StepState::Failed { reason: FailReason::Timeout, at, .. } => {
            format!("nobody answered step {id} in time, which was over {} ago", age(now.since(*at)))
        }
        StepState::Asked { .. }
        | StepState::Waiting
        | StepState::Claimed { .. }
        | StepState::Done { .. }
        | StepState::Failed { .. }
        | StepState::Skipped { .. } => format!("step {id} is {}", step.state.as_str()),
    }
}
