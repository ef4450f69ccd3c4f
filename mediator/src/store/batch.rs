//! Multi-row writes: many rows of one table in one statement, so that what a commit costs does not grow with
//! the number of rows a group of commands has changed.
//!
//! A [`Write`] names table, key and columns; its text is made once and kept. What differs between the engines
//! is only how rows are handed over (`{rows}` here; see `rows` in `sqlite.rs` and `postgres.rs`).

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, OnceLock, PoisonError},
};

use super::{error::StoreError, sql::Value};

/// Most rows in one statement: SQLite allows 32,766 variables, and no table here has more than 31 columns.
const MOST: usize = 1024;

/// What a column holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Text,
    Int,
    Bool,
}

/// What happens to the rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verb {
    /// They are new; one that exists is a conflict.
    Insert,
    /// They are written whole.
    Upsert,
    /// Their other columns are set, where they exist and this holds (` AND …`, or empty).
    Update(&'static str),
    /// They go.
    Delete,
}

/// A multi-row statement. The first column is never NULL; the first `keys` columns are the key.
#[derive(Debug)]
pub(super) struct Write {
    pub(super) name: &'static str,
    pub(super) table: &'static str,
    pub(super) verb: Verb,
    pub(super) keys: usize,
    pub(super) columns: &'static [(&'static str, Kind)],
}

/// Texts by statement and size.
type Texts = Mutex<HashMap<(&'static str, usize), Arc<str>>>;

impl Write {
    /// The statement for a number of rows, with the engine's way to hand them over.
    pub(super) fn text(&self, size: usize, rows: impl FnOnce() -> String) -> Arc<str> {
        // One process may use both engines (tests do): PostgreSQL's size is 0, SQLite's never is.
        static TEXTS: OnceLock<Texts> = OnceLock::new();
        let mut texts = TEXTS.get_or_init(Texts::default).lock().unwrap_or_else(PoisonError::into_inner);
        texts.entry((self.name, size)).or_insert_with(|| self.statement(&rows()).into()).clone()
    }

    fn statement(&self, rows: &str) -> String {
        let table = self.table;
        let names: Vec<&str> = self.columns.iter().map(|(name, _)| *name).collect();
        let (keys, others) = names.split_at(self.keys);
        let same: Vec<String> = keys.iter().map(|key| format!("{table}.{key} = new.{key}")).collect();
        let (same, list) = (same.join(" AND "), names.join(", "));
        let set = |from: &str| others.iter().map(|it| format!("{it} = {from}.{it}")).collect::<Vec<_>>().join(", ");
        // SQLite reads `ON` after a table as a join condition; `WHERE true` keeps the two apart.
        let insert = format!("INSERT INTO {table} ({list}) SELECT {list} FROM {rows} WHERE true");
        match self.verb {
            Verb::Insert => insert,
            Verb::Upsert => format!("{insert} ON CONFLICT ({}) DO UPDATE SET {}", keys.join(", "), set("excluded")),
            Verb::Update(only) => format!("UPDATE {table} SET {} FROM {rows} WHERE {same}{only}", set("new")),
            Verb::Delete => format!("DELETE FROM {table} WHERE {} IN (SELECT {list} FROM {rows})", keys.join(", ")),
        }
    }
}

/// Rows for a [`Write`].
#[derive(Debug)]
pub(super) struct Rows {
    pub(super) write: &'static Write,
    rows: Vec<Vec<Value>>,
}

impl Rows {
    pub(super) const fn new(write: &'static Write) -> Self {
        Self { write, rows: Vec::new() }
    }

    /// Adds a row. What PostgreSQL cannot store is refused on both engines, before anything is sent, so that
    /// one bad value does not abort the transaction of a whole group.
    pub(super) fn push(&mut self, row: Vec<Value>) -> Result<(), StoreError> {
        debug_assert_eq!(row.len(), self.write.columns.len(), "{}", self.write.name);
        for (value, (column, _)) in row.iter().zip(self.write.columns) {
            if value.as_text().is_some_and(|text| text.contains('\0')) {
                let key: Vec<String> = row.iter().take(self.write.keys).map(Value::to_key).collect();
                let why = "the text holds a NUL character, which cannot be stored; leave it out".to_owned();
                return Err(StoreError::Corrupt { table: self.write.table, key: key.join("/"), column, why });
            }
        }
        self.rows.push(row);
        Ok(())
    }

    pub(super) const fn len(&self) -> usize {
        self.rows.len()
    }

    /// The first few keys, for an error.
    pub(super) fn keys(&self) -> String {
        let of = |row: &Vec<Value>| row.iter().take(self.write.keys).map(Value::to_key).collect::<Vec<_>>().join("/");
        let mut keys = self.rows.iter().take(5).map(of).collect::<Vec<_>>().join(", ");
        if self.rows.len() > 5 {
            keys.push_str(", …");
        }
        keys
    }

    pub(super) fn chunks(&self) -> impl Iterator<Item = &[Vec<Value>]> {
        self.rows.chunks(MOST)
    }
}
