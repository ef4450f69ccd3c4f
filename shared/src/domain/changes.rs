//! What a command is given, and what it leaves behind.
//!
//! [`Changes`] is a unit of work: it names rows, not values. The store writes each named row once, as it then
//! stands in the [`Fleet`]. Notices (`work`, `stop`, `sealed`, `promotions`) are acted on after the commit.

use std::collections::{BTreeMap, BTreeSet};

use super::{Artifact, AskChange, Fleet, Place, Wake, line};
use crate::{Duration, NodeId, Nonce, Principal, RunId, Seq, Timestamp};

/// A source of fresh random ids.
pub trait Ids {
    /// 128 fresh random bits.
    fn nonce(&mut self) -> Nonce;
}

/// The numbers that decisions depend on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// How often an agent adverts.
    pub renew: Duration,
    /// A lease and an advert live this many intervals.
    pub factor: u32,
    /// Most nodes one Run may hold; 0 = no limit.
    pub max_per_run: u32,
    /// A Run that needs several nodes and has waited this long gets them reserved.
    pub reserve_after: Duration,
    /// Set while the mediator stops on purpose: an advert that it still answers lives at least this long.
    pub restart_grace: Option<Duration>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            renew: Duration::from_secs(10),
            factor: 6,
            max_per_run: 0,
            reserve_after: Duration::from_secs(300),
            restart_grace: None,
        }
    }
}

impl Settings {
    /// How long an advert and a renewed lease live.
    #[must_use]
    pub fn horizon(&self) -> Duration {
        let normal = self.renew * self.factor;
        self.restart_grace.map_or(normal, |grace| grace.max(normal))
    }
}

/// A command that the fleet obeys or refuses.
pub trait Decide {
    /// What the caller is told.
    type Answer;

    /// The Runs that must be loaded into the fleet before [`Decide::decide`].
    fn touches(&self, fleet: &Fleet, now: Timestamp) -> Touches;

    /// The node that says something about itself. What it last said must be known exactly: another mediator may have
    /// heard it.
    fn hears(&self) -> Option<&NodeId> {
        None
    }

    /// Whether it says nothing new as far as this fleet knows, so that its answer can wait a moment until others share its
    /// commit. A hint: what it decides does not depend on it.
    fn may_wait(&self, _: &Fleet) -> bool {
        false
    }

    /// Whether it goes on where a Run that it touches exists and cannot be read. A command about nodes must:
    /// one bad row may not keep a machine from its owner, or the reaper from all others.
    fn goes_on_without(&self) -> bool {
        false
    }

    /// Changes the fleet, or refuses and leaves it as it was.
    ///
    /// # Errors
    /// [`Refusal`], and then nothing has changed.
    fn decide(&self, fleet: &mut Fleet, cx: &mut Cx<'_>) -> Result<Self::Answer, Refusal>;
}

/// Ids of Runs a command reads.
pub type Touches = BTreeSet<RunId>;

/// Why a command was not obeyed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The node belongs to another principal.
    #[error("node {0} belongs to another principal; use the token that first advertised it, or another name")]
    ForeignNode(NodeId),
    /// The node's stored row cannot be read, so nobody can tell who may speak for it.
    #[error(
        "the stored row of node {0} cannot be read; the mediator's log names the column: mend the row, or delete \
         it"
    )]
    Unreadable(NodeId),
    /// Another instance or stream speaks for the node.
    #[error("another {what} speaks for node {node}; this one waits until that one's advert has expired")]
    Superseded {
        /// Which node.
        node: NodeId,
        /// `instance` or `work stream`.
        what: &'static str,
    },
    /// No present lease with this nonce.
    #[error("stale: {0}")]
    Stale(&'static str),
    /// The run id is taken.
    #[error("run {0} exists with another contract or submitter; choose another run id")]
    RunExists(RunId),
    /// Nobody is asked, or nobody any more.
    #[error("this question is not open: {0}")]
    NotAsked(String),
    /// The contract names others.
    #[error("you are {by}, and the contract lets only {answerers} answer this question")]
    NotAnAnswerer {
        /// Who tried.
        by: Principal,
        /// Who may, with commas between.
        answerers: String,
    },
    /// The answer leads nowhere.
    #[error("this answer does not do: {0}")]
    BadAnswer(String),
    /// No such thing.
    #[error("there is no {0}")]
    NotFound(String),
}

impl Refusal {
    /// Somebody whom the contract does not name.
    #[must_use]
    pub fn not_an_answerer<'p>(by: &Principal, may: impl IntoIterator<Item = &'p Principal>) -> Self {
        let answerers = may.into_iter().map(Principal::as_str).collect::<Vec<_>>().join(", ");
        Self::NotAnAnswerer { by: by.clone(), answerers }
    }
}

/// One event of the audit log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FleetEvent {
    /// What happened.
    pub kind: EventKind,
    /// To which Run.
    pub run: Option<RunId>,
    /// On which node.
    pub node: Option<NodeId>,
    /// Details, as a JSON object. Never a nonce or a principal.
    pub data: serde_json::Value,
}

/// What can happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the words say it")]
pub enum EventKind {
    RunQueued,
    RunRejected,
    RunPromoted,
    RunVerifying,
    RunStartedOver,
    RunRewound,
    RunClosed,
    StepWaiting,
    StepAsked,
    StepClaimed,
    StepEnded,
    LeaseGranted,
    LeaseReleased,
    NodeJoined,
    NodeReturned,
    NodeRestarted,
    NodeChanged,
    NodeDrain,
    NodeStopping,
    NodeLeft,
}

impl EventKind {
    /// The word in the log.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::RunQueued => "run.queued",
            Self::RunRejected => "run.rejected",
            Self::RunPromoted => "run.promoted",
            Self::RunVerifying => "run.verifying",
            Self::RunStartedOver => "run.started_over",
            Self::RunRewound => "run.rewound",
            Self::RunClosed => "run.closed",
            Self::StepWaiting => "step.waiting",
            Self::StepAsked => "step.asked",
            Self::StepClaimed => "step.claimed",
            Self::StepEnded => "step.ended",
            Self::LeaseGranted => "lease.granted",
            Self::LeaseReleased => "lease.released",
            Self::NodeJoined => "node.joined",
            Self::NodeReturned => "node.returned",
            Self::NodeRestarted => "node.restarted",
            Self::NodeChanged => "node.changed",
            Self::NodeDrain => "node.drain",
            Self::NodeStopping => "node.stopping",
            Self::NodeLeft => "node.left",
        }
    }
}

/// Somebody in line was served: a queued Run got its nodes, or a Run that had waited got what it acquires.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Promotion {
    /// Which.
    pub run: RunId,
    /// At which wake point.
    pub wake: Wake,
}

/// Rows that differ from the store, and who must be told after the commit.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Changes {
    /// Nodes whose row must be written whole.
    pub nodes: BTreeSet<NodeId>,
    /// Nodes of which only `rev` and `stream` are new: a lease came or went, or a stream was opened. Their other columns
    /// are their agent's word, which another mediator may have heard since.
    pub touched: BTreeSet<NodeId>,
    /// Nodes of which only `seen_at`, `expires_at` and `advert_no` moved.
    pub renewed: BTreeSet<NodeId>,
    /// Nodes whose lease row must be written, or deleted where the fleet has none.
    pub leases: BTreeSet<NodeId>,
    /// Runs that are new.
    pub new_runs: BTreeSet<RunId>,
    /// Runs whose row must be written.
    pub runs: BTreeSet<RunId>,
    /// Steps whose row must be written.
    pub steps: BTreeSet<(RunId, Seq)>,
    /// Attempts whose row must be written.
    pub attempts: BTreeSet<(RunId, Seq, u32)>,
    /// Questions that opened or closed, in order.
    pub asks: Vec<AskChange>,
    /// Outputs that the mediator itself has stored.
    pub artifacts: Vec<Artifact>,
    /// Queued Runs that were promoted without being loaded, with the rev they now have.
    pub promoted_unloaded: BTreeMap<RunId, (Vec<super::Assigned>, i64)>,
    /// The fleet row itself moved (rev, place).
    pub fleet: bool,
    /// The reaper has been here.
    pub reaped: bool,
    /// Appended to the audit log, in order.
    pub events: Vec<FleetEvent>,

    /// Notice: there may be something to claim here.
    pub work: BTreeSet<NodeId>,
    /// Notice: this lease went while it was in use.
    pub stop: Vec<(NodeId, RunId, Nonce, i64)>,
    /// Notice: these Runs ended and are to be sealed.
    pub sealed: BTreeSet<RunId>,
    /// Notice: promotions by wake point.
    pub promotions: Vec<Promotion>,
}

impl Changes {
    /// Notes an event.
    pub(super) fn event(
        &mut self,
        kind: EventKind,
        run: Option<&RunId>,
        node: Option<&NodeId>,
        data: serde_json::Value,
    ) {
        self.events.push(FleetEvent { kind, run: run.cloned(), node: node.cloned(), data });
    }

    /// Nothing is to be written.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        !self.fleet && !self.reaped && self.renewed.is_empty()
    }

    /// The rows have been written; the notices stay.
    pub fn clear_rows(&mut self) {
        let notices = std::mem::take(self);
        self.work = notices.work;
        self.stop = notices.stop;
        self.sealed = notices.sealed;
        self.promotions = notices.promotions;
    }
}

/// What a command sees of the world.
pub struct Cx<'a> {
    /// The store's clock.
    pub now: Timestamp,
    /// The numbers in force.
    pub settings: &'a Settings,
    /// What has to be written and told.
    pub changes: &'a mut Changes,
    ids: &'a mut dyn Ids,
    /// Nodes that this command made lendable.
    pub(super) opened: BTreeSet<NodeId>,
    /// Why the queue must be scanned.
    pub(super) wake: Option<Wake>,
    /// Places that this command put in line, or of which it made one the head.
    pub(super) joined: BTreeSet<Place>,
    /// Acquires that do not wait.
    pub(super) impatient: BTreeSet<Place>,
    /// What has changed since it was looked last whether Runs wait for each other.
    pub(super) stirred: line::Stirred,
}

impl<'a> Cx<'a> {
    /// The context of one command.
    pub fn new(now: Timestamp, settings: &'a Settings, ids: &'a mut dyn Ids, changes: &'a mut Changes) -> Self {
        Self {
            now,
            settings,
            changes,
            ids,
            opened: BTreeSet::new(),
            wake: None,
            joined: BTreeSet::new(),
            impatient: BTreeSet::new(),
            stirred: line::Stirred::default(),
        }
    }

    pub(super) fn nonce(&mut self) -> Nonce {
        self.ids.nonce()
    }

    /// This node may be lendable now: the queue must be scanned for it, under this name or a lower one.
    pub(super) fn wake(&mut self, wake: Wake, node: &NodeId) {
        self.opened.insert(node.clone());
        self.wake = Some(self.wake.map_or(wake, |other| other.min(wake)));
    }
}

impl Fleet {
    /// Applies one command. Every command that changes anything has a `rev` of its own.
    ///
    /// # Errors
    /// What [`Decide::decide`] refuses.
    pub fn apply<D: Decide>(&mut self, command: &D, cx: &mut Cx<'_>) -> Result<D::Answer, Refusal> {
        let answer = command.decide(self, cx)?;
        debug_assert!(cx.wake.is_none() && cx.joined.is_empty(), "a command opened a node and did not scan");
        line::promotion::scan(self, cx);
        Ok(answer)
    }
}
