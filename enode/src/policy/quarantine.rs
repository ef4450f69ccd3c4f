//! The reason `quarantine`: one Run after another failed here at once, so that this node would eat the whole queue.
//!
//! Counted are Runs in a row, each once, and of what went wrong only what speaks against the machine ([`Against`]): a
//! contract with a typo must not take a machine away, neither by repeating itself nor by coming five times. A step that completes, whatever its exit code, ends the row; the quarantine it does not end,
//! nor does time. Only the owner does, by a new `quarantine_cleared` in the policy file (`enode undrain
//! --quarantine`). Count and quarantine are kept in `STATE/quarantine/NODE.json`.

use std::{io, path::PathBuf};

use serde::{Deserialize, Serialize};
use shared::{
    Duration, RunId, Timestamp,
    domain::{Drain, FailReason},
};

use super::Held;
use crate::{files, spool::write_whole};

/// When a node is held back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rule {
    /// After so many Runs in a row; 0: never.
    pub after: u32,
    /// That failed within this time of their start.
    pub within: Duration,
}

/// What a cause of failure speaks against. Each kind of error says it of itself, by an exhaustive match.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Against {
    /// The machine, or how its owner has set it up: the next Run would fail here, too.
    Machine,
    /// The Run, or what came from elsewhere: it would fail on another machine just so, or it is not known.
    Others,
}

/// How an attempt ended, as far as it says something about the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The program ran to its end.
    Completed,
    /// It did not, after this long.
    Failed(FailReason, Against, Duration),
}

impl End {
    /// Whether it counts (true), ends the row (false), or says nothing.
    fn verdict(self, rule: Rule) -> Option<bool> {
        match self {
            Self::Completed => Some(false),
            // Waiting for what is stuck takes long, and that is the fault.
            Self::Failed(FailReason::Stuck, ..) => Some(true),
            Self::Failed(_, _, took) if took > rule.within => Some(false),
            Self::Failed(
                FailReason::CouldNotStart
                | FailReason::WorkspaceLost
                | FailReason::InputMissing
                | FailReason::OutputRefused,
                against,
                _,
            ) => match against {
                Against::Machine => Some(true),
                Against::Others => None,
            },
            // Ended by the contract, the owner, the mediator or the network.
            Self::Failed(
                FailReason::Timeout
                | FailReason::Killed
                | FailReason::Stopped
                | FailReason::InvalidOutput
                | FailReason::Unavailable
                | FailReason::Deadlock
                | FailReason::RunClosed
                | FailReason::NodeRestarted
                | FailReason::LeaseExpired,
                ..,
            ) => None,
        }
    }
}

/// What is kept.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Kept {
    /// Failed in a row.
    runs: Vec<RunId>,
    /// Held back since.
    since: Option<Timestamp>,
    /// Why, for people.
    text: String,
    /// The owner's `quarantine_cleared` at that time.
    cleared: Option<String>,
}

/// One node's.
#[derive(Debug)]
pub struct Quarantine {
    path: PathBuf,
    rule: Rule,
    kept: Kept,
    /// What the owner had said when it began is not known: the first word that is seen counts as that one.
    is_baseline_lost: bool,
}

impl Quarantine {
    /// As an earlier life left it. What cannot be understood holds the node back.
    #[must_use]
    pub fn open(path: PathBuf, rule: Rule, now: Timestamp) -> Self {
        let found = match files::read_regular(&path, 1 << 20) {
            Ok(None) => Ok(Kept::default()),
            Ok(Some(file)) => serde_json::from_slice(&file.bytes).map_err(|error| lost(&path, &error, now)),
            Err(why) => Err(lost(&path, &why, now)),
        };
        let is_baseline_lost = found.is_err();
        let kept = found.unwrap_or_else(|lost| lost);
        Self { path, rule, kept, is_baseline_lost }
    }

    /// An attempt of a Run has ended. True: the node is held back from now on.
    pub fn ended(&mut self, run: &RunId, end: End, cleared: Option<&str>, now: Timestamp) -> bool {
        if self.rule.after == 0 || self.kept.since.is_some() {
            return false;
        }
        match end.verdict(self.rule) {
            None => return false,
            Some(false) if self.kept.runs.is_empty() => return false,
            Some(false) => self.kept.runs.clear(),
            Some(true) if self.kept.runs.contains(run) => return false,
            Some(true) => self.kept.runs.push(run.clone()),
        }
        let full = u32::try_from(self.kept.runs.len()).unwrap_or(u32::MAX) >= self.rule.after;
        if full {
            let how = match end {
                End::Completed => "",
                End::Failed(reason, ..) => reason.as_str(),
            };
            self.kept.since = Some(now);
            self.kept.cleared = cleared.map(str::to_owned);
            self.kept.text = format!(
                "{} Runs in a row failed here at once, the last one ({run}) with {how}; its owner ends this with \
                 `enode undrain --quarantine`",
                self.kept.runs.len()
            );
        }
        self.save();
        full
    }

    /// The owner's word as of now. True: it ended the quarantine.
    pub fn owner_says(&mut self, cleared: Option<&str>) -> bool {
        if std::mem::take(&mut self.is_baseline_lost) {
            self.kept.cleared = cleared.map(str::to_owned);
            self.save();
        }
        if self.kept.since.is_none() || cleared.is_none() || cleared == self.kept.cleared.as_deref() {
            return false;
        }
        self.kept = Kept::default();
        self.save();
        true
    }

    /// The reason, while it holds.
    #[must_use]
    pub fn held(&self) -> Option<Held> {
        let since = self.kept.since.filter(|_| self.rule.after > 0)?;
        Some(Held { drain: Drain::Graceful, text: self.kept.text.clone(), since: Some(since) })
    }

    fn save(&self) {
        let write = || -> io::Result<()> {
            if let Some(folder) = self.path.parent() {
                files::make_private_dir(folder)?;
            }
            // Not synced: whoever asks holds up the heartbeat, and what a loss of power forgets shows again soon.
            write_whole(&self.path, &serde_json::to_vec_pretty(&self.kept)?)
        };
        if let Err(error) = write() {
            tracing::error!(file = %self.path.display(), %error, "the quarantine cannot be kept: a restart forgets it");
        }
    }
}

fn lost(path: &std::path::Path, why: &dyn std::fmt::Display, now: Timestamp) -> Kept {
    tracing::warn!(file = %path.display(), %why, "the note about a quarantine is lost; assuming that there is one");
    let text = "the note about it cannot be read; the owner ends this with `enode undrain --quarantine`".to_owned();
    Kept { since: Some(now), text, ..Kept::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_millis(5);
    const RULE: Rule = Rule { after: 3, within: Duration::from_secs(10) };
    const AT_ONCE: End = End::Failed(FailReason::CouldNotStart, Against::Machine, Duration::from_millis(9));

    fn run(name: &str) -> RunId {
        name.parse().unwrap()
    }

    fn fresh() -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("quarantine/n1.json");
        (dir, path)
    }

    #[test]
    fn runs_that_fail_at_once_in_a_row_hold_the_node_back_until_its_owner_speaks() {
        let (_dir, path) = fresh();
        let mut it = Quarantine::open(path.clone(), RULE, NOW);
        for (name, full) in [("a", false), ("a", false), ("b", false), ("c", true)] {
            assert_eq!(it.ended(&run(name), AT_ONCE, Some("old"), NOW), full, "{name}");
        }
        // Neither a success, nor a restart, nor the word from before, nor silence ends it.
        assert!(!it.ended(&run("d"), End::Completed, None, NOW));
        let mut it = Quarantine::open(path.clone(), RULE, NOW);
        for nothing in [Some("old"), None] {
            assert!(!it.owner_says(nothing));
        }
        let held = it.held().unwrap();
        assert!(held.text.contains("3 Runs") && held.text.contains("could_not_start"), "{held:?}");
        assert_eq!((held.drain, held.since), (Drain::Graceful, Some(NOW)));
        assert!(it.owner_says(Some("new")));
        assert_eq!(it.held(), None);
        assert_eq!(Quarantine::open(path, RULE, NOW).held(), None, "for good");
        assert!(!it.ended(&run("e"), AT_ONCE, Some("new"), NOW), "the row starts again");
    }

    #[test]
    fn what_completes_or_lasts_ends_the_row_and_what_others_ended_says_nothing() {
        let (_dir, path) = fresh();
        let late = End::Failed(FailReason::OutputRefused, Against::Machine, Duration::from_secs(11));
        for end in [End::Completed, late] {
            let mut it = Quarantine::open(path.clone(), RULE, NOW);
            it.ended(&run("a"), AT_ONCE, None, NOW);
            it.ended(&run("b"), AT_ONCE, None, NOW);
            it.ended(&run("c"), end, None, NOW);
            assert!(!it.ended(&run("d"), AT_ONCE, None, NOW), "{end:?}");
            it.ended(&run("c"), End::Completed, None, NOW);
        }
        let mut it = Quarantine::open(path, RULE, NOW);
        for reason in FailReason::ALL {
            let own = End::Failed(reason, Against::Others, Duration::default()).verdict(RULE);
            assert_eq!(own, (reason == FailReason::Stuck).then_some(true), "{reason:?}");
            let end = End::Failed(reason, Against::Machine, Duration::default());
            let counts = end.verdict(RULE) == Some(true);
            let machine = ["could_not_start", "workspace_lost", "input_missing", "output_refused", "stuck"];
            assert_eq!(counts, machine.contains(&reason.as_str()), "{reason:?}");
            assert!(!it.ended(&run("a"), end, None, NOW), "{reason:?}");
        }
    }

    #[test]
    fn off_is_off_and_garbage_holds_the_node_back() {
        let (dir, path) = fresh();
        let off = Rule { after: 0, ..RULE };
        std::fs::create_dir_all(dir.path().join("quarantine")).unwrap();
        std::fs::write(&path, "{").unwrap();
        let mut it = Quarantine::open(path.clone(), RULE, NOW);
        assert!(!it.owner_says(Some("last month")), "an old word");
        assert!(it.held().is_some());
        assert!(it.owner_says(Some("now")));
        std::fs::write(&path, "{").unwrap();
        let mut it = Quarantine::open(path, off, NOW);
        assert_eq!(it.held(), None);
        assert!(!it.ended(&run("a"), AT_ONCE, None, NOW));
    }
}
