//! What of the board is shown, as its address says it: `?state=open&state=done&q=words&done=40`.

use std::collections::BTreeSet;

use shared::ticket::{Choice, Status};

use super::fields::Fields;

/// How many done tickets are drawn at a time.
pub(super) const DONE_STEP: usize = 20;

/// Longer searches are cut, as the page then shows.
const WORDS: usize = 1_000;

/// One view of the board.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Filter {
    chosen: BTreeSet<Choice>,
    /// Words that must all occur.
    pub(super) words: String,
    /// How many done tickets are drawn.
    pub(super) done: usize,
}

impl Default for Filter {
    fn default() -> Self {
        Self { chosen: Choice::ALL.into_iter().collect(), words: String::new(), done: DONE_STEP }
    }
}

impl Filter {
    /// From an address. What it does not say, or says in words that there are not, is the default.
    pub(super) fn read(query: &str) -> Self {
        let fields = Fields::read(query.as_bytes());
        let all = Self::default();
        let chosen: BTreeSet<Choice> =
            fields.all("state").flat_map(|words| words.split(',')).filter_map(Choice::read).collect();
        Self {
            chosen: if chosen.is_empty() { all.chosen } else { chosen },
            words: fields.get("q").trim().chars().take(WORDS).collect::<String>().trim_end().to_owned(),
            done: fields.get("done").parse().unwrap_or(DONE_STEP).max(DONE_STEP),
        }
    }

    /// Whether this word is chosen.
    pub(super) fn has(&self, choice: Choice) -> bool {
        self.chosen.contains(&choice)
    }

    /// Whether tickets in this state are drawn.
    pub(super) fn shows(&self, status: Status) -> bool {
        self.chosen.iter().any(|choice| status.is_shown_by(*choice))
    }

    /// Whether anything is left out.
    pub(super) fn is_narrow(&self) -> bool {
        self.chosen.len() < Choice::ALL.len() || !self.words.is_empty()
    }

    /// The address of this view; the default has none.
    pub(super) fn address(&self) -> String {
        let mut query = form_urlencoded::Serializer::new(String::new());
        if self.chosen.len() < Choice::ALL.len() {
            for choice in &self.chosen {
                query.append_pair("state", choice.as_str());
            }
        }
        if !self.words.is_empty() {
            query.append_pair("q", &self.words);
        }
        if self.done > DONE_STEP {
            query.append_pair("done", &self.done.to_string());
        }
        let query = query.finish();
        if query.is_empty() { "/".to_owned() } else { format!("/?{query}") }
    }

    /// The same with these states.
    pub(super) fn with(&self, chosen: impl IntoIterator<Item = Choice>) -> Self {
        Self { chosen: chosen.into_iter().collect(), ..self.clone() }
    }

    /// The same with more done tickets.
    pub(super) fn with_more(&self) -> Self {
        Self { done: self.done.saturating_add(DONE_STEP), ..self.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r45_six_words_are_the_same_view_as_none() {
        let all = "state=open&state=deps_wait&state=answer_wait&state=assigned&state=in_progress&state=done";
        assert_eq!(Filter::read(all), Filter::read(""));
        assert_eq!(Filter::read(all).address(), "/");
        assert_eq!(Filter::read("state=nonsense"), Filter::default());
        assert!(!Filter::read(all).is_narrow());
    }

    #[test]
    fn who_chooses_deps_gets_answers_too_and_not_the_other_way_round() {
        let shown = |query: &str| {
            let filter = Filter::read(query);
            Status::ALL.into_iter().filter(|it| filter.shows(*it)).map(Status::as_str).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(shown("state=deps_wait"), "deps_wait answer_wait");
        assert_eq!(shown("state=answer_wait"), "answer_wait");
        assert_eq!(shown("state=open"), "open");
        assert_eq!(shown("state=open,done"), "open done");
        assert_eq!(shown(""), "open deps_wait answer_wait assigned in_progress done");
    }

    #[test]
    fn an_address_is_read_back() {
        for query in ["", "state=open&state=done", "q=a+%26+b%3Dc%20%EA%B0%80", "state=done&q=x&done=60"] {
            let filter = Filter::read(query);
            let address = filter.address();
            assert_eq!(Filter::read(address.strip_prefix("/?").unwrap_or_default()), filter, "{query}");
        }
        assert_eq!(Filter::read("done=1").done, DONE_STEP);
        assert_eq!(Filter::read("done=18446744073709551615").with_more().done, usize::MAX);
    }
}
