//! Questions to people: which are open, and what somebody answers.

use serde_json::Value;
use shared::{
    Principal, RunId, StepName, Timestamp,
    domain::{AnswerAsk, Refusal, Run},
};

use super::Services;
pub use crate::store::AskRow as OpenAsk;
use crate::{error::Error, record::Digest, schema};

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
        let value: Value = serde_json::from_slice(&answer)
            .map_err(|error| Error::invalid("answer", format!("is not JSON: {error}")))?;
        let ask = self.open_ask(&run, step.as_ref(), attempt).await?;
        // The domain decides; but nobody whom it will refuse leaves bytes in the Run's folder.
        if !may_answer(&ask, &by) {
            return Err(Refusal::NotAnAnswerer.into());
        }
        if let Some(form) = ask.question.get("form") {
            let fault = schema::mismatch(form, &value).map_err(|why| Error::invalid("answer", why))?;
            if let Some(fault) = fault {
                return Err(Error::invalid("answer", format!("does not fit the form: {fault}")));
            }
        }
        let bytes = serde_json::to_vec(&value).map_err(|error| Error::invalid("answer", error.to_string()))?;
        let (sha256, size) = (Digest::of(&bytes), bytes.len() as u64);
        self.records.put_small(&run, &sha256, &bytes).await?;
        let sha256 = sha256.to_string();
        let (step, attempt) = (ask.step, ask.attempt);
        self.writer.apply(AnswerAsk { run, step, attempt, by, answer: value, sha256, size }).await
    }

    async fn open_ask(&self, run: &RunId, step: Option<&StepName>, attempt: Option<u32>) -> Result<OpenAsk, Error> {
        let asks = self.store.read().await?.asks().await?;
        let mut open = asks.into_iter().filter(|ask| {
            ask.run == *run
                && step.is_none_or(|step| ask.step == *step)
                && attempt.is_none_or(|attempt| ask.attempt == attempt)
        });
        let Some(first) = open.next() else {
            let which = step.map(|step| format!(" for step {step}")).unwrap_or_default();
            return Err(Error::NotFound(format!("open question{which} in run {run}")));
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
