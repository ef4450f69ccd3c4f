//! A mediator's SQLite file, beside whoever else uses it.

use std::path::Path;

use sqlx::{Connection, Row, SqliteConnection, sqlite::SqliteConnectOptions};
use tokio::runtime::Runtime;

/// A blocking connection to the file.
#[derive(Debug)]
pub struct Sqlite {
    runtime: Runtime,
    connection: SqliteConnection,
}

impl Sqlite {
    /// Opens a file that is there.
    #[must_use]
    pub fn open(path: &Path) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let options = SqliteConnectOptions::new().filename(path).busy_timeout(std::time::Duration::from_secs(20));
        let connection = runtime.block_on(SqliteConnection::connect_with(&options)).expect("open the database");
        Self { runtime, connection }
    }

    /// Runs a statement; its rows, columns of text separated by `|`, one row a line.
    pub fn sql(&mut self, text: &str) -> String {
        let query = sqlx::query(sqlx::AssertSqlSafe(text.to_owned())).fetch_all(&mut self.connection);
        let rows = self.runtime.block_on(query).unwrap_or_else(|error| panic!("{text}: {error}"));
        let line = |row: &sqlx::sqlite::SqliteRow| {
            let text = |at| row.try_get_unchecked::<Option<String>, _>(at).ok().flatten().unwrap_or_default();
            (0..row.len()).map(text).collect::<Vec<_>>().join("|")
        };
        rows.iter().map(line).collect::<Vec<_>>().join("\n")
    }

    /// Takes the write lock and holds it until the connection is dropped.
    #[must_use]
    pub fn into_write_lock(mut self) -> impl Drop {
        self.sql("BEGIN IMMEDIATE");
        WriteLock(Some(self))
    }
}

struct WriteLock(Option<Sqlite>);

impl Drop for WriteLock {
    fn drop(&mut self) {
        if let Some(mut held) = self.0.take() {
            held.sql("ROLLBACK");
        }
    }
}
