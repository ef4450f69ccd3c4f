//! Between wire messages and the types of the agent. A message that makes no sense is named, not guessed at.

use proto::v1;
use shared::{
    Duration, Nonce, RunId, StepName, StreamId, Timestamp,
    contract::AttrValue,
    domain::{Capability, Policy},
};

use super::core::{LeaseKey, Reply, Speaker, StepKey};

/// A step to execute, checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkStep {
    /// Which execution.
    pub key: StepKey,
    /// Its name.
    pub step: StepName,
    /// Loop pass.
    pub round: u32,
    /// The permit.
    pub nonce: Nonce,
    /// The rev that brought it.
    pub rev: i64,
    /// Not expanded.
    pub argv: Vec<String>,
    /// Not expanded.
    pub env: std::collections::BTreeMap<String, String>,
    /// None: no limit.
    pub timeout: Option<Duration>,
    /// What to lay out in `$IN`.
    pub inputs: Vec<Input>,
    /// What the Run is about; empty when it does not say.
    pub work_id: String,
    /// The folder is to be made fresh.
    pub first_on_node: bool,
    /// A coding agent instead of a program.
    pub agent: Option<Box<AgentTask>>,
}

/// What a harness is to do.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AgentTask {
    /// Its name in the configuration.
    pub harness: String,
    /// Not expanded.
    pub prompt: String,
    /// JSON Schema of the answer, if one is wanted.
    pub schema: Option<String>,
    /// How many turns it may take, if that is limited.
    pub max_turns: Option<u32>,
}

/// One file below `$IN`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Input {
    /// Relative.
    pub path: String,
    /// In hex.
    pub sha256: String,
    /// Bytes.
    pub size: u64,
}

/// What cannot be read in a message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the mediator sent something that makes no sense: {0}")]
pub struct BadMessage(pub String);

fn bad(what: impl std::fmt::Display) -> BadMessage {
    BadMessage(what.to_string())
}

fn nonce(text: &str) -> Result<Nonce, BadMessage> {
    Nonce::parse(text).ok_or_else(|| bad("a nonce that is not 32 hex digits"))
}

fn run(text: &str) -> Result<RunId, BadMessage> {
    RunId::new(text).map_err(bad)
}

/// Reads a step.
///
/// # Errors
/// [`BadMessage`]
pub fn step(step: v1::Step) -> Result<WorkStep, BadMessage> {
    Ok(WorkStep {
        key: StepKey { run: run(&step.run_id)?, seq: step.seq, attempt: step.attempt },
        step: StepName::new(&step.step_id).map_err(bad)?,
        round: step.round,
        nonce: nonce(&step.nonce)?,
        rev: step.rev,
        argv: step.argv,
        env: step.env,
        timeout: u64::try_from(step.timeout_ms).ok().filter(|ms| *ms > 0).map(Duration::from_millis),
        inputs: step
            .inputs
            .into_iter()
            .map(|it| Input { path: it.path, sha256: it.sha256, size: u64::try_from(it.size).unwrap_or(0) })
            .collect(),
        work_id: step.work_id,
        first_on_node: step.first_on_node,
        agent: step.agent.map(|agent| {
            Box::new(AgentTask {
                harness: agent.harness,
                prompt: agent.prompt,
                schema: Some(agent.schema).filter(|schema| !schema.is_empty()),
                max_turns: Some(agent.max_turns).filter(|turns| *turns > 0),
            })
        }),
    })
}

/// Reads a notice to stop.
///
/// # Errors
/// [`BadMessage`]
pub fn stop(stop: &v1::StopRun) -> Result<(LeaseKey, i64), BadMessage> {
    Ok(((run(&stop.run_id)?, nonce(&stop.nonce)?), stop.rev))
}

/// Reads a stream id.
///
/// # Errors
/// [`BadMessage`]
pub fn stream(text: &str) -> Result<StreamId, BadMessage> {
    StreamId::new(text).map_err(bad)
}

/// Reads the answer to an advert.
///
/// # Errors
/// [`BadMessage`]
pub fn reply(reply: &v1::AdvertiseResponse) -> Result<Reply, BadMessage> {
    let wire = reply.policy.clone().unwrap_or_default();
    let millis = |ms: i64| Duration::from_millis(u64::try_from(ms).unwrap_or(0));
    Ok(Reply {
        rev: reply.rev,
        leases: reply.leases.iter().map(|it| Ok((run(&it.run_id)?, nonce(&it.nonce)?))).collect::<Result<_, _>>()?,
        policy: Policy {
            drain: wire.drain.parse().map_err(bad)?,
            reason: wire.reason,
            since: (wire.since_at != 0).then(|| Timestamp::from_millis(wire.since_at)),
            error: wire.error,
        },
        interval: millis(reply.interval_ms),
        ttl: millis(reply.ttl_ms),
        stream: if reply.stream.is_empty() { None } else { Some(stream(&reply.stream)?) },
    })
}

/// Who speaks.
#[must_use]
pub fn speaker(who: &Speaker) -> v1::NodeRef {
    v1::NodeRef {
        node_id: who.node.to_string(),
        instance: who.instance.to_string(),
        streams: who.streams.iter().map(ToString::to_string).collect(),
    }
}

/// Which execution.
#[must_use]
pub fn step_ref(key: &StepKey) -> v1::StepRef {
    v1::StepRef { run_id: key.run.to_string(), seq: key.seq, attempt: key.attempt }
}

/// Which execution, by whom, under which lease.
#[must_use]
pub fn attempt(who: &Speaker, key: &StepKey, nonce: Nonce) -> v1::AttemptRef {
    v1::AttemptRef { node: Some(speaker(who)), step: Some(step_ref(key)), nonce: nonce.reveal() }
}

/// The owner's policy.
#[must_use]
pub fn policy(policy: &Policy) -> v1::Policy {
    v1::Policy {
        drain: policy.drain.as_str().to_owned(),
        reason: policy.reason.clone(),
        since_at: policy.since.map_or(0, Timestamp::millis),
        error: policy.error.clone(),
    }
}

/// What a node can do.
#[must_use]
pub fn capability(capability: &Capability) -> v1::Capability {
    let value = |value: &AttrValue| v1::AttrValue {
        kind: Some(match value {
            AttrValue::Flag(flag) => v1::attr_value::Kind::Flag(*flag),
            AttrValue::Number(number) => v1::attr_value::Kind::Number(*number),
            AttrValue::Text(text) => v1::attr_value::Kind::Text(text.clone()),
        }),
    };
    v1::Capability {
        name: capability.name.clone(),
        attrs: capability.attrs.iter().map(|(name, it)| (name.clone(), value(it))).collect(),
    }
}
