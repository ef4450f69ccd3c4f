//! Statements with names, and rows, over either engine.
//!
//! A [`Query`] is static text: once where both engines agree (`$1` works on both), once per engine where they
//! do not. Its name shows in the trace, in the counter `mediator_store_statements_total` and in every error.
//! Values are bound, never written into the text.

use futures::TryStreamExt;
use sqlx::{AssertSqlSafe, Postgres, SqlSafeStr, Sqlite, Transaction, pool::PoolConnection};

use super::{batch::Rows, error::StoreError, postgres, row::Row, sqlite};

/// A named statement.
#[derive(Debug, Clone, Copy)]
pub(super) struct Query {
    pub(super) name: &'static str,
    pub(super) sqlite: &'static str,
    pub(super) postgres: &'static str,
}

impl Query {
    /// The engines agree.
    pub(super) const fn both(name: &'static str, sql: &'static str) -> Self {
        Self { name, sqlite: sql, postgres: sql }
    }

    /// They do not; the caller says why.
    pub(super) const fn each(name: &'static str, sqlite: &'static str, postgres: &'static str) -> Self {
        Self { name, sqlite, postgres }
    }
}

/// `COLUMN = any of $1` on each engine: PostgreSQL takes an array, SQLite a JSON list. Either way it is one
/// prepared statement whatever the length of the list.
macro_rules! listed {
    ($name:literal, $before:literal, $after:literal) => {
        $crate::store::sql::Query::each(
            $name,
            concat!($before, " IN (SELECT value FROM json_each($1)) ", $after),
            concat!($before, " = ANY($1) ", $after),
        )
    };
}
pub(super) use listed;

/// A bound value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Value {
    Text(Option<String>),
    Int(Option<i64>),
    Bool(Option<bool>),
    /// For [`listed!`].
    Texts(Vec<String>),
}

impl Value {
    pub(super) fn text(text: impl Into<String>) -> Self {
        Self::Text(Some(text.into()))
    }

    /// Ids and words.
    pub(super) fn show(it: &impl ToString) -> Self {
        Self::Text(Some(it.to_string()))
    }

    pub(super) fn maybe(it: Option<&impl ToString>) -> Self {
        Self::Text(it.map(ToString::to_string))
    }

    pub(super) fn int(number: impl Into<i64>) -> Self {
        Self::Int(Some(number.into()))
    }

    pub(super) fn at(at: shared::Timestamp) -> Self {
        Self::Int(Some(at.millis()))
    }

    pub(super) fn maybe_at(at: Option<shared::Timestamp>) -> Self {
        Self::Int(at.map(shared::Timestamp::millis))
    }

    /// For naming a row in an error.
    pub(super) fn to_key(&self) -> String {
        match self {
            Self::Text(text) => text.as_deref().unwrap_or("NULL").escape_debug().to_string(),
            Self::Int(number) => number.map_or_else(|| "NULL".to_owned(), |it| it.to_string()),
            Self::Bool(flag) => format!("{flag:?}"),
            Self::Texts(list) => format!("{list:?}"),
        }
    }

    pub(super) fn as_text(&self) -> Option<&str> {
        if let Self::Text(text) = self { text.as_deref() } else { None }
    }

    pub(super) const fn as_int(&self) -> Option<i64> {
        if let Self::Int(number) = self { *number } else { None }
    }

    pub(super) const fn as_bool(&self) -> Option<bool> {
        if let Self::Bool(flag) = self { *flag } else { None }
    }

    pub(super) const fn flag(flag: bool) -> Self {
        Self::Bool(Some(flag))
    }
}

/// A connection of either engine, in a transaction or not.
#[derive(Debug)]
pub(super) enum Conn<S, P> {
    Sqlite(S),
    Postgres(P),
}

/// A transaction. Dropped without a commit it leaves nothing.
pub(super) type Tx = Conn<Transaction<'static, Sqlite>, Transaction<'static, Postgres>>;
/// A connection that commits each statement by itself.
pub(super) type Auto = Conn<PoolConnection<Sqlite>, PoolConnection<Postgres>>;

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

impl<S, P> Conn<S, P>
where
    S: std::ops::DerefMut<Target = sqlx::SqliteConnection>,
    P: std::ops::DerefMut<Target = sqlx::PgConnection>,
{
    pub(super) const fn is_postgres(&self) -> bool {
        matches!(self, Self::Postgres(_))
    }

    /// Runs a statement; how many rows it changed.
    pub(super) async fn execute(&mut self, query: &Query, values: &[Value]) -> Result<u64, StoreError> {
        let rows = on_engine!(self, |conn, engine| {
            let failed = |source| StoreError::of(query.name, source, engine::verdict);
            let arguments = engine::arguments(values).map_err(failed)?;
            sqlx::query_with(engine::text(query), arguments).execute(&mut **conn).await.map_err(failed)?.rows_affected()
        });
        note(query.name, rows);
        Ok(rows)
    }

    /// Writes a batch of rows of one table; how many it changed.
    pub(super) async fn write(&mut self, rows: &Rows) -> Result<u64, StoreError> {
        let name = rows.write.name;
        let mut changed = 0;
        for chunk in rows.chunks() {
            let part = on_engine!(self, |conn, engine| {
                let failed = |source| StoreError::of(name, source, engine::verdict);
                let (text, arguments) = engine::rows(rows.write, chunk).map_err(failed)?;
                sqlx::query_with(AssertSqlSafe(text), arguments)
                    .execute(&mut **conn)
                    .await
                    .map_err(failed)?
                    .rows_affected()
            });
            note(name, part);
            changed += part;
        }
        Ok(changed)
    }

    /// Reads rows one by one, so that a long answer never lies in memory twice.
    pub(super) async fn each(
        &mut self,
        query: &Query,
        values: &[Value],
        take: impl FnMut(Row) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let text = on_engine!(self, |_conn, engine| engine::text(query));
        self.each_of(query.name, text, values, take).await
    }

    /// The same with a text that was put together, from constants only.
    pub(super) async fn each_of(
        &mut self,
        name: &'static str,
        text: impl SqlSafeStr,
        values: &[Value],
        mut take: impl FnMut(Row) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let mut rows = 0;
        on_engine!(self, |conn, engine| {
            let failed = |source| StoreError::of(name, source, engine::verdict);
            let arguments = engine::arguments(values).map_err(failed)?;
            let mut found = sqlx::query_with(text, arguments).fetch(&mut **conn);
            while let Some(row) = found.try_next().await.map_err(failed)? {
                rows += 1;
                take(engine::row(row))?;
            }
        });
        note(name, rows);
        Ok(())
    }

    /// Reads all rows.
    pub(super) async fn all(&mut self, query: &Query, values: &[Value]) -> Result<Vec<Row>, StoreError> {
        let mut rows = Vec::new();
        self.each(query, values, |row| {
            rows.push(row);
            Ok(())
        })
        .await?;
        Ok(rows)
    }

    /// Reads one row, if there is one.
    pub(super) async fn one(&mut self, query: &Query, values: &[Value]) -> Result<Option<Row>, StoreError> {
        Ok(self.all(query, values).await?.into_iter().next())
    }
}

impl Tx {
    pub(super) async fn commit(self, name: &'static str) -> Result<(), StoreError> {
        match self {
            Self::Sqlite(tx) => tx.commit().await.map_err(|source| StoreError::of(name, source, sqlite::verdict))?,
            Self::Postgres(tx) => {
                tx.commit().await.map_err(|source| StoreError::of(name, source, postgres::verdict))?
            }
        }
        note(name, 0);
        Ok(())
    }

    /// Sorts an error of a statement that was run on the connection itself.
    pub(super) fn error(&self, name: &'static str, source: sqlx::Error) -> StoreError {
        on_engine!(self, |_conn, engine| StoreError::of(name, source, engine::verdict))
    }
}

fn note(query: &'static str, rows: u64) {
    metrics::counter!("mediator_store_statements_total", "query" => query).increment(1);
    tracing::debug!(target: "mediator::store::sql", query, rows);
}
