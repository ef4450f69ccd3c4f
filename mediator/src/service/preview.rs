//! Dry run: what submitting a contract would come to now. Stores nothing.

use shared::{
    contract::{self, Contract},
    domain::{Assigned, Reject, preview},
};

use super::Services;
use crate::error::{Error, Violation};

/// What a submit would come to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Preview {
    /// `RUNNING`, `QUEUED` or `FAILED`.
    pub state: &'static str,
    /// The nodes it would get.
    pub assigned: Vec<Assigned>,
    /// Why not, or why not now.
    pub reject: Option<Reject>,
}

/// Parses a contract that came over the wire.
///
/// # Errors
/// [`Error::Contract`] with every problem.
pub fn read_contract(text: &[u8]) -> Result<Contract, Error> {
    if text.len() > contract::MAX_BYTES {
        let message = format!(
            "has {} bytes; a contract may have at most {}: put large data into files that a step fetches",
            text.len(),
            contract::MAX_BYTES
        );
        return Err(Error::Contract(vec![Violation::new("contract", message)]));
    }
    Ok(contract::parse(text)?)
}

impl Services {
    /// What submitting this contract would come to now.
    ///
    /// # Errors
    /// [`Error::Contract`], [`Error::Store`].
    pub async fn dry_run(&self, contract_text: &[u8]) -> Result<Preview, Error> {
        let contract = read_contract(contract_text)?;
        let mut tx = self.store.read().await?;
        let fleet = tx.fleet().await?;
        Ok(match preview(&fleet, &contract.requires, &self.settings, tx.now()) {
            Ok(assigned) => Preview { state: "RUNNING", assigned, reject: None },
            Err(reject) => {
                let state = if reject.code == NOT_NOW { "QUEUED" } else { "FAILED" };
                Preview { state, assigned: Vec::new(), reject: Some(reject) }
            }
        })
    }
}

/// The code of a reject that waiting cures.
const NOT_NOW: u16 = 409;
