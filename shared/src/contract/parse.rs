//! From text to a validated [`Contract`], and from one to the text that is stored.

use super::{
    Contract, MAX_BYTES,
    decode::{Decoder, Gaps},
    problem::{ContractError, Problem, Problems, Seg},
    tree, validate,
};
use crate::sha256_hex;

/// What is wrong with a JSON Schema that a contract carries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SchemaFault {
    /// Where in the schema, as a JSON pointer; empty for all of it.
    pub pointer: String,
    /// A sentence.
    pub message: String,
}

/// Parses and validates one YAML or JSON document. The JSON Schemas in it are taken as they are.
///
/// # Errors
/// Every problem found, each with its path and its position.
pub fn parse(text: &[u8]) -> Result<Contract, ContractError> {
    parse_with(text, |_| Ok(()))
}

/// [`parse()`] with somebody who knows JSON Schemas and judges each one, so that its faults stand among the others.
///
/// # Errors
/// Every problem found, each with its path and its position.
pub fn parse_with(
    text: &[u8],
    judge: impl Fn(&serde_json::Value) -> Result<(), SchemaFault>,
) -> Result<Contract, ContractError> {
    let text = read_text(text).map_err(only)?;
    let root = tree::read(text).map_err(only)?;
    let mut problems = Problems::new(&root);
    if matches!(root.value, tree::Value::Null) {
        return Err(only(Problem {
            path: String::new(),
            position: None,
            message: "it is empty; `mediator contract example` shows one".to_owned(),
        }));
    }
    let mut decoder = Decoder { text, problems: &mut problems, gaps: Gaps::default() };
    let contract = decoder.contract(&root);
    let gaps = decoder.gaps;
    if let Some(contract) = &contract {
        validate::check(contract, &gaps, &mut problems);
        judge_schemas(contract, judge, &mut problems);
    }
    problems.finish()?;
    // Nothing is noted, so that everything was read.
    contract.ok_or_else(|| ContractError { problems: Vec::new() })
}

fn judge_schemas(
    contract: &Contract,
    judge: impl Fn(&serde_json::Value) -> Result<(), SchemaFault>,
    problems: &mut Problems<'_>,
) {
    for (at, step) in contract.steps.iter().enumerate() {
        let answer = step.agent.as_ref().and_then(|it| it.schema.as_ref()).map(|it| ("agent", "schema", it));
        let form = step.ask.as_ref().and_then(|it| it.form.as_ref()).map(|it| ("ask", "form", it));
        for (kind, key, schema) in answer.into_iter().chain(form) {
            let Err(SchemaFault { pointer, message }) = judge(schema) else { continue };
            let keys: Vec<String> =
                pointer.split('/').skip(1).map(|key| key.replace("~1", "/").replace("~0", "~")).collect();
            let mut path = vec![Seg::Key("steps"), Seg::At(at), Seg::Key(kind), Seg::Key(key)];
            let mut here = Some(schema);
            for key in &keys {
                let index = here.and_then(serde_json::Value::as_array).and_then(|_| key.parse().ok());
                path.push(index.map_or(Seg::Key(key), Seg::At));
                here = here.and_then(|here| index.map_or_else(|| here.get(key), |index| here.get(index)));
            }
            problems.add(&path, message);
        }
    }
}

fn only(problem: Problem) -> ContractError {
    ContractError { problems: vec![problem] }
}

/// The bytes as text, without a mark at their beginning.
fn read_text(text: &[u8]) -> Result<&str, Problem> {
    let whole = |message| Problem { path: String::new(), position: None, message };
    if text.len() > MAX_BYTES {
        return Err(whole(format!("has {} bytes; a contract has at most {MAX_BYTES}", text.len())));
    }
    let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
    std::str::from_utf8(text).map_err(|error| {
        let good = &text[..error.valid_up_to()];
        let line = good.iter().filter(|byte| **byte == b'\n').count() + 1;
        let column =
            good.iter().rev().take_while(|byte| **byte != b'\n').filter(|byte| **byte & 0xc0 != 0x80).count() + 1;
        Problem {
            path: String::new(),
            position: Some((line as u64, column as u64)),
            message: "is not UTF-8 here; save the file as UTF-8".to_owned(),
        }
    })
}

/// The one text of a contract: compact JSON, keys in the order of the grammar, defaults left out.
#[must_use]
pub fn canonical_json(contract: &Contract) -> String {
    // Every part is plain data with text keys, which JSON always can say.
    serde_json::to_string(contract).unwrap_or_default()
}

/// SHA-256 of [`canonical_json`], in hex.
#[must_use]
pub fn contract_hash(contract: &Contract) -> String {
    sha256_hex(canonical_json(contract).as_bytes())
}

impl Contract {
    /// Reads back what [`canonical_json`] wrote. It was validated then.
    ///
    /// # Errors
    /// Where the stored text is not a contract.
    pub fn from_stored_json(text: &str) -> Result<Self, ContractError> {
        serde_json::from_str(text).map_err(|error| {
            only(Problem {
                path: String::new(),
                position: (error.line() > 0).then(|| (error.line() as u64, error.column() as u64)),
                message: format!("the stored contract cannot be read: {error}"),
            })
        })
    }
}
