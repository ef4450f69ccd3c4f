//! Is this machine drained? Pure.
//!
//! Yes means: the mediator's own view shows every node of this agent draining without a lease, in one snapshot
//! taken before the agent was asked, and the agent has acknowledged the drain and has no process of a Run. After
//! such a snapshot nothing can be granted, because only the owner's file releases.
//!
//! Where no agent answers, the mediator's view alone counts, and it must show that no agent speaks for the node:
//! its advert has expired, or it is not known at all. A live advert means that an agent runs somewhere where it
//! cannot be asked for its processes (another user's, another state folder), so that is waited out. An agent
//! that is stopped says goodbye and expires at once; one that was killed expires after the lease horizon. An agent
//! that starts later starts with the drain.

use shared::{Duration, NodeId, Timestamp, domain::Drain};

use super::super::remote::{Seen, View};
use crate::state::{AgentStatus, NodeStatus};

/// The agent on this machine.
#[derive(Debug, Clone)]
pub(super) enum Local {
    /// It answered.
    Running(Box<AgentStatus>),
    /// There is none, for certain.
    Absent,
    /// It cannot be asked.
    Unknown(String),
}

/// One thing that is in the way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Blocker {
    /// What it is. Compared to tell whether anything changed.
    pub(super) what: String,
    /// The Run behind it.
    pub(super) run_id: Option<String>,
    /// How long it has been so.
    pub(super) running_for: Option<Duration>,
}

impl Blocker {
    fn new(what: String) -> Self {
        Self { what, run_id: None, running_for: None }
    }
}

/// Everything that is in the way; nothing means drained.
pub(super) fn blockers(nodes: &[NodeId], want: Drain, view: &View, local: &Local, now: Timestamp) -> Vec<Blocker> {
    let mut found = Vec::new();
    if let Local::Unknown(why) = local {
        found.push(Blocker::new(why.clone()));
    }
    let unseen = Seen::default();
    for id in nodes {
        let seen = view.get(id).unwrap_or(&unseen);
        let own = match local {
            Local::Running(agent) => match agent.nodes.iter().find(|node| node.node_id == *id) {
                Some(own) => Some(own),
                None => {
                    found.push(Blocker::new(format!(
                        "{id}: the agent here (pid {}) does not have this node",
                        agent.pid
                    )));
                    None
                }
            },
            Local::Absent | Local::Unknown(_) => None,
        };
        found.extend(one(id, want, seen, own, matches!(local, Local::Absent), now));
    }
    found
}

fn one(
    id: &NodeId,
    want: Drain,
    seen: &Seen,
    own: Option<&NodeStatus>,
    absent: bool,
    now: Timestamp,
) -> Option<Blocker> {
    if let Some(run_id) = &seen.run_id {
        let step = own.and_then(|own| own.step.as_ref()).filter(|step| step.run_id.as_str() == run_id);
        let what = step.map_or_else(
            || format!("{id}: Run {run_id}, no step of it runs here now"),
            |step| format!("{id}: Run {run_id}, step {} (attempt {})", step.step_id, step.attempt),
        );
        let running_for = step.map(|step| now.since(step.started_at));
        return Some(Blocker { what, run_id: Some(run_id.clone()), running_for });
    }
    if absent {
        let why = "no agent answers here, but its last advert still counts; it expires unless the agent runs as another \
                   user or with another state_dir";
        return seen.live.then(|| Blocker::new(format!("{id}: {why}")));
    }
    if seen.drain < want {
        let why = match own.and_then(|own| own.superseded.as_ref()) {
            Some(why) => format!("another agent speaks for this node ({why})"),
            None => "the mediator does not show the drain yet".to_owned(),
        };
        return Some(Blocker::new(format!("{id}: {why}")));
    }
    let own = own?;
    if own.drain < want {
        return Some(Blocker::new(format!("{id}: the agent has not heard yet that the drain is acknowledged")));
    }
    if let Some(step) = &own.step {
        let what = format!("{id}: step {} of Run {} is still being ended", step.step_id, step.run_id);
        return Some(Blocker { what, run_id: None, running_for: Some(now.since(step.started_at)) });
    }
    own.live_processes.then(|| Blocker::new(format!("{id}: processes of a Run are still alive")))
}

/// The agent says that it cannot use the file and does not hold back what was asked for.
pub(super) fn policy_error(local: &Local, want: Drain) -> Option<String> {
    let Local::Running(agent) = local else { return None };
    let refused = agent.nodes.iter().find(|node| node.drain < want && !node.policy_error.is_empty());
    refused.map(|node| node.policy_error.clone())
}
