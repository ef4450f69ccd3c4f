//! What happens after a commit, and not before: work streams and the sealer are woken, watchers are, promotions
//! are counted.

use std::sync::Arc;

use shared::domain::{Changes, Wake};
use tokio::sync::{Notify, watch};

use super::hub::{Hub, Signal};
use crate::{metrics, writer::Notices};

/// Carries out the notices of commits.
pub struct Notifier {
    /// Open work streams.
    pub hub: Hub,
    /// Wakes the sealer.
    pub seal: Arc<Notify>,
    /// Tells watchers the last event's number.
    pub events: watch::Sender<i64>,
}

impl Notices for Notifier {
    fn committed(&mut self, changes: Changes, last_event: i64) {
        for node in &changes.work {
            self.hub.signal(node, Signal::Work);
        }
        for (node, run, nonce, rev) in changes.stop {
            self.hub.signal(&node, Signal::Stop { run, nonce, rev });
        }
        for promotion in &changes.promotions {
            metrics::promoted(promotion.wake);
            if promotion.wake == Wake::Sweep {
                tracing::error!(run_id = %promotion.run, "the sweep promoted a run: a wake point has missed it");
            }
        }
        if !changes.sealed.is_empty() {
            self.seal.notify_one();
        }
        self.events.send_if_modified(|seen| std::mem::replace(seen, last_event) != last_event);
    }

    fn uncertain(&mut self) {
        // Work comes again with the next heartbeat, events with the next commit; only the sealer would sleep on.
        self.seal.notify_one();
    }
}
