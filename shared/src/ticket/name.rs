//! File names: which ticket, and how far it is. Only the end of the name decides.

use std::{fmt, str::FromStr, sync::Arc};

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use unicode_normalization::UnicodeNormalization;

/// What follows stem and state.
const MD: &str = ".md";

/// How far a ticket is, one for one with its file name. The later lane wins where a stem has several files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Lane {
    /// `STEM.md`
    Waiting,
    /// `STEM.wip.md`
    InProgress,
    /// `STEM.done.md`
    Done,
}

impl Lane {
    /// The word for it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::InProgress => "in_progress",
            Self::Done => "done",
        }
    }
}

/// The identity of a ticket: its file name without state and `.md`, in Unicode's composed form (NFC), so that a name
/// that another system has decomposed is still the same ticket.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Stem(Arc<str>);

/// Why a text cannot be a stem.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a ticket: write the file's name without state and .md, no '/', no dot in front")]
pub struct BadStem(String);

/// The system under which the Runs of tickets are filed.
pub const SYSTEM: &str = "ticket";

/// The ticket for which a Run is, by the work that its contract names.
#[must_use]
pub fn of_work(work: &str) -> Option<Stem> {
    Stem::new(work.strip_prefix(SYSTEM)?.strip_prefix(':')?).ok()
}

/// Longest stem in bytes: a name has 255, and a state, `.md` and a temporary name around it must fit.
const LONGEST: usize = 180;

impl Stem {
    /// Normalises and checks.
    ///
    /// # Errors
    /// [`BadStem`] for what cannot be the name of a visible file in one folder.
    pub fn new(text: &str) -> Result<Self, BadStem> {
        let stem: String = text.nfc().collect();
        let bad = stem.is_empty()
            || stem.len() > LONGEST
            || stem.starts_with('.')
            || stem.contains('/')
            || stem.chars().any(char::is_control);
        if bad { Err(BadStem(text.chars().take(80).collect())) } else { Ok(Self(stem.into())) }
    }

    /// What the Runs of this ticket are filed under.
    #[must_use]
    pub fn work(&self) -> String {
        format!("{SYSTEM}:{self}")
    }

    /// As text, in NFC.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether it can stand in a list on one line, and as a value, as it is.
    #[must_use]
    pub fn is_plain(&self) -> bool {
        const ODD: [char; 7] = [',', '[', ']', '"', '\'', '\u{2028}', '\u{2029}'];
        !self.0.contains(ODD) && self.0.trim() == &*self.0
    }
}

impl FromStr for Stem {
    type Err = BadStem;
    fn from_str(text: &str) -> Result<Self, BadStem> {
        Self::new(text)
    }
}

impl fmt::Display for Stem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl fmt::Debug for Stem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.0, f)
    }
}

impl std::borrow::Borrow<str> for Stem {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl Serialize for Stem {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Stem {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Self::new(&String::deserialize(from)?).map_err(serde::de::Error::custom)
    }
}

/// The strings that mark a state in a file name, in NFC.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Suffixes {
    in_progress: String,
    done: String,
}

/// Why two strings cannot mark states.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadSuffixes {
    /// A name could end with both.
    #[error(
        "TICKET_INPROGRESS={0:?} and TICKET_DONE={1:?}: a file name could end with both; \
         set strings of which neither ends with the other, such as .wip and .done"
    )]
    Overlap(String, String),
    /// It cannot be in a file name.
    #[error("{0}={1:?} cannot stand in a file name: set a short string without '/' and control characters")]
    Unusable(&'static str, String),
}

impl Default for Suffixes {
    fn default() -> Self {
        Self { in_progress: ".wip".to_owned(), done: ".done".to_owned() }
    }
}

impl Suffixes {
    /// From the values of `TICKET_INPROGRESS` and `TICKET_DONE`; an empty one is the default.
    ///
    /// # Errors
    /// [`BadSuffixes`] where they do not tell states apart.
    pub fn new(in_progress: &str, done: &str) -> Result<Self, BadSuffixes> {
        let default = Self::default();
        let or = |text: &str, default: String| if text.is_empty() { default } else { text.nfc().collect() };
        let read = Self { in_progress: or(in_progress, default.in_progress), done: or(done, default.done) };
        for (name, text) in [("TICKET_INPROGRESS", &read.in_progress), ("TICKET_DONE", &read.done)] {
            if text.contains('/') || text.chars().any(char::is_control) || text.len() > 40 {
                return Err(BadSuffixes::Unusable(name, text.clone()));
            }
        }
        if read.in_progress.ends_with(&read.done) || read.done.ends_with(&read.in_progress) {
            return Err(BadSuffixes::Overlap(read.in_progress, read.done));
        }
        Ok(read)
    }

    /// Stem and lane of a file, `None` for what is no ticket by its name.
    #[must_use]
    pub fn read(&self, file_name: &str) -> Option<(Stem, Lane)> {
        // First, because a decomposed name may end with a composed suffix.
        let name: String = file_name.nfc().collect();
        let name = name.strip_suffix(MD)?;
        for (suffix, lane) in [(&self.done, Lane::Done), (&self.in_progress, Lane::InProgress)] {
            if let Some(stem) = name.strip_suffix(suffix.as_str())
                && !stem.is_empty()
            {
                return Some((Stem::new(stem).ok()?, lane));
            }
        }
        Some((Stem::new(name).ok()?, Lane::Waiting))
    }

    /// The file name that a ticket gets in a lane: always composed, so that all who take a name take the same one.
    #[must_use]
    pub fn file_name(&self, stem: &Stem, lane: Lane) -> String {
        match lane {
            Lane::Waiting => format!("{stem}{MD}"),
            Lane::InProgress => format!("{stem}{}{MD}", self.in_progress),
            Lane::Done => format!("{stem}{}{MD}", self.done),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(suffixes: &Suffixes, name: &str, expected: Option<(&str, Lane)>) {
        let expected = expected.map(|(stem, lane)| (Stem::new(stem).unwrap(), lane));
        assert_eq!(suffixes.read(name), expected, "{name}");
    }

    #[test]
    fn only_the_end_of_a_name_decides() {
        let it = Suffixes::default();
        for (name, expected) in [
            ("1a2b3c4d.md", Some(("1a2b3c4d", Lane::Waiting))),
            ("1a2b3c4d.wip.md", Some(("1a2b3c4d", Lane::InProgress))),
            ("1a2b3c4d.done.md", Some(("1a2b3c4d", Lane::Done))),
            ("a.wip.b.md", Some(("a.wip.b", Lane::Waiting))),
            ("a.wip.done.md", Some(("a.wip", Lane::Done))),
            ("a.WIP.md", Some(("a.WIP", Lane::Waiting))),
            ("a b.md", Some(("a b", Lane::Waiting))),
            ("a.txt", None),
            ("a.md.bak", None),
            ("a.md~", None),
        ] {
            check(&it, name, expected);
        }
    }

    #[test]
    fn r07_a_hidden_file_is_no_ticket() {
        for name in [".md", ".a.md", ".wip.md", ".a.done.md", "sub/a.md"] {
            check(&Suffixes::default(), name, None);
        }
    }

    #[test]
    fn r06_other_suffixes_give_the_same_verdicts_also_decomposed() {
        let it = Suffixes::new("-진행중", "-완료").unwrap();
        for (name, expected) in [
            ("가.md", ("가", Lane::Waiting)),
            ("가-진행중.md", ("가", Lane::InProgress)),
            ("가-완료.md", ("가", Lane::Done)),
            ("가.wip.md", ("가.wip", Lane::Waiting)),
        ] {
            check(&it, name, Some(expected));
            let decomposed: String = name.nfd().collect();
            assert_ne!(decomposed, name);
            check(&it, &decomposed, Some(expected));
            assert_eq!(it.file_name(&Stem::new(expected.0).unwrap(), expected.1), name);
        }
        let decomposed: String = "-진행중".nfd().collect();
        assert_eq!(Suffixes::new(&decomposed, "-완료").unwrap(), it);
    }

    #[test]
    fn a_suffix_that_is_set_and_empty_is_the_default() {
        assert_eq!(Suffixes::new("", "").unwrap(), Suffixes::default());
        assert_eq!(Suffixes::new(".wip", "").unwrap(), Suffixes::default());
    }

    #[test]
    fn suffixes_that_a_name_could_both_end_with_are_refused() {
        for (wip, done) in [(".x", ".x"), ("x", ".x"), (".done", ""), ("", "e.wip"), ("é", "e\u{301}")] {
            let said = Suffixes::new(wip, done).unwrap_err().to_string();
            assert!(said.contains("TICKET_DONE") && said.contains("such as"), "{said}");
        }
        assert!(Suffixes::new("a/b", "").unwrap_err().to_string().contains("TICKET_INPROGRESS"));
    }

    proptest! {
        #[test]
        fn a_name_that_is_given_is_read_back(stem in "[a-zA-Z0-9가-힣_-]{1,20}", lane in 0..3usize) {
            let (it, stem) = (Suffixes::default(), Stem::new(&stem).unwrap());
            let lane = [Lane::Waiting, Lane::InProgress, Lane::Done][lane];
            prop_assert_eq!(it.read(&it.file_name(&stem, lane)), Some((stem, lane)));
        }

        #[test]
        fn any_name_is_read_or_is_nothing(name in any::<String>()) {
            if let Some((stem, lane)) = Suffixes::default().read(&name) {
                let composed: String = name.nfc().collect();
                prop_assert_eq!(Suffixes::default().file_name(&stem, lane), composed);
            }
        }
    }
}
