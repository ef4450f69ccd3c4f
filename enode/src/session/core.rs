//! What one node knows of its leases, steps and streams, and what a message from the mediator changes.
//!
//! Pure: no clock, no files, no network. A reply or a work item goes in, and out comes what must be done.
//! The rule behind all of it: a lease *is* its nonce, and an answer that is older than a grant says nothing
//! about that grant.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use shared::{Duration, InstanceId, NodeId, Nonce, RunId, Seq, StreamId, domain::Policy};

use crate::clock::BootTime;

/// One execution of one step.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StepKey {
    /// The Run.
    pub run: RunId,
    /// The step's position.
    pub seq: Seq,
    /// From 1.
    pub attempt: u32,
}

impl std::fmt::Display for StepKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}_{}_{}", self.run, self.seq, self.attempt)
    }
}

/// One lease as this node sees it.
pub type LeaseKey = (RunId, Nonce);

/// Who speaks, as every message says it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Speaker {
    /// The node.
    pub node: NodeId,
    /// Its process life.
    pub instance: InstanceId,
    /// The last acknowledged stream and all drawn since.
    pub streams: Vec<StreamId>,
}

/// An accepted advert's answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    /// The node's rev.
    pub rev: i64,
    /// Every lease that holds.
    pub leases: Vec<LeaseKey>,
    /// The policy that is acted on.
    pub policy: Policy,
    /// When to advert next.
    pub interval: Duration,
    /// How long leases live, from the sending of the advert.
    pub ttl: Duration,
    /// The stored stream.
    pub stream: Option<StreamId>,
}

/// What to do with a step that arrived.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Received {
    /// Execute it; first end these leases.
    Start(Vec<LeaseKey>),
    /// It is known already, or it is late.
    Ignore(&'static str),
}

/// How many received steps may wait. The mediator sends one at a time.
const MAX_OPEN: usize = 8;

/// Streams that were drawn since one was stored. The mediator takes 1,000.
const MAX_STREAMS: usize = 100;

/// Leases that are remembered as over. A node has one at a time, so that no step on its way is of an older one.
const MAX_OVER: usize = 64;

/// The node's knowledge.
#[derive(Debug, Clone, Default)]
pub struct NodeCore {
    streams: Vec<StreamId>,
    /// The newest stream that the mediator is known to have stored.
    opened: Option<StreamId>,
    accepted: bool,
    superseded: Option<String>,
    policy: Policy,
    /// The newest word on leases.
    known_rev: Option<i64>,
    known: BTreeSet<LeaseKey>,
    /// Leases of which there is anything here: a folder, a process, a spooled result. With the rev that
    /// brought them.
    held: BTreeMap<LeaseKey, i64>,
    /// Every step that was ever received, until its lease ends.
    seen: BTreeMap<StepKey, Nonce>,
    running: BTreeMap<StepKey, Nonce>,
    finished: BTreeMap<StepKey, Nonce>,
    /// Leases of which the mediator said that they are gone for good, latest last, and whether it was asked again since.
    over: VecDeque<(LeaseKey, bool)>,
    deadline: Option<(BootTime, Duration)>,
    advert_no: i64,
}

impl NodeCore {
    /// A lease that an earlier process life left something of. Any reply may end it.
    pub fn found(&mut self, lease: LeaseKey) {
        self.held.insert(lease, i64::MIN);
    }

    /// A result that an earlier process life left.
    pub fn found_result(&mut self, key: StepKey, nonce: Nonce) {
        self.found((key.run.clone(), nonce));
        self.seen.insert(key.clone(), nonce);
        self.finished.insert(key, nonce);
    }

    /// The number of the next advert.
    pub fn next_advert(&mut self) -> i64 {
        self.advert_no += 1;
        self.over.iter_mut().for_each(|(_, asked)| *asked = true);
        self.advert_no
    }

    /// A first advert of this instance was accepted, and nobody else speaks for the node.
    #[must_use]
    pub const fn is_accepted(&self) -> bool {
        self.accepted
    }

    /// Why this node is idle, if another speaks for it.
    #[must_use]
    pub fn superseded(&self) -> Option<&str> {
        self.superseded.as_deref()
    }

    /// The acknowledged policy.
    #[must_use]
    pub const fn policy(&self) -> &Policy {
        &self.policy
    }

    /// The one lease that the mediator last named.
    #[must_use]
    pub fn lease(&self) -> Option<&RunId> {
        self.known.iter().next().map(|(run, _)| run)
    }

    /// The streams that messages carry.
    #[must_use]
    pub fn streams(&self) -> &[StreamId] {
        &self.streams
    }

    /// Steps received and not ended.
    pub fn running(&self) -> impl Iterator<Item = &StepKey> {
        self.running.keys()
    }

    /// Steps ended and not acknowledged.
    pub fn finished(&self) -> impl Iterator<Item = &StepKey> {
        self.finished.keys()
    }

    /// Whether the step's lease still holds as far as known here.
    #[must_use]
    pub fn is_open(&self, key: &StepKey) -> bool {
        self.running.contains_key(key)
    }

    /// When leases end without another accepted advert, and how long they were promised for.
    #[must_use]
    pub const fn deadline(&self) -> Option<(BootTime, Duration)> {
        self.deadline
    }

    /// Whether the time to live is over or so near its end that a step which starts now would be told to end before
    /// the next advert. Such a step is left alone: the next accepted advert, which does not list it, has it sent again.
    #[must_use]
    pub fn is_lapsed(&self, now: BootTime) -> bool {
        // Of a quarter at most is the grace, of an eighth the margin for killing.
        let near = |ttl: Duration| Duration::from_millis(ttl.millis() / 8 * 3);
        self.deadline.is_some_and(|(end, ttl)| now.plus(near(ttl)) >= end)
    }

    /// A stream is about to be opened, under this fresh id: a copy of this machine that is made while an opening is
    /// under way must not have the same newest id as its original. Only when openings fail for very long the newest
    /// id is used again, because the mediator takes only so many.
    pub fn stream_drawn(&mut self, fresh: StreamId) {
        if self.streams.len() < MAX_STREAMS || self.opened.as_ref() == self.streams.last() {
            self.streams.push(fresh);
        }
    }

    /// The mediator has stored this stream: older ones need not be named any more.
    pub fn stream_acknowledged(&mut self, stream: &StreamId) {
        if let Some(at) = self.streams.iter().position(|it| it == stream) {
            self.streams.drain(..at);
            self.opened = Some(stream.clone());
        }
    }

    /// Whether a message with these streams was sent before the newest was drawn. Its refusal says nothing.
    #[must_use]
    pub fn lacks_newest(&self, sent: &[StreamId]) -> bool {
        self.streams.last().is_some_and(|newest| !sent.contains(newest))
    }

    /// The newest rev that is known here; an advert notes it when it is sent.
    #[must_use]
    pub const fn known_rev(&self) -> Option<i64> {
        self.known_rev
    }

    /// An advert was accepted that was sent at `sent`, when `rev_then` was known. Returns the leases that have
    /// ended.
    pub fn apply(&mut self, reply: &Reply, sent: BootTime, rev_then: Option<i64>) -> Vec<LeaseKey> {
        self.accepted = true;
        self.superseded = None;
        if let Some(stream) = &reply.stream {
            self.stream_acknowledged(stream);
        }
        self.deadline = Some((sent.plus(reply.ttl), reply.ttl));
        if rev_then.is_some_and(|then| then > reply.rev) {
            // The mediator forgot what it knew before we asked: its store was replaced. Its word holds.
            self.held.values_mut().for_each(|rev| *rev = i64::MIN);
            // It may send again what was done and acknowledged, and waits for it then.
            self.seen.retain(|step, _| self.running.contains_key(step) || self.finished.contains_key(step));
        } else if self.known_rev.is_some_and(|known| known > reply.rev) {
            // Overtaken by a work item: what it says of leases and policy is older than what is known.
            return Vec::new();
        }
        // A lease that is over never comes back, so a mediator that names one when it is asked later has another store.
        self.over.retain(|(lease, asked)| !(*asked && reply.leases.contains(lease)));
        self.policy = reply.policy.clone();
        self.known_rev = Some(reply.rev);
        self.known = reply.leases.iter().cloned().collect();
        let gone = self.held.iter().filter(|(lease, rev)| **rev <= reply.rev && !self.known.contains(*lease));
        let gone: Vec<LeaseKey> = gone.map(|(lease, _)| lease.clone()).collect();
        for lease in &gone {
            self.forget(lease);
        }
        for lease in &reply.leases {
            self.held.entry(lease.clone()).or_insert(reply.rev);
        }
        gone
    }

    /// A step arrived over the work stream.
    pub fn receive(&mut self, key: &StepKey, nonce: Nonce, rev: i64) -> Received {
        let lease = (key.run.clone(), nonce);
        if self.seen.get(key) == Some(&nonce) {
            return Received::Ignore("it is known already");
        }
        // What ended its Run may have overtaken a step that was sent once more.
        let late = self.known_rev.is_some_and(|known| known >= rev) && !self.known.contains(&lease);
        if late || self.over.iter().any(|(over, _)| *over == lease) {
            return Received::Ignore("its lease has ended");
        }
        if self.running.len() >= MAX_OPEN {
            return Received::Ignore("too many steps wait here");
        }
        // A node holds one lease: a new one means that every older one is gone.
        let gone: Vec<LeaseKey> =
            self.held.iter().filter(|(it, old)| **it != lease && **old <= rev).map(|(it, _)| it.clone()).collect();
        for lease in &gone {
            self.forget(lease);
        }
        if self.known_rev.is_none_or(|known| rev > known) {
            self.known_rev = Some(rev);
            self.known = [lease.clone()].into();
        }
        self.held.entry(lease).or_insert(rev);
        self.seen.insert(key.clone(), nonce);
        self.running.insert(key.clone(), nonce);
        // Nothing is claimed under at-boundary, so what comes was claimed before it or after its release, which a
        // step can overtake: either way it is to be done.
        Received::Start(gone)
    }

    /// The mediator says that this lease is gone, as of `rev`. False: nothing is known of it.
    pub fn stop(&mut self, lease: &LeaseKey, rev: i64) -> bool {
        if self.held.get(lease).is_none_or(|held| *held > rev) {
            return false;
        }
        self.end(lease);
        if self.known_rev.is_none_or(|known| known < rev) {
            self.known_rev = Some(rev);
        }
        true
    }

    /// The lease has ended, whatever the rev: its Run is over.
    pub fn end(&mut self, lease: &LeaseKey) {
        self.over.push_back((lease.clone(), false));
        let surplus = self.over.len().saturating_sub(MAX_OVER);
        self.over.drain(..surplus);
        self.known.remove(lease);
        self.forget(lease);
    }

    fn forget(&mut self, lease: &LeaseKey) {
        let (run, nonce) = lease;
        self.held.remove(lease);
        for steps in [&mut self.seen, &mut self.running, &mut self.finished] {
            steps.retain(|key, of| key.run != *run || of != nonce);
        }
    }

    /// The step has ended and its result is spooled. False: its lease is gone, nobody wants the result.
    pub fn finish(&mut self, key: &StepKey) -> bool {
        match self.running.remove(key) {
            Some(nonce) => {
                self.finished.insert(key.clone(), nonce);
                true
            }
            None => false,
        }
    }

    /// The result was acknowledged, or refused for good.
    pub fn settled(&mut self, key: &StepKey) {
        self.finished.remove(key);
    }

    /// Another speaks for this node. What is spooled stays and is offered again if this node ever comes back.
    pub fn supersede(&mut self, why: String) {
        self.accepted = false;
        self.superseded = Some(why);
        self.streams.clear();
        self.opened = None;
        self.running.clear();
        self.deadline = None;
    }
}

#[cfg(test)]
#[path = "core_tests.rs"]
mod tests;
