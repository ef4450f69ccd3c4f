//! Makes the contract of a ticket's Run. A template is a plain contract that names in its `env` what it wants to know
//! of the ticket; so it can be linted like any other, and there is no second language of placeholders.

use std::{
    collections::BTreeMap,
    io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use shared::{
    RunId, Timestamp,
    contract::{self, Contract, WhenUnmatched, Work},
    distance,
    ticket::{Queue, Stem, Ticket, key, name::SYSTEM, question},
};

/// What every step is told. A template that uses one of these in `run` or in a prompt sets it to something in `env`.
pub const NAMES: [&str; 4] = ["TICKET", "TICKET_TITLE", "TICKET_KIND", "TICKET_BODY"];

/// The kernel takes no longer value of one environment variable.
const LONGEST: usize = 120_000;

/// Where contracts come from.
#[derive(Debug, Clone, Default)]
pub struct Templates {
    /// `KIND.yaml` for tickets of that kind, `default.yaml` for all others.
    pub folder: Option<PathBuf>,
    /// For kinds without a file: this shell command, with the ticket's body in `$IN/ticket.md`.
    pub command: Option<String>,
    /// The capability of the node that runs it.
    pub capability: String,
}

/// Why a ticket has no contract.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TemplateError {
    /// Nothing says how to work on tickets of this kind.
    #[error("{}, or give --command", missing(.0))]
    Missing(String),
    /// The template itself: its tickets are left alone until it is mended.
    #[error("{0}: {1}")]
    Bad(String, String),
    /// The ticket.
    #[error("the ticket's text cannot be handed to a program: {0}")]
    Text(String),
}

/// How a template's file may end.
const ENDS: [&str; 3] = ["yaml", "yml", "json"];

fn missing(kind: &str) -> String {
    let put = |names: String| format!("put {names} into the folder of --templates");
    match kind {
        "" => format!("no template is for tickets without a kind: {}", put("default.yaml".to_owned())),
        "default" => format!("no template is for kind {kind:?}: {}", put("default.yaml".to_owned())),
        kind if key::is_key(kind) => {
            format!("no template is for kind {kind:?}: {}", put(format!("{kind}.yaml or default.yaml")))
        }
        kind => format!(
            "kind {kind:?} cannot be a file's name: write one word, with nothing behind it, or {}",
            put("default.yaml".to_owned())
        ),
    }
}

impl Templates {
    /// Whether there is one for tickets of a kind, and can be used.
    ///
    /// # Errors
    /// [`TemplateError`] says what is to be done.
    pub fn usable(&self, kind: &str) -> Result<(), TemplateError> {
        self.read(kind).map(drop)
    }

    /// What is wrong with the templates, whether or not a ticket is there for them.
    #[must_use]
    pub fn lint(&self) -> Vec<(PathBuf, TemplateError)> {
        let entries = self.folder.iter().filter_map(|folder| std::fs::read_dir(folder).ok()).flatten().flatten();
        let is_template =
            |path: &PathBuf| path.extension().is_some_and(|end| ENDS.iter().any(|it| end == *it)) && path.is_file();
        let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).filter(is_template).collect();
        paths.sort();
        paths.into_iter().filter_map(|path| Some((path.clone(), Self::parse(&path).err()?))).collect()
    }

    fn names(kind: &str) -> impl Iterator<Item = String> {
        // A kind is the text of a file: it must not lead out of the folder.
        let word = Some(kind).filter(|kind| key::is_key(kind));
        word.into_iter().chain(["default"]).flat_map(|kind| ENDS.map(|end| format!("{kind}.{end}")))
    }

    fn file(&self, kind: &str) -> Option<PathBuf> {
        let folder = self.folder.as_ref()?;
        Self::names(kind).map(|name| folder.join(name)).find(|path| path.is_file())
    }

    /// When the template for a kind was changed last, if it has a file.
    pub(super) fn changed_at(&self, kind: &str) -> Option<Timestamp> {
        let meta = std::fs::metadata(self.file(kind)?).ok()?;
        Some(Timestamp::from_millis(meta.ctime().saturating_mul(1_000).saturating_add(meta.ctime_nsec() / 1_000_000)))
    }

    /// The contract of one Run, as it is handed in.
    ///
    /// # Errors
    /// [`TemplateError`]
    pub fn make(&self, queue: &Queue, ticket: &Ticket, run: &RunId) -> Result<Vec<u8>, TemplateError> {
        let mut contract = self.read(&ticket.kind)?;
        let body = body(queue, ticket);
        let values = [ticket.stem.as_str(), &ticket.title, &ticket.kind, &body];
        for (name, value) in NAMES.into_iter().zip(values) {
            if value.contains('\0') {
                return Err(TemplateError::Text("there is a NUL byte in it: remove it".to_owned()));
            }
            if value.len() > LONGEST {
                let len = value.len();
                let why =
                    format!("it has {len} bytes, and {LONGEST} fit: move the rest into a file and name its place");
                return Err(TemplateError::Text(why));
            }
            contract.env.insert(name.to_owned(), value.replace('$', "$$"));
        }
        // A ticket can wait for a machine; refused, it would be tried three times within a moment.
        contract.when_unmatched = WhenUnmatched::Queue;
        contract.run_id = Some(run.clone());
        contract.work = Some(Work { system: SYSTEM.to_owned(), change_id: ticket.stem.to_string() });
        let text = contract::canonical_json(&contract).into_bytes();
        // Without the ticket's text it was one.
        contract::parse(&text).map_err(|why| TemplateError::Text(why.to_string()))?;
        Ok(text)
    }

    fn read(&self, kind: &str) -> Result<Contract, TemplateError> {
        match (self.file(kind), &self.command) {
            (Some(path), _) => Self::parse(&path),
            (None, Some(command)) => self.of_command(command),
            (None, None) => Err(TemplateError::Missing(kind.to_owned())),
        }
    }

    fn parse(path: &Path) -> Result<Contract, TemplateError> {
        let bad = |why: String| TemplateError::Bad(path.display().to_string(), why);
        let bytes = crate::files::read_small(path).map_err(|error: io::Error| bad(error.to_string()))?;
        let contract = contract::parse(&bytes).map_err(|why| bad(why.to_string().replace('\n', "; ")))?;
        for (name, _) in contract.env.iter().filter(|(name, value)| value.is_empty() && !NAMES.contains(&name.as_str()))
        {
            if let Some(like) = NAMES.into_iter().find(|like| distance(like, name) <= 1) {
                return Err(bad(format!("env.{name}: did you mean {like}? As it is, nobody fills it in")));
            }
        }
        match contract.steps.iter().find(|step| step.ask.is_some() && step.timeout.is_some()) {
            None => Ok(contract),
            Some(step) => Err(bad(format!(
                "step {} asks with a timeout, but a question in a ticket waits for as long as it takes: remove `timeout`",
                step.id
            ))),
        }
    }

    /// One command in a fresh folder. The body is laid out by a step of its own, because a contract carries no files.
    fn of_command(&self, command: &str) -> Result<Contract, TemplateError> {
        let command = serde_json::json!({
            "requires": [{"as": "worker", "capability": self.capability}],
            "env": {"TICKET": "", "TICKET_TITLE": "", "TICKET_KIND": "", "TICKET_BODY": ""},
            "steps": [
                {"id": "ticket", "uses": "worker", "out": ["ticket.md"],
                 "run": ["sh", "-c", "printf '%s' \"$$TICKET_BODY\" > \"$$OUT/ticket.md\""]},
                {"id": "work", "uses": "worker", "in": {"from": ["ticket.md"]},
                 "run": ["sh", "-c", command.replace('$', "$$")]},
            ],
        });
        let contract = contract::parse(command.to_string().as_bytes());
        contract.map_err(|why| TemplateError::Bad("--command with --capability".to_owned(), why.to_string()))
    }
}

/// Looks at the template of each kind once, however many tickets are asked about.
#[derive(Debug)]
pub struct Usable<'a> {
    templates: &'a Templates,
    seen: BTreeMap<String, Result<(), TemplateError>>,
}

impl<'a> Usable<'a> {
    /// Nothing is looked at yet.
    #[must_use]
    pub const fn new(templates: &'a Templates) -> Self {
        Self { templates, seen: BTreeMap::new() }
    }

    /// Whether there is a template for tickets of this kind that can be used.
    ///
    /// # Errors
    /// As of [`Templates::usable`].
    pub fn of(&mut self, kind: &str) -> Result<(), TemplateError> {
        let seen = self.seen.entry(kind.to_owned());
        seen.or_insert_with(|| self.templates.usable(kind)).clone()
    }
}

/// Tickets in a sentence: many are not named.
#[must_use]
pub fn listed(stems: &[Stem]) -> String {
    const NAMED: usize = 10;
    let named: Vec<&str> = stems.iter().take(NAMED).map(Stem::as_str).collect();
    let more = stems.len().saturating_sub(NAMED);
    let more = if more == 0 { String::new() } else { format!(" and {more} more") };
    format!("{}{more}", named.join(", "))
}

/// What a ticket says to whoever works on it: its body, and the answers that people gave, which stand in files of
/// their own.
fn body(queue: &Queue, ticket: &Ticket) -> String {
    let mut text = ticket.text.body().to_owned();
    for exchange in question::thread(queue, ticket) {
        if let Some((_, answer)) = exchange.answer {
            text.push_str(&format!("\n## {} {}\n\n{answer}\n", question::ANSWER_HEADING, exchange.number));
        }
    }
    text
}

#[cfg(test)]
#[path = "template_tests.rs"]
mod tests;
