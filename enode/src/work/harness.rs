//! From an `agent` step to the program that a configured harness makes of it, and from what this prints to an answer.
//!
//! Prompt and schema lie in a folder beside `$OUT`, so that they are never taken for something that the step made.

use std::{collections::BTreeMap, ffi::OsString, fs, io, path::Path};

use shared::{
    NodeId,
    contract::{ANSWER_FILE, HARNESS_NAMES},
};

use super::{
    env::{Program, ProgramError, Surroundings},
    log::Printed,
    tree,
    workspace::Room,
};
use crate::{
    config::harness::{Answer, Group, Harness, Piece, Placeholder},
    policy::quarantine::Against,
    session::wire::{AgentTask, WorkStep},
    spool::make_private,
};

/// Why a harness cannot be started.
#[derive(Debug, thiserror::Error)]
pub enum HarnessError {
    /// Not in the configuration.
    #[error("this node has no harness {wanted:?}; {has}. A contract asks for one by `capability: agent` and \
             `attrs: {{harness: {wanted}}}`", has = list(known))]
    Unknown {
        /// What the step names.
        wanted: String,
        /// What there is.
        known: Vec<String>,
    },
    /// An argument that cannot be filled in.
    #[error("harness {harness:?} takes {{{}}}, and the step does not say it: write the arguments that it is for into a \
             list of their own in `command`", placeholder.as_str())]
    Missing {
        /// Its name.
        harness: String,
        /// What is missing.
        placeholder: Placeholder,
    },
    /// A text that does not expand.
    #[error(transparent)]
    Program(#[from] ProgramError),
    /// The file system.
    #[error("cannot write the prompt into {folder}: {source}")]
    Io {
        /// Where.
        folder: String,
        /// Why.
        source: io::Error,
    },
}

impl HarnessError {
    pub(super) const fn against(&self) -> Against {
        match self {
            Self::Unknown { .. } | Self::Missing { .. } | Self::Program(_) => Against::Others,
            Self::Io { .. } => Against::Machine,
        }
    }
}

fn list(known: &[String]) -> String {
    if known.is_empty() { "it has none".to_owned() } else { format!("it has {}", known.join(", ")) }
}

/// Lays out what the harness is told, and fills its command in.
///
/// # Errors
/// [`HarnessError`]
pub fn program(
    step: &WorkStep,
    task: &AgentTask,
    harnesses: &BTreeMap<String, Harness>,
    node: &NodeId,
    room: &Room,
    pass: &[String],
    own: impl Fn(&str) -> Option<OsString>,
) -> Result<Program, HarnessError> {
    let harness = harnesses.get(&task.harness).ok_or_else(|| HarnessError::Unknown {
        wanted: task.harness.clone(),
        known: harnesses.keys().cloned().collect(),
    })?;
    let around = Surroundings::of(step, node, room)?;
    let prompt = around.expand(|| "agent.prompt".to_owned(), &task.prompt)?;
    let failed = |source| HarnessError::Io { folder: room.task.display().to_string(), source };
    tree::remove_tree(&room.task).and_then(|()| make_private(&room.task)).map_err(failed)?;
    let write = |name: &str, text: &str| {
        let path = room.task.join(name);
        fs::write(&path, text).map_err(failed)?;
        Ok::<_, HarnessError>(path)
    };
    let prompt_file = write("prompt.md", &prompt)?;
    let schema_file = task.schema.as_ref().map(|schema| write("schema.json", schema)).transpose()?;
    // The state directory is checked to be text when the agent starts.
    let text = |path: &Path| path.to_string_lossy().into_owned();
    let value = |placeholder| match placeholder {
        Placeholder::Prompt => Some(prompt.clone()),
        Placeholder::PromptFile => Some(text(&prompt_file)),
        Placeholder::SchemaFile => schema_file.as_deref().map(text),
        Placeholder::AnswerFile => Some(text(&room.out.join(ANSWER_FILE))),
        Placeholder::MaxTurns => task.max_turns.map(|turns| turns.to_string()),
    };
    let missing = |placeholder| HarnessError::Missing { harness: task.harness.clone(), placeholder };
    let argv = fill(&harness.command, &value).map_err(missing)?;
    let mut env = around.environment(pass.iter().chain(&harness.pass_env), own);
    let placeholders =
        [Placeholder::PromptFile, Placeholder::SchemaFile, Placeholder::AnswerFile, Placeholder::MaxTurns];
    for (name, placeholder) in HARNESS_NAMES.into_iter().zip(placeholders) {
        match value(placeholder) {
            Some(value) => env.insert(name.into(), value.into()),
            // A value of the contract's would be taken for ours.
            None => env.remove(std::ffi::OsStr::new(name)),
        };
    }
    let told = harness.placeholders().any(|it| matches!(it, Placeholder::Prompt | Placeholder::PromptFile));
    let stdin = if told { None } else { Some(prompt_file) };
    Ok(Program { argv, env, stdin, capture: matches!(harness.answer, Answer::Stdout(_)), is_owners: true })
}

/// The arguments; a placeholder that stands for nothing is named.
fn fill(command: &[Group], value: &impl Fn(Placeholder) -> Option<String>) -> Result<Vec<String>, Placeholder> {
    let mut argv = Vec::new();
    for group in command {
        if group.optional && group.placeholders().any(|it| value(it).is_none()) {
            continue;
        }
        for pieces in &group.arguments {
            let mut argument = String::new();
            for piece in pieces {
                match piece {
                    Piece::Text(text) => argument.push_str(text),
                    Piece::Fill(placeholder) => argument.push_str(&value(*placeholder).ok_or(*placeholder)?),
                }
            }
            argv.push(argument);
        }
    }
    Ok(argv)
}

/// Writes the answer that a harness printed.
///
/// # Errors
/// Why there is none, in words.
pub async fn keep_answer(printed: &Printed, pointer: Option<&str>, out: &Path) -> Result<(), String> {
    let answer = answer_in(printed.whole()?, pointer)?;
    let path = out.join(ANSWER_FILE);
    let write = move || {
        // The program may have put anything here, also a link to somewhere else.
        tree::remove_tree(&path)?;
        io::Write::write_all(&mut fs::File::create_new(&path)?, &answer)
    };
    let written = tokio::task::spawn_blocking(write).await.map_err(|e| e.to_string())?;
    written.map_err(|e| format!("cannot write it: {e}"))
}

fn answer_in(printed: &[u8], pointer: Option<&str>) -> Result<Vec<u8>, String> {
    // Without a pointer it is stored as it is: what is wrong with it is for the mediator to say.
    let Some(pointer) = pointer else { return Ok(printed.to_vec()) };
    let document: serde_json::Value =
        serde_json::from_slice(printed).map_err(|e| format!("what it printed is not JSON: {e}"))?;
    let found = document.pointer(pointer).ok_or_else(|| format!("what it printed has nothing at {pointer}"))?;
    serde_json::to_vec(found).map_err(|e| e.to_string())
}

#[cfg(test)]
#[path = "harness_tests.rs"]
mod tests;
