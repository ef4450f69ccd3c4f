//! Results that wait for their way to the mediator, oldest first.
//!
//! Only the queue: it must not know how a result is sent, so that a node can own one.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::{sync::Notify, task::JoinHandle};
use tokio_util::sync::CancellationToken;

use super::{core::LeaseKey, retry::CallError};
use crate::spool::Record;

/// A log upload under way.
pub type LogUpload = JoinHandle<Result<(), CallError>>;

/// One result.
#[derive(Debug)]
pub struct Entry {
    /// As spooled.
    pub record: Record,
    /// Cancelled when its lease ends.
    pub(super) dropped: CancellationToken,
    log: Mutex<Option<LogUpload>>,
}

impl Entry {
    /// The log upload, once.
    pub(super) fn take_log(&self) -> Option<LogUpload> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// The results of one node, oldest first.
#[derive(Debug, Default)]
pub struct Outbox {
    entries: Mutex<VecDeque<Arc<Entry>>>,
    wake: Notify,
    empty: Notify,
}

impl Outbox {
    fn lock(&self) -> MutexGuard<'_, VecDeque<Arc<Entry>>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A result, with the log upload that goes on with it.
    pub fn push(&self, record: Record, log: Option<LogUpload>) {
        let entry = Entry { record, dropped: CancellationToken::new(), log: Mutex::new(log) };
        self.lock().push_back(Arc::new(entry));
        self.wake.notify_one();
    }

    /// The lease has ended: nobody wants its results.
    pub fn drop_lease(&self, lease: &LeaseKey) {
        for entry in self.lock().iter() {
            if entry.record.run_id == lease.0 && entry.record.nonce == lease.1 {
                entry.dropped.cancel();
            }
        }
    }

    /// Nothing waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    /// Waits until nothing waits.
    pub async fn emptied(&self) {
        loop {
            let mut empty = std::pin::pin!(self.empty.notified());
            empty.as_mut().enable();
            if self.is_empty() {
                return;
            }
            empty.await;
        }
    }

    /// Waits for the oldest.
    pub(super) async fn first(&self) -> Arc<Entry> {
        loop {
            let woken = self.wake.notified();
            if let Some(entry) = self.lock().front().cloned() {
                return entry;
            }
            woken.await;
        }
    }

    /// The oldest is delivered, or not wanted.
    pub(super) fn done(&self) {
        self.lock().pop_front();
        if self.is_empty() {
            self.empty.notify_waiters();
        }
    }
}
