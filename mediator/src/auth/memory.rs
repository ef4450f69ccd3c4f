//! What is remembered of good credentials, and how far it is believed.
//!
//! A revocation is heard of by asking the store, for all of them at once and often ([`Memory::heard`]); as long as that
//! works a credential is not read again but for [`REREAD`], the safety net for rows that were changed by hand. Where
//! it does not work, what is remembered is believed for [`TRUST`] only.

use std::collections::HashMap;

use shared::{Duration, Timestamp};

use super::Identity;

/// The longest that a credential is believed after the last moment at which it is known to have been good.
const TRUST: Duration = Duration::from_secs(2);
/// The longest that a credential is believed after it was read.
const REREAD: Duration = Duration::from_secs(60);
/// The longest that it is remembered that a credential was good once.
const KEPT: Duration = Duration::from_secs(3_600);
/// Most credentials remembered.
const MOST: usize = 10_000;

/// How a credential stands.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// It is good. None: nothing is held against this certificate.
    Good(Option<Identity>),
    /// It was good and must be read again.
    Lapsed,
    /// Nothing is remembered of it.
    Unknown,
}

#[derive(Debug)]
struct Known {
    identity: Option<Identity>,
    read_at: Timestamp,
    ends_at: Option<Timestamp>,
}

/// Good credentials by key.
#[derive(Debug, Default)]
pub(super) struct Memory {
    known: HashMap<String, Known>,
    /// When the store was last asked, with success, which credentials are good no longer.
    heard_at: Option<Timestamp>,
}

impl Memory {
    pub(super) fn standing(&self, key: &str, now: Timestamp) -> Standing {
        let Some(known) = self.known.get(key).filter(|it| it.ends_at.is_none_or(|at| at > now)) else {
            return Standing::Unknown;
        };
        let good_at = self.heard_at.unwrap_or(known.read_at).max(known.read_at);
        if good_at + TRUST > now && known.read_at + REREAD > now {
            Standing::Good(known.identity.clone())
        } else {
            Standing::Lapsed
        }
    }

    /// A credential was found to be good. `read_at` is before it was read, `ends_at` when it runs out.
    pub(super) fn good(
        &mut self,
        key: String,
        identity: Option<Identity>,
        read_at: Timestamp,
        ends_at: Option<Timestamp>,
    ) {
        if self.known.len() >= MOST && !self.known.contains_key(&key) {
            self.known.retain(|_, it| it.read_at + REREAD > read_at);
        }
        if self.known.len() < MOST || self.known.contains_key(&key) {
            self.known.insert(key, Known { identity, read_at, ends_at });
        }
    }

    /// A credential is good no longer.
    pub(super) fn forget(&mut self, key: &str) {
        self.known.remove(key);
    }

    /// Everything that was good no longer at `at` has been forgotten.
    pub(super) fn heard(&mut self, at: Timestamp) {
        self.heard_at = Some(at);
        self.known.retain(|_, it| it.read_at + KEPT > at);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.known.is_empty()
    }
}

#[cfg(test)]
#[path = "memory_tests.rs"]
mod tests;
