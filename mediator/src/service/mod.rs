//! Use cases, one a file: read what is needed, ask the domain through the writer, act on its answer.
//!
//! [`Services`] is what the gRPC and HTTP edges are given. Must not know: tonic, axum, SQL.

pub mod advert;
pub mod ask;
pub mod backup;
#[cfg(test)]
pub(crate) mod bench;
pub mod cancel;
pub mod claim;
pub mod contracts;
pub mod explain;
pub mod follow;
pub mod gc;
pub mod hub;
pub mod leave;
pub mod notify;
pub mod observe;
pub mod preview;
pub mod ready;
pub mod relay;
pub mod report;
#[cfg(test)]
pub(crate) mod sample;
pub mod seal;
pub mod submit;
pub mod texts;
pub mod upload;

use shared::domain::Settings;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

pub use submit::SubmitCommand;

use crate::{record::RecordStore, store::Store, writer::Writer};

/// Handles that the use cases share. Cheap to clone.
#[derive(Clone)]
pub struct Services {
    /// Rows.
    pub store: Store,
    /// Files.
    pub records: RecordStore,
    /// The numbers in force.
    pub settings: Settings,
    /// The way to change the fleet.
    pub writer: Writer,
    /// Contracts of what was claimed here.
    pub contracts: contracts::Contracts,
    /// Contracts that were submitted here lately.
    pub texts: texts::Texts,
    /// Open work streams.
    pub hub: hub::Hub,
    /// The planned stop.
    pub leave: leave::Leave,
    /// Sequence number of the last event; changes after every commit that wrote one.
    pub events: watch::Receiver<i64>,
    /// Cancelled when the mediator stops: every stream ends then.
    pub stop: CancellationToken,
}
