//! A report comes in: what the mediator itself holds of the attempt is put beside the node's word.

use shared::{
    Nonce, RunId, Seq,
    contract::Step,
    domain::{Outcome, Report, ReportReply, Speaker},
};

use super::{Services, claim::below};
use crate::{
    error::Error,
    record::{Digest, RecordError},
    store::ArtifactRow,
};

/// The largest file that a fork may look into.
const FORK_FILE_BYTES: u64 = 1 << 20;

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
        let (produced, fork_value) = self.evidence(&run, seq, attempt).await?;
        let report = Report { who, run, seq, attempt, nonce, outcome, produced, fork_value, log_bytes };
        self.writer.apply(report).await
    }

    async fn evidence(
        &self,
        run: &RunId,
        seq: Seq,
        attempt: u32,
    ) -> Result<(Vec<String>, Option<Result<String, String>>), Error> {
        let mut read = self.store.read().await?;
        let Some(contract) = read.contract(run).await? else { return Ok((Vec::new(), None)) };
        let Some(spec) = contract.steps.get(seq as usize).filter(|spec| !spec.out.is_empty()) else {
            return Ok((Vec::new(), None));
        };
        let mut rows = read.artifacts(run).await?;
        drop(read);
        rows.retain(|row| row.seq == seq && row.attempt == attempt);
        let produced =
            spec.out.iter().filter(|name| rows.iter().any(|row| below(&row.name, name).is_some())).cloned().collect();
        let fork_value = match &spec.dispatch {
            Some(_) => Some(self.fork_value(run, spec, &rows).await),
            None => None,
        };
        Ok((produced, fork_value))
    }

    async fn fork_value(&self, run: &RunId, spec: &Step, rows: &[ArtifactRow]) -> Result<String, String> {
        let (file, pointer) = spec.dispatch.as_ref().map(|fork| fork.source()).unwrap_or_default();
        let row = rows.iter().find(|row| row.name == file).ok_or_else(|| format!("the step left no {file}"))?;
        if row.size > FORK_FILE_BYTES {
            return Err(format!("{file} has {} bytes; at most {FORK_FILE_BYTES} are read", row.size));
        }
        let digest: Digest = row.sha256.parse().map_err(|error: RecordError| error.to_string())?;
        let bytes = self.records.read_small(run, &digest, FORK_FILE_BYTES).await.map_err(|error| error.to_string())?;
        let value: serde_json::Value =
            serde_json::from_slice(&bytes).map_err(|error| format!("{file} is not JSON: {error}"))?;
        match value.pointer(pointer) {
            Some(serde_json::Value::String(text)) => Ok(text.clone()),
            Some(other) => Err(format!("the value at {pointer} is {other}, not a text")),
            None => Err(format!("{file} has nothing at {pointer:?}")),
        }
    }
}
