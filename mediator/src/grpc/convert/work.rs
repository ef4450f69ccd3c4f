//! What a work stream carries, as wire messages. The only place where a nonce is revealed, to its node.

use std::collections::BTreeMap;

use proto::v1::{self, work_item::Item};
use shared::{
    contract::{Agent, expand},
    domain::ClaimedStep,
};

use super::to_wire::size;
use crate::service::claim::{Input, Work};

/// One message of a work stream.
#[must_use]
pub fn work(work: Work) -> v1::WorkItem {
    let item = match work {
        Work::Opened(stream) => Item::Opened(v1::WorkOpened { stream: stream.to_string() }),
        Work::AdvertNow => Item::AdvertNow(v1::AdvertNow {}),
        Work::Step(claimed, inputs) => Item::Step(step(&claimed, inputs)),
        Work::Stop(gone) => {
            Item::Stop(v1::StopRun { run_id: gone.run.to_string(), nonce: gone.nonce.reveal(), rev: gone.rev })
        }
    };
    v1::WorkItem { item: Some(item) }
}

/// The step's environment over the contract's. A value that extends its own name (`PATH: "$PATH:/opt"`) means
/// the contract's value; everything else is left for the agent to expand.
fn merged(contract: &BTreeMap<String, String>, step: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let mut env = contract.clone();
    for (name, value) in step {
        let under = contract.get(name).map(String::as_str);
        let kept = |other: &str| {
            Some(if other == name { under.unwrap_or_default().to_owned() } else { format!("${{{other}}}") })
        };
        // A doubled dollar must still be one when the agent reads it. What is too long is refused when it is submitted;
        // of an older one the agent is left to say that it does not expand.
        let value = expand(&value.replace("$$", "$$$$"), kept).unwrap_or_else(|_| value.clone());
        env.insert(name.clone(), value);
    }
    env
}

fn step(claimed: &ClaimedStep, inputs: Vec<Input>) -> v1::Step {
    let spec = claimed.contract.steps.get(claimed.seq as usize);
    let env = spec.map(|spec| merged(&claimed.contract.env, &spec.env)).unwrap_or_default();
    v1::Step {
        run_id: claimed.run.to_string(),
        seq: claimed.seq,
        step_id: claimed.name.to_string(),
        attempt: claimed.attempt,
        round: claimed.round,
        nonce: claimed.nonce.reveal(),
        rev: claimed.rev,
        agent: spec.and_then(|spec| spec.agent.as_ref()).map(agent),
        argv: spec.and_then(|spec| spec.run.clone()).unwrap_or_default(),
        env,
        timeout_ms: spec.and_then(|spec| spec.timeout).map_or(0, |timeout| size(timeout.millis())),
        inputs: inputs
            .into_iter()
            .map(|Input { path, sha256, size: bytes }| v1::InputFile { path, sha256, size: size(bytes) })
            .collect(),
        out: spec.map(|spec| spec.outputs().map(str::to_owned).collect()).unwrap_or_default(),
        work_id: claimed.work_id.as_ref().map(ToString::to_string).unwrap_or_default(),
        first_on_node: claimed.first_on_node,
    }
}

fn agent(agent: &Agent) -> v1::AgentTask {
    v1::AgentTask {
        harness: agent.harness.clone(),
        prompt: agent.prompt.clone(),
        schema: agent.schema.as_ref().map(ToString::to_string).unwrap_or_default(),
        max_turns: agent.max_turns.unwrap_or(0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_may_extend_what_the_contract_says() {
        let map = |pairs: &[(&str, &str)]| pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        let contract = map(&[("PATH", "/usr/bin:$HERE"), ("HERE", "/here")]);
        let env = merged(&contract, &map(&[("PATH", "$PATH:/opt/$RUN_ID"), ("COST", "5$$ for $HERE")]));
        assert_eq!(env["PATH"], "/usr/bin:$HERE:/opt/${RUN_ID}");
        assert_eq!(env["COST"], "5$$ for ${HERE}");
        assert_eq!(env["HERE"], "/here");
    }

    #[test]
    fn what_would_grow_without_end_is_left_to_the_agent_to_refuse() {
        let map = |value: String| BTreeMap::from([("X".to_owned(), value)]);
        let env = merged(&map("x".repeat(10_000)), &map("$X".repeat(1_000)));
        assert!(env["X"].len() < 20_000, "{}", env["X"].len());
    }
}
