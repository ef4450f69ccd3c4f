//! Reading a row, of either engine, by column name.
//!
//! Whatever a column holds, reading it either gives a value of the domain or says which column is bad. The
//! value itself is not repeated: it could be a nonce.

use std::str::FromStr;

use serde::de::DeserializeOwned;
use shared::Timestamp;
use sqlx::{Row as _, postgres::PgRow, sqlite::SqliteRow};

use super::error::StoreError;

/// A row of either engine.
#[derive(Debug)]
pub(super) enum Row {
    Sqlite(SqliteRow),
    Postgres(PgRow),
}

/// A column that cannot be read.
#[derive(Debug)]
pub(super) struct Bad {
    column: &'static str,
    why: String,
}

impl Bad {
    pub(super) fn new(column: &'static str, why: impl ToString) -> Self {
        Self { column, why: why.to_string() }
    }

    /// Names the row.
    pub(super) fn of(self, table: &'static str, key: impl ToString) -> StoreError {
        StoreError::Corrupt { table, key: key.to_string(), column: self.column, why: self.why }
    }
}

macro_rules! read {
    ($self:expr, $column:expr) => {
        match $self {
            Row::Sqlite(row) => row.try_get($column),
            Row::Postgres(row) => row.try_get($column),
        }
        .map_err(|error| Bad::new($column, error))
    };
}

impl Row {
    pub(super) fn text(&self, column: &'static str) -> Result<&str, Bad> {
        read!(self, column)
    }

    pub(super) fn maybe_text(&self, column: &'static str) -> Result<Option<&str>, Bad> {
        read!(self, column)
    }

    pub(super) fn int(&self, column: &'static str) -> Result<i64, Bad> {
        read!(self, column)
    }

    pub(super) fn maybe_int(&self, column: &'static str) -> Result<Option<i64>, Bad> {
        read!(self, column)
    }

    /// A number of a narrower type.
    pub(super) fn number<T: TryFrom<i64>>(&self, column: &'static str) -> Result<T, Bad> {
        let number = self.int(column)?;
        T::try_from(number).map_err(|_| Bad::new(column, format!("{number} is out of range")))
    }

    pub(super) fn flag(&self, column: &'static str) -> Result<bool, Bad> {
        Ok(self.maybe_flag(column)?.unwrap_or(false))
    }

    /// STRICT tables of SQLite have no boolean: there it is 0 or 1.
    pub(super) fn maybe_flag(&self, column: &'static str) -> Result<Option<bool>, Bad> {
        match self {
            Self::Sqlite(_) => Ok(self.maybe_int(column)?.map(|it| it != 0)),
            Self::Postgres(row) => row.try_get(column).map_err(|error| Bad::new(column, error)),
        }
    }

    pub(super) fn at(&self, column: &'static str) -> Result<Timestamp, Bad> {
        self.int(column).map(Timestamp::from_millis)
    }

    pub(super) fn maybe_at(&self, column: &'static str) -> Result<Option<Timestamp>, Bad> {
        Ok(self.maybe_int(column)?.map(Timestamp::from_millis))
    }

    /// An id or a word.
    pub(super) fn parse<T: FromStr<Err: ToString>>(&self, column: &'static str) -> Result<T, Bad> {
        self.text(column)?.parse().map_err(|error: T::Err| Bad::new(column, error))
    }

    pub(super) fn maybe_parse<T: FromStr<Err: ToString>>(&self, column: &'static str) -> Result<Option<T>, Bad> {
        self.maybe_text(column)?.map(str::parse).transpose().map_err(|error: T::Err| Bad::new(column, error))
    }

    pub(super) fn json<T: DeserializeOwned>(&self, column: &'static str) -> Result<T, Bad> {
        serde_json::from_str(self.text(column)?).map_err(|error| Bad::new(column, error))
    }

    pub(super) fn maybe_json<T: DeserializeOwned>(&self, column: &'static str) -> Result<Option<T>, Bad> {
        self.maybe_text(column)?.map(serde_json::from_str).transpose().map_err(|error| Bad::new(column, error))
    }
}
