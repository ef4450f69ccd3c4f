//! Files that were meant for a ticket, for another state, or for an answer, and are something else by their name. Only the
//! folder knows its marks.

use std::{
    fs::{DirEntry, File},
    io::{self, Read as _},
    sync::Arc,
};

use shared::{
    distance,
    ticket::{Document, Lane, NoTicket, Queue, Stem, Suffixes, Ticket, Unread, key},
};

use super::{
    Folder,
    write::{DRAFT, KEPT},
};

/// What people put between a stem and `.md` who know another tool.
const WORDS: [(&str, Lane); 9] = [
    ("in-progress", Lane::InProgress),
    ("in_progress", Lane::InProgress),
    ("inprogress", Lane::InProgress),
    ("doing", Lane::InProgress),
    ("started", Lane::InProgress),
    ("finished", Lane::Done),
    ("completed", Lane::Done),
    ("complete", Lane::Done),
    ("closed", Lane::Done),
];
/// What an editor puts behind a name that it does not know.
const TEXT: [&str; 4] = [".txt", ".text", ".markdown", ".md"];

/// The tickets that wait for an answer which is not there, with that answer's stem.
pub(super) struct Awaited<'a> {
    suffixes: &'a Suffixes,
    open: Vec<(Arc<Ticket>, Stem)>,
    /// Those that do not speak for their stem, because a file that is done has it.
    hidden: Vec<(Arc<Ticket>, Stem)>,
}

impl<'a> Awaited<'a> {
    pub(super) fn new(queue: &Queue, suffixes: &'a Suffixes) -> Self {
        let asks = |it: &Arc<Ticket>| {
            let awaiting = it.awaiting.clone().filter(|_| it.lane == Lane::Waiting)?;
            queue.unmet(it).contains(&awaiting).then(|| (it.clone(), awaiting))
        };
        let open = queue.tickets().iter().filter_map(asks).collect();
        let is_hidden = |it: &&Arc<Ticket>| queue.lane(&it.stem) == Some(Lane::Done);
        Self { suffixes, open, hidden: queue.twins().iter().filter(is_hidden).filter_map(asks).collect() }
    }

    fn done(&self, stem: &Stem) -> String {
        self.suffixes.file_name(stem, Lane::Done)
    }

    /// Of a ticket whose stem the answer to it has been given.
    pub(super) fn hidden_by_its_answer(&self, twin: &Ticket) -> Option<String> {
        let (asks, awaiting) = self.hidden.iter().find(|(asks, _)| asks.file == twin.file)?;
        let (stem, by, meant) = (&asks.stem, self.done(&asks.stem), self.done(awaiting));
        Some(format!("{stem} asks, and {by} hides it: if that is the answer, rename it to {meant}"))
    }

    /// What to do with a file that somebody has written as one of these answers, and that answers nothing.
    pub(super) fn meant_by_unread(&self, it: &Unread) -> Option<String> {
        let (stem, lane) = it.name.as_ref()?;
        if let Some((asks, _)) = self.hidden.iter().find(|(asks, _)| asks.stem == *stem && *lane == Lane::Done) {
            return self.hidden_by_its_answer(asks);
        }
        let Some((asks, awaiting)) = self.open.iter().find(|(_, awaiting)| awaiting == stem) else {
            return self.meant_by_stem(stem);
        };
        let asks = &asks.stem;
        Some(match lane {
            Lane::Done if it.why == NoTicket::Empty.to_string() => {
                format!("{asks} waits for this answer, and it is empty: write the answer into it")
            }
            Lane::Done => {
                format!("{asks} waits for this answer, and it cannot be read: {} (or write bare text)", it.why)
            }
            Lane::Waiting | Lane::InProgress => {
                format!("{asks} waits for this answer, and it is not done: rename it to {}", self.done(awaiting))
            }
        })
    }

    /// The same of a file that is a ticket.
    pub(super) fn meant_by(&self, ticket: &Ticket) -> Option<String> {
        let is_answer = ticket.lane == Lane::Done && ticket.kind == key::ANSWER;
        is_answer.then(|| self.meant_by_stem(&ticket.stem)).flatten()
    }

    fn meant_by_stem(&self, stem: &Stem) -> Option<String> {
        self.open.iter().find_map(|(asks, awaiting)| {
            let rest = stem.as_str().strip_prefix(asks.stem.as_str())?.strip_prefix(['-', '_', '.', ' '])?;
            let word: String = rest.chars().take_while(|it| it.is_alphabetic()).collect();
            // An earlier answer is one of its deps, and right or broken for itself.
            let is_like = distance(&word.to_lowercase(), key::ANSWER) <= 2 && !asks.deps.contains(stem);
            is_like.then(|| self.misnamed(&asks.stem, awaiting))
        })
    }

    /// The same of a file that is nothing to a queue by its name, or that lies in a folder of it.
    fn meant_by_name(&self, file: &str) -> Option<String> {
        let mut base = file;
        loop {
            let stem = Stem::new(base).ok()?;
            if let Some((asks, awaiting)) = self.open.iter().find(|(_, awaiting)| *awaiting == stem) {
                return Some(self.misnamed(&asks.stem, awaiting));
            }
            let marks = [Lane::InProgress, Lane::Done].map(|lane| mark(self.suffixes, lane));
            let ends = marks.iter().map(String::as_str).chain(TEXT);
            base = ends.filter_map(|end| base.strip_suffix(end)).next()?;
        }
    }

    fn misnamed(&self, asks: &Stem, awaiting: &Stem) -> String {
        format!("it answers nothing: {asks} waits for the answer {awaiting}, so rename it to {}", self.done(awaiting))
    }
}

/// What stands between a stem and `.md`.
fn mark(suffixes: &Suffixes, lane: Lane) -> String {
    const ANY: &str = "x";
    let name = Stem::new(ANY).map(|stem| suffixes.file_name(&stem, lane)).unwrap_or_default();
    name.strip_prefix(ANY).and_then(|it| it.strip_suffix(".md")).unwrap_or_default().to_owned()
}

/// Every such file by its name alone, with what is to be said of it.
pub(super) fn odd_names(folder: &Folder, queue: &Queue) -> io::Result<Vec<(String, String)>> {
    let awaited = Awaited::new(queue, folder.suffixes());
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder.path())? {
        let entry = entry?;
        let Ok(file) = entry.file_name().into_string() else { continue };
        let is_folder = entry.file_type()?.is_dir();
        if is_folder && !file.starts_with('.') {
            found.extend(answers_in(&entry, &file, &awaited));
        }
        let answers = if is_folder || file.ends_with(".md") { None } else { awaited.meant_by_name(&file) };
        let meant = answers.or_else(|| odd_name(folder.suffixes(), &file, is_folder));
        let meant = meant.or_else(|| file.strip_suffix(".txt").filter(|_| begins_as_ticket(&entry)).map(no_ticket));
        found.extend(meant.map(|message| (file, message)));
    }
    found.sort();
    Ok(found)
}

/// Answers that lie one folder too deep.
fn answers_in(folder: &DirEntry, name: &str, awaited: &Awaited<'_>) -> Vec<(String, String)> {
    let entries = std::fs::read_dir(folder.path()).into_iter().flatten().flatten();
    let files = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let answers = files.filter_map(|file| awaited.meant_by_name(&file).map(|message| (file, message)));
    answers.map(|(file, message)| (format!("{name}/{file}"), format!("{message}, beside the tickets"))).collect()
}

fn begins_as_ticket(entry: &DirEntry) -> bool {
    let mut first = Vec::new();
    let is_file = entry.file_type().is_ok_and(|it| it.is_file());
    let mut read = || File::open(entry.path())?.take(16).read_to_end(&mut first);
    is_file && read().is_ok() && Document::parse([&first, "\n---\n".as_bytes()].concat()).is_ok()
}

fn no_ticket(base: &str) -> String {
    let end = if base.ends_with(".md") { "" } else { ".md" };
    format!("it is no ticket, because its name does not end with .md: did you mean {base}{end}?")
}

fn odd_name(suffixes: &Suffixes, file: &str, is_folder: bool) -> Option<String> {
    if file.starts_with(DRAFT) && file.ends_with(KEPT) {
        return Some(
            "somebody saved this text at the very moment at which its ticket was moved: look at it, and remove it"
                .to_owned(),
        );
    }
    if file.starts_with('.') {
        let (stem, _) = suffixes.read(&format!("x{file}"))?;
        return (stem.as_str() == "x")
            .then(|| format!("it is hidden, and has no name before its mark: rename it to NAME{file}"));
    }
    let (base, end) = file.rsplit_once('.')?;
    let is_text = |end: &str| ["markdown", "mdown", "mkd"].iter().any(|it| end.eq_ignore_ascii_case(it));
    if is_text(end) || (end == "txt" && base.ends_with(".md")) {
        return Some(no_ticket(base));
    }
    let marks = [Lane::InProgress, Lane::Done].map(|lane| (mark(suffixes, lane), lane));
    if !is_folder && marks.iter().any(|(mark, _)| file.strip_suffix(mark.as_str()).is_some_and(|it| !it.is_empty())) {
        return Some(no_ticket(file));
    }
    if !end.eq_ignore_ascii_case("md") {
        return None;
    }
    if is_folder {
        return Some("it is a folder, and a ticket is a file: nobody looks into it".to_owned());
    }
    if end != "md" {
        return Some(no_ticket(base));
    }
    let (stem, lane) = suffixes.read(file)?;
    if lane != Lane::Waiting {
        return None;
    }
    let meant = marks.iter().find_map(|(mark, lane)| Some((meant_by_tail(stem.as_str(), mark)?, *lane)));
    let (short, lane) = meant.or_else(|| {
        let (short, word) = stem.as_str().rsplit_once('.')?;
        let (_, lane) = WORDS.into_iter().find(|(it, _)| word.eq_ignore_ascii_case(it))?;
        Some((short, lane))
    })?;
    Some(format!("by its name it is open: did you mean {}?", suffixes.file_name(&Stem::new(short).ok()?, lane)))
}

/// The stem without what looks like a slip of this mark.
fn meant_by_tail<'a>(stem: &'a str, mark: &str) -> Option<&'a str> {
    let first = mark.chars().next()?;
    let word = mark.get(first.len_utf8()..)?;
    // A drawn name has no words in it; one of a person may well end with `-done`.
    let drawn = [' ', '-', '_'].into_iter().find_map(|it| stem.strip_suffix(word)?.strip_suffix(it));
    if let Some(short) = drawn.filter(|it| it.len() == 8 && it.bytes().all(|it| it.is_ascii_hexdigit())) {
        return Some(short);
    }
    let at = stem.rfind([first, ' ']).filter(|at| *at > 0)?;
    let (short, tail) = stem.split_at(at);
    let sorted = |text: &str| {
        let mut letters: Vec<char> = text.to_lowercase().chars().collect();
        letters.sort_unstable();
        letters
    };
    let is_like = if tail.starts_with(' ') && first != ' ' {
        tail.get(1..) == Some(word)
    } else {
        distance(&tail.to_lowercase(), &mark.to_lowercase()) <= 1 || sorted(tail) == sorted(mark)
    };
    is_like.then_some(short)
}

#[cfg(test)]
mod tests {
    use super::{
        super::{check, fake_tests::Fake},
        *,
    };

    /// What people write by hand, and what would be for nobody.
    #[test]
    fn an_answer_that_is_none_is_told_for_whom_it_was_meant() {
        let asks = "---\ntitle: t\ndeps: [a-answer-1]\nawaiting: a-answer-1\n---\n## 질문 1\n?\n";
        for (file, text, says) in [
            ("a-answer-1.done.md", "", "write the answer into it"),
            ("a-answer-1.done.md", "---\nkind: answer\nyes\n", "its frontmatter has no end"),
            ("a-answer-1.md", "yes\n", "it is not done: rename it to a-answer-1.done.md"),
            ("a-answer.done.md", "yes\n", "rename it to a-answer-1.done.md"),
            ("a-answer-2.md", "yes\n", "rename it to a-answer-1.done.md"),
            ("a-awnser-1.done.md", "yes\n", "rename it to a-answer-1.done.md"),
            ("a-awnser-1.done.md", "---\nkind: answer\n---\nyes\n", "rename it to a-answer-1.done.md"),
            ("a.done.md", "yes\n", "rename it to a-answer-1.done.md"),
            ("a-answer-1.txt", "yes\n", "rename it to a-answer-1.done.md"),
            ("a-answer-1.done", "yes\n", "rename it to a-answer-1.done.md"),
            ("a-answer-1.done.md.txt", "yes\n", "rename it to a-answer-1.done.md"),
            ("folder/a-answer-1.done.md", "yes\n", "beside the tickets"),
            ("notes.md", "yes\n", "begin the file with a line `---`"),
        ] {
            let fake = Fake::new(&[("a.md", asks)]);
            let path = fake.folder.at(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
            let queue = fake.folder.read().unwrap();
            let names = check::names(&fake.folder, &queue).unwrap();
            let found = [check::check(&queue, fake.folder.suffixes()), names].concat();
            let said = found.iter().find(|it| it.file == file).map(|it| it.message.clone());
            assert!(said.as_ref().is_some_and(|said| said.contains(says)), "{file}: {found:?}");
        }
    }

    /// The one that has the ticket's own name hides the ticket; the one that asks is named as well.
    #[test]
    fn a_ticket_that_is_hidden_by_its_answer_is_told_of() {
        let asks = "---\ntitle: t\ndeps: [q]\nawaiting: q\n---\n## 질문 1\n?\n";
        let fake = Fake::new(&[("a.md", asks), ("a.done.md", "---\nkind: answer\n---\nyes\n")]);
        let found = check::check(&fake.folder.read().unwrap(), fake.folder.suffixes());
        assert!(found.len() == 1 && found[0].file == "a.md", "{found:?}");
        assert_eq!(found[0].message, "a asks, and a.done.md hides it: if that is the answer, rename it to q.done.md");
        // An editor that saves late, under the name that it had.
        let fake = Fake::new(&[("a.md", asks), ("a.wip.md", &asks.replace("title: t", "owner: me"))]);
        let found = check::check(&fake.folder.read().unwrap(), fake.folder.suffixes());
        assert!(found.len() == 1 && found[0].message.contains("a.wip.md has the same stem"), "{found:?}");
    }

    #[test]
    fn a_text_file_that_begins_as_a_ticket_is_told_its_name() {
        let fake = Fake::new(&[("a.txt", "---\ntitle: t\n---\n"), ("b.txt", "notes\n")]);
        std::fs::write(fake.folder.at("c.txt"), "\u{feff}---\r\ntitle: t\r\n").unwrap();
        let told = odd_names(&fake.folder, &fake.folder.read().unwrap()).unwrap();
        let names: Vec<_> = told.iter().map(|it| it.0.as_str()).collect();
        assert!(names == ["a.txt", "c.txt"] && told[0].1.ends_with("did you mean a.md?"), "{told:?}");
    }

    #[test]
    fn names_that_were_meant_for_tickets_are_told_what_they_should_be() {
        let suffixes = Suffixes::default();
        for (file, says) in [
            ("a done.md", Some("a.done.md")),
            ("a.markdown", Some("a.md")),
            (".done.md", Some("NAME.done.md")),
            (".md", Some("NAME.md")),
            ("a.dnoe.md", Some("a.done.md")),
            ("a.MD", Some("a.md")),
            ("a.done", Some("a.done.md")),
            ("a.md.txt", Some("did you mean a.md?")),
            ("a.in-progress.md", Some("a.wip.md")),
            ("a.finished.md", Some("a.done.md")),
            ("1a2b3c4d-done.md", Some("1a2b3c4d.done.md")),
            ("1a2b3c4d_wip.md", Some("1a2b3c4d.wip.md")),
            ("well-done.md", None),
            ("v1.2.md", None),
            ("a b.md", None),
            (".tickets.lock", None),
            (".hidden.md", None),
            ("README.txt", None),
        ] {
            let said = odd_name(&suffixes, file, false);
            assert_eq!(said.is_some(), says.is_some(), "{file}: {said:?}");
            assert!(says.is_none_or(|says| said.clone().is_some_and(|said| said.contains(says))), "{file}: {said:?}");
        }
    }
}
