//! Submit a contract: enqueue and scan.

use shared::{
    Principal, RunId,
    domain::{Submit, Submitted},
};

use super::{Services, texts::Read};
use crate::{clock, error::Error};

/// A contract as it came in.
#[derive(Debug, Clone)]
pub struct SubmitCommand {
    /// YAML or JSON.
    pub contract_text: Vec<u8>,
    /// Wins over the contract's own run id.
    pub run_id: Option<String>,
    /// Who submits.
    pub principal: Principal,
}

impl Services {
    /// Enqueues and scans in one transaction.
    ///
    /// # Errors
    /// A contract that does not parse, a run id that is taken, a store that is not available.
    pub async fn submit(&self, command: SubmitCommand) -> Result<Submitted, Error> {
        let Read { contract, hash, shape } = self.texts.read(command.contract_text).await?;
        let run = match (command.run_id, &contract.run_id) {
            (None, Some(run)) => run.clone(),
            (id, _) => {
                let id = id.unwrap_or_else(clock::fresh_run_id);
                RunId::new(&id).map_err(|error| Error::invalid("run_id", error.to_string()))?
            }
        };
        let submit = Submit { run, principal: command.principal, contract_hash: hash, shape, contract };
        self.writer.apply(submit).await
    }
}
