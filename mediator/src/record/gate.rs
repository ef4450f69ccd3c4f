//! The gate of a Run's files: open while they may grow, closed from the moment its sealing begins.
//!
//! Whoever writes holds the gate open ([`Gate::enter`]); whoever seals closes it first and thereby waits for
//! writers. Gates are made on demand and forgotten when nobody holds one; what is on disk decides whether a
//! new one is open. Lock order: `sealing`, the map of gates, `closed`, then what [`super::log`] has.

use std::{
    collections::HashMap,
    ops::Not,
    sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, TryLockError},
    time::Duration,
};

use shared::RunId;
use tokio::sync::watch;

use super::RecordError;

/// How often a log is looked at that another mediator may append to.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// A mutex whose holder panicked guards nothing that could be half done: every change behind these locks is
/// one assignment.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One Run's gate.
#[derive(Debug)]
pub(super) struct Gate {
    run: RunId,
    closed: RwLock<bool>,
    /// Held while the Run is sealed.
    pub(super) sealing: Mutex<()>,
    /// The Run's folder for blobs exists and is durable, as far as this mediator knows.
    pub(super) blobs_made: Mutex<bool>,
    /// True once nothing more will come.
    news: watch::Sender<bool>,
}

impl Gate {
    fn new(run: &RunId, closed: bool) -> Self {
        let news = watch::Sender::new(closed);
        Self {
            run: run.clone(),
            closed: RwLock::new(closed),
            sealing: Mutex::default(),
            blobs_made: Mutex::default(),
            news,
        }
    }

    /// Holds the gate open for one write.
    pub(super) fn enter(&self) -> Result<RwLockReadGuard<'_, bool>, RecordError> {
        let closed = self.closed.read().unwrap_or_else(PoisonError::into_inner);
        if *closed { Err(RecordError::Sealed(self.run.clone())) } else { Ok(closed) }
    }

    /// Waits for those inside, and lets nobody in any more.
    pub(super) fn close(&self) {
        *self.closed.write().unwrap_or_else(PoisonError::into_inner) = true;
        self.news.send_replace(true);
    }

    fn is_open(&self) -> bool {
        !*self.closed.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// From before it is closed until the disk tells.
    fn is_being_sealed(&self) -> bool {
        matches!(self.sealing.try_lock(), Err(TryLockError::WouldBlock))
    }

    /// Wakes those who follow the Run's logs.
    pub(super) fn announce(&self) {
        self.news.send_modify(|_| ());
    }
}

/// Wakes when logs of one Run grow.
#[derive(Debug)]
pub struct LogWatch {
    news: watch::Receiver<bool>,
    /// Another mediator may append; it does not tell.
    shared: bool,
    /// Keeps the sender alive: a channel without one forgets what was not seen yet.
    _gate: Arc<Gate>,
}

impl LogWatch {
    pub(super) fn new(gate: Arc<Gate>, shared: bool) -> Self {
        Self { news: gate.news.subscribe(), shared, _gate: gate }
    }

    /// Waits for an append since the last call (or since the watch was made); where others may append, for a
    /// second at most. True: read again. False: the
    /// Run takes no more logs, and nothing has come since the last call.
    pub async fn changed(&mut self) -> bool {
        // Looked at first: after it nothing changes any more, so the next line sees the last change.
        let closed = *self.news.borrow();
        if !closed {
            let told = self.news.changed();
            return match self.shared {
                true => tokio::time::timeout(LOOK_AGAIN, told).await.is_ok_and(|told| told.is_err()).not(),
                false => told.await.is_ok(),
            };
        }
        let unseen = self.news.has_changed().unwrap_or(false);
        self.news.mark_unchanged();
        unseen
    }
}

/// The gates in use.
#[derive(Debug, Default)]
pub(super) struct Gates(Mutex<Map>);

#[derive(Debug, Default)]
struct Map {
    gates: HashMap<RunId, Arc<Gate>>,
    sweep_at: usize,
}

impl Gates {
    /// The Run's gate. `is_closed` looks at the disk; it is asked under the lock, so that no sealing can
    /// begin and end between its answer and the new gate. It has the last word over a gate that is closed, too: the
    /// Record may have been removed, and the id used again.
    pub(super) fn of(&self, run: &RunId, is_closed: impl Fn() -> bool) -> Arc<Gate> {
        let mut map = lock(&self.0);
        if let Some(gate) = map.gates.get(run)
            && (gate.is_open() || gate.is_being_sealed() || is_closed())
        {
            return gate.clone();
        }
        if map.gates.len() >= map.sweep_at {
            map.gates.retain(|_, gate| Arc::strong_count(gate) > 1);
            map.sweep_at = (map.gates.len() * 2).max(1024);
        }
        let gate = Arc::new(Gate::new(run, is_closed()));
        map.gates.insert(run.clone(), gate.clone());
        gate
    }

    /// The Run's gate, if somebody uses it.
    pub(super) fn in_use(&self, run: &RunId) -> Option<Arc<Gate>> {
        lock(&self.0).gates.get(run).cloned()
    }

    /// From now on the disk tells that the Run is sealed.
    pub(super) fn forget(&self, run: &RunId) {
        lock(&self.0).gates.remove(run);
    }
}
