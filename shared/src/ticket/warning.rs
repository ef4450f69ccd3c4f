//! What may be odd about a ticket.

use std::fmt;

use serde::Serialize;

use super::{key, name::Stem};

/// What is odd about a ticket. None of these keeps it from being a ticket.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "warning", content = "value", rename_all = "snake_case")]
pub enum Warning {
    /// `priority` is no whole number from 1 to 5.
    BadPriority(String),
    /// Something in `deps` cannot be a stem.
    BadDep(String),
    /// `ticket` leads to another file, or to none.
    ShownOtherwise(String),
    /// `awaiting` names what `deps` does not: nothing is locked.
    MarkedNotLocked(Stem),
    /// Something in `deps` is not there: it waits until somebody makes it.
    MissingDep(Stem),
    /// A key that means nothing, and looks like one that does.
    LikeKey(String, String),
    /// A key that means something, with blanks in front of it.
    Indented(String),
    /// A key that says it is done, and its name does not.
    NotByKey(String, String),
    /// A line between the two `---` without a colon.
    NoKey(String),
    /// A key that is given so many times.
    Repeated(String, usize),
    /// `created_at` is no time.
    BadTime(String),
    /// Something in `deps` is written as a file's name; this is its stem.
    FileDep(Stem, Stem),
    /// Several stems in `deps` without commas between.
    SeveralDeps(Stem, Vec<Stem>),
    /// An answer without a word unlocks nothing.
    EmptyAnswer,
    /// An answer that is open unlocks nothing, and would be worked on.
    OpenAnswer,
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BadPriority(text) => {
                write!(f, "priority {text:?} counts as 3: write a whole number from 1 to 5")
            }
            Self::BadDep(text) => write!(f, "deps: {text:?} cannot be a ticket and locks nothing: write its stem"),
            Self::ShownOtherwise(text) => {
                write!(f, "ticket: {text:?} is not this file: others name it by the file's stem")
            }
            Self::MarkedNotLocked(stem) => {
                write!(f, "awaiting names {stem}, deps does not: nothing keeps a worker from taking it")
            }
            Self::MissingDep(stem) => write!(f, "deps: there is no {stem}; it waits until there is one that is done"),
            Self::LikeKey(key, like) => write!(f, "{key}: did you mean {like}? As it is, it means nothing"),
            Self::Indented(key) => {
                write!(f, "{key}: it means nothing with something blank in front of it: remove that")
            }
            Self::NotByKey(key, value) => {
                write!(f, "{key}: {value} means nothing: the file's name says how far it is, so rename the file")
            }
            Self::NoKey(line) => write!(f, "{line:?} is no `key: value`: it means nothing"),
            Self::Repeated(key, times) => {
                let counts = if key == key::DEPS { "first" } else { "last" };
                write!(f, "{key} stands there {times} times: the {counts} one counts")
            }
            Self::BadTime(text) => {
                let key = key::CREATED_AT;
                write!(
                    f,
                    "{key} {text:?} is no time, and the file's own counts: write one such as 2026-01-31T09:00:00Z"
                )
            }
            Self::FileDep(written, stem) => write!(f, "deps: there is no {written}; write {stem}"),
            Self::SeveralDeps(written, stems) => {
                let stems: Vec<&str> = stems.iter().map(Stem::as_str).collect();
                write!(f, "deps: there is no {written:?}; write [{}]", stems.join(", "))
            }
            Self::EmptyAnswer => f.write_str("the answer says nothing: write it below the last line"),
            Self::OpenAnswer => {
                f.write_str("an answer that is not done unlocks nothing: rename it to end with .done.md")
            }
        }
    }
}
