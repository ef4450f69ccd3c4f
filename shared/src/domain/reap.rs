//! The reaper, and the two scans that belong to no event.

use super::{Cause, Cx, Decide, FailReason, Fleet, Refusal, RunState, Step, StepState, Touches, Wake, course, line};
use crate::{NodeId, RunId, Seq, Timestamp};

/// What time alone brings about: questions and acquires whose time is over, leases that have run out, nodes that
/// fell silent, and a reservation for whoever has waited long. Each conditional on "still so" in this very
/// transaction.
#[derive(Debug, Clone, Copy)]
pub struct Reap;

impl Decide for Reap {
    /// How many leases had run out.
    type Answer = usize;

    fn touches(&self, fleet: &Fleet, now: Timestamp) -> Touches {
        // Runs with a question or a waiting acquire are in memory always.
        fleet.leases().filter(|lease| !lease.holds(now)).map(|lease| lease.run.clone()).collect()
    }

    fn goes_on_without(&self) -> bool {
        true
    }

    fn decide(&self, fleet: &mut Fleet, cx: &mut Cx<'_>) -> Result<usize, Refusal> {
        fleet.reaped_at = Some(cx.now);
        cx.changes.reaped = true;
        for (run, seq) in overdue(fleet, cx.now) {
            end_overdue(fleet, cx, &run, seq);
        }
        let expired: Vec<(NodeId, RunId)> = fleet
            .leases()
            .filter(|lease| !lease.holds(cx.now) && !fleet.is_exempt(lease))
            .map(|lease| (lease.node.clone(), lease.run.clone()))
            .collect();
        for (node, run) in &expired {
            // Losing one node may have ended the Run, and with it the leases on the others.
            let still = fleet.lease(node).is_some_and(|lease| lease.run == *run && !lease.holds(cx.now));
            if still {
                course::lose_node(fleet, cx, run, node, Cause::LeaseExpired(node.clone()));
            }
        }
        line::reservation::review(fleet, cx, Wake::LeaseExpired);
        line::promotion::scan(fleet, cx);
        line::reservation::establish(fleet, cx);
        Ok(expired.len())
    }
}

/// Steps that wait for a person or for a node and may do so no longer.
fn overdue(fleet: &Fleet, now: Timestamp) -> Vec<(RunId, Seq)> {
    let waits = |step: &&Step| matches!(step.state, StepState::Asked { .. } | StepState::Waiting);
    let steps = fleet.runs.values().filter(|run| run.state == RunState::Running).flat_map(|run| {
        let late = run.steps.iter().filter(waits).filter(|step| step.deadline.is_some_and(|it| it <= now));
        late.map(|step| (run.id.clone(), step.seq))
    });
    steps.collect()
}

fn end_overdue(fleet: &mut Fleet, cx: &mut Cx<'_>, id: &RunId, seq: Seq) {
    // An earlier one may have ended the Run.
    let Some(step) = fleet.runs.get(id).and_then(|run| run.step(seq)) else { return };
    match step.state {
        StepState::Waiting => course::end_acquire(fleet, cx, id, seq, FailReason::Unavailable),
        StepState::Asked { .. } => course::withdraw(fleet, cx, id, seq),
        _ => {}
    }
}

/// A scan of the whole line that no event asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rescan {
    /// Once, before serving. A mediator that was away longer than two intervals, with nobody else there to
    /// renew, gives one full horizon to whatever had not run out when the reaper was here last: the silence
    /// was its own.
    Startup,
    /// Now and then. What it promotes, a wake point has missed.
    Sweep,
}

impl Decide for Rescan {
    type Answer = ();

    fn touches(&self, _: &Fleet, _: Timestamp) -> Touches {
        Touches::new()
    }

    fn decide(&self, fleet: &mut Fleet, cx: &mut Cx<'_>) -> Result<(), Refusal> {
        match self {
            Self::Startup => {
                revive_after_outage(fleet, cx);
                line::reservation::review(fleet, cx, Wake::Startup);
                line::promotion::scan_all(fleet, cx, Wake::Startup);
            }
            Self::Sweep => line::promotion::scan_all(fleet, cx, Wake::Sweep),
        }
        Ok(())
    }
}

fn revive_after_outage(fleet: &mut Fleet, cx: &mut Cx<'_>) {
    let Some(reaped_at) = fleet.reaped_at else { return };
    let silent_since = cx.now - cx.settings.renew * 2;
    if reaped_at >= silent_since || fleet.nodes().any(|node| node.seen_at >= silent_since) {
        return;
    }
    let ids: Vec<NodeId> = fleet.nodes().map(|node| node.id.clone()).collect();
    for id in ids {
        fleet.revive(&id, reaped_at, cx);
    }
}

impl Fleet {
    /// One full horizon for an advert and a lease that had not run out at `since`.
    fn revive(&mut self, id: &NodeId, since: Timestamp, cx: &mut Cx<'_>) {
        let until = cx.now + cx.settings.horizon();
        if let Some(node) = self.node(id).filter(|node| node.expires_at > since) {
            let mut node = node.clone();
            node.expires_at = node.expires_at.max(until);
            self.put_node(node, cx);
        }
        if let Some(lease) = self.lease(id).filter(|lease| lease.not_after > since) {
            let mut lease = lease.clone();
            lease.not_after = lease.not_after.max(until);
            self.load_lease(id, Some(lease));
            cx.changes.leases.insert(id.clone());
        }
    }
}
