//! The reaper, and the two scans that belong to no event.

use super::{Cause, Cx, Decide, Fleet, Refusal, Touches, Wake, promotion, settle};
use crate::{NodeId, RunId, Timestamp};

/// Ends what holds a lease that has run out. Conditional on "still expired" in this very transaction.
#[derive(Debug, Clone, Copy)]
pub struct Reap;

impl Decide for Reap {
    /// How many leases had run out.
    type Answer = usize;

    fn touches(&self, fleet: &Fleet, now: Timestamp) -> Touches {
        fleet.leases().filter(|lease| !lease.holds(now)).map(|lease| lease.run.clone()).collect()
    }

    fn goes_on_without(&self) -> bool {
        true
    }

    fn decide(&self, fleet: &mut Fleet, cx: &mut Cx<'_>) -> Result<usize, Refusal> {
        fleet.reaped_at = Some(cx.now);
        cx.changes.reaped = true;
        let expired: Vec<(NodeId, RunId)> = fleet
            .leases()
            .filter(|lease| !lease.holds(cx.now))
            .map(|lease| (lease.node.clone(), lease.run.clone()))
            .collect();
        for (node, run) in &expired {
            // Losing one node may have ended the Run, and with it the leases on the others.
            if fleet.lease(node).is_some_and(|lease| lease.run == *run) {
                settle::lose_node(fleet, cx, run, node, Cause::LeaseExpired(node.clone()));
            }
        }
        promotion::scan_opened(fleet, cx);
        Ok(expired.len())
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
                promotion::scan_all(fleet, cx, Wake::Startup);
            }
            Self::Sweep => promotion::scan_all(fleet, cx, Wake::Sweep),
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
