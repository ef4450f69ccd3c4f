//! Times and states in words.

use shared::{
    Timestamp,
    ticket::{Lane, Status},
};

use crate::clock;

const MINUTE: u64 = 60;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;

/// A number of things.
pub(super) fn count(number: u64, thing: &str) -> String {
    format!("{number} {thing}{}", if number == 1 { "" } else { "s" })
}

/// How long ago, in the largest unit that fits.
pub(super) fn age(since: Timestamp) -> String {
    age_at(since, clock::now())
}

fn age_at(since: Timestamp, now: Timestamp) -> String {
    match now.since(since).millis() / 1_000 {
        seconds if seconds < MINUTE => "moments".to_owned(),
        seconds if seconds < HOUR => count(seconds / MINUTE, "minute"),
        seconds if seconds < DAY => count(seconds / HOUR, "hour"),
        seconds => count(seconds / DAY, "day"),
    }
}

/// Whole days since a question was asked.
pub(super) fn days(asked: Timestamp) -> String {
    count(clock::now().since(asked).millis() / 1_000 / DAY, "day")
}

/// A state as people say it.
pub(super) const fn status(status: Status) -> &'static str {
    match status {
        Status::Open => "open",
        Status::DepsWait => "waits for deps",
        Status::AnswerWait => "waits for an answer",
        Status::Assigned => "assigned",
        Status::InProgress => "in progress",
        Status::Done => "done",
    }
}

/// A lane as people say it.
pub(super) const fn lane(lane: Lane) -> &'static str {
    match lane {
        Lane::Waiting => "waiting",
        Lane::InProgress => "in progress",
        Lane::Done => "done",
    }
}

/// Longer titles, names and warnings are cut.
pub(super) const LINE: usize = 1_000;
/// A longer question is read in its file; it stands on every page.
pub(super) const QUESTION: usize = 32 << 10;
/// A longer text is read in its file.
pub(super) const TEXT: usize = 1 << 20;

/// At most about so many bytes of a text: what somebody has put into one ticket must not make every page as large.
pub(super) fn cut(text: &str, most: usize) -> String {
    if text.len() <= most {
        return text.to_owned();
    }
    let end = (0..=most).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    format!("{}… (cut: the file has all of it)", &text[..end])
}

/// The first of several things, and how many more there are.
#[derive(Debug, Clone)]
pub(super) struct Few<T> {
    pub(super) shown: Vec<T>,
    pub(super) more: usize,
}

impl<T> Few<T> {
    /// At most so many.
    pub(super) fn new(all: impl IntoIterator<Item = T>, most: usize) -> Self {
        let mut all = all.into_iter();
        let shown = all.by_ref().take(most).collect();
        Self { shown, more: all.count() }
    }

    /// The same as a page shows them; what is only counted is not looked at.
    pub(super) fn map<U>(self, show: impl FnMut(T) -> U) -> Few<U> {
        Few { shown: self.shown.into_iter().map(show).collect(), more: self.more }
    }
}

/// A stem in an address.
pub(super) fn escaped(stem: &str) -> String {
    form_urlencoded::byte_serialize(stem.as_bytes()).collect::<String>().replace('+', "%20")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_is_cut_between_two_characters() {
        assert_eq!(cut("가나", 6), "가나");
        assert_eq!(cut("가나", 5), "가… (cut: the file has all of it)");
        assert_eq!(cut("가나", 2), "… (cut: the file has all of it)");
    }

    #[test]
    fn ages_are_rounded_down_to_one_unit() {
        let at = |seconds: i64| age_at(Timestamp::from_millis(0), Timestamp::from_millis(seconds * 1_000));
        for (seconds, words) in [
            (0, "moments"),
            (59, "moments"),
            (60, "1 minute"),
            (3_599, "59 minutes"),
            (3_600, "1 hour"),
            (86_399, "23 hours"),
            (86_400, "1 day"),
            (10 * 86_400, "10 days"),
        ] {
            assert_eq!(at(seconds), words);
        }
    }
}
