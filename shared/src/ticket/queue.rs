//! All files of a queue at one moment, and which of them speaks for a stem.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::Arc,
};

use super::{
    data::Ticket,
    name::{Lane, Stem},
    question::ANSWER_STEM,
    warning::Warning,
};

/// A file that is no ticket although its name says so.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unread {
    /// Its name on disk.
    pub file: String,
    /// What its name says, where it says something.
    pub name: Option<(Stem, Lane)>,
    /// What is wrong with it and what instead.
    pub why: String,
    /// What it says, where only the frontmatter is missing and its name is done: an answer needs none.
    pub plain: Option<Arc<Ticket>>,
}

/// A queue as it was read. Every list is in the order of stems.
#[derive(Debug, Clone, Default)]
pub struct Queue {
    /// The ticket that speaks for each stem.
    tickets: Vec<Arc<Ticket>>,
    at: HashMap<Stem, usize>,
    /// Further files of a stem that has a ticket in a later lane, or a second name in the same one.
    twins: Vec<Arc<Ticket>>,
    unread: Vec<Unread>,
    /// The lane of every stem by names alone: a file that cannot be read has a state, too.
    lanes: HashMap<Stem, Lane>,
    in_progress: usize,
}

impl Queue {
    /// Sorts out who speaks for whom: done wins over in progress over waiting, whatever the folder lists first.
    #[must_use]
    pub fn new(mut files: Vec<Arc<Ticket>>, mut unread: Vec<Unread>) -> Self {
        // What waits for it says that it is an answer, and still does when it asks the next question.
        let is_former = |dep: &&Stem| {
            let number = dep.as_str().rsplit_once(ANSWER_STEM).map(|(_, number)| number);
            number.is_some_and(|number| !number.is_empty() && number.bytes().all(|it| it.is_ascii_digit()))
        };
        let asks = files.iter().filter_map(|it| Some((it.awaiting.as_ref()?, it.deps.iter().filter(is_former))));
        let awaited: HashSet<Stem> = asks.flat_map(|(now, former)| former.chain([now])).cloned().collect();
        files.extend(
            unread
                .extract_if(.., |it| it.plain.as_ref().is_some_and(|it| awaited.contains(&it.stem)))
                .filter_map(|it| it.plain),
        );
        let mut lanes: HashMap<Stem, Lane> = HashMap::new();
        let names = files.iter().map(|it| (&it.stem, it.lane));
        let names = names.chain(unread.iter().filter_map(|it| it.name.as_ref().map(|(stem, lane)| (stem, *lane))));
        for (stem, lane) in names {
            let known = lanes.entry(stem.clone()).or_insert(lane);
            *known = lane.max(*known);
        }
        let in_progress = lanes.values().filter(|lane| **lane == Lane::InProgress).count();
        let mut by_stem: BTreeMap<Stem, Vec<Arc<Ticket>>> = BTreeMap::new();
        for ticket in files {
            by_stem.entry(ticket.stem.clone()).or_default().push(ticket);
        }
        let mut queue = Self { unread, lanes, in_progress, ..Self::default() };
        queue.unread.sort_by(|a, b| a.file.cmp(&b.file));
        for (stem, mut files) in by_stem {
            files.sort_by(|a, b| b.lane.cmp(&a.lane).then_with(|| a.file.cmp(&b.file)));
            let mut files = files.into_iter();
            // One in an earlier lane than a file that cannot be read does not speak for the stem either.
            let lane = queue.lanes.get(&stem).copied();
            if let Some(first) = files.next() {
                if Some(first.lane) == lane {
                    queue.at.insert(stem, queue.tickets.len());
                    queue.tickets.push(first);
                } else {
                    queue.twins.push(first);
                }
            }
            queue.twins.extend(files);
        }
        queue
    }

    /// Every ticket, one for each stem.
    #[must_use]
    pub fn tickets(&self) -> &[Arc<Ticket>] {
        &self.tickets
    }

    /// Files that do not speak for their stem.
    #[must_use]
    pub fn twins(&self) -> &[Arc<Ticket>] {
        &self.twins
    }

    /// Files that are no tickets.
    #[must_use]
    pub fn unread(&self) -> &[Unread] {
        &self.unread
    }

    /// The file that is no ticket and has this stem.
    #[must_use]
    pub fn find_unread(&self, stem: &Stem) -> Option<&Unread> {
        self.unread.iter().find(|it| it.name.as_ref().is_some_and(|(its, _)| its == stem))
    }

    /// How many stems are in progress, by names: also those claimed by hand, and those whose text is broken.
    #[must_use]
    pub const fn in_progress(&self) -> usize {
        self.in_progress
    }

    /// The ticket with this stem. A feedback ticket `re-STEM` of the earlier tool also answers to `STEM`, if nothing
    /// else does.
    #[must_use]
    pub fn find(&self, stem: &Stem) -> Option<&Arc<Ticket>> {
        self.at.get(&self.resolve(stem)?).map(|at| &self.tickets[*at])
    }

    /// The lane of a stem by names alone.
    #[must_use]
    pub fn lane(&self, stem: &Stem) -> Option<Lane> {
        self.lanes.get(&self.resolve(stem)?).copied()
    }

    /// Whether any file has this very stem.
    #[must_use]
    pub fn has(&self, stem: &Stem) -> bool {
        self.lanes.contains_key(stem)
    }

    fn resolve(&self, stem: &Stem) -> Option<Stem> {
        if self.lanes.contains_key(stem) {
            return Some(stem.clone());
        }
        let feedback = (!stem.as_str().starts_with("re-")).then(|| Stem::new(&format!("re-{stem}")).ok()).flatten()?;
        self.lanes.contains_key(&feedback).then_some(feedback)
    }

    /// The stems in `deps` that are not done, in the order of the file. What is not there is not done, nor is an answer
    /// that says nothing.
    #[must_use]
    pub fn unmet(&self, ticket: &Ticket) -> Vec<Stem> {
        let is_unmet = |dep: &&Stem| self.lane(dep) != Some(Lane::Done) || self.is_unsaid(ticket, dep);
        ticket.deps.iter().filter(is_unmet).cloned().collect()
    }

    /// The answer to the last question of a ticket, once it is done by its name.
    #[must_use]
    pub fn answer_of<'a>(&self, ticket: &'a Ticket) -> Option<&'a Stem> {
        ticket.awaiting.as_ref().filter(|answer| self.lane(answer) == Some(Lane::Done))
    }

    /// Whether this is the answer for which a ticket waits, done by its name and without a word in it. An editor may write in
    /// steps, and what is broken is to be mended: until then nothing is answered.
    #[must_use]
    pub fn is_unsaid(&self, ticket: &Ticket, answer: &Stem) -> bool {
        ticket.awaiting.as_ref() == Some(answer)
            && self.lane(answer) == Some(Lane::Done)
            && self.find(answer).is_none_or(|it| is_empty_answer(it))
    }

    /// What is to be said of a dep that is not there.
    fn missing(&self, dep: &Stem) -> Warning {
        let bare = dep.as_str().strip_suffix(".md").unwrap_or(dep.as_str());
        // Which marks there are is the folder's matter: before one there is a stem that is known.
        let shorter = bare.char_indices().rev().map(|(at, _)| &bare[..at]);
        let known = |text: &str| Stem::new(text).ok().filter(|stem| self.has(stem));
        if let Some(stem) = known(bare).or_else(|| shorter.filter(|_| bare != dep.as_str()).find_map(known)) {
            return Warning::FileDep(dep.clone(), stem);
        }
        let parts: Vec<Stem> = dep.as_str().split([' ', ';']).filter_map(|part| Stem::new(part).ok()).collect();
        match parts.len() > 1 && parts.iter().any(|part| self.has(part)) {
            true => Warning::SeveralDeps(dep.clone(), parts),
            false => Warning::MissingDep(dep.clone()),
        }
    }

    /// Everything odd about a ticket, seen among the others.
    #[must_use]
    pub fn warnings(&self, ticket: &Ticket) -> Vec<Warning> {
        let mut warnings = ticket.warnings.clone();
        // By look-up, not by comparison: a feedback ticket may be shown without its `re-`.
        let shown = Stem::new(&ticket.shown).ok();
        let says = ticket.text.said(super::key::TICKET).is_some();
        let own = shown.as_ref().and_then(|shown| self.resolve(shown));
        if says && own.as_ref() != Some(&ticket.stem) {
            warnings.push(Warning::ShownOtherwise(ticket.shown.clone()));
        }
        if ticket.lane == Lane::Done && is_empty_answer(ticket) {
            warnings.push(Warning::EmptyAnswer);
        }
        if ticket.lane == Lane::Waiting {
            if let Some(awaiting) = ticket.awaiting.as_ref().filter(|it| !ticket.deps.contains(it)) {
                warnings.push(Warning::MarkedNotLocked(awaiting.clone()));
            }
            if ticket.kind == super::key::ANSWER {
                warnings.push(Warning::OpenAnswer);
            }
        }
        if ticket.lane != Lane::Done {
            let missing = ticket.deps.iter().filter(|dep| self.lane(dep).is_none());
            let missing = missing.filter(|dep| ticket.awaiting.as_ref() != Some(dep));
            warnings.extend(missing.map(|dep| self.missing(dep)));
        }
        warnings
    }
}

fn is_empty_answer(ticket: &Ticket) -> bool {
    ticket.kind == super::key::ANSWER && super::question::answer_text(ticket.text.body()).is_empty()
}
