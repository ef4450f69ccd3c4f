//! `[harness.NAME]` tables: the coding agents that this machine's owner lets `agent` steps use.
//!
//! A harness is any command. Its arguments may hold placeholders, which are filled in for each step; arguments that
//! make sense only where the step says something (`--max-turns {max_turns}`) stand in a list of their own and are
//! left out where it does not.

use std::collections::BTreeMap;

use figment::value::{Dict, Value};
use serde_json::{Map, json};
use shared::{contract::AttrValue, domain::Capability};

use super::fields::{self, Parsed};

/// The capability of a node that has harnesses; its attribute `harness` is a harness's name.
pub const CAPABILITY: &str = "agent";

/// Keys of one table.
const KEYS: [&str; 4] = ["command", "answer", "pointer", "pass_env"];

/// What an argument may hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Placeholder {
    /// The prompt itself.
    Prompt,
    /// The file that holds it.
    PromptFile,
    /// The file that holds the JSON Schema of the answer.
    SchemaFile,
    /// The file that the answer goes into.
    AnswerFile,
    /// How many turns it may take.
    MaxTurns,
}

impl Placeholder {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Prompt, Self::PromptFile, Self::SchemaFile, Self::AnswerFile, Self::MaxTurns];

    /// As it is written between braces.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Prompt => "prompt",
            Self::PromptFile => "prompt_file",
            Self::SchemaFile => "schema_file",
            Self::AnswerFile => "answer_file",
            Self::MaxTurns => "max_turns",
        }
    }
}

/// A part of an argument.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece {
    /// As it stands.
    Text(String),
    /// To be filled in.
    Fill(Placeholder),
}

/// Arguments that are there together, or not at all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// Each in pieces.
    pub arguments: Vec<Vec<Piece>>,
    /// Left out where the step does not say what a placeholder stands for.
    pub optional: bool,
}

/// Where the structured answer comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// The program writes `{answer_file}`.
    File,
    /// What it prints, or the part of this JSON that a pointer names.
    Stdout(Option<String>),
}

/// One configured command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Harness {
    /// Program and arguments.
    pub command: Vec<Group>,
    /// How it answers.
    pub answer: Answer,
    /// Environment variables that it inherits beyond what every step does.
    pub pass_env: Vec<String>,
    written: serde_json::Value,
}

impl Harness {
    /// Every placeholder of its command.
    pub fn placeholders(&self) -> impl Iterator<Item = Placeholder> {
        self.command.iter().flat_map(Group::placeholders)
    }

    /// What is started.
    #[must_use]
    pub fn program(&self) -> Option<&str> {
        match self.command.first()?.arguments.first()?.first()? {
            Piece::Text(program) => Some(program),
            Piece::Fill(_) => None,
        }
    }

    /// As `config show` prints it.
    #[must_use]
    pub const fn shown(&self) -> &serde_json::Value {
        &self.written
    }
}

impl Group {
    /// Every placeholder of its arguments.
    pub fn placeholders(&self) -> impl Iterator<Item = Placeholder> {
        self.arguments.iter().flatten().filter_map(|piece| match piece {
            Piece::Fill(placeholder) => Some(*placeholder),
            Piece::Text(_) => None,
        })
    }
}

/// Reads the table of tables.
pub(super) fn harnesses(value: &Value) -> Parsed<BTreeMap<String, Harness>> {
    let Value::Dict(_, tables) = value else {
        return Err("must be tables: [harness.NAME] with `command = [\"PROGRAM\", \"ARGUMENT\"]`".to_owned());
    };
    tables.iter().map(|(name, table)| Ok((checked(name)?, one(name, table)?))).collect()
}

fn checked(name: &str) -> Parsed<String> {
    let fits = (1..=128).contains(&name.len()) && !name.chars().any(|c| c.is_control() || c.is_whitespace());
    if fits { Ok(name.to_owned()) } else { Err(format!("name {name:?} must have 1 to 128 characters and no blanks")) }
}

fn one(name: &str, value: &Value) -> Parsed<Harness> {
    let at =
        |key: &str, why: String| if key.is_empty() { format!("{name}: {why}") } else { format!("{name}.{key} {why}") };
    let Value::Dict(_, table) = value else {
        return Err(at("", format!("must be a table: [harness.{name}] with `command`")));
    };
    if let Some(unknown) = table.keys().find(|key| !KEYS.contains(&key.as_str())) {
        return Err(at("", format!("unknown key `{unknown}`: a harness has {}", KEYS.join(", "))));
    }
    let command = table.get("command").ok_or_else(|| at("", "has no `command`".to_owned()))?;
    let command = groups(command).map_err(|why| at("command", why))?;
    let answer = answer(table).map_err(|(key, why)| at(key, why))?;
    let pass_env = match table.get("pass_env") {
        Some(names) => fields::list(names).map_err(|why| at("pass_env", why))?,
        None => Vec::new(),
    };
    if let Some(bad) = pass_env.iter().find(|it| it.is_empty() || it.contains(['=', '\0']) || *it == "ENODE_TOKEN") {
        return Err(at("pass_env", format!("must not hold {bad:?}")));
    }
    Ok(Harness { written: shown(&command, &answer, &pass_env), command, answer, pass_env })
}

fn groups(value: &Value) -> Parsed<Vec<Group>> {
    const WANTED: &str = "must be a list of texts and of lists of texts, such as [\"my-agent\", \"--brief\", \
                          \"{prompt_file}\", [\"--max-turns\", \"{max_turns}\"]]";
    let items = match value {
        Value::Array(_, items) => items
            .iter()
            .map(|item| match item {
                Value::Array(_, inner) => {
                    let texts = inner.iter().map(|it| it.as_str().map(str::to_owned)).collect::<Option<Vec<_>>>();
                    Some((texts?, true))
                }
                other => Some((vec![other.as_str()?.to_owned()], false)),
            })
            .collect::<Option<Vec<_>>>()
            .ok_or(WANTED)?,
        // All that an environment variable can say.
        Value::String(..) => fields::list(value)?.into_iter().map(|text| (vec![text], false)).collect(),
        _ => return Err(WANTED.to_owned()),
    };
    let groups = items
        .into_iter()
        .map(|(texts, optional)| {
            let arguments = texts.iter().map(|text| pieces(text)).collect::<Parsed<Vec<_>>>()?;
            let group = Group { arguments, optional };
            if optional && group.placeholders().next().is_none() {
                return Err(format!("has a list without a placeholder, {texts:?}: write its texts without the list"));
            }
            Ok(group)
        })
        .collect::<Parsed<Vec<_>>>()?;
    match groups.first().map(|group| (group.optional, group.arguments.as_slice())) {
        Some((false, [program])) => match program.as_slice() {
            [Piece::Text(program)] if program.starts_with('/') || !program.contains('/') => Ok(groups),
            [Piece::Text(program)] => {
                Err(format!("starts with {program:?}: name a program on the PATH, or write its whole path"))
            }
            _ => Err("must start with the name of a program".to_owned()),
        },
        _ => Err(WANTED.to_owned()),
    }
}

/// Splits an argument at its placeholders. Braces around anything else are left alone, unless they look like a
/// placeholder that was misspelt.
fn pieces(text: &str) -> Parsed<Vec<Piece>> {
    let mut pieces = Vec::new();
    let mut plain = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('{') {
        plain.push_str(&rest[..at]);
        let inner = &rest[at + 1..];
        let word = inner.split_once('}').map(|(word, _)| word);
        let word = word.filter(|word| !word.is_empty() && word.bytes().all(|b| b.is_ascii_lowercase() || b == b'_'));
        let Some(word) = word else {
            plain.push('{');
            rest = inner;
            continue;
        };
        let known = Placeholder::ALL.into_iter().find(|known| known.as_str() == word).ok_or_else(|| {
            let known = Placeholder::ALL.map(|known| format!("{{{}}}", known.as_str())).join(", ");
            format!("has {{{word}}}, which is none of {known}")
        })?;
        if !plain.is_empty() {
            pieces.push(Piece::Text(std::mem::take(&mut plain)));
        }
        pieces.push(Piece::Fill(known));
        rest = &inner[word.len() + 1..];
    }
    plain.push_str(rest);
    if !plain.is_empty() || pieces.is_empty() {
        pieces.push(Piece::Text(plain));
    }
    Ok(pieces)
}

fn answer(table: &Dict) -> Result<Answer, (&'static str, String)> {
    let pointer = table.get("pointer").map(|value| fields::text(value).map_err(|why| ("pointer", why))).transpose()?;
    if let Some(bad) = pointer.as_ref().filter(|it| !it.starts_with('/')) {
        return Err(("pointer", format!("must be a JSON pointer, such as \"/result\", not {bad:?}")));
    }
    let word = table.get("answer").map(|value| fields::text(value).map_err(|why| ("answer", why))).transpose()?;
    match (word.as_deref(), pointer) {
        (Some("stdout"), pointer) => Ok(Answer::Stdout(pointer)),
        (None | Some("file"), None) => Ok(Answer::File),
        (None | Some("file"), Some(_)) => Err(("pointer", "means something with answer = \"stdout\" only".to_owned())),
        (Some(other), _) => Err(("answer", format!("must be \"file\" or \"stdout\", not {other:?}"))),
    }
}

fn shown(command: &[Group], answer: &Answer, pass_env: &[String]) -> serde_json::Value {
    let argument = |pieces: &Vec<Piece>| -> String {
        pieces
            .iter()
            .map(|piece| match piece {
                Piece::Text(text) => text.clone(),
                Piece::Fill(placeholder) => format!("{{{}}}", placeholder.as_str()),
            })
            .collect()
    };
    let command: Vec<_> = command
        .iter()
        .map(|group| {
            let texts: Vec<_> = group.arguments.iter().map(argument).collect();
            if group.optional { json!(texts) } else { json!(texts.concat()) }
        })
        .collect();
    let mut table = Map::from_iter([("command".to_owned(), json!(command))]);
    match answer {
        Answer::File => table.insert("answer".to_owned(), json!("file")),
        Answer::Stdout(pointer) => {
            if let Some(pointer) = pointer {
                table.insert("pointer".to_owned(), json!(pointer));
            }
            table.insert("answer".to_owned(), json!("stdout"))
        }
    };
    if !pass_env.is_empty() {
        table.insert("pass_env".to_owned(), json!(pass_env));
    }
    table.into()
}

/// Adds one capability for each harness. What the owner wrote of the capability holds for all of them.
pub(super) fn advertise(harnesses: &BTreeMap<String, Harness>, capabilities: &mut Vec<Capability>) {
    if harnesses.is_empty() {
        return;
    }
    let at = capabilities.iter().position(|it| it.name == CAPABILITY);
    let attrs = at.map(|at| capabilities.remove(at).attrs).unwrap_or_default();
    for name in harnesses.keys() {
        let mut attrs = attrs.clone();
        attrs.insert("harness".to_owned(), AttrValue::Text(name.clone()));
        capabilities.push(Capability { name: CAPABILITY.to_owned(), attrs });
    }
}
