//! `$NAME`, `${NAME}` and `$$` in arguments and environment values.
//!
//! One grammar for the mediator, which refuses at submit what will not expand, and for the agent, which expands.

use std::collections::BTreeMap;

use super::{Contract, Step};

/// Names that the agent gives to every program. A contract may use them and not set them.
pub const AGENT_NAMES: [&str; 9] =
    ["IN", "OUT", "CACHE", "ATTEMPT", "ROUND", "RUN_ID", "STEP_ID", "NODE_ID", "WORK_ID"];

/// Names that the agent gives to the harness of an `agent` step besides. Its environment may not set them.
pub const HARNESS_NAMES: [&str; 4] = ["PROMPT_FILE", "SCHEMA_FILE", "ANSWER_FILE", "MAX_TURNS"];

/// Most bytes that a text may expand to; and the arguments of a step together, and its environment. No system starts a
/// program with more.
pub const MAX_EXPANDED: usize = 1 << 20;

/// Of [`AGENT_NAMES`] the ones that exist only within a step.
pub(super) const FOLDERS: [&str; 3] = ["IN", "OUT", "CACHE"];

/// Why a text does not expand.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ExpandError {
    /// Nobody knows the name.
    #[error("${0} is not known here; set it in `env`, or write $${0} to pass a dollar on to the program")]
    Unknown(String),
    /// A dollar that starts nothing.
    #[error("{0:?} is not a name; write $NAME or ${{NAME}}, or $$ for a dollar")]
    Malformed(String),
    /// More than [`MAX_EXPANDED`].
    #[error("it expands to more than {MAX_EXPANDED} bytes")]
    TooLong,
    /// More than [`MAX_EXPANDED`] with the arguments or values before it.
    #[error("it expands to more than {MAX_EXPANDED} bytes, with what stands before it")]
    TooLongTogether,
}

/// Whether it is an environment name: letters, digits and `_`, no digit first.
#[must_use]
pub fn is_env_name(name: &str) -> bool {
    !name.is_empty()
        && !name.as_bytes()[0].is_ascii_digit()
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

/// Replaces `$NAME` and `${NAME}` by what `lookup` says, and `$$` by a dollar. What is put in is not expanded
/// again.
///
/// # Errors
/// [`ExpandError`] for a name that `lookup` does not know, for a dollar that starts no name, and for what grows too long.
pub fn expand(text: &str, mut lookup: impl FnMut(&str) -> Option<String>) -> Result<String, ExpandError> {
    let mut done = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        done.push_str(&rest[..at]);
        if done.len() > MAX_EXPANDED {
            return Err(ExpandError::TooLong);
        }
        let (here, after) = (&rest[at..], &rest[at + 1..]);
        let malformed = |len: usize| ExpandError::Malformed(here.chars().take(len).collect());
        if let Some(after) = after.strip_prefix('$') {
            done.push('$');
            rest = after;
            continue;
        }
        let name = if let Some(inner) = after.strip_prefix('{') {
            let end = inner.find('}').ok_or_else(|| malformed(20))?;
            rest = &inner[end + 1..];
            &inner[..end]
        } else {
            let end = after.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(after.len());
            rest = &after[end..];
            &after[..end]
        };
        if !is_env_name(name) {
            return Err(malformed(name.chars().count().min(20) + if after.starts_with('{') { 3 } else { 2 }));
        }
        done.push_str(&lookup(name).ok_or_else(|| ExpandError::Unknown(name.to_owned()))?);
    }
    done.push_str(rest);
    if done.len() > MAX_EXPANDED { Err(ExpandError::TooLong) } else { Ok(done) }
}

/// The arguments and the environment of a step, expanded in the one order that has no circles: the contract's
/// `env` sees the agent's names except the folders, the step's `env` sees those, the folders and the contract's,
/// and the arguments see everything.
///
/// `own` knows [`AGENT_NAMES`], and answers `None` for one that this Run does not have (`WORK_ID`), which then
/// expands to nothing.
///
/// # Errors
/// [`ExpandError`]; validation has seen to it that there is none.
pub fn resolve(
    contract: &Contract,
    step: &Step,
    own: impl Fn(&str) -> Option<String>,
) -> Result<(Vec<String>, BTreeMap<String, String>), ExpandError> {
    let agent = |name: &str| AGENT_NAMES.contains(&name).then(|| own(name).unwrap_or_default());
    let mut env = BTreeMap::new();
    for (name, value) in &contract.env {
        let value = expand(value, |name| agent(name).filter(|_| !FOLDERS.contains(&name)))?;
        env.insert(name.clone(), value);
    }
    let outer = env.clone();
    for (name, value) in &step.env {
        let value = expand(value, |name| agent(name).or_else(|| outer.get(name).cloned()))?;
        env.insert(name.clone(), value);
    }
    let argv = step.run.iter().flatten();
    let argv = argv.map(|arg| expand(arg, |name| agent(name).or_else(|| env.get(name).cloned())));
    Ok((argv.collect::<Result<_, _>>()?, env))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(name: &str) -> Option<String> {
        (name == "NAME").then(|| "<$X>".to_owned())
    }

    #[test]
    fn names_are_replaced_once_and_two_dollars_are_one() {
        for (text, wanted) in [
            ("", ""),
            ("plain", "plain"),
            ("$NAME", "<$X>"),
            ("a${NAME}b", "a<$X>b"),
            ("$NAME/$NAME", "<$X>/<$X>"),
            ("$$NAME", "$NAME"),
            ("$$$NAME", "$<$X>"),
            ("$$", "$"),
            ("ä$NAMEä", "ä<$X>ä"),
        ] {
            assert_eq!(expand(text, known).as_deref(), Ok(wanted), "{text}");
        }
    }

    #[test]
    fn what_does_not_expand_says_what_to_write() {
        for (text, wanted) in [
            ("$HOME/x", "$HOME is not known here; set it in `env`, or write $$HOME to pass a dollar on to the program"),
            ("a$", "\"$\" is not a name; write $NAME or ${NAME}, or $$ for a dollar"),
            ("$1", "\"$1\" is not a name; write $NAME or ${NAME}, or $$ for a dollar"),
            ("$-x", "\"$-\" is not a name; write $NAME or ${NAME}, or $$ for a dollar"),
            ("${}", "\"${}\" is not a name; write $NAME or ${NAME}, or $$ for a dollar"),
            ("${A-b}", "\"${A-b}\" is not a name; write $NAME or ${NAME}, or $$ for a dollar"),
            ("${NAME", "\"${NAME\" is not a name; write $NAME or ${NAME}, or $$ for a dollar"),
            ("$(ls)", "\"$(\" is not a name; write $NAME or ${NAME}, or $$ for a dollar"),
        ] {
            assert_eq!(expand(text, known).unwrap_err().to_string(), wanted, "{text}");
        }
    }
}
