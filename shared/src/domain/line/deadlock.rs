//! Deadlock: Runs that wait for nodes which only they themselves hold.
//!
//! Found, not waited out. Of the largest set of Runs that can move only by an acquire, where every such acquire
//! has nodes that would do and all of those are held by the set (or are free, but too few), the youngest gives way.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    NodeId, RunId, Seq, Timestamp,
    domain::{Fleet, Queued, Run, RunState, StepState, matching},
};

/// What can have shut somebody in since it was looked last. Few commands stir anything: most concern no acquire and no
/// node that one waits for.
#[derive(Debug, Default)]
pub(in crate::domain) struct Stirred {
    /// An acquire has joined, or what a node can do or may be used for is new.
    anything: bool,
    /// Runs of which a row changed while somebody's acquire stood in line.
    runs: BTreeSet<RunId>,
    /// Nodes whose lease came or went meanwhile.
    nodes: BTreeSet<NodeId>,
}

impl Stirred {
    pub(in crate::domain) const fn anything(&mut self) {
        self.anything = true;
    }

    pub(in crate::domain) fn run(&mut self, fleet: &Fleet, run: &RunId) {
        if fleet.queue.has_acquires() && !self.anything {
            self.runs.insert(run.clone());
        }
    }

    pub(in crate::domain) fn node(&mut self, fleet: &Fleet, node: &NodeId) {
        if fleet.queue.has_acquires() && !self.anything {
            self.nodes.insert(node.clone());
        }
    }

    /// Whether to look. Only Runs with an acquire in line can wait for each other. They come to do so when one of them
    /// comes to stand still, or when a node that one of them waits for is leased, given back or becomes another one.
    /// That an advert runs out is no command: the reaper looks each time.
    pub(super) fn is_due(&self, fleet: &Fleet) -> bool {
        let wants = |queued: &Queued| {
            let mut nodes = self.nodes.iter().filter_map(|id| fleet.node(id));
            nodes.any(|node| queued.shape.requires.iter().any(|it| matching::satisfies(&node.capabilities, it)))
        };
        let concerns = |queued: &Queued| self.runs.contains(&queued.run) || wants(queued);
        fleet.queue.has_acquires() && (self.anything || fleet.queue.acquires().any(|(_, queued)| concerns(queued)))
    }
}

/// A Run that stands still, and what it waits for.
struct Still {
    place: i64,
    /// For each of its waiting acquires the nodes that would do.
    wanted: Vec<(Seq, BTreeSet<NodeId>)>,
}

/// The acquire that gives way, if some Runs wait for each other.
pub(super) fn find(fleet: &Fleet, now: Timestamp) -> Option<(RunId, Seq)> {
    let mut set = standing_still(fleet, now);
    // Leave out whoever may yet be served by somebody outside the set.
    while let Some(out) = set.iter().find(|(_, still)| !is_shut_in(fleet, &set, still)).map(|(id, _)| id.clone()) {
        set.remove(&out);
    }
    // And whoever is in nobody's way.
    while let Some(out) = set.keys().find(|id| !is_in_the_way(fleet, &set, id)).cloned() {
        set.remove(&out);
    }
    let (run, youngest) = set.into_iter().max_by_key(|(_, still)| still.place)?;
    Some((run, youngest.wanted.first()?.0))
}

fn standing_still(fleet: &Fleet, now: Timestamp) -> BTreeMap<RunId, Still> {
    let runs: BTreeSet<&RunId> = fleet.queue.acquires().map(|(_, queued)| &queued.run).collect();
    runs.into_iter()
        .filter_map(|id| fleet.runs.get(id))
        .filter(|run| run.state == RunState::Running && stands_still(run))
        .map(|run| {
            let wanted = fleet
                .queue
                .acquires()
                .filter(|(_, queued)| queued.run == run.id)
                .filter_map(|(place, queued)| {
                    let require = queued.shape.requires.first()?;
                    let nodes = fleet
                        .live(now)
                        .filter(|node| node.is_lendable(now) && matching::satisfies(&node.capabilities, require))
                        .map(|node| node.id.clone());
                    Some((place.acquire?, nodes.collect()))
                })
                .collect();
            (run.id.clone(), Still { place: run.place, wanted })
        })
        .collect()
}

fn stands_still(run: &Run) -> bool {
    run.ready().next().is_none()
        && !run.steps.iter().any(|it| matches!(it.state, StepState::Claimed { .. } | StepState::Asked { .. }))
}

/// Every acquire has nodes that would do, and nobody outside the set holds one of them.
fn is_shut_in(fleet: &Fleet, set: &BTreeMap<RunId, Still>, still: &Still) -> bool {
    let held_inside = |node: &NodeId| fleet.lease(node).is_none_or(|lease| set.contains_key(&lease.run));
    still.wanted.iter().all(|(_, nodes)| !nodes.is_empty() && nodes.iter().all(held_inside))
}

/// It holds a node that somebody of the set waits for: another one, or it itself.
fn is_in_the_way(fleet: &Fleet, set: &BTreeMap<RunId, Still>, run: &RunId) -> bool {
    let wanted = set.values().flat_map(|still| &still.wanted).flat_map(|(_, nodes)| nodes);
    wanted.into_iter().any(|node| fleet.lease(node).is_some_and(|lease| lease.run == *run))
}

#[cfg(test)]
#[path = "deadlock_tests.rs"]
mod tests;
