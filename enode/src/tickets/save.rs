//! A person's edit of an open ticket, from a form or a page: saved if nobody else has saved meanwhile.

use std::io;

use shared::ticket::{Document, Lane, NoTicket, Stem, edit, key};

use super::{
    Folder,
    absent::{self, Absent},
    queue_lock::QueueLock,
    repair::repair,
    write::{self, WriteError},
};

/// Why an edit was not saved; nothing was changed then.
#[derive(Debug, thiserror::Error)]
pub enum SaveError {
    /// There is none any more.
    #[error(transparent)]
    Absent(#[from] Absent),
    /// What is in progress is edited after it was unassigned, what is done is history.
    #[error("{0} is {1} by now: only an open ticket can be edited")]
    NotOpen(Stem, &'static str),
    /// Somebody else was faster.
    #[error("{0} was changed by somebody else meanwhile: look at it again, and make the change there")]
    Changed(Stem),
    /// The new text is no ticket.
    #[error(transparent)]
    Bad(#[from] NoTicket),
    /// It would be the accident that no worker takes.
    #[error("the text says session_id, which only workers write: take that line out")]
    Assigned,
    /// The operating system's.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Replaces the text of an open ticket, `before` being the text that the person saw.
///
/// # Errors
/// [`SaveError`]
pub fn save(folder: &Folder, stem: &Stem, before: &[u8], after: &str) -> Result<(), SaveError> {
    let mut text = Document::parse(after.as_bytes().to_vec())?;
    let _lock = QueueLock::acquire(folder)?;
    let queue = repair(folder)?;
    let ticket = absent::find(&queue, stem)?;
    match ticket.lane {
        Lane::Waiting => {}
        Lane::InProgress => return Err(SaveError::NotOpen(stem.clone(), "in progress")),
        Lane::Done => return Err(SaveError::NotOpen(stem.clone(), "done")),
    }
    if text.said(key::SESSION_ID).is_some() && ticket.session_id.is_none() {
        return Err(SaveError::Assigned);
    }
    let read = folder.read_file(&ticket.file)?;
    if read.bytes != before {
        return Err(SaveError::Changed(stem.clone()));
    }
    if after.as_bytes() == before {
        return Ok(());
    }
    // An edit costs nobody a place in line; a time can always be written.
    drop(edit::keep_place(&mut text, ticket.created_ns));
    match write::replace(folder, &ticket.file, &read, &text.to_bytes(), "save") {
        Ok(()) => Ok(()),
        Err(WriteError::Moved) => Err(SaveError::Changed(stem.clone())),
        Err(WriteError::Io(error)) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::{super::fake_tests::Fake, *};

    const TEXT: &str = "\u{feff}---\r\ntitle: t\r\nsquad: z\r\n---\r\nbody\r\n";

    #[test]
    fn r46_an_edit_keeps_foreign_keys_and_its_place_and_an_empty_one_changes_nothing() {
        let fake = Fake::new(&[("a.md", TEXT)]);
        let stem = Stem::new("a").unwrap();
        save(&fake.folder, &stem, TEXT.as_bytes(), TEXT).unwrap();
        assert_eq!(fake.text("a.md"), TEXT);
        let born = fake.folder.read().unwrap().tickets()[0].created_ns;
        save(&fake.folder, &stem, TEXT.as_bytes(), &TEXT.replace("body", "other")).unwrap();
        let now = fake.folder.read().unwrap().tickets()[0].clone();
        assert_eq!((now.created_ns, now.text.body(), now.text.get("squad")), (born, "other\r\n", Some("z")));
    }

    #[test]
    fn what_somebody_else_did_meanwhile_stays() {
        let stem = Stem::new("a").unwrap();
        let said = |files: &[(&str, &str)], after: &str| {
            let fake = Fake::new(files);
            let before = fake.files();
            let error = save(&fake.folder, &stem, TEXT.as_bytes(), after).unwrap_err().to_string();
            assert_eq!(fake.files(), before);
            error
        };
        let after = TEXT.replace("body", "other");
        assert!(said(&[("a.md", "---\ntitle: theirs\n---\n")], &after).contains("changed by somebody else"));
        assert!(said(&[("a.wip.md", TEXT)], &after).contains("in progress by now"));
        assert!(said(&[("a.done.md", TEXT)], &after).contains("done by now"));
        assert!(said(&[], &after).contains("no ticket a"));
        assert!(said(&[("a.md", TEXT)], "no frontmatter").contains("begin the file"));
        assert!(said(&[("a.md", TEXT)], "---\nsession_id: x\n---\n").contains("take that line out"));
    }
}
