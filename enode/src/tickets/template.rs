//! Makes the contract of a ticket's Run. A template is a plain contract that names in its `env` what it wants to know
//! of the ticket; so it can be linted like any other, and there is no second language of placeholders.

use std::{io, path::PathBuf};

use shared::{
    RunId,
    contract::{self, Contract, WhenUnmatched, Work},
    ticket::{Queue, Ticket, key, question},
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

/// Why a ticket has no contract. Each is shown to a person in the ticket or in the log.
#[derive(Debug, thiserror::Error)]
pub enum TemplateError {
    /// Nothing says how to work on it.
    #[error("no template is for kind {0:?}: put {1} or default.yaml into the folder of --templates, or give --command")]
    Missing(String, String),
    /// The template itself.
    #[error("{0}: {1}")]
    Bad(String, String),
    /// The ticket.
    #[error("the ticket's text cannot be handed to a program: {0}")]
    Text(String),
}

impl Templates {
    /// Whether there is one for a ticket.
    #[must_use]
    pub fn knows(&self, ticket: &Ticket) -> bool {
        self.command.is_some() || self.file(ticket).is_some()
    }

    /// What is to be done about a ticket that none is for.
    #[must_use]
    pub fn missing(&self, ticket: &Ticket) -> TemplateError {
        TemplateError::Missing(ticket.kind.clone(), Self::names(ticket).into_iter().next().unwrap_or_default())
    }

    fn names(ticket: &Ticket) -> Vec<String> {
        // A kind is the text of a file: it must not lead out of the folder.
        let word = Some(ticket.kind.as_str()).filter(|kind| key::is_key(kind));
        let kinds = word.into_iter().chain(["default"]);
        kinds.flat_map(|kind| ["yaml", "yml", "json"].map(|end| format!("{kind}.{end}"))).collect()
    }

    fn file(&self, ticket: &Ticket) -> Option<PathBuf> {
        let folder = self.folder.as_ref()?;
        Self::names(ticket).into_iter().map(|name| folder.join(name)).find(|path| path.is_file())
    }

    /// The contract of one Run, as it is handed in.
    ///
    /// # Errors
    /// [`TemplateError`]
    pub fn make(&self, queue: &Queue, ticket: &Ticket, run: &RunId) -> Result<Vec<u8>, TemplateError> {
        let (mut contract, from) = self.read(ticket)?;
        if let Some(step) = contract.steps.iter().find(|step| step.ask.is_some() && step.timeout.is_some()) {
            let why = format!(
                "step {} asks with a timeout, but a question in a ticket waits for as long as it takes: remove `timeout`",
                step.id
            );
            return Err(TemplateError::Bad(from, why));
        }
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
        contract.work = Some(Work { system: "ticket".to_owned(), change_id: ticket.stem.to_string() });
        let text = contract::canonical_json(&contract).into_bytes();
        contract::parse(&text).map_err(|why| TemplateError::Bad(from, why.to_string()))?;
        Ok(text)
    }

    fn read(&self, ticket: &Ticket) -> Result<(Contract, String), TemplateError> {
        let Some(path) = self.file(ticket) else {
            let command = self.command.as_ref().ok_or_else(|| self.missing(ticket))?;
            return self.of_command(command);
        };
        let from = path.display().to_string();
        let bytes = crate::files::read_small(&path)
            .map_err(|error: io::Error| TemplateError::Bad(from.clone(), error.to_string()))?;
        let contract = contract::parse(&bytes).map_err(|why| TemplateError::Bad(from.clone(), why.to_string()))?;
        Ok((contract, from))
    }

    /// One command in a fresh folder. The body is laid out by a step of its own, because a contract carries no files.
    fn of_command(&self, command: &str) -> Result<(Contract, String), TemplateError> {
        let command = serde_json::json!({
            "requires": [{"as": "worker", "capability": self.capability}],
            "env": {"TICKET": "", "TICKET_TITLE": "", "TICKET_KIND": "", "TICKET_BODY": ""},
            "steps": [
                {"id": "ticket", "uses": "worker", "out": ["ticket.md"],
                 "run": ["sh", "-c", "printf '%s' \"$$TICKET_BODY\" > \"$$OUT/ticket.md\""]},
                {"id": "work", "uses": "worker", "in": {"from": ["ticket.md"]},
                 "run": ["sh", "-c", command.replace('$', "$$")]},
            ],
            "when_unmatched": "queue",
        });
        let from = "--command".to_owned();
        let contract = contract::parse(command.to_string().as_bytes());
        Ok((contract.map_err(|why| TemplateError::Bad(from.clone(), why.to_string()))?, from))
    }
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
