//! JSON Schemas that contracts carry: of an agent's structured answer, and of the form of a question.
//!
//! Only here is one compiled. Nothing is fetched: a schema that refers to another document is refused. Nothing grows
//! without bound: a schema may not lead back into itself, because with choices in it the number of ways to look at a small
//! answer is beyond any machine, and what it unfolds to is limited. Patterns take time in proportion to the text.

use std::collections::HashMap;

use jsonschema::{PatternOptions, Validator};
use serde_json::Value;
use shared::contract::{Contract, ContractError, SchemaFault, form};
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
    let validator = compile(schema).map_err(|fault| fault.message)?;
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

/// Whether a contract has any schema: of an agent's answer, or the form of a question.
#[must_use]
pub fn is_in(contract: &Contract) -> bool {
    let has = |step: &shared::contract::Step| {
        step.agent.as_ref().is_some_and(|it| it.schema.is_some())
            || step.ask.as_ref().is_some_and(|it| it.form.is_some())
    };
    contract.steps.iter().any(has)
}

/// Everything that can be said about a contract without a fleet.
///
/// # Errors
/// Every problem found.
pub fn read_contract(text: &[u8]) -> Result<Contract, ContractError> {
    shared::contract::parse_with(text, |schema| compile(schema).map(drop))
}

/// What follows `mediator answer RUN` for this form: its fields with what each takes, as far as the form names any.
pub(crate) fn answer_arguments(form: Option<&Value>) -> String {
    match form.and_then(form::fields) {
        Some(fields) => {
            fields.iter().map(|(name, schema)| format!("{name}={}", kind(schema))).collect::<Vec<_>>().join(" ")
        }
        None => "--json JSON".to_owned(),
    }
}

fn kind(schema: &Value) -> String {
    if let Some(words) = form::words(schema) {
        return words.join("|");
    }
    match schema.get("type").and_then(Value::as_str) {
        Some("boolean") => "true|false".to_owned(),
        Some(other) => other.to_uppercase(),
        None => "VALUE".to_owned(),
    }
}

fn compile(schema: &Value) -> Result<Validator, SchemaFault> {
    let whole = |message| SchemaFault { pointer: String::new(), message };
    Unfold { root: schema, on_the_way: Vec::new(), known: HashMap::new() }.size(schema).map_err(whole)?;
    let options = jsonschema::options().with_pattern_options(PatternOptions::regex());
    options.build(schema).map_err(|error| {
        let pointer = error.instance_path().as_str().to_owned();
        let what = match schema.pointer(&pointer) {
            Some(word @ (Value::String(_) | Value::Number(_))) if pointer.ends_with("/type") => {
                format!("there is no type {word}; {TYPES}")
            }
            _ => cut(&error.to_string()),
        };
        SchemaFault { pointer, message: format!("is not a JSON Schema: {what}") }
    })
}

/// The words that `type` knows.
const TYPES: &str = "write object, array, string, number, integer, boolean or null";

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
                    - {id: q, ask: {question: why, form: {$ref: 'http://127.0.0.1:1/x'}}}\n\
                    - id: r\n  ask:\n    question: why\n    form:\n      properties:\n        ok: {type: objekt}\n\
                    - {id: s, uses: b, run: make}";
        let error = read_contract(text.as_bytes()).unwrap_err().to_string();
        insta::assert_snapshot!(error, @r#"
        3:54: steps[0].agent.schema.type: is not a JSON Schema: there is no type 7; write object, array, string, number, integer, boolean or null
        4:38: steps[1].ask.form: $ref "http://127.0.0.1:1/x" names no place in the same schema: write # and a JSON pointer, as in #/$defs/name
        10:20: steps[2].ask.form.properties.ok.type: is not a JSON Schema: there is no type "objekt"; write object, array, string, number, integer, boolean or null
        11:25: steps[3].run: must be a list, but make is text; write [make]
        "#);
    }

    #[tokio::test]
    async fn schemas_are_not_compiled_on_the_thread_that_serves() {
        use futures::FutureExt;
        // Not done when it is looked at first: somebody else does it.
        assert!(mismatch(json!({"pattern": "a{500}"}), json!("b")).now_or_never().is_none());
        assert!(mismatch(json!({"type": "string"}), json!(1)).await.unwrap().unwrap().contains("not of type"));
    }
}
