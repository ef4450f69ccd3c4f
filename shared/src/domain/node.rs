//! A node as its last accepted advert described it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Drain, Policy};
use crate::{InstanceId, NodeId, Principal, StreamId, Timestamp, contract::AttrValue};

/// One thing a node can do.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Capability {
    /// A word of the open vocabulary.
    pub name: String,
    /// What sort of it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub attrs: BTreeMap<String, AttrValue>,
}

/// One node: one workspace, at most one lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// Its id.
    pub id: NodeId,
    /// Rises with every grant, release and change of what it adverts; never with a plain renewal.
    pub rev: i64,
    /// For people.
    pub label: String,
    /// The process life that speaks for it.
    pub instance: InstanceId,
    /// The work stream that was opened last; none yet for a new instance.
    pub stream: Option<StreamId>,
    /// Number of the last advert of this instance.
    pub advert_no: i64,
    /// Its agent was told to stop.
    pub stopping: bool,
    /// Who may speak for it.
    pub principal: Principal,
    /// What it can do.
    pub capabilities: Vec<Capability>,
    /// The owner's policy, acknowledged.
    pub policy: Policy,
    /// When its last advert came.
    pub seen_at: Timestamp,
    /// When that advert stops counting.
    pub expires_at: Timestamp,
    /// The agent's version.
    pub agent_version: String,
}

impl Node {
    /// Its advert still counts.
    #[must_use]
    pub fn is_live(&self, now: Timestamp) -> bool {
        self.expires_at > now
    }

    /// Its owner or its agent holds it back.
    #[must_use]
    pub const fn is_draining(&self) -> bool {
        !matches!(self.policy.drain, Drain::None) || self.stopping
    }

    /// A new lease may be granted on it, as far as the node is concerned.
    #[must_use]
    pub fn is_lendable(&self, now: Timestamp) -> bool {
        self.is_live(now) && !self.is_draining()
    }

    /// A step may be claimed on it under the lease it has.
    #[must_use]
    pub fn may_claim(&self, now: Timestamp) -> bool {
        self.is_live(now) && !self.stopping && self.policy.drain < Drain::AtBoundary
    }

    /// How much it advertises. Nodes that can do little are used first, so that scarce ones stay free.
    #[must_use]
    pub fn weight(&self) -> usize {
        self.capabilities.iter().map(|capability| 1 + capability.attrs.len()).sum()
    }
}
