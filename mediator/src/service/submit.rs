//! Submit a contract, or look what would become of it.

use std::sync::Arc;

use shared::{
    Principal, RunId,
    contract::{self, Contract},
    domain::{Assigned, Reject, Shape, Submit, Submitted, preview},
};

use super::Services;
use crate::{clock, error::Error};

/// A contract as it came in.
#[derive(Debug, Clone)]
pub struct SubmitCommand {
    /// YAML or JSON.
    pub contract_text: Vec<u8>,
    /// Wins over the contract's own.
    pub run_id: Option<RunId>,
    /// Who submits.
    pub principal: Principal,
}

impl Services {
    /// Enqueues and scans in one transaction.
    ///
    /// # Errors
    /// A contract that does not parse, a run id that is taken, a store that is not available.
    pub async fn submit(&self, command: SubmitCommand) -> Result<Submitted, Error> {
        let contract = parse(command.contract_text).await?;
        let run = match command.run_id.or_else(|| contract.run_id.clone()) {
            Some(run) => run,
            None => RunId::new(&clock::fresh_run_id())?,
        };
        let submit = Submit {
            run,
            principal: command.principal,
            contract_hash: contract::contract_hash(&contract).into(),
            shape: Shape::new(&contract.requires),
            contract: Arc::new(contract),
        };
        self.writer.apply(submit).await
    }

    /// What Submit would come to now. Stores nothing.
    ///
    /// # Errors
    /// A contract that does not parse, a store that is not available.
    pub async fn dry_run(&self, contract_text: Vec<u8>) -> Result<Result<Vec<Assigned>, Reject>, Error> {
        let contract = parse(contract_text).await?;
        let mut read = self.store.read().await?;
        let (fleet, now) = (read.fleet().await?, read.now());
        Ok(preview(&fleet, &contract.requires, &self.settings, now))
    }
}

/// Parsing up to a mebibyte is work for a thread that may be busy.
async fn parse(text: Vec<u8>) -> Result<Contract, Error> {
    const SMALL: usize = 16 * 1024;
    if text.len() <= SMALL {
        return Ok(contract::parse(&text)?);
    }
    let parsed = tokio::task::spawn_blocking(move || contract::parse(&text)).await;
    Ok(parsed.map_err(|_| Error::Stopping)??)
}
