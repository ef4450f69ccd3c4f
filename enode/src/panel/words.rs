//! Times and states in words.

use shared::{
    Timestamp,
    ticket::{Lane, Status},
};

use crate::clock;

const MINUTE: u64 = 60;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;

fn count(number: u64, thing: &str) -> String {
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

/// A stem in an address.
pub(super) fn escaped(stem: &str) -> String {
    form_urlencoded::byte_serialize(stem.as_bytes()).collect::<String>().replace('+', "%20")
}

#[cfg(test)]
mod tests {
    use super::*;

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
