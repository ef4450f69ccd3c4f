//! The planned stop: before the mediator goes it hears from its agents once more, and gives them time.
//!
//! From [`Leave::say`] on every advert is answered, and stored, with a longer time to live. The agents whose work
//! streams are open here are asked to advert at once, and waited for, for a moment. So an upgrade kills nothing.
//! Agents of another mediator are not asked: they are not left alone.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, PoisonError},
    time::Duration as StdDuration,
};

use shared::{Duration, NodeId, domain::Settings};
use tokio::sync::{Notify, watch};

use super::hub::{Hub, Signal};

/// The longest that a stop waits for adverts.
const WITHIN: StdDuration = StdDuration::from_millis(if cfg!(test) { 100 } else { 5_000 });

/// The numbers in force, and whom a stop waits for. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Leave(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    settings: watch::Sender<Settings>,
    missing: Mutex<BTreeSet<NodeId>>,
    heard: Notify,
}

impl Leave {
    /// Nobody stops yet.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        let settings = watch::Sender::new(settings);
        Self(Arc::new(Inner { settings, missing: Mutex::default(), heard: Notify::new() }))
    }

    /// The numbers in force now. Whoever promises something reads them before the command whose effect it
    /// promises, so that no promise is longer than what is stored.
    #[must_use]
    pub fn settings(&self) -> Settings {
        *self.0.settings.borrow()
    }

    /// For the writer.
    #[must_use]
    pub fn follow(&self) -> watch::Receiver<Settings> {
        self.0.settings.subscribe()
    }

    /// An advert of this node was answered under these numbers.
    pub(super) fn heard(&self, node: &NodeId, under: &Settings) {
        if under.restart_grace.is_some() {
            self.missing().remove(node);
            self.0.heard.notify_one();
        }
    }

    /// Asks for an advert of every node whose stream is open, and waits for a moment. Returns how many were
    /// asked, and how many of them were not heard.
    pub async fn say(&self, hub: &Hub, grace: Duration) -> (usize, usize) {
        self.0.settings.send_modify(|settings| settings.restart_grace = Some(grace));
        let nodes = hub.nodes();
        // Before they are asked, so that no answer comes too early to count.
        self.missing().extend(nodes.iter().cloned());
        for node in &nodes {
            hub.signal(node, Signal::AdvertNow);
        }
        let all = async {
            while !self.missing().is_empty() {
                self.0.heard.notified().await;
            }
        };
        drop(tokio::time::timeout(WITHIN, all).await);
        (nodes.len(), self.missing().len())
    }

    fn missing(&self) -> std::sync::MutexGuard<'_, BTreeSet<NodeId>> {
        // Nothing panics while it is held.
        self.0.missing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::service::bench::speaker;

    #[tokio::test]
    async fn a_stop_waits_for_those_it_asked_and_counts_only_adverts_that_got_the_longer_time() {
        let (leave, hub) = (Leave::new(Settings::default()), Hub::default());
        let (first, second) = (speaker("n1"), speaker("n2"));
        let (mut one, _two) = (hub.open(first.clone()), hub.open(second.clone()));
        let (first, second) = (first.node, second.node);
        let before = leave.settings();
        let (answered, said) = tokio::join!(
            async {
                assert_eq!(one.recv().await, Some(Signal::AdvertNow));
                // One that was under way before the stop got the short time.
                leave.heard(&second, &before);
                let now = leave.settings();
                leave.heard(&first, &now);
                now.horizon()
            },
            leave.say(&hub, Duration::from_secs(300)),
        );
        assert_eq!(said, (2, 1), "n2 was not heard");
        assert_eq!(answered, Duration::from_secs(300));
        assert_eq!(Leave::new(Settings::default()).say(&Hub::default(), Duration::from_secs(1)).await, (0, 0));
    }
}
