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
mod tests {
    use super::*;

    fn at(seconds: u64) -> Timestamp {
        Timestamp::from_millis(1_000_000) + Duration::from_secs(seconds)
    }

    fn memory(ends_at: Option<Timestamp>) -> Memory {
        let mut memory = Memory::default();
        memory.good("k".to_owned(), None, at(0), ends_at);
        memory
    }

    #[test]
    fn what_is_heard_of_is_believed_and_what_is_not_is_read_again() {
        let mut it = memory(None);
        assert_eq!(it.standing("k", at(1)), Standing::Good(None));
        assert_eq!(it.standing("k", at(2)), Standing::Lapsed);
        for second in 0..80 {
            it.heard(at(second));
            let wanted = if second < 60 { Standing::Good(None) } else { Standing::Lapsed };
            assert_eq!(it.standing("k", at(second)), wanted, "{second}");
        }
        it.good("k".to_owned(), None, at(80), None);
        assert_eq!(it.standing("k", at(81)), Standing::Good(None));
        it.forget("k");
        assert_eq!(it.standing("k", at(81)), Standing::Unknown);
    }

    #[test]
    fn what_ends_is_unknown_from_then_on_and_nothing_is_kept_for_ever() {
        let mut it = memory(Some(at(2)));
        assert_eq!(it.standing("k", at(1)), Standing::Good(None));
        assert_eq!(it.standing("k", at(2)), Standing::Unknown);
        it.heard(at(3_600));
        assert!(it.is_empty());
    }

    #[test]
    fn there_is_room_for_so_many() {
        let mut it = memory(None);
        for n in 0..MOST {
            it.good(n.to_string(), None, at(30), None);
        }
        assert_eq!((it.known.len(), it.standing("9999", at(30))), (MOST, Standing::Unknown));
        it.good("late".to_owned(), None, at(70), None);
        assert_eq!(it.standing("late", at(70)), Standing::Good(None));
        assert_eq!(it.standing("k", at(70)), Standing::Unknown);
    }
}
