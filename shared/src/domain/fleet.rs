//! Everything that decisions rest on, in memory.
//!
//! Nodes and leases change only through the methods here, which keep the index of idle nodes in step and
//! note the rows in [`Changes`]. Open Runs are loaded as commands need them; queued ones are in [`Queue`]
//! without their contract.

use std::collections::{BTreeMap, BTreeSet};

use super::{Assigned, Cx, EventKind, Lease, Node, Place, Queue, Reservation, Run, Shape, StepState, Wake};
use crate::{InstanceId, NodeId, Principal, RunId, StreamId, Timestamp};

/// The order in which nodes are used. Reading the struct is reading the rule: little first, then by id.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Rank {
    weight: usize,
    id: NodeId,
}

impl Rank {
    fn of(node: &Node) -> Self {
        Self { weight: node.weight(), id: node.id.clone() }
    }
}

/// The fleet.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Fleet {
    /// Raised by every command that changes anything but a renewal.
    pub rev: i64,
    /// The next place in line.
    pub next_place: i64,
    /// When the reaper was here last.
    pub reaped_at: Option<Timestamp>,
    /// What is kept for a wide Run.
    pub reservation: Option<Reservation>,
    /// Who waits.
    pub queue: Queue,
    /// Loaded Runs.
    pub runs: BTreeMap<RunId, Run>,
    nodes: BTreeMap<NodeId, Node>,
    /// Nodes whose stored row could not be read. Somebody owns each; nobody may take its place.
    unreadable: BTreeSet<NodeId>,
    leases: BTreeMap<NodeId, Lease>,
    ranked: BTreeSet<Rank>,
    /// Neither leased nor held back. Liveness is looked at when it is used.
    idle: BTreeSet<Rank>,
}

/// Who says it speaks for a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Speaker {
    /// The node.
    pub node: NodeId,
    /// Its process life.
    pub instance: InstanceId,
    /// The last acknowledged stream and all drawn since.
    pub streams: Vec<StreamId>,
    /// From the credentials.
    pub principal: Principal,
}

impl Speaker {
    /// Whether the stored stream is one that this speaker knows of.
    pub(super) fn knows_stream(&self, node: &Node) -> bool {
        node.stream.as_ref().is_none_or(|stream| self.streams.contains(stream))
    }
}

impl Fleet {
    /// A node by its id.
    #[must_use]
    pub fn node(&self, id: &NodeId) -> Option<&Node> {
        self.nodes.get(id)
    }

    /// Every node, by id.
    pub fn nodes(&self) -> impl Iterator<Item = &Node> {
        self.nodes.values()
    }

    /// The lease on a node.
    #[must_use]
    pub fn lease(&self, node: &NodeId) -> Option<&Lease> {
        self.leases.get(node)
    }

    /// Every lease, by node.
    pub fn leases(&self) -> impl Iterator<Item = &Lease> {
        self.leases.values()
    }

    /// Live nodes in the order of use.
    pub fn live(&self, now: Timestamp) -> impl Iterator<Item = &Node> + Clone {
        self.in_order(&self.ranked, now)
    }

    /// Live nodes that can be granted, in the order of use.
    pub fn free(&self, now: Timestamp) -> impl Iterator<Item = &Node> + Clone {
        self.in_order(&self.idle, now)
    }

    fn in_order<'a>(&'a self, ranks: &'a BTreeSet<Rank>, now: Timestamp) -> impl Iterator<Item = &'a Node> + Clone {
        ranks.iter().filter_map(|rank| self.nodes.get(&rank.id)).filter(move |node| node.is_live(now))
    }

    /// Leased or held back.
    #[must_use]
    pub fn is_busy(&self, node: &Node) -> bool {
        node.is_draining() || self.leases.contains_key(&node.id)
    }

    /// Stores a row as it was read; nothing is noted. For loading only.
    pub fn load_node(&mut self, node: Node) {
        if let Some(old) = self.nodes.get(&node.id) {
            let rank = Rank::of(old);
            self.ranked.remove(&rank);
            self.idle.remove(&rank);
        }
        self.ranked.insert(Rank::of(&node));
        self.unreadable.remove(&node.id);
        let id = node.id.clone();
        self.nodes.insert(id.clone(), node);
        self.index(&id);
    }

    /// Notes that a node has a row which cannot be read; what was known of it counts no longer. For loading only.
    pub fn load_unreadable(&mut self, id: NodeId) {
        if let Some(old) = self.nodes.remove(&id) {
            let rank = Rank::of(&old);
            self.ranked.remove(&rank);
            self.idle.remove(&rank);
        }
        self.unreadable.insert(id);
    }

    /// Nodes whose stored row could not be read.
    pub fn unreadable(&self) -> impl Iterator<Item = &NodeId> {
        self.unreadable.iter()
    }

    /// The row that could not be read is gone: whoever adverts this node next owns it. For loading only.
    pub fn forget_unreadable(&mut self, id: &NodeId) {
        self.unreadable.remove(id);
    }

    /// Stores or deletes a lease row as it was read; nothing is noted. For loading only.
    pub fn load_lease(&mut self, node: &NodeId, lease: Option<Lease>) {
        match lease {
            Some(lease) => self.leases.insert(node.clone(), lease),
            None => self.leases.remove(node),
        };
        self.index(node);
    }

    fn index(&mut self, id: &NodeId) {
        let Some(node) = self.nodes.get(id) else { return };
        let rank = Rank::of(node);
        if node.is_draining() || self.leases.contains_key(id) {
            self.idle.remove(&rank);
        } else {
            self.idle.insert(rank);
        }
    }

    /// This command changes the fleet: its rev.
    pub(super) fn advance(&mut self, cx: &mut Cx<'_>) -> i64 {
        cx.changes.fleet = true;
        self.rev += 1;
        self.rev
    }

    /// Writes a node whole, with a new rev.
    pub(super) fn put_node(&mut self, mut node: Node, cx: &mut Cx<'_>) {
        node.rev = self.advance(cx);
        cx.changes.nodes.insert(node.id.clone());
        cx.stirred.anything();
        self.load_node(node);
    }

    /// Makes this the node's one work stream.
    pub(super) fn put_stream(&mut self, id: &NodeId, stream: StreamId, cx: &mut Cx<'_>) {
        if let Some(node) = self.nodes.get_mut(id) {
            node.stream = Some(stream);
        }
        self.touch_node(id, cx);
    }

    /// Moves the times of a node's advert. No rev, no scan.
    pub(super) fn renew(&mut self, id: &NodeId, advert_no: i64, expires_at: Timestamp, cx: &mut Cx<'_>) {
        if let Some(node) = self.nodes.get_mut(id) {
            node.advert_no = advert_no;
            node.seen_at = cx.now;
            node.expires_at = expires_at;
            cx.changes.renewed.insert(id.clone());
        }
    }

    /// Renews a lease that still holds. One that has run out is never revived, unless nothing can run under it.
    pub(super) fn renew_lease(&mut self, id: &NodeId, cx: &mut Cx<'_>) {
        let renews = self.lease(id).is_some_and(|lease| lease.holds(cx.now) || self.is_exempt(lease));
        if let Some(lease) = self.leases.get_mut(id).filter(|_| renews) {
            // Never shortened: the agent may have been promised more when a mediator stopped.
            lease.not_after = lease.not_after.max(cx.now + cx.settings.horizon());
            cx.changes.leases.insert(id.clone());
        }
    }

    /// A lease that does not run out, because its Run waits for a person and there is nothing to stop.
    #[must_use]
    pub fn is_exempt(&self, lease: &Lease) -> bool {
        self.runs.get(&lease.run).is_some_and(Run::waits_for_a_person)
    }

    /// Whether a Run holds this node. It may have been given the node and have given it back.
    fn holds(&self, run: &RunId, node: &NodeId) -> bool {
        self.lease(node).is_some_and(|lease| lease.run == *run)
    }

    /// The nodes that a loaded Run holds.
    pub(super) fn nodes_held_by(&self, run: &RunId) -> Vec<NodeId> {
        let nodes = self.runs.get(run).map(Run::nodes).unwrap_or_default();
        nodes.into_iter().filter(|node| self.holds(run, node)).collect()
    }

    /// How many nodes a loaded Run holds.
    #[must_use]
    pub fn held_by(&self, run: &RunId) -> u32 {
        u32::try_from(self.nodes_held_by(run).len()).unwrap_or(u32::MAX)
    }

    /// Deletes the leases that a Run has on any of these nodes.
    pub(super) fn release_held(
        &mut self,
        run: &RunId,
        nodes: impl IntoIterator<Item = NodeId>,
        wake: Wake,
        cx: &mut Cx<'_>,
    ) {
        for node in nodes {
            if self.holds(run, &node) {
                self.release(&node, wake, cx);
            }
        }
    }

    /// Takes a Run into memory as it was read, and its waiting acquires into the line.
    pub fn load_run(&mut self, run: Run) {
        for step in run.steps.iter().filter(|step| step.state == StepState::Waiting) {
            if let Some(acquire) = run.spec(step.seq).and_then(|spec| spec.acquire.as_ref()) {
                let shape = Shape::of_acquire(&run.id, step.seq, &acquire.require());
                let since = step.started_at.unwrap_or(run.created_at);
                self.queue.insert(Place::of_acquire(run.place, step.seq), run.id.clone(), shape, since);
            }
        }
        self.runs.insert(run.id.clone(), run);
    }

    /// Forgets a Run and its waiting acquires: it is read again when a command touches it.
    pub fn unload_run(&mut self, id: &RunId) {
        let Some(run) = self.runs.remove(id) else { return };
        for step in run.steps.iter().filter(|step| step.state == StepState::Waiting) {
            self.queue.remove(Place::of_acquire(run.place, step.seq));
        }
    }

    /// Grants every node of an assignment to a Run.
    pub(super) fn grant(&mut self, run: &RunId, assigned: &[Assigned], cx: &mut Cx<'_>) {
        let nodes: BTreeSet<&NodeId> = assigned.iter().map(|it| &it.node).collect();
        for id in nodes {
            debug_assert!(!self.leases.contains_key(id), "granted a leased node");
            // What its agent was promised when a mediator stopped counts for this lease as well.
            let promised = self.nodes.get(id).map_or(cx.now, |node| node.expires_at);
            let lease = Lease {
                node: id.clone(),
                run: run.clone(),
                nonce: cx.nonce(),
                granted_at: cx.now,
                not_after: promised.max(cx.now + cx.settings.horizon()),
            };
            self.leases.insert(id.clone(), lease);
            self.touch_node(id, cx);
            self.index(id);
            cx.changes.leases.insert(id.clone());
            cx.changes.work.insert(id.clone());
            cx.changes.event(EventKind::LeaseGranted, Some(run), Some(id), serde_json::json!({}));
        }
    }

    /// Deletes a lease. Whoever does so names the wake point: a freed node is never left unscanned.
    pub(super) fn release(&mut self, id: &NodeId, wake: Wake, cx: &mut Cx<'_>) {
        let Some(lease) = self.leases.remove(id) else { return };
        self.touch_node(id, cx);
        self.index(id);
        cx.changes.leases.insert(id.clone());
        let rev = self.nodes.get(id).map_or(self.rev, |node| node.rev);
        cx.changes.stop.push((id.clone(), lease.run.clone(), lease.nonce, rev));
        cx.changes.event(
            EventKind::LeaseReleased,
            Some(&lease.run),
            Some(id),
            serde_json::json!({"wake": wake.as_str()}),
        );
        cx.wake(wake, id);
    }

    fn touch_node(&mut self, id: &NodeId, cx: &mut Cx<'_>) {
        let rev = self.advance(cx);
        if let Some(node) = self.nodes.get_mut(id) {
            node.rev = rev;
            cx.changes.touched.insert(id.clone());
        }
        cx.stirred.node(self, id);
    }

    /// The Run's row must be written.
    pub(super) fn touch_run(&mut self, run: &RunId, cx: &mut Cx<'_>) {
        self.advance(cx);
        cx.changes.runs.insert(run.clone());
        cx.stirred.run(self, run);
    }

    /// Refuses whoever speaks for a node of which it is not known whose it is.
    pub(super) fn readable(&self, id: &NodeId) -> Result<(), super::Refusal> {
        if self.unreadable.contains(id) { Err(super::Refusal::Unreadable(id.clone())) } else { Ok(()) }
    }

    /// The rightful speaker for a node, or who is refused and why.
    pub(super) fn speaks(&self, who: &Speaker) -> Result<&Node, super::Refusal> {
        use super::Refusal;
        self.readable(&who.node)?;
        let node = self.nodes.get(&who.node).ok_or_else(|| Refusal::NotFound(format!("node {}", who.node)))?;
        if node.principal != who.principal {
            return Err(Refusal::ForeignNode(who.node.clone()));
        }
        if node.instance != who.instance {
            return Err(Refusal::Superseded { node: who.node.clone(), what: "instance" });
        }
        if !who.knows_stream(node) {
            return Err(Refusal::Superseded { node: who.node.clone(), what: "work stream" });
        }
        Ok(node)
    }

    /// Keeps only Runs that hold nodes in memory: the others are read again should a command touch them.
    pub fn forget_idle_runs(&mut self) {
        self.runs.retain(|_, run| run.state == super::RunState::Running);
    }
}
