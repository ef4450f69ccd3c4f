//! The store: what the fleet rests on, on disk, in SQLite or PostgreSQL.
//!
//! It owns the schema, the SQL and the meaning of the engines' error codes, and maps rows to the domain's types
//! and back without loss. It decides nothing: [`FleetTx`] loads what commands need and writes what they
//! changed, [`ReadTx`] is a snapshot for whoever only looks, and what concerns one row (artifacts, tokens, the
//! Record's outbox) is a compare-and-set of its own on [`Store`].
//!
//! Lock order: the fleet's lock, then rows of `nodes`, then rows of `leases`. A task that holds a [`FleetTx`]
//! must not call a writing method of [`Store`]: on SQLite there is one writing connection, and it has it.
//!
//! A row that cannot be read is left out, counted in `mediator_store_corrupt_rows_total` and logged with its
//! key; it never blocks the others.

mod artifact;
mod ask;
mod backup;
mod batch;
mod conn;
mod count;
mod error;
mod event;
mod fleet_id;
mod fleet_tx;
mod gc;
mod lease;
mod link;
mod list;
mod load;
mod migrate;
mod node;
mod notice;
mod postgres;
mod queue;
mod read_tx;
mod row;
mod run;
mod seal;
mod sql;
mod sqlite;
mod step;
mod sync;
mod token;

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
};

use shared::Timestamp;

pub use self::{
    artifact::{ArtifactRow, Fence},
    ask::{AnswerRow, AskRow},
    count::Counts,
    error::{ErrorKind, Outage, StoreError},
    event::EventRow,
    fleet_tx::FleetTx,
    gc::Known,
    list::{CurrentStep, RunFilter, RunRow},
    notice::{Heard, Listener, Notice},
    read_tx::{ReadTx, WholeRun},
    token::{Found, TokenRow},
};
use self::{
    conn::{Conn, Handle},
    sql::{Query, Value},
};
use crate::clock::Clock;

/// A database of either engine.
#[derive(Debug)]
enum Engine {
    Sqlite(sqlite::Pools),
    Postgres(postgres::Pools),
}

/// The store. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Store {
    engine: Arc<Engine>,
    clock: Clock,
    /// Which mediator speaks in a notice.
    origin: Arc<str>,
    /// When the fleet's writer has last brought its memory up to date.
    synced_at: Arc<AtomicI64>,
}

const LATEST: Query = Query::both(
    "clock.latest",
    "SELECT (SELECT max(seen_at) FROM nodes) AS seen_at, reaped_at FROM fleet WHERE one = 1",
);

impl Store {
    /// Opens `sqlite:PATH` or `postgres://…`, creates the file where there is none, and brings the schema to
    /// where this program needs it. On SQLite the clock is raised to at least every time stored by a clock.
    ///
    /// # Errors
    /// [`StoreError`]
    pub async fn open(url: &str, clock: Clock) -> Result<Self, StoreError> {
        let engine = Engine::open(url).await?;
        migrate::migrate(&engine).await?;
        Self::on(engine, clock).await
    }

    /// The same for a database that is there, beside a mediator that may be serving on it: one whose schema is
    /// another one is refused, and left as it is.
    ///
    /// # Errors
    /// [`StoreError`]
    pub async fn open_as_it_is(url: &str, clock: Clock) -> Result<Self, StoreError> {
        let engine = Engine::open(url).await?;
        migrate::check(&engine).await?;
        Self::on(engine, clock).await
    }

    async fn on(engine: Engine, clock: Clock) -> Result<Self, StoreError> {
        let origin = crate::clock::random_word().into();
        let store = Self { engine: Arc::new(engine), clock, origin, synced_at: Arc::new(AtomicI64::new(i64::MAX)) };
        if matches!(*store.engine, Engine::Sqlite(_)) {
            store.raise_clock().await?;
        }
        Ok(store)
    }

    /// Whether there is a database that some mediator has used. Changes nothing, and makes no file.
    ///
    /// # Errors
    /// [`StoreError`]
    pub async fn is_there(url: &str) -> Result<bool, StoreError> {
        if let Some(path) = Engine::file(url) {
            match std::fs::metadata(path) {
                Ok(file) if file.len() > 0 => {}
                Ok(_) => return Ok(false),
                Err(e) if matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                    return Ok(false);
                }
                // What may not be looked at may well be there.
                Err(e) => return Err(StoreError::Config { url: format!("sqlite:{path}"), why: e.to_string() }),
            }
        }
        migrate::has_begun(&Engine::open(url).await?).await
    }

    /// The clock must not be behind what it has stored before.
    async fn raise_clock(&self) -> Result<(), StoreError> {
        let Some(row) = self.engine.read(LATEST.name).await?.one(&LATEST, &[]).await? else { return Ok(()) };
        for column in ["seen_at", "reaped_at"] {
            if let Some(at) = row.maybe_at(column).map_err(|bad| bad.of("fleet", 1))? {
                self.clock.raise_to(at);
            }
        }
        Ok(())
    }

    /// Begins a transaction that holds the fleet's lock.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] when the lock does not come free in time, or there is no database.
    pub async fn begin_fleet(&self) -> Result<FleetTx, StoreError> {
        FleetTx::begin(self).await
    }

    /// Begins a snapshot.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] when there is no database.
    pub async fn read(&self) -> Result<ReadTx, StoreError> {
        ReadTx::begin(self).await
    }

    fn synced_at(&self, now: Timestamp) -> Timestamp {
        // Before the first time there is nothing that could have been missed: everything was just loaded.
        Timestamp::from_millis(self.synced_at.load(Ordering::Relaxed).min(now.millis()))
    }

    fn note_synced(&self, now: Timestamp) {
        self.synced_at.store(now.millis(), Ordering::Relaxed);
    }
}

/// Lock first.
///
/// SQLite takes its write lock at once: a deferred transaction would find out only at its first write that
/// another process was faster, and would have to be thrown away. On PostgreSQL one writer at a time decides over
/// the fleet, whichever mediator it lives in: READ COMMITTED, so that every statement after the lock sees what the
/// holder before has committed. The number is arbitrary and must never change.
const BEGIN_FLEET: Query = Query::each(
    "fleet.begin",
    "BEGIN IMMEDIATE",
    "BEGIN ISOLATION LEVEL READ COMMITTED; SELECT pg_advisory_xact_lock(7020190404218217843)",
);

impl Engine {
    async fn open(url: &str) -> Result<Self, StoreError> {
        match (Self::file(url), url.split_once(':')) {
            (Some(path), _) => Ok(Self::Sqlite(sqlite::open(path).await?)),
            (None, Some(("postgres" | "postgresql", _))) => Ok(Self::Postgres(postgres::open(url).await?)),
            (None, _) => Err(StoreError::Config {
                url: postgres::redacted(url),
                why: "write sqlite:PATH or postgres://USER:PASSWORD@HOST:PORT/DATABASE".to_owned(),
            }),
        }
    }

    /// The file that a URL names.
    fn file(url: &str) -> Option<&str> {
        let path = url.strip_prefix("sqlite:").filter(|path| !path.is_empty())?;
        Some(path.strip_prefix("//").unwrap_or(path))
    }

    /// The writing connection, in a transaction that holds the fleet's lock.
    async fn begin_fleet(&self) -> Result<Conn, StoreError> {
        let mut conn = self.writer(BEGIN_FLEET.name).await?;
        conn.script(&BEGIN_FLEET).await?;
        Ok(conn)
    }

    async fn writer(&self, name: &'static str) -> Result<Conn, StoreError> {
        match self {
            Self::Sqlite(pools) => {
                pools.check_file(name)?;
                Ok(Conn::Sqlite(Handle::Writer(pools.writer.take(name).await?)))
            }
            Self::Postgres(pools) => Ok(Conn::Postgres(Handle::Writer(pools.writer.take(name).await?))),
        }
    }

    /// A snapshot, taken by its first statement.
    async fn begin_read(&self) -> Result<Conn, StoreError> {
        const NAME: &str = "read.begin";
        Ok(match self {
            Self::Sqlite(pools) => {
                pools.check_file(NAME)?;
                let begun = begin(&pools.read, "BEGIN DEFERRED").await;
                Conn::Sqlite(Handle::Snapshot(begun.map_err(|error| pools.error(NAME, error))?))
            }
            Self::Postgres(pools) => {
                let begun = begin(&pools.others, "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY").await;
                Conn::Postgres(Handle::Snapshot(begun.map_err(|error| pools.error(NAME, error))?))
            }
        })
    }

    /// Runs one statement that writes: beside the fleet's writer on PostgreSQL, in its turn on SQLite.
    async fn write(&self, query: &Query, values: &[Value]) -> Result<u64, StoreError> {
        let mut conn = match self {
            Self::Sqlite(_) => self.writer(query.name).await?,
            Self::Postgres(_) => self.read(query.name).await?,
        };
        let result = conn.execute(query, values).await;
        // After a refusal the connection is as good as before; after an outage it is not.
        if result.as_ref().err().is_none_or(|error| error.kind() != ErrorKind::Unavailable) {
            conn.give_back();
        }
        result
    }

    /// For one statement that reads.
    async fn read(&self, name: &'static str) -> Result<Conn, StoreError> {
        Ok(match self {
            Self::Sqlite(pools) => {
                pools.check_file(name)?;
                let conn = pools.read.acquire().await;
                Conn::Sqlite(Handle::Single(conn.map_err(|error| pools.error(name, error))?))
            }
            Self::Postgres(pools) => {
                let conn = pools.others.acquire().await;
                Conn::Postgres(Handle::Single(conn.map_err(|error| pools.error(name, error))?))
            }
        })
    }
}

/// Begins a transaction in a task of its own, which ends even where the caller is given up: between the word BEGIN and
/// its answer the connection would go back into the pool with a transaction that nobody knows of, and whoever gets
/// it next would read the past.
async fn begin<DB: sqlx::Database>(
    pool: &sqlx::Pool<DB>,
    statement: &'static str,
) -> Result<sqlx::Transaction<'static, DB>, sqlx::Error> {
    let pool = pool.clone();
    let begun = crate::task::seen_through(async move { pool.begin_with(statement).await }).await;
    begun.unwrap_or_else(|_| Err(sqlx::Error::WorkerCrashed))
}

/// Counts and logs a row that cannot be read.
fn quarantine(error: &StoreError) {
    if let StoreError::Corrupt { table, .. } = error {
        metrics::counter!("mediator_store_corrupt_rows_total", "table" => *table).increment(1);
    }
    tracing::error!(%error, "a stored row cannot be read and is left out");
}
