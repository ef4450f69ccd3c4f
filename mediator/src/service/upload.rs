//! What a node stores beside its reports: logs and files. Fenced by the lease's nonce, outside the fleet's
//! transactions.

use shared::{Nonce, RunId, Seq, domain::Speaker};

use super::Services;
use crate::{
    error::Error,
    record::Digest,
    store::{ArtifactRow, Fence},
};

/// One attempt as an agent names it: who, what, under which permit.
#[derive(Debug, Clone)]
pub struct AttemptKey {
    /// Who speaks.
    pub who: Speaker,
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
            node: self.who.node.clone(),
            instance: self.who.instance.clone(),
            nonce: self.nonce,
        }
    }
}

impl Services {
    /// Refuses a node whose lease on this work has ended.
    ///
    /// # Errors
    /// `Stale`; a store that is not available.
    pub async fn fence(&self, key: &AttemptKey) -> Result<(), Error> {
        if self.store.lease_holds(&key.fence()).await? { Ok(()) } else { Err(stale()) }
    }

    /// Appends to an attempt's log; returns how much of it is stored.
    ///
    /// # Errors
    /// A gap before `offset`, a sealed Run, a full disk.
    pub async fn append_log(&self, key: &AttemptKey, offset: u64, data: Vec<u8>) -> Result<u64, Error> {
        Ok(self.records.append_log(&key.run, key.seq, key.attempt, offset, data).await?)
    }

    /// Notes a file whose bytes are stored.
    ///
    /// # Errors
    /// `Stale`; a store that is not available.
    pub async fn note_artifact(&self, key: &AttemptKey, name: String, digest: &Digest, size: u64) -> Result<(), Error> {
        let row = ArtifactRow { seq: key.seq, attempt: key.attempt, name, sha256: digest.to_string(), size };
        if self.store.put_artifact(&key.fence(), &row).await? { Ok(()) } else { Err(stale()) }
    }
}

fn stale() -> Error {
    Error::from(shared::domain::Refusal::Stale("the lease of this work has ended"))
}
