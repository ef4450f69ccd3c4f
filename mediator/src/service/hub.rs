//! The work streams that are open on this mediator, and how to wake them.
//!
//! A signal is an edge and may be lost with its stream; the truth is in the store: a stream claims what there
//! is when it opens, and every advert says which leases hold.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use shared::{
    NodeId, Nonce, RunId,
    domain::{ClaimedStep, Speaker},
};
use tokio::sync::mpsc;

/// Signals that wait for a slow stream. More are dropped.
const WAITING: usize = 32;

/// What a stream is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Signal {
    /// There may be something to claim.
    Work,
    /// This was claimed for it.
    Step(Box<ClaimedStep>),
    /// The agent is to advert at once.
    AdvertNow,
    /// A lease has gone.
    Stop(Box<Gone>),
}

/// A lease that has gone. Boxed like a step: there is room for signals for every open stream, and little is ever used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gone {
    /// The Run that held it.
    pub run: RunId,
    /// Which lease.
    pub nonce: Nonce,
    /// The node's rev when it went.
    pub rev: i64,
}

/// Who listens, and how it is told.
#[derive(Debug)]
struct Stream {
    who: Speaker,
    signals: mpsc::Sender<Signal>,
}

/// Open streams by node. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Hub(Arc<Mutex<HashMap<NodeId, Stream>>>);

impl Hub {
    /// Registers a stream. The one before it on this node ends, because its sender is dropped here.
    #[must_use]
    pub fn open(&self, who: Speaker) -> mpsc::Receiver<Signal> {
        let (signals, receive) = mpsc::channel(WAITING);
        self.streams().insert(who.node.clone(), Stream { who, signals });
        receive
    }

    /// Forgets the streams of a node whose receiver is gone; one that has taken its place stays.
    pub fn close(&self, node: &NodeId) {
        let mut streams = self.streams();
        if streams.get(node).is_some_and(|stream| stream.signals.is_closed()) {
            streams.remove(node);
        }
    }

    /// Wakes a node's stream, if it is open here.
    pub fn signal(&self, node: &NodeId, signal: Signal) {
        if let Some(stream) = self.streams().get(node) {
            // What a full channel loses comes again: the next heartbeat says what is to be claimed and what holds.
            drop(stream.signals.try_send(signal));
        }
    }

    /// Who listens here for these nodes.
    #[must_use]
    pub fn listeners<'n>(&self, nodes: impl IntoIterator<Item = &'n NodeId>) -> Vec<Speaker> {
        let streams = self.streams();
        nodes.into_iter().filter_map(|node| Some(streams.get(node)?.who.clone())).collect()
    }

    /// Nodes whose stream is open here.
    #[must_use]
    pub fn nodes(&self) -> Vec<NodeId> {
        self.streams().keys().cloned().collect()
    }

    /// Ends every stream: at shutdown, so that the server can stop.
    pub fn close_all(&self) {
        self.streams().clear();
    }

    fn streams(&self) -> std::sync::MutexGuard<'_, HashMap<NodeId, Stream>> {
        // Nothing panics while it is held, and a map of senders is sound whatever happened.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::service::bench::speaker;

    #[test]
    fn the_newest_stream_wins_and_an_old_one_cannot_close_it() {
        let (hub, node) = (Hub::default(), NodeId::new("n1").unwrap());
        let mut old = hub.open(speaker("n1"));
        let mut new = hub.open(speaker("n1"));
        hub.signal(&node, Signal::Work);
        assert_eq!(old.try_recv(), Err(mpsc::error::TryRecvError::Disconnected));
        drop(old);
        hub.close(&node);
        assert_eq!(new.try_recv(), Ok(Signal::Work));
        assert_eq!(new.try_recv(), Err(mpsc::error::TryRecvError::Empty), "it is still open");
        drop(new);
        hub.close(&node);
        assert!(hub.streams().is_empty());
    }
}
