//! Dry run: what submitting a contract would come to now. Stores nothing.

use shared::{
    contract::WhenUnmatched,
    domain::{Assigned, Reject, preview},
};

use super::{Services, texts};
use crate::error::Error;

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

impl Services {
    /// What submitting this contract would come to now.
    ///
    /// # Errors
    /// [`Error::Contract`], [`Error::Store`].
    pub async fn dry_run(&self, contract_text: Vec<u8>) -> Result<Preview, Error> {
        let contract = texts::parse(contract_text).await?;
        let mut tx = self.store.read().await?;
        let fleet = tx.fleet_without_line().await?;
        Ok(match preview(&fleet, &contract.requires, &self.settings, tx.now()) {
            Ok(assigned) => Preview { state: "RUNNING", assigned, reject: None },
            Err(reject) => {
                // It may wait for a node to come, but not for a rule of the fleet (no role) to change.
                let waits = reject.role.is_some() && contract.when_unmatched == WhenUnmatched::Queue;
                let state = if reject.is_permanent() && !waits { "FAILED" } else { "QUEUED" };
                Preview { state, assigned: Vec::new(), reject: Some(reject) }
            }
        })
    }
}
