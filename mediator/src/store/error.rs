//! What can go wrong with the store, and what that means to a caller.
//!
//! Which engine code means what is decided in `sqlite.rs` and `postgres.rs` and nowhere else. No message here
//! carries a stored value that could be a nonce: a corrupt row is named by table, key and column.

/// What a caller can do about an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    /// The database cannot be used now; the same call may succeed later.
    Unavailable,
    /// A row is not as the caller believed.
    Conflict,
    /// A row cannot be read, or a value cannot be stored.
    Corrupt,
    /// The schema is not the one that this program needs.
    Migration,
    /// The database URL is wrong.
    Config,
    /// The engine refused a statement that it should not have: a fault of this program.
    Internal,
}

/// Why the database cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Outage {
    /// No connection, or it broke.
    #[error("the connection to the database is lost")]
    Lost,
    /// Somebody else holds it for too long.
    #[error("the database is locked by another process or overloaded")]
    Busy,
    /// No space left.
    #[error("the database has no space left on its disk")]
    Full,
    /// The file is not there, or not ours to open.
    #[error("the database file is gone or cannot be opened")]
    Gone,
    /// Reading or writing the file failed.
    #[error("the disk of the database failed")]
    Disk,
}

/// An error of the store.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The database cannot be used now.
    #[error("{query}: {outage}")]
    Unavailable {
        /// Which statement.
        query: &'static str,
        /// Why.
        outage: Outage,
        /// From the engine.
        source: Option<sqlx::Error>,
    },
    /// A unique key is taken, or two writers met.
    #[error("{query}: another row or another writer stands in the way")]
    Conflict {
        /// Which statement.
        query: &'static str,
        /// From the engine.
        source: Option<sqlx::Error>,
    },
    /// A stored row cannot be read, or a value cannot be stored.
    #[error("table {table}, row {key}, column {column}: {why}")]
    Corrupt {
        /// Which table.
        table: &'static str,
        /// Which row.
        key: String,
        /// Which column; empty when it is about the row itself.
        column: &'static str,
        /// What is wrong with it.
        why: String,
    },
    /// The schema cannot be brought to where this program needs it.
    #[error("{message}")]
    Migration {
        /// What, and what to do.
        message: String,
        /// From the engine.
        source: Option<sqlx::Error>,
    },
    /// The database URL is wrong.
    #[error("database {url:?}: {why}")]
    Config {
        /// The URL without its password.
        url: String,
        /// What instead.
        why: String,
    },
    /// The engine refused a statement.
    #[error("{query}: the database refused the statement")]
    Internal {
        /// Which statement.
        query: &'static str,
        /// From the engine.
        source: sqlx::Error,
    },
}

impl StoreError {
    /// What a caller can do about it.
    #[must_use]
    pub const fn kind(&self) -> ErrorKind {
        match self {
            Self::Unavailable { .. } => ErrorKind::Unavailable,
            Self::Conflict { .. } => ErrorKind::Conflict,
            Self::Corrupt { .. } => ErrorKind::Corrupt,
            Self::Migration { .. } => ErrorKind::Migration,
            Self::Config { .. } => ErrorKind::Config,
            Self::Internal { .. } => ErrorKind::Internal,
        }
    }
}

/// What an engine's error comes to, before it is known which statement it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Unavailable(Outage),
    Conflict,
    Internal,
}

impl StoreError {
    /// Sorts an error of `sqlx` by what it means. `by_code` reads the engine's own codes.
    pub(super) fn of(query: &'static str, source: sqlx::Error, by_code: fn(&str) -> Verdict) -> Self {
        let verdict = match &source {
            sqlx::Error::Database(error) => error.code().map_or(Verdict::Internal, |code| by_code(&code)),
            sqlx::Error::PoolTimedOut => Verdict::Unavailable(Outage::Busy),
            sqlx::Error::Io(_)
            | sqlx::Error::Tls(_)
            | sqlx::Error::Protocol(_)
            | sqlx::Error::PoolClosed
            | sqlx::Error::WorkerCrashed
            | sqlx::Error::BeginFailed => Verdict::Unavailable(Outage::Lost),
            _ => Verdict::Internal,
        };
        match verdict {
            Verdict::Unavailable(outage) => Self::Unavailable { query, outage, source: Some(source) },
            Verdict::Conflict => Self::Conflict { query, source: Some(source) },
            Verdict::Internal => Self::Internal { query, source },
        }
    }
}
