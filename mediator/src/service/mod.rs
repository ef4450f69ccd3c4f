//! Use cases, one a file: read what is needed, ask the domain through the writer, act on its answer.

pub mod advert;
pub mod cancel;
pub mod claim;
pub mod hub;
pub mod report;
pub mod seal;
pub mod submit;
pub mod upload;

use shared::domain::{Changes, Settings};
use tokio::sync::watch;

use crate::{record::RecordStore, store::Store, writer::Writer};

/// Everything a use case needs. Cheap to clone.
#[derive(Clone)]
pub struct Services {
    /// Rows.
    pub store: Store,
    /// Files.
    pub records: RecordStore,
    /// Numbers in force.
    pub settings: Settings,
    /// The way to change the fleet.
    pub writer: Writer,
    /// Open work streams.
    pub hub: hub::Hub,
    /// Moves after every commit that others may want to see.
    pub commits: watch::Receiver<u64>,
}

/// What happens after a commit: streams are woken, the sealer is, watchers are, and promotions are counted.
pub struct Notifier {
    /// Open work streams.
    pub hub: hub::Hub,
    /// Wakes the sealer.
    pub seal: std::sync::Arc<tokio::sync::Notify>,
    /// Wakes watchers.
    pub commits: watch::Sender<u64>,
}

impl crate::writer::Notices for Notifier {
    fn committed(&mut self, changes: Changes) {
        for (node, run, nonce, rev) in changes.stop {
            self.hub.signal(&node, hub::Signal::Stop { run, nonce, rev });
        }
        for node in &changes.work {
            self.hub.signal(node, hub::Signal::Work);
        }
        for promotion in &changes.promotions {
            metrics::counter!("mediator_promotions_total", "wake" => promotion.wake.as_str()).increment(1);
            if promotion.wake == shared::domain::Wake::Sweep {
                tracing::error!(run_id = %promotion.run, "the sweep promoted a run: a wake point has missed it");
            }
        }
        if !changes.sealed.is_empty() {
            self.seal.notify_one();
        }
        self.commits.send_modify(|count| *count += 1);
    }
}
