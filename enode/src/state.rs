//! The picture that `enode status` shows.

use serde::{Deserialize, Serialize};
use shared::{InstanceId, NodeId, RunId, StepName, Timestamp, domain::Drain};

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
    /// The owner's words.
    pub drain_reason: String,
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
