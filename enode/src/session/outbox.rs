//! Results that wait for their way to the mediator, oldest first.
//!
//! Only the queue: it must not know how a result is sent, so that a node can own one.

use std::{
    collections::VecDeque,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use tokio::{sync::Notify, task::JoinHandle};
use tokio_util::sync::CancellationToken;

use super::{
    core::{LeaseKey, StepKey},
    retry::CallError,
};
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
    /// It was given out to be synced.
    kept: AtomicBool,
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
        let (dropped, log) = (CancellationToken::new(), Mutex::new(log));
        let entry = Entry { record, dropped, log, kept: AtomicBool::new(false) };
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

    /// Results that are to be synced to the disk, each once.
    pub(super) fn to_keep(&self) -> Vec<StepKey> {
        let entries = self.lock();
        let fresh = entries.iter().filter(|entry| !entry.kept.swap(true, Ordering::Relaxed));
        fresh.map(|entry| entry.record.key()).collect()
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

#[cfg(test)]
mod tests {
    use shared::{Nonce, Timestamp};

    use super::*;
    use crate::spool::Outcome;

    fn record(seq: u32) -> Record {
        Record {
            run_id: "r".parse().unwrap(),
            seq,
            attempt: 1,
            step_id: "s".parse().unwrap(),
            nonce: Nonce::from_bits(1),
            outcome: Outcome::Completed { exit_code: 0 },
            log_bytes: 0,
            out: std::path::PathBuf::new(),
            artifacts: Vec::new(),
            ended_at: Timestamp::from_millis(0),
            refused: None,
        }
    }

    #[test]
    fn what_waits_is_synced_once() {
        let outbox = Outbox::default();
        let seqs = || outbox.to_keep().iter().map(|key| key.seq).collect::<Vec<_>>();
        outbox.push(record(0), None);
        outbox.push(record(1), None);
        assert_eq!(seqs(), [0, 1]);
        outbox.push(record(2), None);
        assert_eq!(seqs(), [2]);
        assert_eq!(seqs(), [0; 0]);
    }
}
