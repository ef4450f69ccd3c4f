//! The schema is brought forward once, and never by force.

use mediator::{
    clock::Clock,
    store::{ErrorKind, Store},
};
use shared::domain::Fleet;

use crate::{
    round_trips::{node, write_all},
    support::{Bed, START},
};

on_both_engines!(
    opening_again_changes_nothing,
    a_newer_database_is_refused,
    a_database_of_something_else_is_refused,
    the_clock_is_never_behind_the_store,
    text_that_is_sorted_is_sorted_by_bytes,
    both_engines_have_the_same_tables,
);

async fn open(bed: &Bed) -> Result<Store, mediator::store::StoreError> {
    Store::open(&bed.url, Clock::manual(START)).await
}

async fn opening_again_changes_nothing(bed: Bed) {
    let mut fleet = Fleet::default();
    fleet.load_node(node("n"));
    write_all(&bed, &mut fleet).await;
    let before = bed.sql("SELECT version, name FROM schema_migrations").await;
    assert_eq!(before, "1|0001_fleet\n2|0002_asks\n3|0003_fleet_id\n4|0004_forgotten");
    let (one, two) = tokio::join!(open(&bed), open(&bed));
    one.unwrap();
    two.unwrap();
    assert_eq!(bed.sql("SELECT version, name FROM schema_migrations").await, before);
    assert_eq!(bed.fresh_fleet().await.nodes().count(), 1);
}

async fn a_newer_database_is_refused(bed: Bed) {
    bed.sql("INSERT INTO schema_migrations (version, name) VALUES (99, '0099_wings')").await;
    let error = open(&bed).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Migration);
    assert!(error.to_string().contains("0099_wings"), "{error}");
    // The same number with another name is another history.
    bed.sql("DELETE FROM schema_migrations WHERE version = 99").await;
    bed.sql("UPDATE schema_migrations SET name = '0001_flock' WHERE version = 1").await;
    let error = open(&bed).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Migration);
    assert!(error.to_string().contains("0001_flock"), "{error}");
}

/// A script that fails leaves nothing behind.
async fn a_database_of_something_else_is_refused(bed: Bed) {
    for table in ["artifacts", "asks", "attempts", "steps", "leases", "runs", "nodes", "fleet", "schema_migrations"] {
        bed.sql(&format!("DROP TABLE {table}")).await;
    }
    let error = open(&bed).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Migration, "{error}");
    assert!(error.to_string().contains("0001_fleet"), "{error}");
    let tables = if bed.is_sqlite() {
        "SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name"
    } else {
        "SELECT tablename FROM pg_tables WHERE schemaname = 'public' ORDER BY 1"
    };
    assert_eq!(bed.sql(tables).await, "events\ntokens");
}

async fn the_clock_is_never_behind_the_store(bed: Bed) {
    let mut fleet = Fleet::default();
    fleet.reaped_at = Some(START + shared::Duration::from_secs(3));
    let mut row = node("n");
    row.seen_at = START + shared::Duration::from_secs(5);
    fleet.load_node(row);
    write_all(&bed, &mut fleet).await;
    let clock = Clock::manual(START);
    let store = Store::open(&bed.url, clock.clone()).await.unwrap();
    if bed.is_sqlite() {
        assert_eq!(clock.now(), START + shared::Duration::from_secs(5));
        assert_eq!(store.begin_fleet().await.unwrap().now(), clock.now());
    } else {
        assert_eq!(clock.now(), START, "there the database has the clock");
        assert!(store.begin_fleet().await.unwrap().now() > clock.now());
    }
}

/// Ids sort by their bytes, whatever language the server speaks.
async fn text_that_is_sorted_is_sorted_by_bytes(bed: Bed) {
    if bed.is_sqlite() {
        assert_eq!(bed.sql("SELECT 'B' < 'a'").await, "1");
        return;
    }
    let others = "SELECT table_name, column_name FROM information_schema.columns \
        WHERE table_schema = 'public' AND data_type = 'text' AND collation_name IS DISTINCT FROM 'C' \
        AND column_name IN ('node_id', 'run_id', 'work_id', 'name', 'state', 'hash') \
        AND table_name <> 'schema_migrations'";
    assert_eq!(bed.sql(others).await, "");
}

async fn both_engines_have_the_same_tables(bed: Bed) {
    let columns = if bed.is_sqlite() {
        "SELECT m.name, c.name FROM sqlite_schema m, pragma_table_info(m.name) c WHERE m.type = 'table' ORDER BY 1, 2"
    } else {
        "SELECT table_name, column_name FROM information_schema.columns WHERE table_schema = 'public' \
         ORDER BY table_name COLLATE \"C\", column_name COLLATE \"C\""
    };
    let indexes = if bed.is_sqlite() {
        "SELECT name FROM sqlite_schema WHERE type = 'index' AND name NOT LIKE 'sqlite_%' ORDER BY 1"
    } else {
        "SELECT indexname FROM pg_indexes WHERE schemaname = 'public' AND indexname NOT LIKE '%_pkey' ORDER BY 1"
    };
    let seen = format!("{}\n{}\n", bed.sql(columns).await, bed.sql(indexes).await);
    assert_eq!(seen, include_str!("schema.txt"), "if this is meant, write it to schema.txt");
}
