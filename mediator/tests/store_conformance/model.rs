//! The store against the domain: whatever happens to a fleet, a program that starts anew sees the same fleet,
//! and so does one that follows along.

use proptest::{prelude::*, test_runner::TestRunner};
use shared::domain::{Changes, Fleet, Touches};

use crate::{
    support::Bed,
    world::{Op, World, ops},
};

/// A group of commands that commit together, or not at all.
#[derive(Debug, Clone)]
struct Group {
    ops: Vec<Op>,
    commits: bool,
}

fn groups() -> impl Strategy<Value = Vec<Group>> {
    let group = (prop::collection::vec(ops(), 1..8), prop::bool::weighted(0.85));
    prop::collection::vec(group.prop_map(|(ops, commits)| Group { ops, commits }), 1..14)
}

async fn play(bed: &Bed, groups: Vec<Group>) -> Result<(), TestCaseError> {
    let follower = bed.second().await;
    let (mut fleet, mut following) = (Fleet::default(), Fleet::default());
    let mut world = World::new(crate::support::START);
    for Group { ops, commits } in groups {
        let mut tx = bed.store.begin_fleet().await.unwrap();
        tx.sync(&mut fleet).await.unwrap();
        let known = world.runs.len();
        let mut changes = Changes::default();
        for op in &ops {
            world.happen(op, &mut fleet, &mut changes, &mut tx).await;
        }
        tx.write(&fleet, &changes).await.unwrap();
        if commits {
            tx.commit().await.unwrap();
        } else {
            drop(tx);
            world.runs.truncate(known);
            fleet = Fleet::default();
        }
        // Runs that ended may be forgotten at any time.
        if world.runs.len().is_multiple_of(3) {
            fleet.forget_idle_runs();
        }
        if !commits {
            continue;
        }
        let all: Touches = world.runs.iter().map(|(run, _)| run.clone()).collect();

        let mut tx = follower.begin_fleet().await.unwrap();
        tx.sync(&mut following).await.unwrap();
        let kept = following.runs.len();
        let bad = tx.load_runs(&mut following, &all, &Changes::default()).await.unwrap();
        prop_assert!(bad.is_empty(), "{:?}", bad);
        prop_assert!(kept <= following.runs.len());
        drop(tx);

        let mut fresh = Fleet::default();
        let mut tx = bed.store.begin_fleet().await.unwrap();
        tx.sync(&mut fresh).await.unwrap();
        tx.load_runs(&mut fresh, &all, &Changes::default()).await.unwrap();
        // The writer's own memory holds some of the Runs only; with all of them it must be the same.
        let mut own = fleet.clone();
        tx.load_runs(&mut own, &all, &Changes::default()).await.unwrap();
        drop(tx);
        prop_assert_eq!(&fresh, &own, "a fresh start sees another fleet");
        // A plain renewal raises no rev: until a node changes otherwise, its times are a lower bound.
        let mut seen = following.clone();
        for node in own.nodes() {
            let mut row = seen.node(&node.id).unwrap().clone();
            prop_assert!(row.expires_at <= node.expires_at && row.advert_no <= node.advert_no);
            (row.seen_at, row.expires_at, row.advert_no) = (node.seen_at, node.expires_at, node.advert_no);
            seen.load_node(row);
        }
        for lease in own.leases() {
            let mut row = seen.lease(&lease.node).unwrap().clone();
            prop_assert!(row.not_after <= lease.not_after);
            row.not_after = lease.not_after;
            seen.load_lease(&lease.node, Some(row));
        }
        prop_assert_eq!(&seen, &own, "a follower sees another fleet");
    }
    Ok(())
}

fn run(cases: u32, bed: fn() -> futures::future::BoxFuture<'static, Bed>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let config = ProptestConfig { cases, failure_persistence: None, max_shrink_iters: 400, ..Default::default() };
    TestRunner::new(config)
        .run(&groups(), |groups| {
            runtime.block_on(async {
                let bed = bed().await;
                play(&bed, groups).await
            })
        })
        .unwrap_or_else(|error| panic!("{error}"));
}

#[test]
fn what_is_written_is_what_is_loaded_on_sqlite() {
    run(96, || Box::pin(Bed::sqlite()));
}

#[test]
fn what_is_written_is_what_is_loaded_on_postgres() {
    // Keeps the server up from case to case.
    let _server = tests::postgres::Database::fresh().unwrap();
    run(24, || Box::pin(Bed::postgres()));
}
