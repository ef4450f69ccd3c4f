//! Statements with names, and the values bound to them.
//!
//! A [`Query`] is static text: once where both engines agree (`$1` works on both), once per engine where they
//! do not. Its name shows in the trace, in the counter `mediator_store_statements_total` and in every error.
//! Values are bound, never written into the text.

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
