//! The scan: which waiting Runs run now, and which waiting acquires are served.
//!
//! Only who can use a node that this transaction made lendable can have become runnable, because before it nobody
//! was (I7). So shapes that cannot use an opened node are not tested at all, and of the others only the oldest;
//! when it is served, the next of its shape takes its turn. The scan goes through the whole line, skips what
//! cannot run now and goes on: a wide Run never blocks a narrow one.
//!
//! Serving an acquire lets its Run go on, which may free nodes or put others in line. So the scan goes on until
//! nothing has changed, under the one name that the command gave it.

use std::collections::BTreeSet;

use super::{Place, Queued, deadlock, limit::is_too_wide, reservation};
use crate::{
    NodeId, RunId, Seq, Timestamp,
    domain::{Assigned, Cx, EventKind, FailReason, Fleet, Promotion, RunState, Settings, Wake, course, matching},
};

/// Serves whoever the nodes that this command opened, or the places that it put in line, make it possible to.
pub(in crate::domain) fn scan(fleet: &mut Fleet, cx: &mut Cx<'_>) {
    let mut name = None;
    loop {
        let heads = heads(fleet, cx);
        name = name.into_iter().chain(cx.wake.take()).min();
        serve(fleet, cx, heads, name);
        // Whoever has joined meanwhile, and what was freed, is looked at before anybody is turned away.
        if !cx.joined.is_empty() || !cx.opened.is_empty() || turn_away(fleet, cx) {
            continue;
        }
        // The reaper looks even where nothing has changed: an advert that has run out can be what shuts them in.
        let is_due = std::mem::take(&mut cx.stirred).is_due(fleet) || cx.changes.reaped;
        let Some((run, seq)) = is_due.then(|| deadlock::find(fleet, cx.now)).flatten() else { break };
        course::end_acquire(fleet, cx, &run, seq, FailReason::Deadlock);
        // Others may wait for each other, too.
        cx.stirred.anything();
    }
}

/// Scans the whole line: at the start, and by the sweep.
pub(in crate::domain) fn scan_all(fleet: &mut Fleet, cx: &mut Cx<'_>, wake: Wake) {
    let heads = fleet.queue.heads(|_| true);
    serve(fleet, cx, heads, Some(wake));
    scan(fleet, cx);
}

/// Whom this command can have made runnable, oldest first.
fn heads(fleet: &Fleet, cx: &mut Cx<'_>) -> BTreeSet<Place> {
    let mut heads = std::mem::take(&mut cx.joined);
    let opened = std::mem::take(&mut cx.opened);
    let usable: Vec<&NodeId> = opened
        .iter()
        .filter(|id| fleet.node(id).is_some_and(|node| node.is_lendable(cx.now) && !fleet.is_busy(node)))
        .collect();
    if !usable.is_empty() {
        heads.extend(fleet.queue.heads(|requires| {
            requires.iter().any(|require| {
                let mut nodes = usable.iter().filter_map(|id| fleet.node(id));
                nodes.any(|node| matching::satisfies(&node.capabilities, require))
            })
        }));
    }
    heads
}

/// `wake` is none where somebody has only just joined the line.
fn serve(fleet: &mut Fleet, cx: &mut Cx<'_>, mut heads: BTreeSet<Place>, wake: Option<Wake>) {
    while let Some(place) = heads.pop_first() {
        let Some(queued) = fleet.queue.get(place).cloned() else { continue };
        // Freshness is looked at here, inside the transaction that grants.
        let Some(assigned) = fits(fleet, cx.settings, cx.now, place, &queued) else { continue };
        match place.acquire {
            None => promote(fleet, cx, place, assigned, wake.unwrap_or(Wake::Submitted)),
            Some(seq) => {
                cx.impatient.remove(&place);
                if let Some(wake) = wake {
                    cx.changes.promotions.push(Promotion { run: queued.run.clone(), wake });
                }
                course::acquired(fleet, cx, &queued.run, seq, assigned);
            }
        }
        heads.extend(fleet.queue.head_of(&queued.shape.hash));
        if !cx.opened.is_empty() {
            // Serving this one freed others, perhaps for somebody older who was not among these.
            cx.joined.append(&mut heads);
        }
    }
}

/// The nodes that whoever stands here would get now.
fn fits(fleet: &Fleet, settings: &Settings, now: Timestamp, place: Place, queued: &Queued) -> Option<Vec<Assigned>> {
    if is_too_wide(fleet, settings, place, queued) {
        return None;
    }
    let free = fleet.free(now).filter(|node| !reservation::holds_back(fleet, place, &node.id));
    matching::assign(&queued.shape.requires, free).ok()
}

/// Ends the acquires that do not wait and got nothing, and those that no waiting would help.
fn turn_away(fleet: &mut Fleet, cx: &mut Cx<'_>) -> bool {
    let impatient = std::mem::take(&mut cx.impatient);
    let gone: Vec<(RunId, Seq)> = fleet
        .queue
        .acquires()
        .filter(|(place, queued)| impatient.contains(place) || is_too_wide(fleet, cx.settings, *place, queued))
        .filter_map(|(place, queued)| Some((queued.run.clone(), place.acquire?)))
        .collect();
    for (run, seq) in &gone {
        course::end_acquire(fleet, cx, run, *seq, FailReason::Unavailable);
    }
    !gone.is_empty()
}

fn promote(fleet: &mut Fleet, cx: &mut Cx<'_>, place: Place, assigned: Vec<Assigned>, wake: Wake) {
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
        course::proceed(fleet, cx, &run);
    } else {
        // Its contract stays in the store: only these columns change. What the mediator does for it itself begins
        // with the first claim, which reads it.
        cx.changes.runs.remove(&run);
        cx.changes.promoted_unloaded.insert(run, (assigned, fleet.rev));
    }
    reservation::review(fleet, cx, wake);
}

/// Whether somebody who waits could be served now: what must never be true between two commands (I7).
pub(in crate::domain) fn first_runnable(fleet: &Fleet, settings: &Settings, now: Timestamp) -> Option<Place> {
    fleet.queue.heads(|_| true).into_iter().find(|place| {
        let queued = fleet.queue.get(*place);
        queued.is_some_and(|queued| fits(fleet, settings, now, *place, queued).is_some())
    })
}
