//! The picture of one node, for people.

use rustix::process::Pid;
use shared::RunId;

use super::Node;
use crate::state::{CurrentStatus, LeaseStatus, NodeStatus, ReasonStatus};
use crate::work::strays;

impl Node {
    /// For people.
    #[must_use]
    pub fn status(&self) -> NodeStatus {
        // Looked at before the lock: it may wait for a program that is being started.
        let unclaimed = strays::unclaimed();
        let inner = self.lock();
        let policy = inner.core.policy();
        let each = inner.reasons();
        let reasons = each.each(&inner.standing.owner).map(|(source, held)| ReasonStatus {
            source: source.as_str().to_owned(),
            drain: held.drain,
            reason: held.text,
            since: held.since,
        });
        let lease = inner.core.lease().map(|run: &RunId| LeaseStatus { run_id: run.clone() });
        NodeStatus {
            node_id: self.id.clone(),
            instance: inner.identity.instance.clone(),
            accepted: inner.core.is_accepted(),
            superseded: inner.core.superseded().map(str::to_owned),
            drain: policy.drain,
            drain_reason: policy.reason.clone(),
            reasons: reasons.collect(),
            lease,
            step: inner.current.as_ref().map(|it| CurrentStatus {
                run_id: it.key.run.clone(),
                step_id: it.step.clone(),
                attempt: it.key.attempt,
                started_at: it.started_at,
                pid: it.group.map(Pid::as_raw_pid),
            }),
            live_processes: inner.stuck.is_some()
                || inner.current.as_ref().is_some_and(|it| it.alive.is_some())
                || unclaimed,
            spooled: u32::try_from(inner.core.finished().count()).unwrap_or(u32::MAX),
            last_advert_at: inner.last_advert_at,
            policy_error: inner.policy_error.clone(),
        }
    }
}
