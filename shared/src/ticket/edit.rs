//! What programs write into a ticket: the keys of whoever works on it, and a new one as a whole.

use super::{
    data::{Priority, shown_ns},
    file::Document,
    key::{self, BadValue, written},
    name::Stem,
};
use crate::{RunId, Timestamp};

/// Notes who works on a ticket and since when, and when it entered the line, so that rewriting the file costs it no
/// place there.
///
/// # Errors
/// [`BadValue`] where `owner` is no line; nothing is changed then.
pub fn assign(
    document: &mut Document,
    run: &RunId,
    owner: &str,
    now: Timestamp,
    created_ns: i64,
) -> Result<(), BadValue> {
    let mut assigned = document.clone();
    keep_place(&mut assigned, created_ns)?;
    assigned.set(key::SESSION_ID, run.as_str())?;
    assigned.set(key::ASSIGNED_AT, &now.to_string())?;
    assigned.set(key::OWNER, owner)?;
    *document = assigned;
    Ok(())
}

/// Notes who has claimed a ticket by hand. Without `session_id` no reaper asks after it.
///
/// # Errors
/// [`BadValue`] where `owner` is no line; nothing is changed then.
pub fn claim_by_hand(document: &mut Document, owner: &str, now: Timestamp, created_ns: i64) -> Result<(), BadValue> {
    let mut claimed = document.clone();
    keep_place(&mut claimed, created_ns)?;
    claimed.set(key::OWNER, owner)?;
    claimed.set(key::CLAIMED_AT, &now.to_string())?;
    *document = claimed;
    Ok(())
}

/// Notes when a ticket entered the line, if it does not say so already.
///
/// # Errors
/// Only where a time cannot be written.
pub fn keep_place(document: &mut Document, created_ns: i64) -> Result<(), BadValue> {
    match document.said(key::CREATED_AT) {
        Some(_) => Ok(()),
        None => document.set(key::CREATED_AT, &shown_ns(created_ns)),
    }
}

/// Takes everything away that says that somebody works on it.
pub fn clear_owner(document: &mut Document) {
    for key in key::OWNERS {
        document.remove(key);
    }
}

/// How many automatic reclaims a ticket gets before a person is asked: the third one is a question.
pub const MOST_ATTEMPTS: u32 = 3;

/// A new ticket, before it has a file.
#[derive(Debug, Clone, Default)]
pub struct New<'a> {
    /// One line, and not empty.
    pub title: &'a str,
    /// `work`, `request`, `feedback`, or any word that a template has; empty: none.
    pub kind: &'a str,
    /// The default is not written.
    pub priority: Option<Priority>,
    /// What must be done first.
    pub deps: &'a [Stem],
    /// Where it comes from.
    pub req: Option<&'a Stem>,
    /// Markdown.
    pub body: &'a str,
}

/// Why there is no such ticket.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadNew {
    /// Nobody would know what it is.
    #[error("title: a ticket needs one; write what is to be done in one line")]
    NoTitle,
    /// An answer is born done, under the name that its question waits for.
    #[error(
        "kind: an answer is written with `enode tickets answer`, which gives it the name that its question waits for"
    )]
    Answer,
    /// No template could be called so.
    #[error("kind: {0:?} cannot be a file's name: write a word such as work")]
    Kind(String),
    /// A value is not one line.
    #[error(transparent)]
    Value(#[from] BadValue),
}

/// Whether a ticket may have this title.
///
/// # Errors
/// [`BadNew::NoTitle`]
pub fn check_title(title: &str) -> Result<(), BadNew> {
    if title.trim().is_empty() { Err(BadNew::NoTitle) } else { Ok(()) }
}

/// Whether a person may give a ticket this kind; none is as good as any.
///
/// # Errors
/// [`BadNew::Answer`], [`BadNew::Kind`]
pub fn check_kind(kind: &str) -> Result<(), BadNew> {
    match kind.trim() {
        key::ANSWER => Err(BadNew::Answer),
        kind if kind.contains('/') || kind.starts_with('.') => Err(BadNew::Kind(kind.to_owned())),
        _ => Ok(()),
    }
}

impl New<'_> {
    /// The file of a ticket with this stem. It never says that somebody works on it.
    ///
    /// # Errors
    /// [`BadNew`] names the key.
    pub fn compose(&self, stem: &Stem, created_ns: i64) -> Result<String, BadNew> {
        check_title(self.title)?;
        check_kind(self.kind)?;
        let mut document = Document::empty();
        document.set(key::TICKET, stem.as_str())?;
        document.set(key::TITLE, self.title)?;
        if !self.kind.trim().is_empty() {
            document.set(key::KIND, self.kind)?;
        }
        if let Some(priority) = self.priority {
            document.set(key::PRIORITY, &priority.get().to_string())?;
        }
        if !self.deps.is_empty() {
            document.set_deps(self.deps);
        }
        if let Some(req) = self.req {
            document.set(key::REQ, req.as_str())?;
        }
        document.set(key::CREATED_AT, &written(key::CREATED_AT, &shown_ns(created_ns))?)?;
        if !self.body.trim().is_empty() {
            document.append(&format!("\n{}", self.body.trim_end()));
        }
        Ok(String::from_utf8_lossy(&document.to_bytes()).into_owned())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::ticket::{Lane, Ticket};

    fn read(text: &str) -> Ticket {
        let text = Arc::new(Document::parse(text.as_bytes().to_vec()).unwrap());
        Ticket::new(Stem::new("a").unwrap(), Lane::Waiting, "a.md".to_owned(), text, 7)
    }

    #[test]
    fn r11_a_new_ticket_says_what_was_given_and_never_who_works_on_it() {
        let (stem, deps) = (Stem::new("1a2b3c4d").unwrap(), [Stem::new("x").unwrap(), Stem::new("y").unwrap()]);
        let new = New {
            title: "Mend: \"it\"",
            kind: "work",
            priority: Priority::new(5),
            deps: &deps,
            req: Some(&deps[0]),
            body: "First.\n\n## Second\n",
        };
        assert_eq!(
            new.compose(&stem, 1_700_000_000_000_000_001).unwrap(),
            "---\nticket: 1a2b3c4d\ntitle: Mend: \"it\"\nkind: work\npriority: 5\ndeps: [x, y]\nreq: x\n\
             created_at: 2023-11-14T22:13:20.000000001Z\n---\n\nFirst.\n\n## Second\n"
        );
        let it = read(&New { title: "t", ..New::default() }.compose(&stem, 1_700_000_000_000_000_001).unwrap());
        assert_eq!((it.is_owned, it.session_id, it.created_ns), (false, None, 1_700_000_000_000_000_001));
    }

    #[test]
    fn a_new_ticket_needs_a_title_of_one_line() {
        let stem = Stem::new("a").unwrap();
        let compose = |new: New<'_>| new.compose(&stem, 0).unwrap_err();
        assert_eq!(compose(New { title: " ", ..New::default() }), BadNew::NoTitle);
        assert_eq!(compose(New { title: "t", kind: "answer", ..New::default() }), BadNew::Answer);
        for new in
            [New { title: "t\nsession_id: x", ..New::default() }, New { title: "t", kind: "a\r\nb", ..New::default() }]
        {
            assert!(matches!(compose(new), BadNew::Value(BadValue::Control(_))));
        }
    }

    #[test]
    fn assigning_and_clearing_leaves_only_the_place_in_line_behind() {
        let before = "---\ntitle: t\nsquad: z\n---\nbody\n";
        let mut document = Document::parse(before.as_bytes().to_vec()).unwrap();
        let (run, born) = (RunId::new("r1").unwrap(), 1_700_000_000_000_000_001);
        assign(&mut document, &run, "me / 1", Timestamp::from_millis(5), born).unwrap();
        let it = read(&String::from_utf8(document.to_bytes()).unwrap());
        assert_eq!((it.session_id.as_deref(), it.owner.as_str(), it.created_ns), (Some("r1"), "me / 1", born));
        assert_eq!(it.assigned_at, Some(Timestamp::from_millis(5)));
        clear_owner(&mut document);
        let it = read(&String::from_utf8(document.to_bytes()).unwrap());
        assert_eq!((it.is_owned, it.created_ns, it.text.body()), (false, born, "body\n"));
        document.remove(key::CREATED_AT);
        assert_eq!(String::from_utf8(document.to_bytes()).unwrap(), before);
        let unchanged = document.clone();
        assert!(assign(&mut document, &run, "a\nb", Timestamp::default(), 0).is_err());
        assert_eq!(document, unchanged, "what is refused has changed nothing");
    }

    /// What the earlier tool's dispatcher writes is cleared, too.
    #[test]
    fn the_keys_of_the_earlier_tool_are_owner_keys() {
        let text =
            "---\ntitle: t\nsession_id: 8f\npid: 12\ninbox: /x\nclaimed_at: y\ntranscript: z\nattempts: 1\n---\n";
        let mut document = Document::parse(text.as_bytes().to_vec()).unwrap();
        clear_owner(&mut document);
        assert_eq!(String::from_utf8(document.to_bytes()).unwrap(), "---\ntitle: t\nattempts: 1\n---\n");
    }
}
