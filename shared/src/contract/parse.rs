//! From text to a validated [`Contract`], and from one to the text that is stored.

use super::{
    Contract, MAX_BYTES,
    decode::Decoder,
    problem::{ContractError, Problem, Problems},
    tree, validate,
};
use crate::sha256_hex;

/// Parses and validates one YAML or JSON document.
///
/// # Errors
/// Every problem found, each with its path and its position.
pub fn parse(text: &[u8]) -> Result<Contract, ContractError> {
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
    let contract = Decoder { text, problems: &mut problems }.contract(&root);
    if let Some(contract) = &contract {
        validate::check(contract, &mut problems);
    }
    problems.finish()?;
    // Nothing is noted, so that everything was read.
    contract.ok_or_else(|| ContractError { problems: Vec::new() })
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
