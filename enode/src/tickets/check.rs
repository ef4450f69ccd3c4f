//! Everything that is wrong in a queue, and what of it can be mended without asking anybody.

use std::io;

use serde::Serialize;
use shared::ticket::{Lane, Queue, Stem, Suffixes, order};

use super::{
    Folder, back,
    queue_lock::QueueLock,
    repair::repair,
    slips::{Awaited, odd_names},
    template::{TemplateError, Templates, Usable, listed},
    view::Page,
};

/// What sort of fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A file that is no ticket.
    Broken,
    /// Two files of one stem.
    Twin,
    /// An open ticket that says who works on it.
    Accident,
    /// A ticket all the same.
    Warning,
    /// Tickets that wait for each other.
    Cycle,
    /// A contract's template, and what it is for.
    Template,
}

impl Kind {
    /// As it is shown.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Broken => "broken",
            Self::Twin => "twin",
            Self::Accident => "accident",
            Self::Warning => "warning",
            Self::Cycle => "cycle",
            Self::Template => "template",
        }
    }
}

/// One fault.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Fault {
    /// What sort of.
    pub kind: Kind,
    /// The file, or the first of them.
    pub file: String,
    /// What is wrong and what instead.
    pub message: String,
}

/// Looks at a queue whose names have these marks.
#[must_use]
pub fn check(queue: &Queue, suffixes: &Suffixes) -> Vec<Fault> {
    let mut faults = Vec::new();
    let mut note = |kind: Kind, file: &str, message: String| {
        faults.push(Fault { kind, file: file.to_owned(), message });
    };
    let awaited = Awaited::new(queue, suffixes);
    for it in queue.unread() {
        note(Kind::Broken, &it.file, awaited.meant_by_unread(it).unwrap_or_else(|| it.why.clone()));
    }
    for twin in queue.twins() {
        if let Some(message) = awaited.hidden_by_its_answer(twin) {
            note(Kind::Twin, &twin.file, message);
            continue;
        }
        let lane = queue.lane(&twin.stem).map_or("missing", Lane::as_str);
        let other = queue.find(&twin.stem).map_or("a file that cannot be read", |it| &it.file);
        let message = format!(
            "{other} has the same stem and counts ({lane}): merge them by hand and remove one; `--fix` only ends what a \
             killed worker had begun"
        );
        note(Kind::Twin, &twin.file, message);
    }
    for it in order::accidents(queue) {
        let (stem, run) = (&it.stem, it.session_id.as_deref().unwrap_or_default());
        let message = match [".wip", ".done"].into_iter().any(|mark| stem.as_str().ends_with(mark)) {
            // With the usual marks it could not have that stem.
            true => "it is open, because TICKET_INPROGRESS and TICKET_DONE say other marks than its own: set what this queue was made with".to_owned(),
            false => format!(
                "it is open and says session_id {run}: no worker will take it; `enode tickets unassign {stem}` removes that key"
            ),
        };
        note(Kind::Accident, &it.file, message);
    }
    for ticket in queue.tickets() {
        for warning in queue.warnings(ticket) {
            note(Kind::Warning, &ticket.file, warning.to_string());
        }
        if let Some(message) = awaited.meant_by(ticket) {
            note(Kind::Warning, &ticket.file, message);
        }
    }
    for group in order::cycles(queue) {
        let names: Vec<&str> = group.iter().map(|stem| stem.as_str()).collect();
        let file = group.first().and_then(|stem| queue.find(stem)).map_or("", |it| &it.file);
        let message = match names.as_slice() {
            [one] => format!("{one} waits for itself: take it out of its deps"),
            many => format!("{} wait for each other: take one of them out of another's deps", many.join(", ")),
        };
        note(Kind::Cycle, file, message);
    }
    faults
}

/// Names that look as if they were meant for tickets, for another state, or for an answer.
///
/// # Errors
/// The operating system's.
pub fn names(folder: &Folder, queue: &Queue) -> io::Result<Vec<Fault>> {
    let odd = odd_names(folder, queue)?;
    Ok(odd.into_iter().map(|(file, message)| Fault { kind: Kind::Warning, file, message }).collect())
}

/// How many files no worker will ever take, whatever it has templates for: broken ones, accidents, and tickets that wait
/// for each other.
#[must_use]
pub fn stuck(queue: &Queue) -> usize {
    queue.unread().len() + order::accidents(queue).count() + order::cycles(queue).iter().map(Vec::len).sum::<usize>()
}

/// Tickets in line that no worker with these templates takes, once for each reason, and templates that cannot be used.
#[must_use]
pub fn without_template(page: &Page, templates: &Templates) -> Vec<Fault> {
    let (mut usable, mut left) = (Usable::new(templates), Vec::<(String, String, Vec<Stem>)>::new());
    for ticket in page.tickets.iter().filter(|it| it.place.is_some()) {
        let Err(why) = usable.of(&ticket.kind).map_err(|why| why.to_string()) else { continue };
        match left.iter_mut().find(|it| it.0 == why) {
            Some((.., stems)) => stems.push(ticket.stem.clone()),
            None => left.push((why, ticket.file.clone(), vec![ticket.stem.clone()])),
        }
    }
    let idle = templates.lint().into_iter();
    let idle = idle.filter(|(_, why)| left.iter().all(|it| it.0 != why.to_string()));
    // The path stands in front of it.
    let bare = |why: TemplateError| match why {
        TemplateError::Bad(_, why) => why,
        why @ (TemplateError::Missing(_) | TemplateError::Text(_)) => why.to_string(),
    };
    let idle: Vec<_> = idle.map(|(path, why)| (bare(why), path.display().to_string())).collect();
    let fault = |file: String, message: String| Fault { kind: Kind::Template, file, message };
    let waiting = left
        .into_iter()
        .map(|(why, file, stems)| fault(file, format!("{why}; left alone until then: {}", listed(&stems))));
    waiting.chain(idle.into_iter().map(|(why, file)| fault(file, why))).collect()
}

/// Mends what has one answer only: what a killed worker had begun is ended, and accidents lose their `session_id`. Gives
/// back what was wrong and is not any more.
///
/// # Errors
/// The operating system's.
pub fn fix(folder: &Folder) -> io::Result<Vec<Fault>> {
    let before = check(&folder.read()?, folder.suffixes());
    let queue = {
        let _lock = QueueLock::acquire(folder)?;
        repair(folder)?
    };
    for it in order::accidents(&queue) {
        back::clear_accident(folder, &it.stem)?;
    }
    let after = check(&folder.read()?, folder.suffixes());
    Ok(before.into_iter().filter(|fault| !after.contains(fault)).collect())
}

#[cfg(test)]
mod tests {
    use super::{super::fake_tests::Fake, *};

    fn of(faults: &[Fault]) -> Vec<(&'static str, &str)> {
        faults.iter().map(|it| (it.kind.as_str(), it.file.as_str())).collect()
    }

    #[test]
    fn a_fix_ends_what_was_begun_and_clears_accidents_and_leaves_what_a_person_must_decide() {
        let fake = Fake::new(&[
            ("accident.md", "---\ntitle: t\nsession_id: r1\nowner: me\n---\nbody\n"),
            ("broken.md", "no frontmatter"),
            ("claimed.md", "---\ntitle: claimed\n---\n"),
            ("dangling.md", "---\ndeps: [nope]\n---\n"),
            ("left.md", "---\ndeps: [right]\n---\n"),
            ("right.md", "---\ndeps: [left]\n---\n"),
            ("twin.md", "---\ntitle: one\n---\n"),
            ("twin.done.md", "---\ntitle: two\n---\n"),
        ]);
        // A claim that was killed after its link.
        std::fs::hard_link(fake.folder.at("claimed.md"), fake.folder.at("claimed.wip.md")).unwrap();
        let before = fake.files();
        let stay = [("broken", "broken.md"), ("twin", "twin.md"), ("warning", "dangling.md"), ("cycle", "left.md")];
        let mut all = [&stay[..], &[("accident", "accident.md"), ("twin", "claimed.md")]].concat();
        all.sort_unstable();
        let found = check(&fake.folder.read().unwrap(), fake.folder.suffixes());
        let mut seen = of(&found);
        seen.sort_unstable();
        assert_eq!(seen, all);
        assert_eq!(fake.files(), before, "looking changes nothing");

        let mut fixed = fix(&fake.folder).unwrap();
        fixed.sort_by_key(|it| it.kind.as_str());
        assert_eq!(of(&fixed), [("accident", "accident.md"), ("twin", "claimed.md")]);
        assert_eq!(of(&check(&fake.folder.read().unwrap(), fake.folder.suffixes())), stay);
        let mut expected = before;
        expected.remove("claimed.md");
        let accident = "---\ntitle: t\nowner: me\n---\nbody\n".to_owned();
        expected.insert("accident.md".to_owned(), accident);
        assert_eq!(fake.files(), expected, "and nothing else");
        assert_eq!(fix(&fake.folder).unwrap(), [], "once is enough");
    }

    #[test]
    fn tickets_that_no_template_is_for_are_named_with_what_is_missing() {
        let fake = Fake::new(&[("a.md", "---\nkind: odd\n---\n"), ("b.done.md", "---\nkind: odd\n---\n")]);
        let templates = tempfile::tempdir().unwrap();
        let with = Templates { folder: Some(templates.path().to_owned()), ..Templates::default() };
        let faults = || without_template(&super::super::view::page(&fake.folder.read().unwrap()), &with);
        assert_eq!(of(&faults()), [("template", "a.md")]);
        assert!(faults()[0].message.contains("odd.yaml or default.yaml"), "{:?}", faults());
        let contract = "requires: [{as: w, capability: c}]\nsteps: [{id: s, uses: w, run: ['true']}]\n";
        std::fs::write(templates.path().join("odd.yaml"), contract).unwrap();
        assert_eq!(faults(), []);
    }

    /// Also where there is no accident whose mending would do it on the way.
    #[test]
    fn a_fix_ends_a_claim_that_was_killed() {
        let fake = Fake::new(&[("a.md", "---\ntitle: t\n---\n")]);
        std::fs::hard_link(fake.folder.at("a.md"), fake.folder.at("a.wip.md")).unwrap();
        assert_eq!(of(&fix(&fake.folder).unwrap()), [("twin", "a.md")]);
        assert_eq!(fake.names(), ["a.wip.md"]);
    }
}
