//! A running Run whose node is not heard: what will end that, and when.

use shared::{
    NodeId, Timestamp,
    domain::{Fleet, Run, Settings},
};

use super::age;

/// The nodes that the Run holds and that have missed more than one advert, each with what comes of it.
pub(super) fn of<'a>(
    fleet: &'a Fleet,
    run: &'a Run,
    settings: &'a Settings,
    now: Timestamp,
) -> impl Iterator<Item = String> + 'a {
    run.nodes().into_iter().filter_map(move |node| one(fleet, run, &node, settings, now))
}

fn one(fleet: &Fleet, run: &Run, id: &NodeId, settings: &Settings, now: Timestamp) -> Option<String> {
    let node = fleet.node(id)?;
    let lease = fleet.lease(id).filter(|lease| lease.run == run.id)?;
    let silent = now.since(node.seen_at);
    // Of one advert that is late nobody needs to be told.
    if silent <= settings.renew * 2 && node.is_live(now) {
        return None;
    }
    let silent = age(silent);
    if fleet.is_exempt(lease) {
        return Some(format!(
            "{id} has not been heard for {silent}, which ends nothing while the run waits for a person"
        ));
    }
    let when = if lease.holds(now) {
        format!("when its lease ends in {}", age(lease.not_after.since(now)))
    } else {
        "at any moment, for its lease has ended".to_owned()
    };
    let (lost, retry) = (run.losses, run.contract.on_lost.retry);
    let then = if !run.needs_node(id) {
        "the run goes on without it".to_owned()
    } else if lost < retry {
        format!("the run starts over (on_lost: retry, {} of {retry})", lost + 1)
    } else {
        "the run ends as FAILED (lease_expired)".to_owned()
    };
    Some(format!("{id} has not been heard for {silent}: unless it comes back, {then} {when}"))
}
