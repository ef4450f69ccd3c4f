//! JSON Schemas that contracts carry: of an agent's structured answer, and of the form of a question.
//!
//! Only here is one compiled. Nothing is fetched: a schema that refers to another document is refused.

use jsonschema::Validator;
use serde_json::Value;
use shared::contract::{Contract, ContractError, Problem};

/// Most faults told of one answer.
const MOST: usize = 5;

/// What a schema says against a value, in words; `None` where it fits.
///
/// # Errors
/// The schema itself is none.
pub fn mismatch(schema: &Value, value: &Value) -> Result<Option<String>, String> {
    let validator = compile(schema)?;
    let faults: Vec<String> = validator
        .iter_errors(value)
        .take(MOST)
        .map(|error| match error.instance_path().as_str() {
            "" => error.to_string(),
            path => format!("{path}: {error}"),
        })
        .collect();
    Ok((!faults.is_empty()).then(|| faults.join("; ")))
}

/// Looks at every schema of a contract, so that one that is none is refused before anything runs.
///
/// # Errors
/// Each schema that does not compile, with its path.
fn check(contract: &Contract) -> Result<(), ContractError> {
    let steps = contract.steps.iter().enumerate().flat_map(|(at, step)| {
        let agent = step.agent.as_ref().and_then(|it| it.schema.as_ref()).map(|it| ("agent.schema", it));
        let ask = step.ask.as_ref().and_then(|it| it.form.as_ref()).map(|it| ("ask.form", it));
        agent.into_iter().chain(ask).map(move |(key, schema)| (at, key, schema))
    });
    let problems: Vec<Problem> = steps
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
    jsonschema::validator_for(schema).map_err(|error| format!("is not a JSON Schema: {error}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn faults_are_told_with_their_place() {
        let schema = json!({"type": "object", "required": ["ok"], "properties": {"ok": {"type": "boolean"}}});
        assert_eq!(mismatch(&schema, &json!({"ok": true})), Ok(None));
        assert_eq!(mismatch(&schema, &json!({"ok": 1})), Ok(Some("/ok: 1 is not of type \"boolean\"".to_owned())));
        assert_eq!(mismatch(&schema, &json!({})), Ok(Some("\"ok\" is a required property".to_owned())));
    }

    #[test]
    fn what_is_no_schema_is_refused_and_nothing_is_fetched() {
        let text = "requires: [{as: b, capability: c}]\nsteps:\n- {id: a, uses: b, agent: {prompt: x, schema: {type: 7}}}\n\
                    - {id: q, ask: {question: why, form: {$ref: 'http://127.0.0.1:1/x'}}}";
        let error = check(&shared::contract::parse(text.as_bytes()).unwrap()).unwrap_err();
        let paths: Vec<&str> = error.problems.iter().map(|it| it.path.as_str()).collect();
        assert_eq!(paths, ["steps[0].agent.schema", "steps[1].ask.form"], "{error}");
    }
}
