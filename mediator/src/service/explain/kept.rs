//! The reservation, as those see it who wait: what is kept from a Run, and what is kept for one.

use std::collections::BTreeSet;

use shared::{
    NodeId, Timestamp,
    domain::{Fleet, Run, Wake, satisfies},
};

use super::some;

/// What ends a reservation, likeliest first.
pub(super) const WAKES: [Wake; 3] = [Wake::RunSettled, Wake::RunCancelled, Wake::AdvertOpened];

/// Free nodes that a queued Run could use and does not get, in words.
pub(super) fn from(fleet: &Fleet, run: &Run, now: Timestamp) -> Option<String> {
    let reservation = fleet.reservation.as_ref().filter(|it| run.place > it.place)?;
    let wanted = |node: &&shared::domain::Node| {
        run.contract.requires.iter().any(|require| satisfies(&node.capabilities, require))
    };
    let nodes: Vec<String> = fleet
        .free(now)
        .filter(|node| reservation.nodes.contains(&node.id))
        .filter(wanted)
        .map(|node| node.id.to_string())
        .collect();
    let verb = if nodes.len() == 1 { "is" } else { "are" };
    (!nodes.is_empty()).then(|| {
        format!(
            "{} {verb} free and kept for run {}, which is older and gathers {} nodes",
            some(&nodes),
            reservation.run,
            reservation.nodes.len()
        )
    })
}

/// What is kept for this Run, in words.
pub(super) fn for_it(fleet: &Fleet, run: &Run) -> Option<String> {
    let reservation = fleet.reservation.as_ref().filter(|it| it.run == run.id)?;
    let names = |nodes: &BTreeSet<NodeId>| some(&nodes.iter().map(ToString::to_string).collect::<Vec<_>>());
    let free = reservation.nodes.iter().filter(|node| fleet.lease(node).is_none()).count();
    Some(format!("{} are kept for it, {free} of them free already", names(&reservation.nodes)))
}
