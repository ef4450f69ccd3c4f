//! Search over everything that a ticket's file says: title, body, name and every key, whatever the case and the form in
//! which letters are composed.

use std::borrow::Cow;

use shared::ticket::Ticket;
use unicode_normalization::{IsNormalized, UnicodeNormalization, is_nfc_quick};

/// Words of a person, all of which must occur.
#[derive(Debug, Clone, Default)]
pub(super) struct Words(Vec<String>);

impl Words {
    /// Words between blanks; none of them: everything fits.
    pub(super) fn new(text: &str) -> Self {
        Self(text.split_whitespace().map(|word| plain(word).into_owned()).collect())
    }

    /// Whether a ticket says all of them.
    pub(super) fn fit(&self, ticket: &Ticket) -> bool {
        if self.0.is_empty() {
            return true;
        }
        let mut left: Vec<&str> = self.0.iter().map(String::as_str).collect();
        let mut look = |text: &str| {
            if !left.is_empty() && !text.is_empty() {
                let text = plain(text);
                left.retain(|word| !text.contains(word));
            }
            left.is_empty()
        };
        look(ticket.stem.as_str())
            || look(&ticket.shown)
            || ticket.text.keys().any(|(_, value)| look(value))
            || ticket.deps.iter().any(|dep| look(dep.as_str()))
            || look(ticket.text.body())
    }
}

/// One case and one form, so that equal text has equal bytes.
fn plain(text: &str) -> Cow<'_, str> {
    if text.is_ascii() {
        return if text.bytes().any(|byte| byte.is_ascii_uppercase()) {
            text.to_ascii_lowercase().into()
        } else {
            text.into()
        };
    }
    let composed: Cow<'_, str> = match is_nfc_quick(text.chars()) {
        IsNormalized::Yes => text.into(),
        IsNormalized::No | IsNormalized::Maybe => text.nfc().collect::<String>().into(),
    };
    // A small letter may be made of several.
    composed.to_lowercase().nfc().collect::<String>().into()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use shared::ticket::{Document, Lane, Stem};

    use super::*;

    #[test]
    fn every_word_of_a_file_is_found_whatever_its_case_and_form() {
        let text = "---\ntitle: Straße in ÉVRY\nsquad: Blue\ndeps:\n  - other-1\n---\nThe Body says e\u{301}t\u{e9}.\n";
        let text = Arc::new(Document::parse(text.as_bytes().to_vec()).unwrap());
        let ticket = Ticket::new(Stem::new("1a2b").unwrap(), Lane::Done, "1a2b.done.md".into(), text, 0);
        for (words, fits) in [
            ("", true),
            ("straße", true),
            ("évry", true),
            ("e\u{301}vry", true),
            ("BLUE body", true),
            ("blue red", false),
            ("1A2B", true),
            ("other-1", true),
            ("été", true),
            ("squad", false),
        ] {
            assert_eq!(Words::new(words).fit(&ticket), fits, "{words}");
        }
    }
}
