//! The reservation: what keeps a wide Run from starving behind a stream of narrow ones.
//!
//! There is at most one: for the oldest QUEUED Run that has waited long enough, needs several nodes, and could be
//! met by nodes that are live and lent. It is a fixed set of nodes that younger QUEUED Runs do not get. An acquire
//! is never held back, because its Run holds nodes while it waits. The set is drawn anew only when one of its
//! nodes stops being lendable, so that it gathers instead of wandering.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::{Place, limit::is_too_wide};
use crate::{
    NodeId, RunId, Timestamp,
    contract::Require,
    domain::{Cx, Fleet, Node, Wake, matching},
};

/// The one reservation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reservation {
    /// For whom.
    pub run: RunId,
    /// Its place in line.
    pub place: i64,
    /// What younger Runs do not get.
    pub nodes: BTreeSet<NodeId>,
}

/// Whether the reservation keeps this node from whoever stands at this place.
pub(super) fn holds_back(fleet: &Fleet, place: Place, node: &NodeId) -> bool {
    let reserved = fleet.reservation.as_ref().filter(|it| place.acquire.is_none() && place.run > it.place);
    reserved.is_some_and(|it| it.nodes.contains(node))
}

/// Ends or redraws the reservation where it no longer stands as it was made. Nodes that it lets go of count as
/// made lendable, under the given wake point.
pub(in crate::domain) fn review(fleet: &mut Fleet, cx: &mut Cx<'_>, wake: Wake) {
    let Some(reservation) = fleet.reservation.clone() else { return };
    let place = Place::of_run(reservation.place);
    let queued = fleet.queue.get(place).filter(|it| it.run == reservation.run);
    // The limit may have been lowered since.
    let queued = queued.filter(|it| !is_too_wide(fleet, cx.settings, place, it));
    let stands = reservation.nodes.iter().all(|id| fleet.node(id).is_some_and(|node| node.is_lendable(cx.now)));
    if queued.is_some() && stands {
        return;
    }
    let nodes = queued.and_then(|it| draw(fleet, &it.shape.requires, cx.now)).unwrap_or_default();
    for gone in reservation.nodes.difference(&nodes) {
        cx.wake(wake, gone);
    }
    fleet.reservation = (!nodes.is_empty()).then_some(Reservation { nodes, ..reservation });
    fleet.advance(cx);
}

/// Makes the reservation, where there is none and somebody has waited long enough.
pub(in crate::domain) fn establish(fleet: &mut Fleet, cx: &mut Cx<'_>) {
    if fleet.reservation.is_some() {
        return;
    }
    let since = cx.now - cx.settings.reserve_after;
    let wide = |requires: &[Require]| requires.iter().map(|it| it.count).fold(0u32, u32::saturating_add) > 1;
    // Runs of one shape stand or fall together, so the oldest of each speaks for all.
    let found = fleet.queue.heads(wide).into_iter().filter(|place| place.acquire.is_none()).find_map(|place| {
        let queued = fleet.queue.get(place).filter(|it| it.since <= since)?;
        if is_too_wide(fleet, cx.settings, place, queued) {
            return None;
        }
        let nodes = draw(fleet, &queued.shape.requires, cx.now)?;
        // Roles may share one node; a Run that needs only one waits in line like everybody.
        (nodes.len() > 1).then(|| Reservation { run: queued.run.clone(), place: place.run, nodes })
    });
    if found.is_some() {
        fleet.reservation = found;
        fleet.advance(cx);
    }
}

/// Nodes that would do, leased or not, free ones first.
fn draw(fleet: &Fleet, requires: &[Require], now: Timestamp) -> Option<BTreeSet<NodeId>> {
    let lendable = || fleet.live(now).filter(|node| node.is_lendable(now));
    let is_leased = |node: &&Node| fleet.lease(&node.id).is_some();
    let order: Vec<&Node> = lendable().filter(|it| !is_leased(it)).chain(lendable().filter(is_leased)).collect();
    let assigned = matching::assign(requires, order.iter().copied()).ok()?;
    Some(assigned.into_iter().map(|it| it.node).collect())
}
