//! A lease: the right of one Run to use one node until a moment. A lease is its nonce.

use crate::{NodeId, Nonce, RunId, Timestamp};

/// One row of `leases`. The key is the node: a node is held by at most one Run (I1).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    /// The node held.
    pub node: NodeId,
    /// The Run that holds it.
    pub run: RunId,
    /// The permit; another nonce is another lease.
    pub nonce: Nonce,
    /// When it was granted.
    pub granted_at: Timestamp,
    /// Until when it holds. Moved by adverts only, and never once it has passed.
    pub not_after: Timestamp,
}

impl Lease {
    /// It holds. A lease that does not is never revived, even before the reaper comes.
    #[must_use]
    pub fn holds(&self, now: Timestamp) -> bool {
        self.not_after > now
    }
}
