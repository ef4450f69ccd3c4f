//! Brings the schema to where this program needs it.
//!
//! The scripts are part of the program. Each is applied in a transaction of its own, under the fleet lock, and
//! noted in `schema_migrations`. A database that a newer program has used is refused before anything is done
//! to it; a script that fails leaves everything as it was before that script.

use super::{
    Engine,
    conn::Conn,
    error::StoreError,
    sql::{Query, Value},
};

struct Migration {
    version: i64,
    name: &'static str,
    script: Query,
}

macro_rules! migrations {
    ($($version:literal $name:literal),* $(,)?) => {
        &[$(Migration {
            version: $version,
            name: $name,
            script: Query::each(
                $name,
                include_str!(concat!("../../../migrations/sqlite/", $name, ".sql")),
                include_str!(concat!("../../../migrations/postgres/", $name, ".sql")),
            ),
        }),*]
    };
}

const MIGRATIONS: &[Migration] = migrations![1 "0001_fleet", 2 "0002_asks", 3 "0003_fleet_id", 4 "0004_forgotten"];

const HAS_TABLE: Query = Query::each(
    "migrations.known",
    // Each engine has a catalogue of its own.
    "SELECT count(*) AS n FROM sqlite_schema WHERE type = 'table' AND name = 'schema_migrations'",
    "SELECT count(*) AS n FROM pg_catalog.pg_class WHERE relkind = 'r' AND relname = 'schema_migrations' \
     AND pg_catalog.pg_table_is_visible(oid)",
);
const CREATE_TABLE: Query = Query::both(
    "migrations.create",
    "CREATE TABLE schema_migrations (version BIGINT PRIMARY KEY NOT NULL, name TEXT NOT NULL)",
);
const APPLIED: Query =
    Query::both("migrations.applied", "SELECT version, name FROM schema_migrations ORDER BY version");
/// An index on a large table takes its time, and a script that was cut off would never get further.
const NO_LIMIT: Query = Query::each("migrations.no_limit", "SELECT 1", "SET LOCAL statement_timeout = 0");
const COMMIT: Query = Query::both("migrations.commit", "COMMIT");
const NOTE: Query = Query::both("migrations.note", "INSERT INTO schema_migrations (version, name) VALUES ($1, $2)");

/// Applies what is missing.
pub(super) async fn migrate(engine: &Engine) -> Result<(), StoreError> {
    loop {
        let mut tx = engine.begin_fleet().await?;
        let applied = applied(&mut tx).await?;
        let Some(next) = MIGRATIONS.get(applied) else { return tx.commit(&COMMIT).await };
        if applied == 0 {
            tx.execute(&CREATE_TABLE, &[]).await.map_err(|error| failed(next, error))?;
        }
        tx.script(&NO_LIMIT).await?;
        tx.script_long(&next.script).await.map_err(|error| failed(next, error))?;
        tx.execute(&NOTE, &[Value::int(next.version), Value::text(next.name)]).await?;
        tx.commit(&COMMIT).await?;
        tracing::info!(migration = next.name, "database schema brought forward");
    }
}

/// Refuses a database that is not where this program needs it, and changes nothing.
pub(super) async fn check(engine: &Engine) -> Result<(), StoreError> {
    let mut tx = engine.begin_fleet().await?;
    let applied = applied(&mut tx).await?;
    tx.commit(&COMMIT).await?;
    match MIGRATIONS.get(applied) {
        None => Ok(()),
        Some(next) => Err(StoreError::Migration {
            message: format!(
                "the database is one of an earlier version of mediator: it has no {:?} yet. Nothing was changed. Use the \
                 command of the version that serves, or start this version with `mediator serve`, which brings the \
                 database forward",
                next.name
            ),
            source: None,
        }),
    }
}

/// Whether any script has been applied.
pub(super) async fn has_begun(engine: &Engine) -> Result<bool, StoreError> {
    let row = engine.read(HAS_TABLE.name).await?.one(&HAS_TABLE, &[]).await?;
    let count = row.map_or(Ok(0), |row| row.int("n")).map_err(|bad| bad.of("schema_migrations", "?"))?;
    Ok(count > 0)
}

/// How many scripts have been applied. They must be the first ones of ours, by number and name.
async fn applied(tx: &mut Conn) -> Result<usize, StoreError> {
    let count = match tx.one(&HAS_TABLE, &[]).await? {
        Some(row) => row.int("n").map_err(|bad| bad.of("schema_migrations", "?"))?,
        None => 0,
    };
    if count == 0 {
        return Ok(0);
    }
    let rows = tx.all(&APPLIED, &[]).await?;
    for (at, row) in rows.iter().enumerate() {
        let bad = |bad: super::row::Bad| bad.of("schema_migrations", at);
        let (version, name) = (row.int("version").map_err(bad)?, row.text("name").map_err(bad)?);
        match MIGRATIONS.get(at) {
            Some(ours) if ours.version == version && ours.name == name => {}
            Some(ours) => return Err(refused(&format!("has migration {name:?} where this one has {:?}", ours.name))),
            None => return Err(refused(&format!("has migration {name:?}, which this one does not know"))),
        }
    }
    Ok(rows.len())
}

fn refused(what: &str) -> StoreError {
    StoreError::Migration {
        message: format!(
            "the database was made by another version of mediator: it {what}. Nothing was changed. Start the version \
             that made it, or a later one, or name another database"
        ),
        source: None,
    }
}

fn failed(migration: &Migration, error: StoreError) -> StoreError {
    match error {
        StoreError::Internal { source, .. } | StoreError::Conflict { source: Some(source), .. } => {
            StoreError::Migration {
                message: format!(
                    "migration {} cannot be applied; nothing of it was kept. Is this a database of something else? \
                     Name an empty one",
                    migration.name
                ),
                source: Some(source),
            }
        }
        other => other,
    }
}
