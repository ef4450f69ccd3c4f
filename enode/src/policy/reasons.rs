//! Why a node is not lent: a set, so that clearing one reason never clears another.

use std::collections::BTreeMap;

use shared::{
    Timestamp,
    domain::{Drain, Policy},
};

/// Who holds the node back. The order is the order of the joined text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Source {
    /// The policy file.
    Owner,
    /// Too little room in `state_dir`.
    Disk,
    /// One Run after another failed here at once.
    Quarantine,
    /// A process group that does not go.
    Stuck,
}

impl Source {
    /// Its name in texts and in `enode status`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Owner => "owner",
            Self::Disk => "disk",
            Self::Quarantine => "quarantine",
            Self::Stuck => "stuck",
        }
    }
}

/// One reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Held {
    /// How strongly.
    pub drain: Drain,
    /// For people.
    pub text: String,
    /// Since when.
    pub since: Option<Timestamp>,
}

/// What holds for every node of this machine: the owner's policy, the machine's own reasons, and what the owner
/// says about quarantines.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Standing {
    /// From the policy file.
    pub owner: Policy,
    /// From the machine.
    pub reasons: Reasons,
    /// The last `quarantine_cleared` that was read. Only a change of it means anything.
    pub quarantine_cleared: Option<String>,
}

impl Standing {
    /// All of it together.
    #[must_use]
    pub fn policy(&self) -> Policy {
        self.reasons.over(&self.owner)
    }
}

/// All reasons of one node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reasons(BTreeMap<Source, Held>);

impl Reasons {
    /// Adds a reason or renews it. It keeps its `since` while its strength stays the same.
    pub fn hold(&mut self, source: Source, mut held: Held) {
        if held.drain == Drain::None {
            self.clear(source);
            return;
        }
        if let Some(known) = self.0.get(&source).filter(|known| known.drain == held.drain) {
            held.since = known.since.or(held.since);
        }
        self.0.insert(source, held);
    }

    /// Takes one reason away; the others stay.
    pub fn clear(&mut self, source: Source) {
        self.0.remove(&source);
    }

    /// Whether this one holds.
    #[must_use]
    pub fn holds(&self, source: Source) -> bool {
        self.0.contains_key(&source)
    }

    /// Each reason by itself, the owner's first.
    pub fn each(&self, owner: &Policy) -> impl Iterator<Item = (Source, Held)> {
        let own = Held { drain: owner.drain, text: owner.reason.clone(), since: owner.since };
        let own = Some((Source::Owner, own)).filter(|(_, held)| held.drain != Drain::None);
        let others: Vec<_> = self.0.iter().map(|(source, held)| (*source, held.clone())).collect();
        own.into_iter().chain(others)
    }

    /// The owner's policy together with these reasons: the strongest drain, its earliest time, every text.
    #[must_use]
    pub fn over(&self, base: &Policy) -> Policy {
        let drain = self.0.values().map(|held| held.drain).fold(base.drain, Drain::max);
        let base_since = base.since.filter(|_| base.drain == drain);
        let since = self.0.values().filter(|held| held.drain == drain).filter_map(|held| held.since);
        let since = since.chain(base_since).min();
        let own = (base.drain != Drain::None && !base.reason.is_empty()).then(|| base.reason.clone());
        let others = self.0.iter().map(|(source, held)| format!("{}: {}", source.as_str(), held.text));
        let reason = own.into_iter().chain(others).collect::<Vec<_>>().join("; ");
        Policy { drain, reason, since: since.filter(|_| drain != Drain::None), error: base.error.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(drain: Drain, text: &str, ms: i64) -> Held {
        Held { drain, text: text.into(), since: Some(Timestamp::from_millis(ms)) }
    }

    #[test]
    fn the_strongest_holds_and_every_text_shows() {
        let owner = Policy {
            drain: Drain::AtBoundary,
            reason: "mine now".into(),
            since: Some(Timestamp::from_millis(7)),
            error: "odd".into(),
        };
        let mut reasons = Reasons::default();
        reasons.hold(Source::Disk, held(Drain::Graceful, "1 GiB free", 3));
        let both = reasons.over(&owner);
        assert_eq!(both.drain, Drain::AtBoundary);
        assert_eq!(both.reason, "mine now; disk: 1 GiB free");
        assert_eq!((both.since, both.error.as_str()), (Some(Timestamp::from_millis(7)), "odd"));
    }

    #[test]
    fn clearing_one_never_clears_another() {
        let mut reasons = Reasons::default();
        reasons.hold(Source::Disk, held(Drain::Graceful, "full", 3));
        reasons.hold(Source::Stuck, held(Drain::Graceful, "pid 7", 9));
        reasons.clear(Source::Disk);
        let policy = reasons.over(&Policy::default());
        assert_eq!((policy.drain, policy.reason.as_str()), (Drain::Graceful, "stuck: pid 7"));
        reasons.clear(Source::Stuck);
        assert_eq!(reasons.over(&Policy::default()), Policy::default());
    }

    #[test]
    fn a_renewed_reason_keeps_its_time() {
        let mut reasons = Reasons::default();
        reasons.hold(Source::Disk, held(Drain::Graceful, "2 GiB", 3));
        reasons.hold(Source::Disk, held(Drain::Graceful, "1 GiB", 9));
        let policy = reasons.over(&Policy::default());
        assert_eq!((policy.since, policy.reason.as_str()), (Some(Timestamp::from_millis(3)), "disk: 1 GiB"));
    }
}
