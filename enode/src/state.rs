//! The agent as a whole: its nodes, whether it was told to stop, and the picture that `enode status` shows.

use std::{
    collections::BTreeSet,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use serde::{Deserialize, Serialize};
use shared::{InstanceId, NodeId, RunId, StepName, Timestamp, domain::Drain};
use tokio::sync::watch;

use crate::session::node::Node;

/// How far the agent has been told to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// It works.
    Working,
    /// What runs may end.
    Stopping,
    /// Nothing may run any more.
    Killing,
    /// The last adverts say goodbye.
    Goodbye,
}

/// Shared by all parts of the agent.
#[derive(Debug)]
pub struct AgentState {
    name: String,
    nodes: Vec<Arc<Node>>,
    stage: watch::Sender<Stage>,
    connected: AtomicBool,
    mediator: Mutex<String>,
    /// Mediators that have given the last adverts no answer, since one was answered.
    silent: watch::Sender<BTreeSet<String>>,
}

impl AgentState {
    /// An agent with these nodes.
    #[must_use]
    pub fn new(name: &str, nodes: Vec<Arc<Node>>) -> Arc<Self> {
        Arc::new(Self {
            name: name.to_owned(),
            nodes,
            stage: watch::Sender::new(Stage::Working),
            connected: AtomicBool::new(false),
            mediator: Mutex::new(String::new()),
            silent: watch::Sender::new(BTreeSet::new()),
        })
    }

    /// Its nodes.
    #[must_use]
    pub fn nodes(&self) -> &[Arc<Node>] {
        &self.nodes
    }

    /// How far it was told to stop.
    #[must_use]
    pub fn stage(&self) -> Stage {
        *self.stage.borrow()
    }

    /// Follows the stage.
    #[must_use]
    pub fn stages(&self) -> watch::Receiver<Stage> {
        self.stage.subscribe()
    }

    /// Goes on to a later stage, never back; every node adverts it at once.
    pub fn enter(&self, stage: Stage) {
        let changed = self.stage.send_if_modified(|now| {
            let later = stage > *now;
            *now = stage.max(*now);
            later
        });
        if changed {
            if stage == Stage::Stopping {
                // Who was silent before may be back: what counts is what is said from now on.
                self.silent.send_modify(BTreeSet::clear);
            }
            self.nodes.iter().for_each(|node| node.advert_now.notify_one());
        }
    }

    /// Whether the last advert was answered, and by whom.
    pub fn heard(&self, mediator: &str, answered: bool) {
        self.connected.store(answered, Ordering::Relaxed);
        let mut name = self.mediator.lock().unwrap_or_else(PoisonError::into_inner);
        if *name != mediator {
            mediator.clone_into(&mut name);
        }
    }

    /// Whether a mediator gave an advert no answer.
    pub fn silence(&self, mediator: &str, is_silent: bool) {
        self.silent.send_if_modified(|silent| match is_silent {
            true => silent.insert(mediator.to_owned()),
            false => !std::mem::take(silent).is_empty(),
        });
    }

    /// Nobody is there to be told anything, and nothing is here to tell: none of so many mediators answers, no Run holds a
    /// node, nothing runs, and every result is acknowledged.
    #[must_use]
    pub fn is_left_alone(&self, mediators: usize) -> bool {
        let owes = |node: &Arc<Node>| node.has_lease() || !node.is_idle() || !node.outbox.is_empty();
        self.silent.borrow().len() >= mediators && !self.nodes.iter().any(owes)
    }

    /// Waits for that.
    pub async fn left_alone(&self, mediators: usize) {
        let mut silent = self.silent.subscribe();
        while !self.is_left_alone(mediators) {
            if silent.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    /// The picture now.
    #[must_use]
    pub fn status(&self) -> AgentStatus {
        AgentStatus {
            name: self.name.clone(),
            pid: std::process::id(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            mediator: self.mediator.lock().unwrap_or_else(PoisonError::into_inner).clone(),
            connected: self.connected.load(Ordering::Relaxed),
            stopping: self.stage() > Stage::Working,
            nodes: self.nodes.iter().map(|node| node.status()).collect(),
        }
    }
}

/// What the status socket answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentStatus {
    /// Name of the agent.
    pub name: String,
    /// Its process.
    pub pid: u32,
    /// Its version.
    pub version: String,
    /// The mediator in use.
    pub mediator: String,
    /// The last advert was answered.
    pub connected: bool,
    /// It was told to stop.
    pub stopping: bool,
    /// Its nodes.
    pub nodes: Vec<NodeStatus>,
}

/// One node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeStatus {
    /// Its id.
    pub node_id: NodeId,
    /// The process life that speaks for it.
    pub instance: InstanceId,
    /// The mediator has accepted that life.
    pub accepted: bool,
    /// Why the node is idle, if another speaks for it.
    pub superseded: Option<String>,
    /// The acknowledged policy.
    pub drain: Drain,
    /// Why, all reasons in one line.
    pub drain_reason: String,
    /// Each reason not to lend this node by itself, as this machine has it now.
    #[serde(default)]
    pub reasons: Vec<ReasonStatus>,
    /// The lease as the mediator last named it.
    pub lease: Option<LeaseStatus>,
    /// The step under way.
    pub step: Option<CurrentStatus>,
    /// A process of a Run is alive.
    pub live_processes: bool,
    /// Results that are not acknowledged.
    pub spooled: u32,
    /// When an advert was last accepted.
    pub last_advert_at: Option<Timestamp>,
    /// Why the policy file could not be used; empty when all is well.
    pub policy_error: String,
}

/// One reason not to lend a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReasonStatus {
    /// Whose it is: `owner`, `disk`, `quarantine`, `stuck`. Only who brings one can take it away.
    pub source: String,
    /// How strongly.
    pub drain: Drain,
    /// For people.
    pub reason: String,
    /// Since when.
    pub since: Option<Timestamp>,
}

/// A lease, without its permit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeaseStatus {
    /// Whose.
    pub run_id: RunId,
}

/// A step under way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CurrentStatus {
    /// The Run.
    pub run_id: RunId,
    /// The step.
    pub step_id: StepName,
    /// The execution.
    pub attempt: u32,
    /// Since when.
    pub started_at: Timestamp,
    /// Its process group, once there is one.
    pub pid: Option<i32>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_is_alone_before_every_mediator_was_silent_since_the_order_to_stop() {
        let agent = AgentState::new("a", Vec::new());
        agent.silence("one", true);
        agent.silence("two", true);
        assert!(agent.is_left_alone(2));
        agent.enter(Stage::Stopping);
        assert!(!agent.is_left_alone(2), "they may be back");
        agent.silence("one", true);
        assert!(!agent.is_left_alone(2) && agent.is_left_alone(1));
        agent.silence("two", true);
        agent.enter(Stage::Goodbye);
        assert!(agent.is_left_alone(2));
        agent.silence("one", false);
        assert!(!agent.is_left_alone(1), "one answers");
    }
}
