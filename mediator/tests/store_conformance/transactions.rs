//! The fleet's lock, what a dropped transaction leaves, the log, snapshots.

use std::time::Duration;

use mediator::store::{ErrorKind, Store};
use shared::{
    NodeId, Nonce,
    domain::{Assigned, Attempt, Changes, EventKind, Fleet, FleetEvent, Lease, Place, RunState, Shape},
};

use crate::{
    round_trips::{node, run, write_all},
    support::{Bed, START},
};

on_both_engines!(
    dropped_leaves_nothing,
    the_lock_lets_one_in,
    waiting_for_the_lock_ends,
    a_caller_that_goes_away_leaves_nothing,
    after_a_failure_nothing_is_committed,
    events_have_no_gap,
    a_snapshot_does_not_move,
    nothing_is_read_when_nothing_changed,
    what_looks_expired_is_read_again,
    a_run_that_was_just_promoted_is_loaded_as_it_stands,
    a_changed_attempt_is_seen_by_others,
    a_renewal_raises_no_rev,
    a_lease_sets_no_times_back,
    a_read_that_is_given_up_leaves_no_snapshot_behind,
    futures_can_move_between_threads,
);

fn event(n: usize) -> FleetEvent {
    FleetEvent { kind: EventKind::RunQueued, run: None, node: None, data: serde_json::json!({ "n": n }) }
}

fn events(n: std::ops::Range<usize>) -> Changes {
    Changes { fleet: true, events: n.map(event).collect(), ..Changes::default() }
}

async fn dropped_leaves_nothing(bed: Bed) {
    let mut fleet = Fleet::default();
    (fleet.rev, fleet.next_place) = (1, 5);
    fleet.load_node(node("n"));
    let row = run("r", 2);
    fleet.runs.insert(row.id.clone(), row.clone());
    let mut changes = events(0..3);
    changes.nodes.insert(NodeId::new("n").unwrap());
    changes.new_runs.insert(row.id.clone());
    let mut tx = bed.store.begin_fleet().await.unwrap();
    tx.write(&fleet, &changes).await.unwrap();
    drop(tx);
    assert_eq!(bed.fresh_fleet().await, Fleet::default());
    let mut read = bed.store.read().await.unwrap();
    assert_eq!(read.last_event().await.unwrap(), 0);
    assert!(read.run(&row.id).await.unwrap().is_none());
    // And the lock is free.
    write_all(&bed, &mut Fleet::default()).await;
}

async fn the_lock_lets_one_in(bed: Bed) {
    let other = bed.second().await;
    let first = bed.store.begin_fleet().await.unwrap();
    let second = tokio::spawn(async move { other.begin_fleet().await.map(drop) });
    // It cannot come before the first one ends, however long that takes.
    let waited = tokio::time::timeout(Duration::from_millis(300), async {
        while !second.is_finished() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
    assert!(waited.await.is_err(), "two hold the lock");
    first.commit().await.unwrap();
    second.await.unwrap().unwrap();
}

/// A caller may go away in the middle of anything.
async fn a_caller_that_goes_away_leaves_nothing(bed: Bed) {
    let mut fleet = Fleet::default();
    fleet.load_node(node("n"));
    let changes = Changes { nodes: [NodeId::new("n").unwrap()].into(), ..Changes::default() };
    for polls in 0..40 {
        let mut work = Box::pin(async {
            let mut tx = bed.store.begin_fleet().await.unwrap();
            tx.sync(&mut Fleet::default()).await.unwrap();
            tx.write(&fleet, &changes).await.unwrap();
            // Never comes to its commit.
            std::future::pending::<()>().await;
        });
        for _ in 0..polls {
            let waited = tokio::time::timeout(Duration::from_micros(200), &mut work).await;
            assert!(waited.is_err());
        }
        drop(work);
    }
    assert_eq!(bed.fresh_fleet().await, Fleet::default());
    write_all(&bed, &mut fleet).await;
    assert_eq!(bed.fresh_fleet().await.nodes().count(), 1);
}

/// SQLite would commit what came before a statement that failed.
async fn after_a_failure_nothing_is_committed(bed: Bed) {
    let mut fleet = Fleet::default();
    fleet.load_node(node("n"));
    let row = run("r", 1);
    fleet.runs.insert(row.id.clone(), row.clone());
    write_all(&bed, &mut fleet).await;
    fleet.load_node(node("m"));
    let changes = Changes {
        nodes: [NodeId::new("m").unwrap()].into(),
        // It exists.
        new_runs: [row.id].into(),
        ..Changes::default()
    };
    let mut tx = bed.store.begin_fleet().await.unwrap();
    assert_eq!(tx.write(&fleet, &changes).await.unwrap_err().kind(), ErrorKind::Conflict);
    assert_eq!(tx.commit().await.unwrap_err().kind(), ErrorKind::Conflict);
    assert_eq!(bed.fresh_fleet().await.nodes().count(), 1);
}

async fn waiting_for_the_lock_ends(bed: Bed) {
    let other = bed.second().await;
    let _first = bed.store.begin_fleet().await.unwrap();
    let error = tokio::time::timeout(Duration::from_secs(20), other.begin_fleet()).await.unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(error.to_string().contains("locked"), "{error}");
    // One's own second transaction waits, too.
    let error = tokio::time::timeout(Duration::from_secs(20), bed.store.begin_fleet()).await.unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
}

async fn events_have_no_gap(bed: Bed) {
    let other = bed.second().await;
    let write = async |store: &Store, n: std::ops::Range<usize>, commits: bool| {
        let mut tx = store.begin_fleet().await.unwrap();
        tx.write(&Fleet::default(), &events(n.clone())).await.unwrap();
        tx.write(&Fleet::default(), &events(n.end..n.end + 1)).await.unwrap();
        if commits {
            tx.commit().await.unwrap();
        }
    };
    write(&bed.store, 0..3, true).await;
    write(&other, 4..5, false).await;
    write(&other, 4..1004, true).await;
    write(&bed.store, 1005..1005, true).await;
    let mut read = bed.store.read().await.unwrap();
    assert_eq!(read.last_event().await.unwrap(), 1006);
    let mut seen = vec![];
    while let Some(last) = read.events(seen.len() as i64, 100).await.unwrap().last().map(|it| it.seq) {
        let page = read.events(seen.len() as i64, 100).await.unwrap();
        assert!(page.len() <= 100 && page.last().unwrap().seq == last);
        seen.extend(page);
    }
    for (n, event) in seen.iter().enumerate() {
        assert_eq!((event.seq, &event.data), (n as i64 + 1, &serde_json::json!({ "n": n })));
        assert_eq!((event.kind.as_str(), &event.run_id, &event.node_id), ("run.queued", &None, &None));
    }
    assert_eq!(seen.len(), 1006);
}

async fn a_snapshot_does_not_move(bed: Bed) {
    let mut read = bed.store.read().await.unwrap();
    let mut fleet = Fleet::default();
    fleet.load_node(node("n"));
    write_all(&bed, &mut fleet).await;
    assert!(read.nodes().await.unwrap().is_empty());
    let mut later = bed.store.read().await.unwrap();
    assert_eq!(later.nodes().await.unwrap().len(), 1);
    assert!(later.now() >= read.now());
    if bed.is_sqlite() {
        assert_eq!(read.now(), START);
    }
}

async fn nothing_is_read_when_nothing_changed(bed: Bed) {
    let mut fleet = Fleet::default();
    fleet.load_node(node("n"));
    write_all(&bed, &mut fleet).await;
    let mut cached = bed.fresh_fleet().await;
    // Behind the store's back, without a new rev: a program that trusts its memory does not see it.
    bed.sql("UPDATE nodes SET label = 'other', expires_at = 9000000000000").await;
    let mut tx = bed.store.begin_fleet().await.unwrap();
    tx.sync(&mut cached).await.unwrap();
    assert_eq!(cached.node(&NodeId::new("n").unwrap()).unwrap().label, "left bench");
}

/// Another mediator on the same PostgreSQL has renewed what looks expired here. That raises no rev.
async fn what_looks_expired_is_read_again(bed: Bed) {
    let now = bed.store.read().await.unwrap().now();
    let mut fleet = Fleet::default();
    let (mut row, holder) = (node("n"), run("r", 1));
    row.expires_at = now;
    let id = row.id.clone();
    let lease =
        Lease { node: id.clone(), run: holder.id.clone(), nonce: Nonce::from_bits(1), granted_at: now, not_after: now };
    fleet.load_node(row);
    fleet.load_lease(&id, Some(lease));
    fleet.runs.insert(holder.id.clone(), holder);
    write_all(&bed, &mut fleet).await;
    let mut cached = bed.fresh_fleet().await;
    bed.sql("UPDATE nodes SET expires_at = 9000000000000, seen_at = 5, advert_no = 99").await;
    bed.sql("UPDATE leases SET not_after = 9000000000001").await;
    let mut tx = bed.store.begin_fleet().await.unwrap();
    tx.sync(&mut cached).await.unwrap();
    let (node, lease) = (cached.node(&id).unwrap(), cached.lease(&id).unwrap());
    let times = (node.expires_at.millis(), node.advert_no, lease.not_after.millis());
    if bed.is_sqlite() {
        assert_eq!(times, (now.millis(), 7, now.millis()), "there is no other mediator");
    } else {
        assert_eq!(times, (9_000_000_000_000, 99, 9_000_000_000_001));
    }
}

/// Of two commands in one transaction the first promotes a Run without its contract, the second needs all of it.
async fn a_run_that_was_just_promoted_is_loaded_as_it_stands(bed: Bed) {
    let mut fleet = Fleet::default();
    let mut row = run("r", 1);
    row.state = RunState::Queued;
    fleet.queue.insert(Place::of_run(row.place), row.id.clone(), Shape::new(&row.contract.requires), row.created_at);
    fleet.runs.insert(row.id.clone(), row.clone());
    fleet.load_node(node("n"));
    write_all(&bed, &mut fleet).await;

    let mut fleet = Fleet::default();
    let mut tx = bed.store.begin_fleet().await.unwrap();
    tx.sync(&mut fleet).await.unwrap();
    row.assigned = vec![Assigned { role: "a".parse().unwrap(), node: "n".parse().unwrap() }];
    row.state = RunState::Running;
    fleet.queue.remove(Place::of_run(row.place));
    fleet.rev += 1;
    let promoted = [(row.id.clone(), (row.assigned.clone(), fleet.rev))].into();
    let mut changes = Changes { fleet: true, promoted_unloaded: promoted, ..Changes::default() };
    tx.load_runs(&mut fleet, &[row.id.clone()].into(), &changes).await.unwrap();
    assert_eq!(fleet.runs[&row.id], row);
    // And written once more, as the second command leaves it.
    changes.steps.insert((row.id.clone(), 0));
    tx.write(&fleet, &changes).await.unwrap();
    tx.commit().await.unwrap();
    let (got, _) = bed.store.read().await.unwrap().run(&row.id).await.unwrap().unwrap();
    assert_eq!(got, row);
}

/// A restarted agent takes over an attempt: nothing of the Run's own row moves, yet whoever has the Run in
/// memory must read it again.
async fn a_changed_attempt_is_seen_by_others(bed: Bed) {
    let mut fleet = Fleet::default();
    let mut row = run("r", 2);
    let attempt = Attempt {
        number: 1,
        starts: 0,
        node: "n".parse().unwrap(),
        instance: "i1".parse().unwrap(),
        nonce: Nonce::from_bits(1),
        claimed_at: START,
        answer: None,
    };
    row.steps[1].attempts.push(attempt.clone());
    fleet.runs.insert(row.id.clone(), row.clone());
    write_all(&bed, &mut fleet).await;
    let mut following = bed.fresh_fleet().await;
    following.runs.insert(row.id.clone(), row.clone());

    row.steps[1].attempts[0].instance = "i2".parse().unwrap();
    fleet.runs.insert(row.id.clone(), row.clone());
    fleet.rev += 1;
    let mut tx = bed.store.begin_fleet().await.unwrap();
    let attempts = [(row.id.clone(), 1, 1)].into();
    tx.write(&fleet, &Changes { fleet: true, attempts, ..Changes::default() }).await.unwrap();
    tx.commit().await.unwrap();
    let mut tx = bed.store.begin_fleet().await.unwrap();
    tx.sync(&mut following).await.unwrap();
    tx.load_runs(&mut following, &[row.id.clone()].into(), &Changes::default()).await.unwrap();
    assert_eq!(following.runs[&row.id], row);
}

async fn a_renewal_raises_no_rev(bed: Bed) {
    let mut fleet = Fleet::default();
    fleet.load_node(node("n"));
    write_all(&bed, &mut fleet).await;
    let mut row = node("n");
    (row.seen_at, row.expires_at, row.advert_no, row.label) =
        (row.seen_at + shared::Duration::from_secs(5), row.expires_at + shared::Duration::from_secs(5), 8, "no".into());
    fleet.load_node(row.clone());
    let changes = Changes { renewed: [row.id.clone()].into(), ..Changes::default() };
    let mut tx = bed.store.begin_fleet().await.unwrap();
    tx.write(&fleet, &changes).await.unwrap();
    tx.commit().await.unwrap();
    let got = bed.fresh_fleet().await;
    assert_eq!(got.rev, 1);
    row.label = "left bench".to_owned();
    assert_eq!(got.node(&row.id), Some(&row), "only the times move");
}

/// A lease that comes or goes says nothing about what the agent has said to another mediator meanwhile.
async fn a_lease_sets_no_times_back(bed: Bed) {
    let mut fleet = Fleet::default();
    let id = NodeId::new("n").unwrap();
    fleet.load_node(node("n"));
    write_all(&bed, &mut fleet).await;
    let mut cached = bed.fresh_fleet().await;
    bed.sql("UPDATE nodes SET expires_at = 9000000000000, seen_at = 5, advert_no = 99").await;
    let mut tx = bed.store.begin_fleet().await.unwrap();
    tx.sync(&mut cached).await.unwrap();
    let mut row = cached.node(&id).unwrap().clone();
    (row.rev, row.stream) = (row.rev + 1, Some("s9".parse().unwrap()));
    cached.load_node(row);
    let touched = Changes { touched: [id.clone()].into(), ..Changes::default() };
    tx.write(&cached, &touched).await.unwrap();
    tx.commit().await.unwrap();
    let got = bed.fresh_fleet().await;
    let row = got.node(&id).unwrap();
    assert_eq!((row.expires_at.millis(), row.advert_no), (9_000_000_000_000, 99));
    assert_eq!(row.stream, Some("s9".parse().unwrap()));
    // And whoever speaks is known exactly, where another mediator can have heard it.
    let mut tx = bed.store.begin_fleet().await.unwrap();
    tx.sync(&mut cached).await.unwrap();
    tx.catch_up(&mut cached, [&id].into()).await.unwrap();
    assert_eq!(cached.node(&id).unwrap().advert_no, if bed.is_sqlite() { node("n").advert_no } else { 99 });
}

/// A caller that hangs up in the middle leaves the connection without its snapshot.
async fn a_read_that_is_given_up_leaves_no_snapshot_behind(bed: Bed) {
    let mut fleet = Fleet::default();
    fleet.load_node(node("n"));
    write_all(&bed, &mut fleet).await;
    for patience in (0..600).map(|round| round * 7 % 800) {
        let patience = async {
            for _ in 0..patience {
                tokio::task::yield_now().await;
            }
        };
        tokio::select! {
            biased;
            () = patience => {}
            read = async { bed.store.read().await?.nodes().await } => assert_eq!(read.unwrap().len(), 1),
        }
        // In a transaction that nobody knows of this would take a snapshot for all who come after it.
        bed.store.unsealed().await.unwrap();
    }
    bed.sql("UPDATE nodes SET label = 'new'").await;
    for _ in 0..20 {
        let nodes = bed.store.read().await.unwrap().nodes().await.unwrap();
        assert_eq!(nodes[0].label, "new");
    }
}

async fn futures_can_move_between_threads(bed: Bed) {
    let store = bed.store.clone();
    let work = async move {
        let mut fleet = Fleet::default();
        let mut tx = store.begin_fleet().await?;
        tx.sync(&mut fleet).await?;
        tx.load_runs(&mut fleet, &["r".parse().unwrap()].into(), &Changes::default()).await?;
        tx.write(&fleet, &Changes::default()).await?;
        tx.commit().await?;
        let mut read = store.read().await?;
        read.run(&"r".parse().unwrap()).await?;
        read.runs(&mediator::store::RunFilter { limit: 1, ..Default::default() }).await?;
        read.fleet().await?;
        read.artifacts(&"r".parse().unwrap()).await?;
        store.unsealed().await?;
        store.list_tokens().await
    };
    tokio::spawn(work).await.unwrap().unwrap();
}
