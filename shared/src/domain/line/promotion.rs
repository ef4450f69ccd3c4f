//! The scan: which waiting Runs run now.
//!
//! Only a Run that can use a node which this transaction made lendable can have become runnable, because
//! before it no waiting Run was (I7). So shapes that cannot use an opened node are not tested at all, and of
//! the others only the oldest Run; when it is served, the next of its shape takes its turn. The scan goes
//! through the whole line, skips what cannot run now and goes on: a wide Run never blocks a narrow one.

use std::collections::BTreeSet;

use crate::NodeId;
use crate::domain::{Assigned, Cx, EventKind, Fleet, Promotion, RunState, Wake, matching};

/// Scans for the nodes that this command opened, if any, under the lowest wake point that applies.
pub(in crate::domain) fn scan_opened(fleet: &mut Fleet, cx: &mut Cx<'_>) {
    let Some(wake) = cx.wake.take() else { return };
    let opened = std::mem::take(&mut cx.opened);
    let usable: Vec<&NodeId> = opened
        .iter()
        .filter(|id| fleet.node(id).is_some_and(|node| node.is_lendable(cx.now) && !fleet.is_busy(node)))
        .collect();
    let heads = fleet.queue.heads(|requires| {
        requires.iter().any(|require| {
            usable.iter().filter_map(|id| fleet.node(id)).any(|node| matching::satisfies(&node.capabilities, require))
        })
    });
    serve(fleet, cx, heads, wake);
}

/// Scans the whole line: at the start, and by the sweep.
pub(in crate::domain) fn scan_all(fleet: &mut Fleet, cx: &mut Cx<'_>, wake: Wake) {
    let heads = fleet.queue.heads(|_| true);
    serve(fleet, cx, heads, wake);
}

/// Scans for one shape only: a Run of it has just joined the line.
pub(in crate::domain) fn scan_shape(fleet: &mut Fleet, cx: &mut Cx<'_>, shape: &str) {
    let heads = fleet.queue.head_of(shape).into_iter().collect();
    serve(fleet, cx, heads, Wake::Submitted);
}

fn serve(fleet: &mut Fleet, cx: &mut Cx<'_>, mut heads: BTreeSet<i64>, wake: Wake) {
    while let Some(place) = heads.pop_first() {
        let Some(queued) = fleet.queue.get(place) else { continue };
        let shape = queued.shape.clone();
        let width: u32 = shape.requires.iter().fold(0, |sum, require| sum.saturating_add(require.count));
        if cx.settings.max_per_run != 0 && width > cx.settings.max_per_run {
            continue;
        }
        // Freshness is looked at here, inside the transaction that grants.
        let Ok(assigned) = matching::assign(&shape.requires, fleet.free(cx.now)) else { continue };
        promote(fleet, cx, place, assigned, wake);
        heads.extend(fleet.queue.head_of(&shape.hash));
    }
}

fn promote(fleet: &mut Fleet, cx: &mut Cx<'_>, place: i64, assigned: Vec<Assigned>, wake: Wake) {
    let Some(queued) = fleet.queue.remove(place) else { return };
    let run = queued.run;
    fleet.grant(&run, &assigned, cx);
    cx.changes.event(
        EventKind::RunPromoted,
        Some(&run),
        None,
        serde_json::json!({"wake": wake.as_str(), "assigned": assigned}),
    );
    cx.changes.promotions.push(Promotion { run: run.clone(), wake });
    fleet.touch_run(&run, cx);
    if let Some(loaded) = fleet.runs.get_mut(&run) {
        loaded.state = RunState::Running;
        loaded.assigned = assigned;
    } else {
        // Its contract stays in the store: only these columns change.
        cx.changes.runs.remove(&run);
        cx.changes.promoted_unloaded.insert(run, (assigned, fleet.rev));
    }
}

/// Whether some waiting Run could run now: what must never be true between two commands (I7).
pub(in crate::domain) fn first_runnable(fleet: &Fleet, now: crate::Timestamp, max_per_run: u32) -> Option<i64> {
    fleet.queue.heads(|_| true).into_iter().find(|place| {
        fleet.queue.get(*place).is_some_and(|queued| {
            let width: u32 = queued.shape.requires.iter().fold(0, |sum, it| sum.saturating_add(it.count));
            (max_per_run == 0 || width <= max_per_run)
                && matching::assign(&queued.shape.requires, fleet.free(now)).is_ok()
        })
    })
}
