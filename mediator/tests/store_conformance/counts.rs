//! What the database counts for the gauges.

use mediator::store::Counts;
use shared::{
    Duration, NodeId, Nonce, RunId,
    domain::{Drain, Fleet, Lease, Place, RunState, Shape},
};

use crate::{
    round_trips::{node, run, write_all},
    support::Bed,
};

on_both_engines!(an_empty_fleet, d12_every_node_counts_once);

async fn counts(bed: &Bed) -> Counts {
    bed.store.read().await.unwrap().counts().await.unwrap()
}

async fn an_empty_fleet(bed: Bed) {
    assert_eq!(counts(&bed).await, Counts::default());
}

async fn d12_every_node_counts_once(bed: Bed) {
    let mut fleet = Fleet::default();
    let now = bed.store.read().await.unwrap().now();
    let later = now + Duration::from_secs(600);
    for (id, drain, stopping, live, held) in [
        ("free", Drain::None, false, true, false),
        ("drains", Drain::Graceful, false, true, false),
        ("stops", Drain::None, true, true, false),
        ("gone", Drain::AtBoundary, true, false, false),
        ("one", Drain::None, false, true, true),
        ("two", Drain::AtBoundary, false, true, true),
        ("three", Drain::None, false, false, true),
    ] {
        let mut row = node(id);
        (row.policy.drain, row.stopping) = (drain, stopping);
        row.expires_at = if live { later } else { now };
        fleet.load_node(row);
        if held {
            let node = NodeId::new(id).unwrap();
            let run = RunId::new(if id == "one" { "r" } else { "q" }).unwrap();
            let lease =
                Lease { node: node.clone(), run, nonce: Nonce::from_bits(7), granted_at: now, not_after: later };
            fleet.load_lease(&node, Some(lease));
        }
    }
    for (name, state) in [("r", RunState::Running), ("q", RunState::Running), ("w", RunState::Queued)] {
        let mut row = run(name, 1);
        row.state = state;
        if row.state == RunState::Queued {
            fleet.queue.insert(
                Place::of_run(row.place),
                row.id.clone(),
                Shape::new(&row.contract.requires),
                row.created_at,
            );
        }
        fleet.runs.insert(row.id.clone(), row);
    }
    write_all(&bed, &mut fleet).await;
    let expected = Counts { free: 1, busy: 3, draining: 2, expired: 1, leases: 3, queued: 1, running: 2, unsealed: 0 };
    assert_eq!(counts(&bed).await, expected);
}
