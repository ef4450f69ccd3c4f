use super::Contract;

/// Everything that is wrong with a contract.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", .problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
pub struct ContractError {
    /// At least one, in the order of the text.
    pub problems: Vec<Problem>,
}

/// One thing that is wrong: where, what, and what instead.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// `steps[3].needs[0]`; empty for the document.
    pub path: String,
    /// Line and column from 1, where known.
    pub position: Option<(u64, u64)>,
    /// A sentence.
    pub message: String,
}

impl std::fmt::Display for Problem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if let Some((line, column)) = self.position {
            write!(f, "{line}:{column}: ")?;
        }
        if !self.path.is_empty() {
            write!(f, "{}: ", self.path)?;
        }
        f.write_str(&self.message)
    }
}

/// Parses and validates one YAML or JSON document.
///
/// # Errors
/// Every problem found, each with its path and, where the text is known, its position.
pub fn parse(text: &[u8]) -> Result<Contract, ContractError> {
    serde_saphyr::from_slice(text).map_err(|e| ContractError {
        problems: vec![Problem { path: String::new(), position: None, message: e.to_string() }],
    })
}

/// The JSON Schema of the grammar.
#[must_use]
pub fn schema() -> serde_json::Value {
    schemars::schema_for!(Contract).to_value()
}
