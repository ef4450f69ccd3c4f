//! One ticket as plain data.

use std::{collections::BTreeMap, sync::Arc};

use serde::Serialize;

use super::{
    file::Document,
    key,
    name::{Lane, Stem},
    warning::Warning,
};
use crate::Timestamp;

/// 1 to 5, the higher the sooner.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Priority(u8);

impl Priority {
    /// Of a ticket that says nothing.
    pub const DEFAULT: Self = Self(3);
    /// Waits until nothing is in progress.
    pub const LOWEST: Self = Self(1);

    /// From 1 to 5.
    #[must_use]
    pub fn new(number: u8) -> Option<Self> {
        (1..=5).contains(&number).then_some(Self(number))
    }

    /// All of them, the highest first.
    pub fn descending() -> impl Iterator<Item = Self> {
        (1..=5).rev().map(Self)
    }

    /// 1 to 5.
    #[must_use]
    pub const fn get(self) -> u8 {
        self.0
    }
}

/// What one file says. Times are the file's own; nothing here depends on when it is read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ticket {
    /// Which ticket.
    pub stem: Stem,
    /// How far it is, by its name.
    pub lane: Lane,
    /// The file's name as it is on disk, which may be decomposed.
    pub file: String,
    /// `ticket`, for show; the name without `.md` where there is none.
    pub shown: String,
    /// `title`; empty where there is none.
    pub title: String,
    /// `kind`; empty where there is none.
    pub kind: String,
    /// `priority` as it counts for this ticket alone.
    pub priority: Priority,
    /// What must be done first, in the order of the file, each once.
    pub deps: Vec<Stem>,
    /// `req`.
    pub req: Option<String>,
    /// `session_id` that says something.
    pub session_id: Option<String>,
    /// `assigned_at` that can be read.
    pub assigned_at: Option<Timestamp>,
    /// `owner`; empty where there is none.
    pub owner: String,
    /// Any key says that somebody has it in hand.
    pub is_owned: bool,
    /// `attempts`; 0 where it is no number.
    pub attempts: u32,
    /// `awaiting`.
    pub awaiting: Option<Stem>,
    /// `asked_at` that can be read. Files of the earlier tool have none.
    pub asked_at: Option<Timestamp>,
    /// When it entered the line, in nanoseconds since the Unix epoch: `created_at`, else the file's birth or change.
    pub created_ns: i64,
    /// What is odd about the file itself.
    pub warnings: Vec<Warning>,
    /// The text, for search, threads and edits.
    pub text: Arc<Document>,
}

impl Ticket {
    /// Reads the keys. `born_ns` is when the file system says that the file came to be.
    #[must_use]
    pub fn new(stem: Stem, lane: Lane, file: String, text: Arc<Document>, born_ns: i64) -> Self {
        let mut warnings = Vec::new();
        let word = |key: &str| text.get(key).unwrap_or_default().to_owned();
        let priority = match text.said(key::PRIORITY) {
            None => Priority::DEFAULT,
            Some(raw) => raw.parse().ok().and_then(Priority::new).unwrap_or_else(|| {
                warnings.push(Warning::BadPriority(raw.to_owned()));
                Priority::DEFAULT
            }),
        };
        let (deps, bad) = text.deps();
        warnings.extend(bad.into_iter().map(Warning::BadDep));
        warnings.extend(slips(&text));
        warnings.extend(not_by_key(&text).filter(|_| lane != Lane::Done));
        let time = |key: &str| text.said(key).and_then(|value| value.parse().ok());
        let created_ns = text.said(key::CREATED_AT).and_then(read_ns).unwrap_or(born_ns);
        Self {
            shown: text.said(key::TICKET).map_or_else(|| file.trim_end_matches(".md").to_owned(), str::to_owned),
            title: word(key::TITLE),
            kind: word(key::KIND),
            priority,
            deps,
            req: text.said(key::REQ).map(str::to_owned),
            session_id: text.said(key::SESSION_ID).map(str::to_owned),
            assigned_at: time(key::ASSIGNED_AT),
            owner: word(key::OWNER),
            is_owned: key::OWNERS.iter().any(|key| text.said(key).is_some()),
            attempts: text.said(key::ATTEMPTS).and_then(|value| value.parse().ok()).unwrap_or(0),
            awaiting: text.said(key::AWAITING).and_then(|value| Stem::new(value).ok()),
            asked_at: time(key::ASKED_AT),
            created_ns,
            warnings,
            stem,
            lane,
            file,
            text,
        }
    }
}

/// Who keeps the state in a key waits for ever.
fn not_by_key(text: &Document) -> impl Iterator<Item = Warning> {
    const DONE: [&str; 5] = ["done", "finished", "complete", "completed", "closed"];
    let states = text.keys().filter(|(key, _)| ["status", "state"].contains(&key.to_ascii_lowercase().as_str()));
    let done = states.filter(|(_, value)| DONE.contains(&value.to_ascii_lowercase().as_str()));
    done.map(|(key, value)| Warning::NotByKey(key.to_owned(), value.to_owned()))
}

/// What somebody has written and nobody reads.
fn slips(text: &Document) -> Vec<Warning> {
    let mut times: BTreeMap<&str, usize> = BTreeMap::new();
    for (key, _) in text.keys() {
        *times.entry(key).or_default() += 1;
    }
    let meant = |key: &str| key::meant(key).filter(|like| !times.contains_key(like));
    let like = times.keys().filter_map(|key| Some(Warning::LikeKey((*key).to_owned(), meant(key)?.to_owned())));
    let repeated = times.iter().filter(|it| *it.1 > 1).map(|(key, many)| Warning::Repeated((*key).to_owned(), *many));
    let indented = text.indented_keys().filter(|it| key::is_known(it)).map(|it| Warning::Indented(it.to_owned()));
    let odd = text.odd_lines().map(|line| Warning::NoKey(line.chars().take(80).collect()));
    let time = text.said(key::CREATED_AT).filter(|value| read_ns(value).is_none());
    like.chain(repeated)
        .chain(indented)
        .chain(odd)
        .chain(time.map(|value| Warning::BadTime(value.to_owned())))
        .collect()
}

/// RFC 3339 with up to nine digits of a second.
fn read_ns(text: &str) -> Option<i64> {
    i64::try_from(text.parse::<jiff::Timestamp>().ok()?.as_nanosecond()).ok()
}

/// How [`key::CREATED_AT`] is written: RFC 3339 to the nanosecond, so that a place in line survives a rewrite.
#[must_use]
pub fn shown_ns(ns: i64) -> String {
    jiff::Timestamp::from_nanosecond(i128::from(ns)).map_or_else(|_| String::new(), |at| format!("{at:.9}"))
}
