//! The one connection that writes.
//!
//! It is kept open from transaction to transaction, outside of any pool: a pool asks each connection that comes
//! back whether it is well, which would stand between two commits. A [`Writer`] that is dropped instead of given
//! back closes the connection, and with it goes whatever was not committed, and every lock; the next one opens
//! another. So neither an error nor a caller that went away can leave a transaction open.

use std::{fmt, sync::Arc, time::Duration};

use sqlx::{ConnectOptions, Connection, Database};
use tokio::sync::{Mutex, OwnedMutexGuard};

use super::error::{Outage, StoreError, Verdict};

/// How long a caller waits for its turn, and for a new connection.
const PATIENCE: Duration = Duration::from_secs(5);

/// How to connect to an engine.
pub(super) type Options<DB> = <<DB as Database>::Connection as Connection>::Options;

/// Where the connection is while nobody writes.
pub(super) struct Link<DB: Database> {
    slot: Arc<Mutex<Option<DB::Connection>>>,
    options: Options<DB>,
    verdict: fn(&str) -> Verdict,
}

/// The connection while somebody writes.
pub(super) struct Writer<DB: Database> {
    pub(super) conn: DB::Connection,
    slot: OwnedMutexGuard<Option<DB::Connection>>,
    /// A statement has failed since it was taken.
    pub(super) failed: bool,
}

// Options hold a password.
impl<DB: Database> fmt::Debug for Link<DB> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link").finish_non_exhaustive()
    }
}

impl<DB: Database> fmt::Debug for Writer<DB> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Writer").field("failed", &self.failed).finish_non_exhaustive()
    }
}

impl<DB: Database> Link<DB> {
    pub(super) fn new(options: Options<DB>, verdict: fn(&str) -> Verdict) -> Self {
        Self { slot: Arc::default(), options, verdict }
    }

    /// Waits for its turn, and connects where that is needed.
    pub(super) async fn take(&self, name: &'static str) -> Result<Writer<DB>, StoreError> {
        let unavailable = |outage| StoreError::Unavailable { query: name, outage, source: None };
        let waited = tokio::time::timeout(PATIENCE, self.slot.clone().lock_owned()).await;
        let mut slot = waited.map_err(|_| unavailable(Outage::Busy))?;
        let conn = match slot.take() {
            Some(conn) => conn,
            None => tokio::time::timeout(PATIENCE, self.options.connect())
                .await
                .map_err(|_| unavailable(Outage::Lost))?
                .map_err(|source| StoreError::of(name, source, self.verdict))?,
        };
        Ok(Writer { conn, slot, failed: false })
    }
}

impl<DB: Database> Writer<DB> {
    /// Lets the next one write.
    pub(super) fn give_back(mut self) {
        *self.slot = Some(self.conn);
    }
}
