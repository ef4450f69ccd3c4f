//! What a commit costs: the number of statements does not depend on the number of rows.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex},
};

use shared::{
    Timestamp,
    domain::{Changes, Fleet, Touches},
};
use tracing_subscriber::{Layer, layer::SubscriberExt};

use crate::{
    support::Bed,
    world::{Op, World},
};

on_both_engines!(d05_a_group_costs_what_one_costs);

/// Statements by name.
#[derive(Clone, Default)]
struct Seen(Arc<Mutex<BTreeMap<String, u32>>>);

impl<S: tracing::Subscriber> Layer<S> for Seen {
    fn on_event(&self, event: &tracing::Event<'_>, _: tracing_subscriber::layer::Context<'_, S>) {
        struct Name(String);
        impl tracing::field::Visit for Name {
            fn record_debug(&mut self, field: &tracing::field::Field, value: &dyn std::fmt::Debug) {
                if field.name() == "query" {
                    self.0 = format!("{value:?}").replace('"', "");
                }
            }
        }
        if event.metadata().target() == "mediator::store::sql" {
            let mut name = Name(String::new());
            event.record(&mut name);
            *self.0.lock().unwrap().entry(name.0).or_default() += 1;
        }
    }
}

impl Seen {
    fn take(&self) -> BTreeMap<String, u32> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

async fn group(bed: &Bed, world: &mut World, fleet: &mut Fleet, ops: &[Op]) {
    let mut tx = bed.store.begin_fleet().await.unwrap();
    tx.sync(fleet).await.unwrap();
    let mut changes = Changes::default();
    for op in ops {
        world.happen(op, fleet, &mut changes, &mut tx).await;
    }
    tx.write(fleet, &changes).await.unwrap();
    tx.commit().await.unwrap();
}

fn adverts() -> Vec<Op> {
    let advert = |node| Op::Advert {
        node,
        drain: shared::domain::Drain::None,
        stopping: false,
        goodbye: false,
        restart: false,
        more: true,
    };
    (0..4).map(advert).collect()
}

/// A server plans most statements once, for tables that are empty then. They fill up, and the plan stays.
#[tokio::test]
async fn no_statement_reads_a_table_that_has_grown_from_one_end_to_the_other() {
    const RUNS: usize = 300;
    let bed = Bed::postgres().await;
    let mut world = World::new(Timestamp::from_millis(4_102_444_800_000));
    let mut fleet = Fleet::default();
    group(&bed, &mut world, &mut fleet, &adverts()).await;
    for _ in 0..RUNS / 2 {
        let work = (0..4).flat_map(|node| [Op::Claim { node }, Op::Report { node, exit: 0, pick: 0 }]);
        let ops: Vec<Op> = [Op::Submit { contract: 3 }, Op::Submit { contract: 3 }].into_iter().chain(work).collect();
        group(&bed, &mut world, &mut fleet, &ops).await;
        fleet.forget_idle_runs();
    }
    let stored = BTreeSet::from_iter(world.runs.iter().map(|(run, _)| run.clone()));
    assert_eq!(bed.store.read().await.unwrap().whole_runs(&stored).await.unwrap().len(), RUNS);
    let read = "SELECT sum(n_tup_ins), sum(seq_tup_read) FROM pg_stat_user_tables WHERE relname IN ('runs', 'steps', 'attempts')";
    // A connection tells now and then what it has done, while it does something.
    let sequentially: usize = loop {
        group(&bed, &mut world, &mut fleet, &adverts()).await;
        let seen = bed.sql(read).await;
        let (made, read) = seen.split_once('|').unwrap();
        if made.parse::<usize>().unwrap() >= 3 * RUNS {
            break read.parse().unwrap();
        }
    };
    assert!(sequentially <= RUNS, "{sequentially} rows were read that nobody asked for");
}

async fn d05_a_group_costs_what_one_costs(bed: Bed) {
    let seen = Seen::default();
    let _guard = tracing::subscriber::set_default(tracing_subscriber::registry().with(seen.clone()));
    // Far ahead of PostgreSQL's own clock, so that nothing looks expired there.
    let mut world = World::new(Timestamp::from_millis(4_102_444_800_000));
    let mut fleet = Fleet::default();
    let adverts = adverts();
    group(&bed, &mut world, &mut fleet, &adverts).await;
    seen.take();

    let commit = [("fleet.begin", 1), ("fleet.read", 1), ("fleet.commit", 1)];
    let with = |more: &[(&str, u32)]| -> BTreeMap<String, u32> {
        commit.iter().chain(more).map(|(name, n)| ((*name).to_owned(), *n)).collect()
    };
    // Nothing but renewals.
    group(&bed, &mut world, &mut fleet, &adverts).await;
    assert_eq!(seen.take(), with(&[("nodes.renew", 1)]));

    // One submission, and sixty-three more: what differs is only how often each asks for its own id.
    let submitted = [("runs.insert", 1), ("steps.upsert", 1), ("events.insert", 1), ("fleet.write", 1)];
    group(&bed, &mut world, &mut fleet, &[Op::Submit { contract: 4 }]).await;
    let mut one = with(&submitted);
    one.insert("runs.load".to_owned(), 1);
    assert_eq!(seen.take(), one);
    group(&bed, &mut world, &mut fleet, &vec![Op::Submit { contract: 4 }; 63]).await;
    one.insert("runs.load".to_owned(), 63);
    assert_eq!(seen.take(), one);

    // Grants.
    group(&bed, &mut world, &mut fleet, &vec![Op::Submit { contract: 3 }; 2]).await;
    let mut granted = with(&submitted);
    granted.extend([("nodes.touch", 1), ("leases.upsert", 1), ("runs.load", 2)].map(|(name, n)| (name.to_owned(), n)));
    assert_eq!(seen.take(), granted);

    // Two claims and their reports on each node, which end the Runs; they are in memory.
    let work: Vec<Op> = (0..4).flat_map(|node| [Op::Claim { node }, Op::Report { node, exit: 0, pick: 0 }]).collect();
    let work = [work.clone(), work].concat();
    group(&bed, &mut world, &mut fleet, &work).await;
    let worked = with(&[
        ("runs.update", 1),
        ("steps.upsert", 1),
        ("attempts.upsert", 1),
        ("nodes.touch", 1),
        ("leases.delete", 1),
        ("events.insert", 1),
        ("fleet.write", 1),
    ]);
    assert_eq!(seen.take(), worked);

    // Loading takes three, whatever is asked for.
    let mut tx = bed.store.begin_fleet().await.unwrap();
    let all: Touches = world.runs.iter().map(|(run, _)| run.clone()).collect();
    seen.take();
    tx.load_runs(&mut Fleet::default(), &all, &Changes::default()).await.unwrap();
    let loaded = [("runs.load", 1), ("steps.load", 1), ("attempts.load", 1)];
    assert_eq!(seen.take(), loaded.iter().map(|(name, n)| ((*name).to_owned(), *n)).collect());
}
