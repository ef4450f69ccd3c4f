//! What happens after a commit, and not before: work streams and the sealer are woken, watchers are, promotions
//! are counted.

use std::{collections::BTreeSet, sync::Arc};

use shared::{
    NodeId,
    domain::{Changes, Claim, Wake},
};
use tokio::sync::{Notify, watch};

use super::hub::{Gone, Hub, Signal};
use crate::{
    metrics,
    writer::{Claimed, Notices},
};

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
    fn claims(&self, work: &BTreeSet<NodeId>) -> Vec<Claim> {
        self.hub.listeners(work).into_iter().map(|who| Claim { who }).collect()
    }

    fn claimed(&mut self, node: &NodeId, claimed: Claimed) {
        match claimed {
            Ok(Some(step)) => self.hub.signal(node, Signal::Step(Box::new(step))),
            Ok(None) => {}
            // It is no longer the node's stream. Asking itself, it hears why, and ends.
            Err(_) => self.hub.signal(node, Signal::Work),
        }
    }

    fn committed(&mut self, changes: Changes, last_event: i64) {
        for node in &changes.work {
            self.hub.signal(node, Signal::Work);
        }
        for (node, run, nonce, rev) in changes.stop {
            self.hub.signal(&node, Signal::Stop(Box::new(Gone { run, nonce, rev })));
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
