//! The keys that mean something, and values that fit on their line.

use crate::distance;

/// The stem again, for show.
pub const TICKET: &str = "ticket";
/// One line for people.
pub const TITLE: &str = "title";
/// Which template makes its Run.
pub const KIND: &str = "kind";
/// 1 to 5.
pub const PRIORITY: &str = "priority";
/// Stems that must be done first.
pub const DEPS: &str = "deps";
/// The stem of the request that it comes from; locks nothing.
pub const REQ: &str = "req";
/// When it entered the line. Written because a file that is replaced as a whole has no birth time to keep.
pub const CREATED_AT: &str = "created_at";
/// The Run that works on it.
pub const SESSION_ID: &str = "session_id";
/// When that began.
pub const ASSIGNED_AT: &str = "assigned_at";
/// Who works on it, for people.
pub const OWNER: &str = "owner";
/// When a person claimed it by hand.
pub const CLAIMED_AT: &str = "claimed_at";
/// Automatic reclaims so far.
pub const ATTEMPTS: &str = "attempts";
/// The stem of the answer that it waits for. Stays when the answer has come.
pub const AWAITING: &str = "awaiting";
/// When that was asked.
pub const ASKED_AT: &str = "asked_at";

/// `kind` of the file that answers a question.
pub const ANSWER: &str = "answer";

/// What says that somebody has a ticket in hand. The last three are written by the earlier tool only. Giving a ticket
/// back takes all of them away.
pub const OWNERS: [&str; 7] = [SESSION_ID, ASSIGNED_AT, OWNER, CLAIMED_AT, "pid", "transcript", "inbox"];

/// All that mean something here.
const KNOWN: [&str; 14] = [
    TICKET,
    TITLE,
    KIND,
    PRIORITY,
    DEPS,
    REQ,
    CREATED_AT,
    SESSION_ID,
    ASSIGNED_AT,
    OWNER,
    CLAIMED_AT,
    ATTEMPTS,
    AWAITING,
    ASKED_AT,
];

/// Whether a key means something here.
#[must_use]
pub(super) fn is_known(key: &str) -> bool {
    KNOWN.contains(&key) || OWNERS.contains(&key)
}

/// Words of other tools that people write for a key.
const ELSEWHERE: [(&str, &str); 5] =
    [("prio", PRIORITY), ("depends", DEPS), ("depends_on", DEPS), ("dependencies", DEPS), ("blocked_by", DEPS)];

/// The key that somebody meant who wrote this one, if it means nothing and looks like a slip. Keys of other tools stay
/// what they are, so a short one must look very much alike.
#[must_use]
pub(super) fn meant(key: &str) -> Option<&'static str> {
    let most = if key.len() < 5 { 1 } else { 2 };
    let is_known = is_known(key);
    let key = key.to_ascii_lowercase().replace('-', "_");
    if let Some((_, known)) = ELSEWHERE.into_iter().find(|(word, _)| *word == key) {
        return Some(known);
    }
    // Of three letters, most others are one letter from `req`.
    let is_slip = !is_known && (key.len() > 3 || key == "dep") && key.len() <= 40;
    let near = KNOWN.into_iter().min_by_key(|known| distance(known, &key));
    near.filter(|known| is_slip && distance(known, &key) <= most)
}

/// Why a text cannot be a value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadValue {
    /// It would end the line and begin another key.
    #[error("{0}: a value is one line; there is a line break or another control character in it")]
    Control(String),
    /// It is not written as a key.
    #[error("{0:?} is no key: a key has letters, digits, '_' and '-', and begins with a letter or '_'")]
    Key(String),
}

/// Whether a text can stand before the colon.
#[must_use]
pub fn is_key(text: &str) -> bool {
    let first = text.chars().next();
    first.is_some_and(|c| c.is_ascii_alphabetic() || c == '_')
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-')
}

/// What a value means: blanks around it and one pair of quotes around that are not part of it.
#[must_use]
pub fn unquoted(text: &str) -> &str {
    let text = text.trim();
    for quote in ['"', '\''] {
        if let Some(inner) = text.strip_prefix(quote).and_then(|rest| rest.strip_suffix(quote)) {
            return inner;
        }
    }
    text
}

/// A value as it is written, so that [`unquoted`] reads it back.
///
/// # Errors
/// [`BadValue::Control`] with the key's name.
pub fn written(key: &str, value: &str) -> Result<String, BadValue> {
    let value = value.trim();
    if value.contains(ends_line) {
        return Err(BadValue::Control(key.to_owned()));
    }
    Ok(quoted(value))
}

/// What is more than one line to somebody who reads the file.
fn ends_line(c: char) -> bool {
    c.is_control() || matches!(c, '\u{2028}' | '\u{2029}')
}

/// A text of others as a value: whatever would end its line is a blank.
pub(super) fn one_line(text: &str) -> String {
    quoted(text.replace(ends_line, " ").trim())
}

/// A text as [`unquoted`] reads it back: in quotes only where it must be.
pub(super) fn quoted(text: &str) -> String {
    if unquoted(text) == text { text.to_owned() } else { format!("\"{text}\"") }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn one_pair_of_quotes_is_not_part_of_a_value() {
        for (text, value) in [
            ("", ""),
            ("  a b ", "a b"),
            ("\"a\"", "a"),
            ("'a'", "a"),
            ("\"\"a\"\"", "\"a\""),
            ("\"a", "\"a"),
            ("\"", "\""),
            ("''", ""),
        ] {
            assert_eq!(unquoted(text), value, "{text}");
        }
    }

    #[test]
    fn a_line_break_in_a_value_is_refused() {
        for bad in ["a\nb", "a\rb", "a\u{0}b", "a\u{2028}b", "a\u{85}b"] {
            let said = written("title", bad).unwrap_err().to_string();
            assert!(said.starts_with("title: a value is one line"), "{said}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(value in "[^\\p{Cc}\u{2028}\u{2029}]{0,40}") {
            let text = written("title", &value).unwrap();
            prop_assert_eq!(unquoted(&text), value.trim());
        }
    }
}
