//! What a node stores beside its reports: logs and files. Fenced by the lease's nonce, outside the fleet's
//! transactions.

use shared::{NodeId, Nonce, RunId, Seq};

use super::Services;
use crate::{
    error::Error,
    store::{ArtifactRow, Fence},
};

/// Which attempt a node writes for.
#[derive(Debug, Clone)]
pub struct AttemptKey {
    /// The node.
    pub node: NodeId,
    /// The Run.
    pub run: RunId,
    /// The step.
    pub seq: Seq,
    /// The execution.
    pub attempt: u32,
    /// The permit.
    pub nonce: Nonce,
}

impl AttemptKey {
    fn fence(&self) -> Fence {
        Fence {
            run: self.run.clone(),
            seq: self.seq,
            attempt: self.attempt,
            node: self.node.clone(),
            nonce: self.nonce,
        }
    }
}

impl Services {
    /// Refuses a node whose lease on this work has ended.
    ///
    /// # Errors
    /// `Stale`; a store that is not available.
    pub async fn fence(&self, key: &AttemptKey, call: &'static str) -> Result<(), Error> {
        if self.store.lease_holds(&key.fence()).await? { Ok(()) } else { Err(stale(call)) }
    }

    /// Appends to an attempt's log; returns how much of it is stored.
    ///
    /// # Errors
    /// A gap before `offset`, a sealed Run, a full disk.
    pub async fn append_log(&self, key: &AttemptKey, offset: u64, data: &[u8]) -> Result<u64, Error> {
        Ok(self.records.append_log(&key.run, key.seq, key.attempt, offset, data).await?)
    }

    /// Notes a file whose bytes are stored.
    ///
    /// # Errors
    /// `Stale`; a store that is not available.
    pub async fn note_artifact(&self, key: &AttemptKey, name: String, sha256: String, size: u64) -> Result<(), Error> {
        let row = ArtifactRow { seq: key.seq, attempt: key.attempt, name, sha256, size };
        if self.store.put_artifact(&key.fence(), &row).await? { Ok(()) } else { Err(stale("PutArtifact")) }
    }
}

fn stale(call: &'static str) -> Error {
    metrics::counter!("mediator_stale_writes_total", "call" => call).increment(1);
    Error::from(shared::domain::Refusal::Stale("the lease of this work has ended"))
}
