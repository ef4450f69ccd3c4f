//! A connection of either engine, and what is done with it.
//!
//! Whatever goes over a connection goes through here: it is bounded in time, counted and traced under its
//! query's name, and its error is sorted by what the engine's code means.

use std::{
    ops::{Deref, DerefMut},
    time::Duration,
};

use futures::TryStreamExt;
use sqlx::{AssertSqlSafe, Database, Postgres, SqlSafeStr, Sqlite, Transaction, pool::PoolConnection};

use super::{
    batch::Rows,
    error::{Outage, StoreError},
    link::Writer,
    row::Row,
    sql::{Query, Value},
};

/// The longest that a statement may take, if it is none whose work grows with the data. PostgreSQL ends its own earlier; this is for a server, or a disk,
/// that says nothing any more.
const LONGEST: Duration = Duration::from_secs(35);

/// A connection of one engine, by what is done with it.
#[derive(Debug)]
pub(super) enum Handle<DB: Database> {
    /// Each statement commits by itself.
    Single(PoolConnection<DB>),
    /// A read-only transaction.
    Snapshot(Transaction<'static, DB>),
    /// The one connection that writes, in a transaction or not.
    Writer(Writer<DB>),
}

impl<DB: Database> Deref for Handle<DB> {
    type Target = DB::Connection;
    fn deref(&self) -> &DB::Connection {
        match self {
            Self::Single(conn) => conn,
            Self::Snapshot(conn) => conn,
            Self::Writer(writer) => &writer.conn,
        }
    }
}

impl<DB: Database> DerefMut for Handle<DB> {
    fn deref_mut(&mut self) -> &mut DB::Connection {
        match self {
            Self::Single(conn) => conn,
            Self::Snapshot(conn) => conn,
            Self::Writer(writer) => &mut writer.conn,
        }
    }
}

/// A connection of either engine.
#[derive(Debug)]
pub(super) enum Conn {
    Sqlite(Handle<Sqlite>),
    Postgres(Handle<Postgres>),
}

/// Does the same on either engine: `$engine` is the module that knows the engine's own part.
macro_rules! on_engine {
    ($conn:expr, |$it:ident, $engine:ident| $body:expr) => {
        match $conn {
            Conn::Sqlite($it) => {
                use super::sqlite as $engine;
                $body
            }
            Conn::Postgres($it) => {
                use super::postgres as $engine;
                $body
            }
        }
    };
}

impl Conn {
    pub(super) const fn is_postgres(&self) -> bool {
        matches!(self, Self::Postgres(_))
    }

    /// Runs a statement; how many rows it changed.
    pub(super) async fn execute(&mut self, query: &Query, values: &[Value]) -> Result<u64, StoreError> {
        self.execute_within(LONGEST, query, values).await
    }

    /// The same for one that takes as long as there is data.
    pub(super) async fn execute_long(&mut self, query: &Query, values: &[Value]) -> Result<u64, StoreError> {
        self.execute_within(Duration::MAX, query, values).await
    }

    async fn execute_within(&mut self, span: Duration, query: &Query, values: &[Value]) -> Result<u64, StoreError> {
        on_engine!(self, |conn, engine| {
            let work = async {
                let arguments = engine::arguments(values)?;
                let done = sqlx::query_with(engine::text(query), arguments).execute(&mut **conn).await?;
                Ok(done.rows_affected())
            };
            settle(query.name, within(span, work).await, engine::verdict, conn)
        })
    }

    /// Writes a batch of rows of one table; how many it changed.
    pub(super) async fn write(&mut self, rows: &Rows) -> Result<u64, StoreError> {
        let mut changed = 0;
        for chunk in rows.chunks() {
            changed += on_engine!(self, |conn, engine| {
                let work = async {
                    let (text, arguments) = engine::rows(rows.write, chunk)?;
                    let done = sqlx::query_with(AssertSqlSafe(text), arguments).execute(&mut **conn).await?;
                    Ok(done.rows_affected())
                };
                settle(rows.write.name, within(LONGEST, work).await, engine::verdict, conn)?
            });
        }
        Ok(changed)
    }

    /// Runs statements that bind nothing and answer nothing: the script of a migration, the borders of a
    /// transaction.
    pub(super) async fn script(&mut self, query: &Query) -> Result<(), StoreError> {
        self.script_within(LONGEST, query).await
    }

    /// The same for one that takes as long as there is data.
    pub(super) async fn script_long(&mut self, query: &Query) -> Result<(), StoreError> {
        self.script_within(Duration::MAX, query).await
    }

    async fn script_within(&mut self, span: Duration, query: &Query) -> Result<(), StoreError> {
        on_engine!(self, |conn, engine| {
            let work = async { sqlx::raw_sql(engine::text(query)).execute(&mut **conn).await.map(|_| 0) };
            settle(query.name, within(span, work).await, engine::verdict, conn).map(drop)
        })
    }

    /// Reads rows one by one, so that a long answer never lies in memory twice.
    pub(super) async fn each(
        &mut self,
        query: &Query,
        values: &[Value],
        take: impl FnMut(Row),
    ) -> Result<(), StoreError> {
        let text = match self {
            Self::Sqlite(_) => query.sqlite,
            Self::Postgres(_) => query.postgres,
        };
        self.each_of(query.name, text, values, take).await
    }

    /// The same with a text that was put together, from constants only.
    pub(super) async fn each_of(
        &mut self,
        name: &'static str,
        text: impl SqlSafeStr,
        values: &[Value],
        mut take: impl FnMut(Row),
    ) -> Result<(), StoreError> {
        on_engine!(self, |conn, engine| {
            let work = async {
                let arguments = engine::arguments(values)?;
                let mut found = sqlx::query_with(text, arguments).fetch(&mut **conn);
                let mut rows = 0;
                while let Some(row) = found.try_next().await? {
                    rows += 1;
                    take(engine::row(row));
                }
                Ok(rows)
            };
            settle(name, within(LONGEST, work).await, engine::verdict, conn).map(drop)
        })
    }

    /// Reads all rows.
    pub(super) async fn all(&mut self, query: &Query, values: &[Value]) -> Result<Vec<Row>, StoreError> {
        let mut rows = Vec::new();
        self.each(query, values, |row| rows.push(row)).await?;
        Ok(rows)
    }

    /// Reads one row, if there is one.
    pub(super) async fn one(&mut self, query: &Query, values: &[Value]) -> Result<Option<Row>, StoreError> {
        Ok(self.all(query, values).await?.into_iter().next())
    }

    /// Ends the writing transaction. One in which a statement has failed is not committed, whatever the
    /// engine thinks of it.
    pub(super) async fn commit(mut self, query: &Query) -> Result<(), StoreError> {
        let failed = match &self {
            Self::Sqlite(Handle::Writer(writer)) => writer.failed,
            Self::Postgres(Handle::Writer(writer)) => writer.failed,
            Self::Sqlite(_) | Self::Postgres(_) => false,
        };
        if failed {
            return Err(StoreError::Conflict { query: query.name, source: None });
        }
        self.script(query).await?;
        self.give_back();
        Ok(())
    }

    /// Lets the next one write. Without this the writing connection is closed, and what it has not committed
    /// is gone.
    pub(super) fn give_back(self) {
        match self {
            Self::Sqlite(Handle::Writer(writer)) => writer.give_back(),
            Self::Postgres(Handle::Writer(writer)) => writer.give_back(),
            Self::Sqlite(_) | Self::Postgres(_) => {}
        }
    }
}

/// None: it took too long.
async fn within<T>(
    span: Duration,
    work: impl Future<Output = Result<T, sqlx::Error>>,
) -> Option<Result<T, sqlx::Error>> {
    tokio::time::timeout(span, work).await.ok()
}

/// Counts and traces a statement, and sorts its error.
fn settle<DB: Database>(
    name: &'static str,
    result: Option<Result<u64, sqlx::Error>>,
    by_code: fn(&str) -> super::error::Verdict,
    conn: &mut Handle<DB>,
) -> Result<u64, StoreError> {
    metrics::counter!("mediator_store_statements_total", "query" => name).increment(1);
    let error = match result {
        Some(Ok(rows)) => {
            tracing::debug!(target: "mediator::store::sql", query = name, rows);
            return Ok(rows);
        }
        Some(Err(source)) => StoreError::of(name, source, by_code),
        None => StoreError::Unavailable { query: name, outage: Outage::Lost, source: None },
    };
    tracing::debug!(target: "mediator::store::sql", query = name, %error);
    if let Handle::Writer(writer) = conn {
        writer.failed = true;
    }
    Err(error)
}
