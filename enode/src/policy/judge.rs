//! From what was seen to what holds. Pure: the time is an argument.

use shared::{
    Duration, Timestamp,
    domain::{Drain, Policy},
};

use super::{file::Seen, memory::Memory};
use crate::clock::BootTime;

/// How long silence must last before it releases.
pub const SETTLE: Duration = Duration::from_secs(5);

/// What is judged and remembered from look to look.
#[derive(Debug)]
pub(super) struct Judge {
    memory: Memory,
    silent_since: Option<BootTime>,
}

impl Judge {
    pub(super) const fn new(memory: Memory) -> Self {
        Self { memory, silent_since: None }
    }

    /// What must survive a restart.
    pub(super) const fn memory(&self) -> &Memory {
        &self.memory
    }

    /// The owner's policy as of this look.
    pub(super) fn judge(&mut self, seen: Seen, wall: Timestamp, boot: BootTime) -> Policy {
        let mut error = String::new();
        let silent = match seen {
            Seen::Broken(why) => {
                self.silent_since = None;
                return self.broken(why, wall);
            }
            Seen::Unsteady => {
                // Neither silence nor a word: what held goes on holding.
                self.silent_since = None;
                false
            }
            Seen::Missing => true,
            Seen::Written(written) => {
                error = written.warnings.join("; ");
                match written.drain {
                    Some(drain) => {
                        self.silent_since = None;
                        self.memory.take(drain, &written.reason, wall);
                        false
                    }
                    None => true,
                }
            }
        };
        if silent && self.memory.drain != Drain::None {
            let since = *self.silent_since.get_or_insert(boot);
            if since.until(boot) >= SETTLE {
                self.memory.take(Drain::None, "", wall);
            }
        }
        self.memory.broken_since = None;
        let Memory { drain, reason, since, .. } = &self.memory;
        let held = *drain != Drain::None;
        Policy {
            drain: *drain,
            reason: if held { reason.clone() } else { String::new() },
            since: since.filter(|_| held),
            error,
        }
    }

    fn broken(&mut self, why: String, wall: Timestamp) -> Policy {
        let Memory { drain, reason, since, broken_since } = &mut self.memory;
        if *drain >= Drain::Graceful {
            *broken_since = None;
            return Policy { drain: *drain, reason: reason.clone(), since: *since, error: why };
        }
        let since = *broken_since.get_or_insert(wall);
        Policy {
            drain: Drain::Graceful,
            reason: "the policy file cannot be used".to_owned(),
            since: Some(since),
            error: why,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{super::file::Written, *};

    fn at(ms: u64) -> (Timestamp, BootTime) {
        (Timestamp::from_millis(i64::try_from(ms).unwrap()), BootTime::from_millis(ms))
    }

    fn word(drain: Drain) -> Seen {
        Seen::Written(Written { drain: Some(drain), reason: "mine".into(), ..Written::default() })
    }

    fn silence() -> [Seen; 2] {
        [Seen::Missing, Seen::Written(Written::default())]
    }

    fn look(judge: &mut Judge, seen: Seen, ms: u64) -> Policy {
        let (wall, boot) = at(ms);
        judge.judge(seen, wall, boot)
    }

    fn fresh() -> Judge {
        Judge::new(Memory::default())
    }

    #[test]
    fn nothing_written_is_lending_at_once_where_nothing_was_held() {
        for seen in silence() {
            assert_eq!(look(&mut fresh(), seen, 0), Policy::default());
        }
    }

    #[test]
    fn a41_silence_releases_only_after_it_lasted() {
        for drain in [Drain::Graceful, Drain::AtBoundary] {
            for seen in silence() {
                let mut judge = fresh();
                look(&mut judge, word(drain), 0);
                assert_eq!(look(&mut judge, seen.clone(), 1_000).drain, drain);
                assert_eq!(look(&mut judge, seen.clone(), 5_999).drain, drain);
                assert_eq!(look(&mut judge, seen.clone(), 6_000).drain, Drain::None);
            }
        }
    }

    #[test]
    fn broken_or_unsteady_looks_break_the_silence() {
        for between in [Seen::Broken("why".into()), Seen::Unsteady] {
            let mut judge = fresh();
            look(&mut judge, word(Drain::AtBoundary), 0);
            look(&mut judge, Seen::Missing, 1_000);
            assert_eq!(look(&mut judge, between, 4_000).drain, Drain::AtBoundary);
            assert_eq!(look(&mut judge, Seen::Missing, 6_500).drain, Drain::AtBoundary);
            assert_eq!(look(&mut judge, Seen::Missing, 11_500).drain, Drain::None);
        }
    }

    #[test]
    fn a_written_word_counts_at_once_in_both_directions() {
        let mut judge = fresh();
        for drain in [Drain::AtBoundary, Drain::Graceful, Drain::None, Drain::AtBoundary, Drain::None] {
            assert_eq!(look(&mut judge, word(drain), 0).drain, drain);
        }
    }

    #[test]
    fn broken_is_the_stronger_of_graceful_and_the_last_good_value() {
        for (last, want) in
            [(Drain::None, Drain::Graceful), (Drain::Graceful, Drain::Graceful), (Drain::AtBoundary, Drain::AtBoundary)]
        {
            let mut judge = fresh();
            look(&mut judge, word(last), 0);
            let policy = look(&mut judge, Seen::Broken("line 3".into()), 10);
            assert_eq!((policy.drain, policy.error.as_str()), (want, "line 3"));
            // And for as long as it stays broken.
            assert_eq!(look(&mut judge, Seen::Broken("line 3".into()), 1_000_000).drain, want);
        }
    }

    #[test]
    fn mended_is_mended() {
        let mut judge = fresh();
        look(&mut judge, Seen::Broken("x".into()), 0);
        assert_eq!(look(&mut judge, word(Drain::None), 10), Policy::default());
        look(&mut judge, Seen::Broken("x".into()), 20);
        assert_eq!(look(&mut judge, Seen::Missing, 30), Policy::default());
    }

    #[test]
    fn since_is_when_this_value_was_first_seen() {
        let mut judge = fresh();
        let since = |policy: Policy| policy.since.map(Timestamp::millis);
        assert_eq!(since(look(&mut judge, word(Drain::Graceful), 100)), Some(100));
        assert_eq!(since(look(&mut judge, word(Drain::Graceful), 200)), Some(100));
        assert_eq!(since(look(&mut judge, word(Drain::AtBoundary), 300)), Some(300));
        assert_eq!(since(look(&mut judge, Seen::Broken("x".into()), 400)), Some(300));
        assert_eq!(since(look(&mut judge, word(Drain::None), 500)), None);
        assert_eq!(since(look(&mut judge, Seen::Broken("x".into()), 600)), Some(600));
        assert_eq!(since(look(&mut judge, Seen::Broken("y".into()), 700)), Some(600));
    }

    #[test]
    fn a_restart_remembers_the_last_good_value() {
        let mut judge = fresh();
        look(&mut judge, word(Drain::AtBoundary), 100);
        let mut next = Judge::new(judge.memory().clone());
        let policy = look(&mut next, Seen::Broken("x".into()), 900);
        assert_eq!((policy.drain, policy.since.map(Timestamp::millis)), (Drain::AtBoundary, Some(100)));
        assert_eq!(policy.reason, "mine");
    }
}
