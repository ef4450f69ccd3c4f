//! A row that cannot be read stands in nobody's way; a value that cannot be stored is named.

use mediator::store::{ErrorKind, RunFilter, StoreError};
use shared::{
    InstanceId, NodeId, Nonce, RunId, StreamId,
    domain::{Advert, Changes, Cx, Fleet, Ids, OpenWork, Place, Policy, Refusal, RunState, Settings, Shape, Speaker},
};

use crate::{
    round_trips::{node, run, write_all},
    support::{Bed, START},
};

on_both_engines!(
    bad_nodes_and_leases,
    an_unreadable_node_is_nobodys,
    bad_runs,
    a_bad_head_of_a_shape,
    bad_events,
    nul,
    a_row_that_is_not_there
);

async fn read_fleet(bed: &Bed) -> Fleet {
    bed.store.read().await.unwrap().fleet().await.unwrap()
}

async fn bad_nodes_and_leases(bed: Bed) {
    let mut fleet = Fleet::default();
    for id in ["a", "b", "c", "d"] {
        fleet.load_node(node(id));
    }
    write_all(&bed, &mut fleet).await;
    bed.sql("UPDATE nodes SET capabilities = '[{' WHERE node_id = 'a'").await;
    bed.sql("UPDATE nodes SET drain = 'perhaps' WHERE node_id = 'b'").await;
    bed.sql("UPDATE nodes SET instance = 'not an id' WHERE node_id = 'c'").await;
    let mut got = read_fleet(&bed).await;
    assert_eq!(got.nodes().map(|it| it.id.as_str()).collect::<Vec<_>>(), ["d"]);
    got.rev = 1;
    assert_eq!(bed.fresh_fleet().await, got);
    assert_eq!(bed.store.read().await.unwrap().nodes().await.unwrap().len(), 1);
}

struct NoIds;

impl Ids for NoIds {
    fn nonce(&mut self) -> Nonce {
        panic!("nothing is granted here")
    }
}

/// Whoever adverts under its id is not made its owner.
async fn an_unreadable_node_is_nobodys(bed: Bed) {
    let mut fleet = Fleet::default();
    fleet.load_node(node("n"));
    write_all(&bed, &mut fleet).await;
    let mut known = bed.fresh_fleet().await;
    let served = known.clone();
    bed.sql("UPDATE nodes SET instance = 'not an id', rev = 9").await;
    bed.sql("UPDATE fleet SET rev = 9").await;
    let mut tx = bed.store.begin_fleet().await.unwrap();
    tx.sync(&mut known).await.unwrap();
    drop(tx);
    let who = Speaker {
        node: NodeId::new("n").unwrap(),
        instance: InstanceId::new("thief").unwrap(),
        streams: vec![StreamId::new("s").unwrap()],
        principal: "thief".parse().unwrap(),
    };
    let advert = Advert {
        who: who.clone(),
        label: String::new(),
        advert_no: 1,
        replaces: vec![],
        capabilities: vec![],
        policy: Policy::default(),
        stopping: false,
        goodbye: false,
        running: vec![],
        finished: vec![],
        agent_version: String::new(),
    };
    for mut fleet in [bed.fresh_fleet().await, known] {
        let (mut ids, mut changes, settings) = (NoIds, Changes::default(), Settings::default());
        let mut cx = Cx::new(START, &settings, &mut ids, &mut changes);
        let unreadable = Refusal::Unreadable(who.node.clone());
        assert_eq!(fleet.apply(&advert, &mut cx).unwrap_err(), unreadable);
        assert_eq!(fleet.apply(&OpenWork { who: who.clone() }, &mut cx).unwrap_err(), unreadable);
        assert_eq!((changes, fleet.nodes().count()), (Changes::default(), 0));
    }
    // Mended, it is its owner's again.
    bed.sql("UPDATE nodes SET instance = 'i1'").await;
    assert_eq!(bed.fresh_fleet().await.nodes().count(), 1);
    // Also in a mediator that goes on serving; there it counts as silent until it adverts.
    let mut served = served;
    bed.sql("UPDATE nodes SET instance = 'not an id', rev = 10").await;
    bed.sql("UPDATE fleet SET rev = 10").await;
    for (mend, readable) in [("SELECT 1", 0), ("UPDATE nodes SET instance = 'i1'", 1)] {
        bed.sql(mend).await;
        let mut tx = bed.store.begin_fleet().await.unwrap();
        tx.sync(&mut served).await.unwrap();
        assert_eq!(served.nodes().count(), readable, "{mend}");
        assert!(served.live(tx.now()).next().is_none());
    }
    bed.sql("UPDATE nodes SET instance = 'not an id', rev = 11").await;
    bed.sql("UPDATE fleet SET rev = 11").await;
    for (mend, unreadable) in [("SELECT 1", 1), ("DELETE FROM nodes", 0)] {
        bed.sql(mend).await;
        let mut tx = bed.store.begin_fleet().await.unwrap();
        tx.sync(&mut served).await.unwrap();
        assert_eq!(served.unreadable().count(), unreadable, "{mend}");
    }
}

async fn bad_runs(bed: Bed) {
    let mut fleet = Fleet::default();
    let broken = [
        ("a", "UPDATE runs SET contract = '{}' WHERE run_id = 'a'", "runs", "contract"),
        ("b", "UPDATE runs SET state = 'DREAMING' WHERE run_id = 'b'", "runs", "state"),
        ("c", "UPDATE steps SET result = 'x' WHERE run_id = 'c' AND seq = 1", "steps", "result"),
        ("d", "DELETE FROM steps WHERE run_id = 'd' AND seq = 1", "steps", "seq"),
        ("e", "UPDATE runs SET losses = -1 WHERE run_id = 'e'", "runs", "losses"),
    ];
    let id = |text: &str| RunId::new(text).unwrap();
    for name in ["a", "b", "c", "d", "e", "good"] {
        fleet.runs.insert(id(name), run(name, 2));
    }
    write_all(&bed, &mut fleet).await;
    for (_, sql, ..) in broken {
        bed.sql(sql).await;
    }
    let mut got = Fleet::default();
    let mut tx = bed.store.begin_fleet().await.unwrap();
    tx.sync(&mut got).await.unwrap();
    let bad = tx.load_runs(&mut got, &fleet.runs.keys().cloned().collect(), &Changes::default()).await.unwrap();
    assert_eq!(got.runs.into_values().collect::<Vec<_>>(), [fleet.runs[&id("good")].clone()]);
    for (name, _, table, column) in broken {
        match &bad[&id(name)] {
            StoreError::Corrupt { table: t, key, column: c, .. } => {
                assert!((*t, *c) == (table, column) && key.starts_with(name), "{}", bad[&id(name)]);
            }
            other => panic!("{other}"),
        }
        let error = bed.store.read().await.unwrap().run(&id(name)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
    }
    // A list does not need the contract, so most of them still show.
    let rows = bed.store.read().await.unwrap().runs(&RunFilter { limit: 99, ..RunFilter::default() }).await.unwrap();
    assert_eq!(rows.len(), 6);
}

/// The oldest of a shape speaks for all of it, unless it cannot be read.
async fn a_bad_head_of_a_shape(bed: Bed) {
    let mut fleet = Fleet::default();
    for n in 0..40 {
        let mut row = run(&format!("r{n:02}"), 1);
        (row.state, row.place) = (RunState::Queued, n);
        fleet.queue.insert(Place::of_run(n), row.id.clone(), Shape::new(&row.contract.requires), row.created_at);
        fleet.runs.insert(row.id.clone(), row);
    }
    write_all(&bed, &mut fleet).await;
    bed.sql("UPDATE runs SET contract = 'no' WHERE place < 20").await;
    let places = |fleet: &Fleet| fleet.queue.iter().map(|(place, _)| place.run).collect::<Vec<_>>();
    let got = read_fleet(&bed).await;
    assert_eq!(places(&got).last(), Some(&39));
    assert!(places(&got).contains(&20), "{:?}", places(&got));
    // A shape of which nothing can be read is left out, and ends.
    bed.sql("UPDATE runs SET contract = '{\"requires\": []}'").await;
    assert!(read_fleet(&bed).await.queue.is_empty());
}

async fn bad_events(bed: Bed) {
    let event = shared::domain::FleetEvent {
        kind: shared::domain::EventKind::NodeLeft,
        run: None,
        node: Some(NodeId::new("n").unwrap()),
        data: serde_json::json!({}),
    };
    let changes = Changes { events: vec![event.clone(), event.clone(), event], ..Changes::default() };
    let mut tx = bed.store.begin_fleet().await.unwrap();
    tx.write(&Fleet::default(), &changes).await.unwrap();
    tx.commit().await.unwrap();
    bed.sql("UPDATE events SET data = '' WHERE seq = 2").await;
    let events = bed.store.read().await.unwrap().events(0, 9).await.unwrap();
    assert_eq!(events.iter().map(|it| it.seq).collect::<Vec<_>>(), [1, 3]);
}

async fn nul(bed: Bed) {
    let mut fleet = Fleet::default();
    let mut row = node("n/1");
    row.policy.reason = "a\0b".to_owned();
    fleet.load_node(row);
    fleet.load_node(node("m"));
    let mut changes = Changes { fleet: true, ..Changes::default() };
    changes.nodes.extend(fleet.nodes().map(|it| it.id.clone()));
    let mut tx = bed.store.begin_fleet().await.unwrap();
    let error = tx.write(&fleet, &changes).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    let said = error.to_string();
    assert!(said.contains("nodes") && said.contains("n/1") && said.contains("drain_reason"), "{said}");
    // Nothing was sent: the transaction is as good as before.
    fleet.load_node(node("n/1"));
    tx.write(&fleet, &changes).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(read_fleet(&bed).await.nodes().count(), 2);
}

/// Memory and store are apart: that is said, and nothing is written.
async fn a_row_that_is_not_there(bed: Bed) {
    let mut fleet = Fleet::default();
    let mut row = run("r", 1);
    row.place = 3;
    fleet.runs.insert(row.id.clone(), row.clone());
    write_all(&bed, &mut fleet).await;
    // It runs already, so it cannot be promoted from the line.
    let promoted = [(row.id.clone(), (vec![], 2))].into();
    let missing = run("gone", 1);
    fleet.runs.insert(missing.id.clone(), missing.clone());
    for changes in [
        Changes { promoted_unloaded: promoted, ..Changes::default() },
        Changes { runs: [row.id.clone(), missing.id.clone()].into(), ..Changes::default() },
        Changes { new_runs: [row.id.clone()].into(), ..Changes::default() },
    ] {
        let mut tx = bed.store.begin_fleet().await.unwrap();
        let error = tx.write(&fleet, &changes).await.unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Corrupt | ErrorKind::Conflict), "{error}");
    }
    assert!(bed.store.begin_fleet().await.is_ok());
}
