//! What losing a node means to a Run: one function decides for drain, loss and restart alike whether the Run can go on
//! without it.

use super::{proceed, start_over::start_over};
use crate::{
    NodeId, RunId,
    contract::OnDrain,
    domain::{Cause, Cx, Drain, Fleet, Wake, settle},
};

/// A Run loses a node, for whatever reason. If no step can still need it, the node is given back and the Run goes
/// on; otherwise the Run starts over, where its contract allows that, or ends.
pub(in crate::domain) fn lose_node(fleet: &mut Fleet, cx: &mut Cx<'_>, id: &RunId, node: &NodeId, cause: Cause) {
    let Some(run) = fleet.runs.get(id) else {
        // Its row could not be read. The node is the owner's: it goes back, the row is left for a person.
        return fleet.release(node, settle::wake_of(&cause), cx);
    };
    let is_drain = matches!(cause, Cause::Drain(_));
    if !run.needs_node(node) {
        // What the reaper or a restart takes is theirs by name, also where the Run goes on without it.
        let wake = if is_drain { Wake::PartialRelease } else { settle::wake_of(&cause) };
        fleet.release(node, wake, cx);
        // A Run that was promoted without being read has not begun its own steps, and this may be the last that
        // anybody hears of it.
        return proceed(fleet, cx, id);
    }
    let starts_over =
        if is_drain { run.contract.on_drain == OnDrain::Requeue } else { run.losses < run.contract.on_lost.retry };
    if starts_over {
        start_over(fleet, cx, id, &cause, settle::wake_of(&cause));
    } else {
        settle::close(fleet, cx, id, cause, false);
    }
}

/// The owner's word at a boundary: an at-boundary node with a lease and nothing claimed is taken back at once,
/// so that an idle lease can never hang.
pub(in crate::domain) fn boundary(fleet: &mut Fleet, cx: &mut Cx<'_>, node: &NodeId) {
    let at_boundary = fleet.node(node).is_some_and(|node| node.policy.drain == Drain::AtBoundary);
    let Some(lease) = fleet.lease(node).filter(|_| at_boundary) else { return };
    let run = lease.run.clone();
    if fleet.runs.get(&run).is_none_or(|run| run.claimed_on(node).is_none()) {
        lose_node(fleet, cx, &run, node, Cause::Drain(node.clone()));
    }
}
