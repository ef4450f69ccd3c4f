//! Submit a contract: enqueue and scan.

use shared::{
    Principal, RunId,
    contract::{self, Contract},
    domain::{Submit, Submitted},
};

use super::{Services, texts::Read};
use crate::{clock, error::Error, schema};

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

/// Parsing up to a mebibyte, and compiling schemas of any size, is work for a thread that may be busy.
pub(super) async fn parse(text: Vec<u8>) -> Result<Contract, Error> {
    const SMALL: usize = 16 * 1024;
    if text.len() <= SMALL
        && let Ok(contract) = contract::parse(&text)
        && !schema::is_in(&contract)
    {
        return Ok(contract);
    }
    // What is wrong with its schemas is told together with whatever else is.
    Ok(schema::apart(move || schema::read_contract(&text)).await??)
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;
    use crate::service::bench::one_step;

    #[tokio::test]
    async fn a_contract_with_a_schema_is_not_read_on_the_thread_that_serves() {
        let plain = one_step("c");
        assert!(parse(plain.clone().into_bytes()).now_or_never().is_some_and(|it| it.is_ok()), "cheap enough");
        let form = plain.replace(
            r#""steps": ["#,
            r#""steps": [{"id": "a", "ask": {"question": "?", "form": {"type": "object"}}},"#,
        );
        assert!(parse(form.clone().into_bytes()).now_or_never().is_none());
        assert!(parse(form.into_bytes()).await.is_ok());
    }
}
