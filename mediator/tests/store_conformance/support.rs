//! A fresh database of either engine.

use std::sync::Arc;

use mediator::{clock::Clock, store::Store};
use shared::{Timestamp, domain::Fleet};

/// When a test begins.
pub(crate) const START: Timestamp = Timestamp::from_millis(1_750_000_000_000);

enum Base {
    Sqlite(tempfile::TempDir),
    Postgres(Arc<tests::postgres::Database>),
}

/// A fresh database, with a store on it.
pub(crate) struct Bed {
    pub(crate) store: Store,
    pub(crate) clock: Clock,
    pub(crate) url: String,
    base: Base,
}

impl Bed {
    pub(crate) async fn sqlite() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let url = format!("sqlite:{}", dir.path().join("mediator.db").display());
        Self::on(url, Base::Sqlite(dir)).await
    }

    pub(crate) async fn postgres() -> Self {
        let database = tests::postgres::Database::fresh().unwrap_or_else(|error| panic!("{error:#}"));
        Self::on(database.url(), Base::Postgres(Arc::new(database))).await
    }

    async fn on(url: String, base: Base) -> Self {
        let clock = Clock::manual(START);
        let store = Store::open(&url, clock.clone()).await.unwrap();
        Self { store, clock, url, base }
    }

    pub(crate) fn is_sqlite(&self) -> bool {
        matches!(self.base, Base::Sqlite(_))
    }

    /// Another store on the same database, as another mediator would have it.
    pub(crate) async fn second(&self) -> Store {
        Store::open(&self.url, self.clock.clone()).await.unwrap()
    }

    /// Does something to the tables behind the store's back. One row a line, columns separated by `|`.
    pub(crate) async fn sql(&self, text: &str) -> String {
        match &self.base {
            Base::Postgres(database) => {
                // In a thread of its own: what the store does in the background goes on meanwhile.
                let (database, text) = (database.clone(), text.to_owned());
                tokio::task::spawn_blocking(move || database.sql(&text).unwrap()).await.unwrap()
            }
            Base::Sqlite(dir) => {
                use sqlx::{Connection, Row};
                let path = dir.path().join("mediator.db");
                let options = sqlx::sqlite::SqliteConnectOptions::new().filename(path).foreign_keys(false);
                let mut conn = sqlx::SqliteConnection::connect_with(&options).await.unwrap();
                let rows = sqlx::query(sqlx::AssertSqlSafe(text.to_owned())).fetch_all(&mut conn).await.unwrap();
                let show = |row: &sqlx::sqlite::SqliteRow| {
                    let cell = |at| row.get_unchecked::<Option<String>, _>(at).unwrap_or_default();
                    (0..row.len()).map(cell).collect::<Vec<_>>().join("|")
                };
                rows.iter().map(show).collect::<Vec<_>>().join("\n")
            }
        }
    }

    /// The fleet as a program that has just started sees it.
    pub(crate) async fn fresh_fleet(&self) -> Fleet {
        let mut fleet = Fleet::default();
        let mut tx = self.second().await.begin_fleet().await.unwrap();
        tx.sync(&mut fleet).await.unwrap();
        fleet
    }
}
