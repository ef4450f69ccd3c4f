//! A Run: a contract, where it stands, and its steps.

use std::{collections::BTreeSet, sync::Arc};

use super::{Assigned, Cause, Finding, Reject, Step, StepState, Verdict};
use crate::{
    NodeId, Principal, RunId, Seq, Timestamp, WorkId,
    contract::{Contract, RoleRef},
};

/// Where a Run stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RunState {
    /// Waits for nodes and holds nothing.
    Queued,
    /// Holds its nodes.
    Running,
    /// Every step has ended; being judged. Never outlives the transaction of its last report.
    Verifying,
    /// Ended as its contract wanted.
    Succeeded(Verdict),
    /// Ended otherwise.
    Failed(Verdict),
}

impl RunState {
    /// The word in the store, on the wire and on the screen.
    #[must_use]
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Queued => "QUEUED",
            Self::Running => "RUNNING",
            Self::Verifying => "VERIFYING",
            Self::Succeeded(_) => "SUCCEEDED",
            Self::Failed(_) => "FAILED",
        }
    }

    /// How it ended, if it has.
    #[must_use]
    pub const fn verdict(&self) -> Option<&Verdict> {
        match self {
            Self::Succeeded(verdict) | Self::Failed(verdict) => Some(verdict),
            Self::Queued | Self::Running | Self::Verifying => None,
        }
    }

    /// It has ended.
    #[must_use]
    pub const fn is_terminal(&self) -> bool {
        self.verdict().is_some()
    }
}

/// One Run with all its steps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Run {
    /// Its id.
    pub id: RunId,
    /// Who submitted it.
    pub principal: Principal,
    /// What was asked for.
    pub contract: Arc<Contract>,
    /// SHA-256 of the contract's canonical JSON, hex.
    pub contract_hash: Arc<str>,
    /// Where it stands.
    pub state: RunState,
    /// Its place in line, given once.
    pub place: i64,
    /// The nodes it was given; empty while it is queued.
    pub assigned: Vec<Assigned>,
    /// Why it was not taken.
    pub reject: Option<Reject>,
    /// What it is about.
    pub work_id: Option<WorkId>,
    /// How often it has started over.
    pub starts: u32,
    /// How many of those were losses.
    pub losses: u32,
    /// When it was submitted.
    pub created_at: Timestamp,
    /// When it ended.
    pub ended_at: Option<Timestamp>,
    /// Its steps by `seq`.
    pub steps: Vec<Step>,
}

impl Run {
    /// The node behind `ROLE[i]`.
    #[must_use]
    pub fn node_of(&self, uses: &RoleRef) -> Option<&NodeId> {
        self.assigned
            .iter()
            .filter(|assigned| assigned.role == uses.role)
            .nth(usize::try_from(uses.index).ok()?)
            .map(|assigned| &assigned.node)
    }

    /// The node that a step runs on.
    #[must_use]
    pub fn node_of_step(&self, seq: Seq) -> Option<&NodeId> {
        self.node_of(self.spec(seq)?.uses.as_ref()?)
    }

    /// A step's part of the contract.
    #[must_use]
    pub fn spec(&self, seq: Seq) -> Option<&crate::contract::Step> {
        self.contract.steps.get(usize::try_from(seq).ok()?)
    }

    /// A step.
    #[must_use]
    pub fn step(&self, seq: Seq) -> Option<&Step> {
        self.steps.get(usize::try_from(seq).ok()?)
    }

    pub(super) fn step_mut(&mut self, seq: Seq) -> Option<&mut Step> {
        self.steps.get_mut(usize::try_from(seq).ok()?)
    }

    /// The nodes it was given, each once.
    #[must_use]
    pub fn nodes(&self) -> BTreeSet<NodeId> {
        self.assigned.iter().map(|assigned| assigned.node.clone()).collect()
    }

    /// The step that is claimed on a node, if any.
    #[must_use]
    pub fn claimed_on(&self, node: &NodeId) -> Option<&Step> {
        self.steps.iter().find(|step| matches!(&step.state, StepState::Claimed { node: on, .. } if on == node))
    }

    /// Steps that may be claimed now: PENDING, and nothing to wait for, or all needs over and one of them done.
    pub fn ready(&self) -> impl Iterator<Item = &Step> {
        self.steps.iter().filter(|step| step.state == StepState::Pending && self.is_ready(step))
    }

    fn is_ready(&self, step: &Step) -> bool {
        let mut done = step.needs.is_empty();
        step.needs.iter().all(|need| match self.step(*need).map(|need| &need.state) {
            Some(StepState::Done { .. }) => {
                done = true;
                true
            }
            Some(StepState::Skipped { .. }) => true,
            _ => false,
        }) && done
    }

    /// Some step that is open, or that a loop may still reset, runs on this node.
    #[must_use]
    pub fn needs_node(&self, node: &NodeId) -> bool {
        let resettable = self.resettable();
        let mut on_node = self.steps.iter().filter(|step| self.node_of_step(step.seq) == Some(node));
        on_node.any(|step| step.is_open() || resettable.contains(&step.seq))
    }

    /// Nothing happens until a person answers, so that there is nothing to stop should a node fall silent: an ask
    /// is open, and no step is ready or claimed.
    #[must_use]
    pub fn waits_for_a_person(&self) -> bool {
        self.state == RunState::Running
            && self.steps.iter().any(|step| matches!(step.state, StepState::Asked { .. }))
            && !self.steps.iter().any(|step| matches!(step.state, StepState::Claimed { .. }))
            && self.ready().next().is_none()
    }

    /// Moves only by what happens elsewhere: an answer, or a node that comes free. Such a Run stays in memory.
    #[must_use]
    pub fn is_waiting(&self) -> bool {
        self.steps.iter().any(|step| matches!(step.state, StepState::Asked { .. } | StepState::Waiting))
    }

    /// Roles that were given back for good: no node is held for them any more.
    #[must_use]
    pub fn has_released(&self, role: &crate::RoleName) -> bool {
        self.steps.iter().any(|step| {
            matches!(step.state, StepState::Done { .. })
                && self.spec(step.seq).is_some_and(|spec| spec.release.contains(role))
        })
    }

    /// How its conditions look now. Empty when the contract has none.
    #[must_use]
    pub fn findings(&self) -> Vec<Finding> {
        super::verdict::findings(self)
    }

    /// The cause of its end, if it has ended.
    #[must_use]
    pub fn cause(&self) -> Option<&Cause> {
        self.state.verdict().map(|verdict| &verdict.cause)
    }
}
