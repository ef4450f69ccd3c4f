//! Use cases, one a file: open a transaction, read, ask the domain, write, commit, notify.
//!
//! [`Services`] is what the gRPC and HTTP edges are given. Must not know: tonic, axum, SQL.

#[cfg(test)]
pub(crate) mod bench;
pub mod explain;
pub mod follow;
pub mod observe;
pub mod preview;
#[cfg(test)]
pub(crate) mod sample;

use shared::domain::{Run, Settings, Submitted};
use shared::{Principal, RunId};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::{error::Error, record::RecordStore, store::Store};

/// A contract as it came in.
#[derive(Debug, Clone)]
pub struct SubmitCommand {
    /// YAML or JSON.
    pub contract_text: Vec<u8>,
    /// Wins over the contract's own run id.
    pub run_id: Option<String>,
    /// Who submits.
    pub principal: Principal,
}

/// Handles that the use cases share. Cheap to clone.
#[derive(Clone)]
pub struct Services {
    /// The database.
    pub store: Store,
    /// Logs, files and sealed Records.
    pub records: RecordStore,
    /// The numbers in force.
    pub settings: Settings,
    /// Sequence number of the last event; changes after every commit that wrote one.
    pub events: watch::Receiver<i64>,
    /// Cancelled when the mediator stops: every stream ends then.
    pub stop: CancellationToken,
}

impl Services {
    /// Replaced by the use case of its own.
    pub async fn submit(&self, _: SubmitCommand) -> Result<Submitted, Error> {
        Err(Error::Internal("no writer".into()))
    }
    /// Replaced by the use case of its own.
    pub async fn cancel(&self, _: RunId, _: Principal) -> Result<Run, Error> {
        Err(Error::Internal("no writer".into()))
    }
}
