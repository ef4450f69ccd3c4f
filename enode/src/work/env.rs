//! Arguments and environment of a program.

use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
    path::{Path, PathBuf},
};

use shared::{
    NodeId,
    contract::{AGENT_NAMES, ExpandError, expand},
};

use super::workspace::Room;
use crate::session::wire::WorkStep;

/// What a program is started with.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Program {
    /// Program and arguments, at least one.
    pub argv: Vec<String>,
    /// The whole environment.
    pub env: BTreeMap<OsString, OsString>,
    /// What it reads; nothing if there is no such file.
    pub stdin: Option<PathBuf>,
    /// What it prints is wanted apart from what it complains about.
    pub capture: bool,
}

/// Why there is no program.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProgramError {
    /// Nothing to run.
    #[error("the step names no program")]
    Empty,
    /// A text that does not expand.
    #[error("{place}: {source}")]
    Expand {
        /// `run[2]`, `agent.prompt` or `env.NAME`.
        place: String,
        /// Why.
        source: ExpandError,
    },
    /// Values that refer to each other.
    #[error("env.{0}: it refers to itself")]
    Circle(String),
}

/// What a step's program sees, before it is known which program.
#[derive(Debug)]
pub struct Surroundings {
    names: BTreeMap<&'static str, String>,
    env: BTreeMap<String, String>,
}

impl Surroundings {
    /// Expands a step's environment.
    ///
    /// # Errors
    /// [`ProgramError`]
    pub fn of(step: &WorkStep, node: &NodeId, room: &Room) -> Result<Self, ProgramError> {
        let names = agent_names(step, node, room);
        let mut env = BTreeMap::new();
        for name in step.env.keys() {
            let value = value(name, &step.env, &names, 0).map_err(|e| match e {
                ProgramError::Circle(_) => ProgramError::Circle(name.clone()),
                other => other,
            })?;
            env.insert(name.clone(), value);
        }
        Ok(Self { names, env })
    }

    /// Fills a text in.
    ///
    /// # Errors
    /// [`ProgramError`] with the place.
    pub fn expand(&self, place: impl FnOnce() -> String, text: &str) -> Result<String, ProgramError> {
        let lookup = |name: &str| self.names.get(name).or_else(|| self.env.get(name)).cloned();
        expand(text, lookup).map_err(|source| ProgramError::Expand { place: place(), source })
    }

    /// The whole environment. What the contract sets wins over what is passed from the agent's own environment, and
    /// the agent's names win over both.
    pub fn environment<'a>(
        self,
        pass: impl Iterator<Item = &'a String>,
        own: impl Fn(&str) -> Option<OsString>,
    ) -> BTreeMap<OsString, OsString> {
        let passed = pass.filter_map(|name| Some((OsString::from(name), own(name)?)));
        let text = |(name, value): (String, String)| (OsString::from(name), OsString::from(value));
        let all = passed.chain(self.env.into_iter().map(text));
        all.chain(self.names.into_iter().map(|(name, value)| (OsString::from(name), OsString::from(value)))).collect()
    }
}

/// Expands a step's arguments and environment.
///
/// # Errors
/// [`ProgramError`]
pub fn program(
    step: &WorkStep,
    node: &NodeId,
    room: &Room,
    pass: &[String],
    own: impl Fn(&str) -> Option<OsString>,
) -> Result<Program, ProgramError> {
    let around = Surroundings::of(step, node, room)?;
    let argv = step.argv.iter().enumerate().map(|(at, arg)| around.expand(|| format!("run[{at}]"), arg));
    let argv: Vec<String> = argv.collect::<Result<_, _>>()?;
    if argv.first().is_none_or(String::is_empty) {
        return Err(ProgramError::Empty);
    }
    Ok(Program { argv, env: around.environment(pass.iter(), own), ..Program::default() })
}

/// The value of one variable. A reference to another one of the same step is followed.
fn value(
    name: &str,
    env: &BTreeMap<String, String>,
    names: &BTreeMap<&'static str, String>,
    depth: usize,
) -> Result<String, ProgramError> {
    if depth > env.len() {
        return Err(ProgramError::Circle(name.to_owned()));
    }
    let Some(text) = env.get(name) else { return Ok(String::new()) };
    let failed = std::cell::RefCell::new(None);
    let expanded = expand(text, |inner| {
        if let Some(own) = names.get(inner) {
            return Some(own.clone());
        }
        env.contains_key(inner).then(|| {
            value(inner, env, names, depth + 1).unwrap_or_else(|e| {
                failed.borrow_mut().get_or_insert(e);
                String::new()
            })
        })
    });
    match failed.into_inner() {
        Some(e) => Err(e),
        None => expanded.map_err(|source| ProgramError::Expand { place: format!("env.{name}"), source }),
    }
}

fn agent_names(step: &WorkStep, node: &NodeId, room: &Room) -> BTreeMap<&'static str, String> {
    // The state directory is checked to be text when the agent starts.
    let folder = |path: &Path| path.to_string_lossy().into_owned();
    AGENT_NAMES
        .into_iter()
        .map(|name| {
            let value = match name {
                "IN" => folder(&room.input),
                "OUT" => folder(&room.out),
                "CACHE" => folder(&room.cache),
                "ATTEMPT" => step.key.attempt.to_string(),
                "ROUND" => step.round.to_string(),
                "RUN_ID" => step.key.run.to_string(),
                "STEP_ID" => step.step.to_string(),
                "NODE_ID" => node.to_string(),
                "WORK_ID" => step.work_id.clone(),
                other => unreachable_name(other),
            };
            (name, value)
        })
        .collect()
}

/// A name that was added to the grammar and not here expands to nothing, and a test says so.
const fn unreachable_name(_: &str) -> String {
    String::new()
}

/// The file to execute: a name with a `/` is relative to the working directory, any other is looked up on the
/// program's own PATH.
#[must_use]
pub fn file(program: &str, run: &Path) -> OsString {
    if program.contains('/') { run.join(program).into_os_string() } else { OsStr::new(program).to_owned() }
}

#[cfg(test)]
#[path = "env_tests.rs"]
mod tests;
