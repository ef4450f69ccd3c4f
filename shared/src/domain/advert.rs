//! Advert: heartbeat, renewal and full state of a node in one message; and the opening of its work stream.
//!
//! What an advert does not carry is released. Its reply lists every lease that holds, and the policy that the
//! mediator now acts on, as of the `rev` it carries.

use serde_json::json;

use super::fleet::Speaker;
use super::{
    Capability, Cause, Cx, Decide, Drain, EventKind, Fleet, Node, Policy, Refusal, Touches, Wake, course, line,
};
use crate::{InstanceId, NodeId, Nonce, RunId, Seq, StreamId, Timestamp};

/// A node's full state.
#[derive(Debug, Clone)]
pub struct Advert {
    /// Who speaks.
    pub who: Speaker,
    /// For people.
    pub label: String,
    /// Rises with every advert of this instance.
    pub advert_no: i64,
    /// Instances that this one replaces.
    pub replaces: Vec<InstanceId>,
    /// What it can do.
    pub capabilities: Vec<Capability>,
    /// The owner's policy.
    pub policy: Policy,
    /// Told to stop.
    pub stopping: bool,
    /// The last one of this instance.
    pub goodbye: bool,
    /// Attempts it is executing.
    pub running: Vec<(RunId, Seq, u32)>,
    /// Attempts that ended there and are not acknowledged.
    pub finished: Vec<(RunId, Seq, u32)>,
    /// The agent's version.
    pub agent_version: String,
}

/// The mediator's view of the node after the advert.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AdvertReply {
    /// The node's rev; a lease is missing only in a reply at least as new as its grant.
    pub rev: i64,
    /// Every lease that holds.
    pub leases: Vec<(RunId, Nonce)>,
    /// The policy acted on.
    pub policy: Policy,
    /// The stored stream.
    pub stream: Option<StreamId>,
}

impl Decide for Advert {
    type Answer = AdvertReply;

    fn touches(&self, fleet: &Fleet, _: Timestamp) -> Touches {
        fleet.lease(&self.who.node).map(|lease| lease.run.clone()).into_iter().collect()
    }

    fn goes_on_without(&self) -> bool {
        true
    }

    fn hears(&self) -> Option<&NodeId> {
        Some(&self.who.node)
    }

    fn may_wait(&self, fleet: &Fleet) -> bool {
        fleet.node(&self.who.node).is_some_and(|node| self.says_nothing_new(node))
    }

    fn decide(&self, fleet: &mut Fleet, cx: &mut Cx<'_>) -> Result<AdvertReply, Refusal> {
        let id = &self.who.node;
        fleet.readable(id)?;
        match fleet.node(id).cloned() {
            None => self.join(fleet, cx),
            Some(node) if node.principal != self.who.principal => return Err(Refusal::ForeignNode(id.clone())),
            Some(node) if node.instance == self.who.instance => {
                if !self.who.knows_stream(&node) {
                    return Err(Refusal::Superseded { node: id.clone(), what: "work stream" });
                }
                // An advert that was overtaken says nothing new, and must not undo what came after it.
                if self.advert_no > node.advert_no {
                    self.refresh(fleet, cx, &node);
                }
            }
            Some(node) if self.replaces.contains(&node.instance) || !node.is_live(cx.now) => {
                self.replace(fleet, cx, &node);
            }
            Some(_) => return Err(Refusal::Superseded { node: id.clone(), what: "instance" }),
        }
        line::reservation::review(fleet, cx, Wake::AdvertOpened);
        line::promotion::scan(fleet, cx);
        self.reply(fleet, cx.now)
    }
}

impl Advert {
    /// The row as this advert wants it. A new instance has no stream.
    fn row(&self, stream: Option<StreamId>, cx: &Cx<'_>) -> Node {
        Node {
            id: self.who.node.clone(),
            rev: 0,
            label: self.label.clone(),
            instance: self.who.instance.clone(),
            stream,
            advert_no: self.advert_no,
            stopping: self.stopping,
            principal: self.who.principal.clone(),
            capabilities: self.capabilities.clone(),
            policy: self.policy.clone(),
            seen_at: cx.now,
            expires_at: self.expires_at(cx),
            agent_version: self.agent_version.clone(),
        }
    }

    fn expires_at(&self, cx: &Cx<'_>) -> Timestamp {
        if self.goodbye { cx.now } else { cx.now + cx.settings.horizon() }
    }

    /// The first advert of a node that nobody knows.
    fn join(&self, fleet: &mut Fleet, cx: &mut Cx<'_>) {
        fleet.put_node(self.row(None, cx), cx);
        cx.changes.event(EventKind::NodeJoined, None, Some(&self.who.node), json!({"drain": self.policy.drain}));
        self.open(fleet, cx);
    }

    /// An advert of another instance that may take over. Steps that it does not know are lost; what has
    /// ended and waits in its spool moves to it.
    fn replace(&self, fleet: &mut Fleet, cx: &mut Cx<'_>, old: &Node) {
        let id = &self.who.node;
        fleet.put_node(self.row(None, cx), cx);
        cx.changes.event(EventKind::NodeRestarted, None, Some(id), json!({"drain": self.policy.drain}));
        if let Some(run) = fleet.lease(id).map(|lease| lease.run.clone()) {
            self.take_over(fleet, cx, &run);
        }
        self.after_change(fleet, cx, old);
    }

    fn take_over(&self, fleet: &mut Fleet, cx: &mut Cx<'_>, run_id: &RunId) {
        let id = &self.who.node;
        let Some(run) = fleet.runs.get_mut(run_id) else { return };
        let Some(claimed) = run.claimed_on(id).map(|step| (step.seq, step.attempt)) else { return };
        if self.finished.contains(&(run_id.clone(), claimed.0, claimed.1)) {
            if let Some(attempt) = run.step_mut(claimed.0).and_then(|step| step.attempts.last_mut()) {
                attempt.instance = self.who.instance.clone();
            }
            cx.changes.attempts.insert((run_id.clone(), claimed.0, claimed.1));
        } else {
            course::lose_node(fleet, cx, run_id, id, Cause::NodeRestarted(id.clone()));
        }
    }

    /// A further advert of the instance that we know.
    fn refresh(&self, fleet: &mut Fleet, cx: &mut Cx<'_>, old: &Node) {
        let mut row = self.row(old.stream.clone(), cx);
        if !self.goodbye {
            // A mediator that stopped may have promised more than this one does, and a promise is kept.
            row.expires_at = row.expires_at.max(old.expires_at);
        }
        // What lives longer than others reckon with is theirs to know.
        let renewal = self.says_nothing_new(old) && old.is_live(cx.now) && cx.settings.restart_grace.is_none();
        if renewal {
            fleet.renew(&self.who.node, self.advert_no, row.expires_at, cx);
        } else {
            fleet.put_node(row, cx);
            self.note_change(cx, old);
        }
        self.after_change(fleet, cx, old);
        self.redeliver(fleet, cx);
    }

    /// Whether it says what the node's row says, but for the time and the advert's number.
    fn says_nothing_new(&self, old: &Node) -> bool {
        // Every field is named, so that a new one cannot be forgotten here.
        let Node {
            id: _,
            rev: _,
            label,
            instance,
            stream: _,
            advert_no: _,
            stopping,
            principal,
            capabilities,
            policy,
            seen_at: _,
            expires_at: _,
            agent_version,
        } = old;
        !self.goodbye
            && (&self.who.instance, &self.who.principal) == (instance, principal)
            && (&self.label, &self.capabilities, &self.policy) == (label, capabilities, policy)
            && (self.stopping, &self.agent_version) == (*stopping, agent_version)
    }

    fn note_change(&self, cx: &mut Cx<'_>, old: &Node) {
        let id = Some(&self.who.node);
        if old.policy.drain != self.policy.drain {
            let data = json!({"drain": self.policy.drain, "reason": self.policy.reason});
            cx.changes.event(EventKind::NodeDrain, None, id, data);
        }
        if self.stopping && !old.stopping {
            cx.changes.event(EventKind::NodeStopping, None, id, json!({}));
        }
        if self.goodbye {
            cx.changes.event(EventKind::NodeLeft, None, id, json!({}));
        } else if !old.is_live(cx.now) {
            cx.changes.event(EventKind::NodeReturned, None, id, json!({}));
        } else if old.capabilities != self.capabilities {
            cx.changes.event(EventKind::NodeChanged, None, id, json!({}));
        }
    }

    /// Renews the lease, applies the owner's word, and opens the node to the queue if it is lendable now and
    /// was not, or can do more than it could.
    fn after_change(&self, fleet: &mut Fleet, cx: &mut Cx<'_>, old: &Node) {
        let id = &self.who.node;
        // A goodbye leaves the lease to its horizon: a restart between two steps then loses nothing.
        if !self.goodbye {
            fleet.renew_lease(id, cx);
        }
        if self.policy.drain == Drain::AtBoundary {
            course::boundary(fleet, cx, id);
        }
        if !old.is_lendable(cx.now) || old.capabilities != self.capabilities {
            self.open(fleet, cx);
        }
        // What was held back by drain or stop may be claimed again.
        if !old.may_claim(cx.now) {
            cx.changes.work.insert(id.clone());
        }
    }

    fn open(&self, fleet: &mut Fleet, cx: &mut Cx<'_>) {
        if fleet.node(&self.who.node).is_some_and(|node| node.is_lendable(cx.now)) {
            cx.wake(Wake::AdvertOpened, &self.who.node);
        }
    }

    /// The level behind the edge: whatever became of the signal that told the node's stream of a step, the next
    /// heartbeat tells it again. A claimed step that the agent does not list never reached it; a ready one that
    /// nobody has claimed was never asked for.
    fn redeliver(&self, fleet: &Fleet, cx: &mut Cx<'_>) {
        let id = &self.who.node;
        let Some(run) = fleet.lease(id).and_then(|lease| fleet.runs.get(&lease.run)) else { return };
        let waits = match run.claimed_on(id) {
            Some(step) => {
                let known = (run.id.clone(), step.seq, step.attempt);
                !self.running.contains(&known) && !self.finished.contains(&known)
            }
            // What the mediator does itself for a Run that nobody has read yet begins with its first claim.
            None => run.ready().any(|step| !step.kind.is_executed() || run.node_of_step(step.seq) == Some(id)),
        };
        if waits {
            cx.changes.work.insert(id.clone());
        }
    }

    fn reply(&self, fleet: &Fleet, now: Timestamp) -> Result<AdvertReply, Refusal> {
        let id: &NodeId = &self.who.node;
        let node = fleet.node(id).ok_or_else(|| Refusal::NotFound(format!("node {id}")))?;
        let leases = fleet
            .lease(id)
            .filter(|lease| lease.holds(now) || fleet.is_exempt(lease))
            .map(|lease| (lease.run.clone(), lease.nonce));
        Ok(AdvertReply {
            rev: node.rev,
            leases: leases.into_iter().collect(),
            policy: node.policy.clone(),
            stream: node.stream.clone(),
        })
    }
}

/// An agent opens the work stream of a node: the newest wins.
#[derive(Debug, Clone)]
pub struct OpenWork {
    /// Who speaks; the streams it knows, the new one last.
    pub who: Speaker,
}

impl Decide for OpenWork {
    /// The stored stream id.
    type Answer = StreamId;

    fn touches(&self, _: &Fleet, _: Timestamp) -> Touches {
        Touches::new()
    }

    fn decide(&self, fleet: &mut Fleet, cx: &mut Cx<'_>) -> Result<StreamId, Refusal> {
        fleet.speaks(&self.who)?;
        let stream = self.who.streams.last().cloned().ok_or(Refusal::Stale("a work stream needs an id"))?;
        fleet.put_stream(&self.who.node, stream.clone(), cx);
        cx.changes.work.insert(self.who.node.clone());
        Ok(stream)
    }
}
