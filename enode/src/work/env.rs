//! Arguments and environment of a program.

use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
    path::{Path, PathBuf},
};

use shared::{
    NodeId,
    contract::{AGENT_NAMES, ExpandError, MAX_EXPANDED, expand},
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
    /// The owner's configuration names it, not the contract.
    pub is_owners: bool,
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
    /// Values that refer to others, which refer to others, and so on.
    #[error("env.{0}: it refers to others more than {DEEPEST} deep")]
    TooDeep(String),
}

/// How far references are followed. A contract that was accepted has two levels.
const DEEPEST: usize = 32;

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
        let mut values = Values { env: &step.env, names: &names, made: BTreeMap::new(), under_way: Vec::new() };
        let mut size = 0;
        for name in step.env.keys() {
            size += values.make(name).map_err(|e| match e {
                ProgramError::Circle(_) => ProgramError::Circle(name.clone()),
                ProgramError::TooDeep(_) => ProgramError::TooDeep(name.clone()),
                other @ (ProgramError::Empty | ProgramError::Expand { .. }) => other,
            })?;
            within(size, || format!("env.{name}"))?;
        }
        let env = values.made.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
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
    let (mut argv, mut size) = (Vec::with_capacity(step.argv.len()), 0);
    for (at, arg) in step.argv.iter().enumerate() {
        let place = || format!("run[{at}]");
        let arg = around.expand(place, arg)?;
        size += arg.len();
        within(size, place)?;
        argv.push(arg);
    }
    if argv.first().is_none_or(String::is_empty) {
        return Err(ProgramError::Empty);
    }
    Ok(Program { argv, env: around.environment(pass.iter(), own), ..Program::default() })
}

/// Refuses what is too long only together with what stands before it.
fn within(size: usize, place: impl FnOnce() -> String) -> Result<(), ProgramError> {
    if size <= MAX_EXPANDED {
        return Ok(());
    }
    Err(ProgramError::Expand { place: place(), source: ExpandError::TooLongTogether })
}

/// Values of variables. A reference to another one of the same step is followed; each is made once, since what refers
/// to a few that refer to a few would be made any number of times.
struct Values<'a> {
    env: &'a BTreeMap<String, String>,
    names: &'a BTreeMap<&'static str, String>,
    made: BTreeMap<&'a str, String>,
    under_way: Vec<&'a str>,
}

impl Values<'_> {
    /// Makes the value of one that is there; how long it is.
    fn make(&mut self, name: &str) -> Result<usize, ProgramError> {
        if let Some(value) = self.made.get(name) {
            return Ok(value.len());
        }
        let Some((name, text)) = self.env.get_key_value(name) else { return Ok(0) };
        if self.under_way.contains(&name.as_str()) {
            return Err(ProgramError::Circle(name.clone()));
        }
        if self.under_way.len() >= DEEPEST {
            return Err(ProgramError::TooDeep(name.clone()));
        }
        self.under_way.push(name);
        let mut failed = None;
        let expanded = expand(text, |inner| {
            if let Some(own) = self.names.get(inner) {
                return Some(own.clone());
            }
            if !self.env.contains_key(inner) {
                return None;
            }
            // After the first fault nothing more is made.
            if failed.is_none() {
                failed = self.make(inner).err();
            }
            let value = self.made.get(inner).filter(|_| failed.is_none());
            Some(value.cloned().unwrap_or_default())
        });
        self.under_way.pop();
        if let Some(e) = failed {
            return Err(e);
        }
        let value = expanded.map_err(|source| ProgramError::Expand { place: format!("env.{name}"), source })?;
        let size = value.len();
        self.made.insert(name, value);
        Ok(size)
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
