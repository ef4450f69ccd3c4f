//! Makes files that are new: a ticket under a name that nobody has, an answer under the one that is waited for.

use std::{io, sync::Arc};

use shared::ticket::{
    Document, Lane, Queue, Stem, Ticket,
    edit::{BadNew, New},
    question::ANSWER_STEM,
};

use super::{
    Folder, begun, fail,
    moves::{self, Lost},
    queue_lock::QueueLock,
    repair::repair,
    write,
};
use crate::clock;

/// Why there is no new ticket.
#[derive(Debug, thiserror::Error)]
pub enum NewError {
    /// What was given.
    #[error(transparent)]
    Bad(#[from] BadNew),
    /// Something in `deps` or `req` is not in the queue.
    #[error("{0}: there is no ticket {1}; `enode tickets list` shows them")]
    Missing(&'static str, Stem),
    /// Ten drawn names were taken.
    #[error("ten names in a row were taken: try again")]
    NoName,
    /// The operating system's.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Draws a name of eight hex digits and writes the ticket.
///
/// # Errors
/// [`NewError`]; no file is made then.
pub fn create(folder: &Folder, new: &New<'_>) -> Result<Arc<Ticket>, NewError> {
    create_once(folder, new, None)
}

/// The same under a name that was drawn before, so that who says the same twice has one ticket: the second time that one is
/// given back, however far it is by now. Another ticket under this name is none of his; then another one is drawn.
///
/// # Errors
/// As of [`create`].
pub fn create_once(folder: &Folder, new: &New<'_>, once: Option<&Stem>) -> Result<Arc<Ticket>, NewError> {
    let mut drawn = once.map(Stem::to_string);
    create_drawing(folder, new, once, || drawn.take().unwrap_or_else(draw))
}

/// How many hex digits a drawn name has.
pub const DRAWN: usize = 8;

/// A name for a new ticket.
#[must_use]
pub fn draw() -> String {
    clock::random_hex(DRAWN)
}

/// The ticket of this name, if it is what was made of this. Meanwhile it may have asked, which adds a section to its text
/// and an answer to its deps; who has changed anything else wants another one.
fn made(queue: &Queue, once: &Stem, new: &New<'_>) -> Option<Arc<Ticket>> {
    let ticket = queue.find(once).filter(|it| it.stem == *once)?;
    let text = Document::parse(new.compose(once, ticket.created_ns).ok()?.into_bytes()).ok()?;
    let first = Ticket::new(once.clone(), Lane::Waiting, ticket.file.clone(), Arc::new(text), ticket.created_ns);
    let asked = format!("{once}{ANSWER_STEM}");
    let deps = ticket.deps.iter().filter(|dep| !dep.as_str().starts_with(&asked));
    let body = first.text.body().trim();
    let added = ticket.text.body().trim().strip_prefix(body)?;
    let has_grown = (body.is_empty() || added.starts_with('\n')) && added.trim_start().starts_with("## ");
    let is_same = (&first.title, &first.kind, first.priority, &first.req)
        == (&ticket.title, &ticket.kind, ticket.priority, &ticket.req)
        && first.deps.iter().eq(deps)
        && (added.is_empty() || has_grown);
    is_same.then(|| ticket.clone())
}

fn create_drawing(
    folder: &Folder,
    new: &New<'_>,
    once: Option<&Stem>,
    mut draw: impl FnMut() -> String,
) -> Result<Arc<Ticket>, NewError> {
    let _lock = QueueLock::acquire(folder)?;
    let queue = repair(folder)?;
    if let Some(made) = once.and_then(|once| made(&queue, once, new)) {
        return Ok(made);
    }
    let given = new.deps.iter().map(|stem| ("deps", stem)).chain(new.req.map(|stem| ("req", stem)));
    for (key, stem) in given {
        if queue.lane(stem).is_none() {
            return Err(NewError::Missing(key, stem.clone()));
        }
    }
    for _ in 0..10 {
        let Ok(stem) = Stem::new(&draw()) else { continue };
        // Any file with this stem counts, in whatever state, also a broken one.
        if queue.has(&stem) {
            continue;
        }
        let text = new.compose(&stem, clock::now_ns())?;
        let file = folder.name(&stem, Lane::Waiting);
        match publish_new(folder, &file, &text)? {
            Ok(()) => {}
            Err(Lost::Taken | Lost::Gone) => continue,
        }
        let queue = folder.read()?;
        return queue.find(&stem).cloned().ok_or_else(|| io::Error::from(io::ErrorKind::NotFound).into());
    }
    Err(NewError::NoName)
}

/// Writes a file that is not there yet. The caller holds the queue's lock, and has repaired: one thing at a time is begun.
pub(super) fn publish_new(folder: &Folder, file: &str, text: &str) -> io::Result<Result<(), Lost>> {
    let draft = write::draft(folder, text.as_bytes(), None)?;
    fail::at("new", "drafted");
    // Without hard links the name is there before its text is.
    begun::note(folder, file)?;
    fail::at("new", "noted");
    let published = moves::publish(folder, draft, file, "new")?;
    begun::over(folder)?;
    Ok(published)
}

#[cfg(test)]
mod tests {
    use super::{
        super::{fake_tests::Fake, links::Links},
        *,
    };

    const NEW: New<'_> = New { title: "t", kind: "", priority: None, deps: &[], req: None, body: "" };

    #[test]
    fn who_says_the_same_twice_has_one_ticket_and_who_has_changed_anything_another() {
        let fake = Fake::new(&[("d.md", "---\ntitle: d\n---\n"), ("e.md", "---\ntitle: e\n---\n")]);
        let [d, e, once] = ["d", "e", "0123abcd"].map(|name| Stem::new(name).unwrap());
        let (deps, both) = ([d.clone()], [d.clone(), e.clone()]);
        let first = New { title: "t", kind: "work", deps: &deps, req: Some(&e), body: "one\n\ntwo", ..NEW };
        let made = |new: &New<'_>| create_once(&fake.folder, new, Some(&once)).unwrap().stem.clone();
        assert_eq!(made(&first), once);
        let asked = format!("deps:\n  - d\n  - 0123abcd{ANSWER_STEM}1\nawaiting: 0123abcd{ANSWER_STEM}1");
        let before = fake.text("0123abcd.md");
        let asking = before.replace("deps: d", &asked).replace("deps: [d]", &asked) + "\n## 질문 1\n\n?\n";
        assert_ne!(asking.matches(ANSWER_STEM).count(), 0, "{before}");
        for text in [before, asking] {
            std::fs::write(fake.folder.at("0123abcd.md"), text).unwrap();
            assert_eq!(made(&first), once);
            let priority = shared::ticket::Priority::new(5);
            let changed = [
                New { title: "u", ..first },
                New { kind: "request", ..first },
                New { priority, ..first },
                New { deps: &both, ..first },
                New { deps: &[], ..first },
                New { req: Some(&d), ..first },
                New { req: None, ..first },
                New { body: "one", ..first },
                New { body: "", ..first },
                New { body: "one\n\ntwo\n\nthree", ..first },
            ];
            for new in changed {
                assert_ne!(made(&new), once, "{new:?}");
            }
        }
    }

    #[test]
    fn r11_a_drawn_name_that_any_file_has_is_drawn_again() {
        let taken = ["0000000a", "0000000b", "0000000c", "0000000d"];
        let fake = Fake::new(&[
            ("0000000a.md", "---\ntitle: open\n---\n"),
            ("0000000b.wip.md", "---\ntitle: in progress\n---\n"),
            ("0000000c.done.md", "---\ntitle: done\n---\n"),
            ("0000000d.md", "broken"),
        ]);
        let before = fake.files();
        let mut drawn = taken.into_iter().chain(["0000000e"]).map(str::to_owned);
        let ticket = create_drawing(&fake.folder, &NEW, None, || drawn.next().unwrap()).unwrap();
        assert_eq!(ticket.stem.as_str(), "0000000e");
        let mut after = fake.files();
        assert!(after.remove("0000000e.md").unwrap().contains("\nticket: 0000000e\n"));
        assert_eq!(after, before, "nobody's file was touched");
        let mut draws = 0;
        let none = create_drawing(&fake.folder, &NEW, None, || {
            draws += 1;
            taken[draws % taken.len()].to_owned()
        });
        assert!(matches!(none, Err(NewError::NoName)) && draws == 10, "{none:?}");
    }

    /// A program that knows no lock makes a file right after ours has looked: exclusive creation is what decides.
    #[test]
    fn a_name_that_is_taken_at_this_moment_is_drawn_again() {
        for links in [Links::Kernel, Links::Refused] {
            let fake = Fake::with(&[], links);
            let mut drawn = ["0000000a", "0000000b"].into_iter();
            let ticket = create_drawing(&fake.folder, &NEW, None, || {
                let name = drawn.next().unwrap();
                if name == "0000000a" {
                    std::fs::write(fake.folder.at("0000000a.md"), "theirs").unwrap();
                }
                name.to_owned()
            });
            assert_eq!(ticket.unwrap().stem.as_str(), "0000000b");
            assert_eq!(fake.text("0000000a.md"), "theirs");
        }
    }
}
