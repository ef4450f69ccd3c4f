//! A report comes in: what the mediator itself holds of the attempt is put beside the node's word.

use std::sync::Arc;

use serde_json::Value;
use shared::{
    Nonce, RunId, Seq,
    contract::{ANSWER_FILE, Contract, Dispatch},
    domain::{Outcome, Report, ReportReply, Speaker},
};

use super::{Services, claim::below};
use crate::{
    error::Error,
    record::{Digest, RecordError},
    schema,
    store::ArtifactRow,
};

/// The largest file that is looked into, for a fork or against a schema.
const JSON_FILE_BYTES: u64 = 1 << 20;

/// A report as it came in.
#[derive(Debug, Clone)]
pub struct ReportCommand {
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
    /// How much log belongs to it, in bytes.
    pub log_bytes: u64,
}

impl Services {
    /// Ends an attempt. What counts as produced, and which way a fork goes, is read from the stored files,
    /// never taken from the node's word.
    ///
    /// # Errors
    /// A late or foreign report; a store that is not available.
    pub async fn report(&self, command: ReportCommand) -> Result<ReportReply, Error> {
        let ReportCommand { who, run, seq, attempt, nonce, outcome, log_bytes } = command;
        let evidence = match self.contract(&run, nonce).await? {
            Some(contract) => self.evidence(&contract, &run, seq, attempt).await?,
            None => Evidence::default(),
        };
        let Evidence { produced, fork_value, invalid } = evidence;
        let key = (run.clone(), nonce);
        let report = Report { who, run, seq, attempt, nonce, outcome, produced, fork_value, invalid, log_bytes };
        let reply = self.writer.apply(report).await?;
        self.contracts.reported(&key);
        Ok(reply)
    }

    async fn contract(&self, run: &RunId, nonce: Nonce) -> Result<Option<Arc<Contract>>, Error> {
        if let Some(contract) = self.contracts.get(run, nonce) {
            return Ok(Some(contract));
        }
        Ok(self.store.read().await?.contract(run).await?.map(Arc::new))
    }

    async fn evidence(&self, contract: &Contract, run: &RunId, seq: Seq, attempt: u32) -> Result<Evidence, Error> {
        let Some(spec) = contract.steps.get(seq as usize).filter(|spec| spec.outputs().next().is_some()) else {
            return Ok(Evidence::default());
        };
        let mut rows = self.store.read().await?.artifacts(run).await?;
        rows.retain(|row| row.seq == seq && row.attempt == attempt);
        let is_there = |name: &&str| rows.iter().any(|row| below(&row.name, name).is_some());
        let produced = spec.outputs().filter(is_there).map(str::to_owned).collect();
        let fork_value = match &spec.dispatch {
            Some(fork) => Some(self.fork_value(run, fork, &rows).await),
            None => None,
        };
        let invalid = match spec.agent.as_ref().and_then(|agent| agent.schema.as_ref()) {
            Some(schema) => self.answer_fault(run, schema, &rows).await,
            None => None,
        };
        Ok(Evidence { produced, fork_value, invalid })
    }

    async fn fork_value(&self, run: &RunId, fork: &Dispatch, rows: &[ArtifactRow]) -> Result<String, String> {
        let (file, pointer) = fork.source();
        match self.json(run, file, rows).await?.pointer(pointer) {
            Some(Value::String(text)) => Ok(text.clone()),
            Some(other) => Err(format!("the value at {pointer} is {other}, not a text")),
            None => Err(format!("{file} has nothing at {pointer:?}")),
        }
    }

    /// What is wrong with an agent's structured answer.
    async fn answer_fault(&self, run: &RunId, schema: &Value, rows: &[ArtifactRow]) -> Option<String> {
        let answer = match self.json(run, ANSWER_FILE, rows).await {
            Ok(answer) => answer,
            Err(why) => return Some(why),
        };
        let fault = schema::mismatch(schema.clone(), answer).await.unwrap_or_else(Some)?;
        Some(format!("{ANSWER_FILE} does not fit its schema: {fault}"))
    }

    async fn json(&self, run: &RunId, file: &str, rows: &[ArtifactRow]) -> Result<Value, String> {
        let row = rows.iter().find(|row| row.name == file).ok_or_else(|| format!("the step left no {file}"))?;
        if row.size > JSON_FILE_BYTES {
            return Err(format!("{file} has {} bytes; at most {JSON_FILE_BYTES} are read", row.size));
        }
        let digest: Digest = row.sha256.parse().map_err(|error: RecordError| error.to_string())?;
        let bytes = self.records.read_small(run, &digest, JSON_FILE_BYTES).await.map_err(|error| error.to_string())?;
        serde_json::from_slice(&bytes).map_err(|error| format!("{file} is not JSON: {error}"))
    }
}

/// What the mediator itself finds in the stored files of an attempt.
#[derive(Default)]
struct Evidence {
    produced: Vec<String>,
    fork_value: Option<Result<String, String>>,
    invalid: Option<String>,
}
