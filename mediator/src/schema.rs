//! JSON Schemas that contracts carry: of an agent's structured answer, and of the form of a question.
//!
//! Only here is one compiled. Nothing is fetched: a schema that refers to another document is refused. Nothing grows
//! without bound: a schema may not lead back into itself, because with choices in it the number of ways to look at a small
//! answer is beyond any machine, and what it unfolds to is limited. Patterns take time in proportion to the text.

use std::collections::HashMap;

use jsonschema::{PatternOptions, Validator};
use serde_json::Value;
use shared::contract::{Contract, ContractError, Problem};
use tokio::sync::Semaphore;

use crate::error::Error;

/// Most faults told of one answer.
const MOST: usize = 5;
/// Most letters of one fault: it shows the value that does not fit.
const LONGEST: usize = 300;
/// Most schemas within a schema, each counted as often as it is referred to.
const LARGEST: u64 = 10_000;

/// Most schemas that are compiled and applied at a time. Each may take a thread for a moment, and the threads that may
/// block are wanted for files, too.
static TURNS: Semaphore = Semaphore::const_new(2);

/// Does work with schemas where it may take its time: what a caller sends, up to a mebibyte of it, with patterns in it,
/// must not hold up whoever else is served by this thread.
///
/// # Errors
/// The program ends.
pub async fn apart<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, Error> {
    let turn = TURNS.acquire().await.map_err(|_| Error::Stopping)?;
    let work = move || {
        // Until it is done, even where nobody waits for it any more.
        let _turn = turn;
        work()
    };
    tokio::task::spawn_blocking(work).await.map_err(|_| Error::Stopping)
}

/// What a schema says against a value, in words; `None` where it fits.
///
/// # Errors
/// The schema itself is none, or the program ends.
pub async fn mismatch(schema: Value, value: Value) -> Result<Option<String>, String> {
    apart(move || fault(&schema, &value)).await.map_err(|error| error.to_string())?
}

fn fault(schema: &Value, value: &Value) -> Result<Option<String>, String> {
    let validator = compile(schema)?;
    let faults: Vec<String> = validator
        .iter_errors(value)
        .take(MOST)
        .map(|error| match error.instance_path().as_str() {
            "" => cut(&error.to_string()),
            path => format!("{path}: {}", cut(&error.to_string())),
        })
        .collect();
    Ok((!faults.is_empty()).then(|| faults.join("; ")))
}

/// Every schema of a contract: the step's place, the key and the schema.
fn schemas(contract: &Contract) -> impl Iterator<Item = (usize, &'static str, &Value)> {
    contract.steps.iter().enumerate().flat_map(|(at, step)| {
        let agent = step.agent.as_ref().and_then(|it| it.schema.as_ref()).map(|it| ("agent.schema", it));
        let ask = step.ask.as_ref().and_then(|it| it.form.as_ref()).map(|it| ("ask.form", it));
        agent.into_iter().chain(ask).map(move |(key, schema)| (at, key, schema))
    })
}

/// Whether a contract has any schema.
#[must_use]
pub fn is_in(contract: &Contract) -> bool {
    schemas(contract).next().is_some()
}

/// Looks at every schema of a contract, so that one that is none is refused before anything runs.
///
/// # Errors
/// Each schema that does not compile, with its path.
fn check(contract: &Contract) -> Result<(), ContractError> {
    let problems: Vec<Problem> = schemas(contract)
        .filter_map(|(at, key, schema)| {
            let message = compile(schema).err()?;
            Some(Problem { path: format!("steps[{at}].{key}"), position: None, message })
        })
        .collect();
    if problems.is_empty() { Ok(()) } else { Err(ContractError { problems }) }
}

/// Everything that can be said about a contract without a fleet.
///
/// # Errors
/// Every problem found.
pub fn read_contract(text: &[u8]) -> Result<Contract, ContractError> {
    let contract = shared::contract::parse(text)?;
    check(&contract)?;
    Ok(contract)
}

fn compile(schema: &Value) -> Result<Validator, String> {
    Unfold { root: schema, on_the_way: Vec::new(), known: HashMap::new() }.size(schema)?;
    let options = jsonschema::options().with_pattern_options(PatternOptions::regex());
    options.build(schema).map_err(|error| format!("is not a JSON Schema: {}", cut(&error.to_string())))
}

fn cut(text: &str) -> String {
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// Measures what a schema unfolds to.
struct Unfold<'s> {
    root: &'s Value,
    /// References that are being followed.
    on_the_way: Vec<&'s str>,
    /// What each reference unfolds to.
    known: HashMap<&'s str, u64>,
}

impl<'s> Unfold<'s> {
    fn size(&mut self, schema: &'s Value) -> Result<u64, String> {
        let mut size = 1_u64;
        match schema {
            Value::Array(items) => {
                for item in items {
                    size = size.saturating_add(self.size(item)?);
                }
            }
            Value::Object(keys) => {
                for (key, value) in keys {
                    size = size.saturating_add(match (key.as_str(), value) {
                        // Definitions count where they are referred to.
                        ("$defs" | "definitions", _) => 0,
                        ("$ref", Value::String(to)) => self.follow(to)?,
                        ("$dynamicRef" | "$recursiveRef", Value::String(_)) => {
                            return Err(format!("{key} is not supported: write $ref to a place in the same schema"));
                        }
                        _ => self.size(value)?,
                    });
                }
            }
            _ => {}
        }
        if size > LARGEST {
            return Err(format!("unfolds to more than {LARGEST} schemas: make it smaller, or refer to less of it"));
        }
        Ok(size)
    }

    fn follow(&mut self, to: &'s str) -> Result<u64, String> {
        if let Some(known) = self.known.get(to) {
            return Ok(*known);
        }
        if self.on_the_way.contains(&to) {
            return Err(format!("$ref {to:?} leads back into itself: say how deep it goes, level by level"));
        }
        let place = to.strip_prefix('#').and_then(|pointer| self.root.pointer(pointer));
        let Some(place) = place else {
            return Err(format!(
                "$ref {to:?} names no place in the same schema: write # and a JSON pointer, as in #/$defs/name"
            ));
        };
        self.on_the_way.push(to);
        let size = self.size(place)?;
        self.on_the_way.pop();
        self.known.insert(to, size);
        Ok(size)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn faults_are_told_with_their_place() {
        let schema = json!({"type": "object", "required": ["ok"], "properties": {"ok": {"type": "boolean"}}});
        assert_eq!(fault(&schema, &json!({"ok": true})), Ok(None));
        assert_eq!(fault(&schema, &json!({"ok": 1})), Ok(Some("/ok: 1 is not of type \"boolean\"".to_owned())));
        assert_eq!(fault(&schema, &json!({})), Ok(Some("\"ok\" is a required property".to_owned())));
    }

    #[test]
    fn a_schema_that_grows_without_bound_is_refused_before_anything_is_held_against_it() {
        let again = json!({"items": {"$ref": "#/$defs/x"}, "type": "array"});
        let recursive = json!({"$defs": {"x": {"anyOf": [again, again, again]}}, "$ref": "#/$defs/x"});
        let mut answer = json!(1);
        for _ in 0..40 {
            answer = json!([answer]);
        }
        let mut doubling = json!({"$defs": {"d0": {"type": "object"}}, "$ref": "#/$defs/d40"});
        for level in 1..=40 {
            let below = json!({"$ref": format!("#/$defs/d{}", level - 1)});
            doubling["$defs"][format!("d{level}")] = json!({"anyOf": [below, below]});
        }
        for (schema, why) in [
            (recursive, "leads back into itself"),
            (json!({"$ref": "#"}), "leads back into itself"),
            (doubling, "unfolds to more than"),
            (json!({"$dynamicRef": "#x"}), "is not supported"),
            (json!({"$ref": "#/nowhere"}), "names no place"),
            (json!({"pattern": "(?=a)"}), "is not a JSON Schema"),
        ] {
            let error = fault(&schema, &answer).unwrap_err();
            assert!(error.contains(why), "{error}");
        }
        let level = json!({"type": "array", "items": {"type": "number"}});
        let used_twice =
            json!({"$defs": {"a": level}, "properties": {"x": {"$ref": "#/$defs/a"}, "y": {"$ref": "#/$defs/a"}}});
        assert_eq!(fault(&used_twice, &json!({"x": [1], "y": [2]})), Ok(None));
    }

    #[test]
    fn what_is_no_schema_is_refused_and_nothing_is_fetched() {
        let text = "requires: [{as: b, capability: c}]\nsteps:\n- {id: a, uses: b, agent: {prompt: x, schema: {type: 7}}}\n\
                    - {id: q, ask: {question: why, form: {$ref: 'http://127.0.0.1:1/x'}}}";
        let error = check(&shared::contract::parse(text.as_bytes()).unwrap()).unwrap_err();
        let paths: Vec<&str> = error.problems.iter().map(|it| it.path.as_str()).collect();
        assert_eq!(paths, ["steps[0].agent.schema", "steps[1].ask.form"], "{error}");
    }

    #[tokio::test]
    async fn schemas_are_not_compiled_on_the_thread_that_serves() {
        use futures::FutureExt;
        // Not done when it is looked at first: somebody else does it.
        assert!(mismatch(json!({"pattern": "a{500}"}), json!("b")).now_or_never().is_none());
        assert!(mismatch(json!({"type": "string"}), json!(1)).await.unwrap().unwrap().contains("not of type"));
    }
}
