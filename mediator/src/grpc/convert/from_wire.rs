//! Wire messages as our values: parsing is validation. Every problem of a message is found, not just the
//! first, and named by the path of its field.

use std::str::FromStr;

use proto::v1;
use shared::{
    InstanceId, NodeId, Nonce, Principal, RunId, Seq, StreamId, Timestamp,
    contract::AttrValue,
    domain::{Advert, Capability, Drain, FailReason, Outcome, Policy, Speaker},
};

use crate::{
    auth::Identity,
    error::{Error, Violation},
    record::Digest,
    service::{report::ReportCommand, upload::AttemptKey},
};

/// Most capabilities of one node.
pub const MAX_CAPABILITIES: usize = 64;
/// Most attributes of one capability.
pub const MAX_ATTRS: usize = 64;
/// Longest name, attribute value or label, in bytes.
pub const MAX_TEXT: usize = 256;
/// Longest reason or error of a policy, in characters; what is longer is cut.
pub const MAX_REASON: usize = 1_000;
/// Longest path of an output file, in bytes.
pub const MAX_PATH: usize = 4_096;
/// Most streams, replaced instances and steps that one message may list.
pub const MAX_LISTED: usize = 1_000;

/// Collects what is wrong with a message.
#[derive(Debug, Default)]
pub struct Problems(Vec<Violation>);

impl Problems {
    /// One more.
    pub fn push(&mut self, field: impl Into<String>, message: impl Into<String>) {
        self.0.push(Violation::new(field, message));
    }

    /// Parses one field; a problem is kept and told as `None`.
    pub fn parse<T: FromStr>(&mut self, field: &str, text: &str) -> Option<T>
    where
        T::Err: std::fmt::Display,
    {
        match text.parse() {
            Ok(value) => Some(value),
            Err(e) => {
                self.push(field, e.to_string());
                None
            }
        }
    }

    /// The value, unless anything was wrong.
    ///
    /// # Errors
    /// [`Error::Invalid`] with everything found.
    pub fn finish<T>(mut self, value: Option<T>) -> Result<T, Error> {
        match value {
            Some(value) if self.0.is_empty() => Ok(value),
            _ => {
                if self.0.is_empty() {
                    self.push("", "the message is incomplete");
                }
                Err(Error::Invalid(self.0))
            }
        }
    }
}

/// A Run id.
///
/// # Errors
/// [`Error::Invalid`].
pub fn run_id(field: &str, text: &str) -> Result<RunId, Error> {
    RunId::new(text).map_err(|e| Error::invalid(field, e.to_string()))
}

/// Who speaks, checked against who called.
///
/// # Errors
/// [`Error::Invalid`], [`Error::WrongNode`].
pub fn speaker(node: Option<&v1::NodeRef>, identity: &Identity) -> Result<Speaker, Error> {
    let mut problems = Problems::default();
    let speaker = speaker_in("node", node, &identity.principal, &mut problems);
    let speaker = problems.finish(speaker)?;
    identity.speaks_for(&speaker.node)?;
    Ok(speaker)
}

fn speaker_in(
    field: &str,
    node: Option<&v1::NodeRef>,
    principal: &Principal,
    problems: &mut Problems,
) -> Option<Speaker> {
    let Some(node) = node else {
        problems.push(field, "is missing");
        return None;
    };
    listed(&format!("{field}.streams"), node.streams.len(), problems);
    let id: Option<NodeId> = problems.parse(&format!("{field}.node_id"), &node.node_id);
    let instance: Option<InstanceId> = problems.parse(&format!("{field}.instance"), &node.instance);
    let streams: Vec<StreamId> = node
        .streams
        .iter()
        .take(MAX_LISTED)
        .enumerate()
        .filter_map(|(at, stream)| problems.parse(&format!("{field}.streams[{at}]"), stream))
        .collect();
    Some(Speaker { node: id?, instance: instance?, streams, principal: principal.clone() })
}

fn listed(field: &str, length: usize, problems: &mut Problems) {
    if length > MAX_LISTED {
        problems.push(field, format!("has {length} entries; at most {MAX_LISTED} are allowed"));
    }
}

/// A step's attempt.
///
/// # Errors
/// [`Error::Invalid`].
pub fn step_ref(field: &str, step: Option<&v1::StepRef>) -> Result<(RunId, Seq, u32), Error> {
    let step = step.ok_or_else(|| Error::invalid(field, "is missing"))?;
    let run = run_id(&format!("{field}.run_id"), &step.run_id)?;
    if step.attempt == 0 {
        return Err(Error::invalid(format!("{field}.attempt"), "attempts count from 1"));
    }
    Ok((run, step.seq, step.attempt))
}

/// The permit of a lease. What is not one is told as such, not as stale: it is a mistake of the agent's.
///
/// # Errors
/// [`Error::Invalid`].
pub fn nonce(field: &str, text: &str) -> Result<Nonce, Error> {
    Nonce::parse(text).ok_or_else(|| Error::invalid(field, "must be the 32 hex digits that the work item carried"))
}

/// Reads an attempt reference.
///
/// # Errors
/// [`Error::Invalid`], [`Error::WrongNode`].
pub fn attempt(attempt: Option<&v1::AttemptRef>, identity: &Identity) -> Result<AttemptKey, Error> {
    let attempt = attempt.ok_or_else(|| Error::invalid("attempt", "is missing"))?;
    let who = speaker(attempt.node.as_ref(), identity)?;
    let (run, seq, number) = step_ref("step", attempt.step.as_ref())?;
    Ok(AttemptKey { who, run, seq, attempt: number, nonce: nonce("nonce", &attempt.nonce)? })
}

/// How an attempt ended.
///
/// # Errors
/// [`Error::Invalid`].
pub fn outcome(outcome: Option<v1::report_request::Outcome>) -> Result<Outcome, Error> {
    use v1::report_request::Outcome as Wire;
    match outcome {
        Some(Wire::Completed(completed)) => Ok(Outcome::Completed { exit_code: completed.exit_code }),
        Some(Wire::NotCompleted(not)) => {
            let reason: FailReason =
                not.reason.parse().map_err(|e: String| Error::invalid("not_completed.reason", e))?;
            if !reason.is_reportable() {
                let message = format!("{reason} is the mediator's own finding; an agent cannot report it");
                return Err(Error::invalid("not_completed.reason", message));
            }
            Ok(Outcome::NotCompleted { reason, message: clean(&not.message) })
        }
        None => Err(Error::invalid("outcome", "is missing: send `completed` or `not_completed`")),
    }
}

/// A report on one attempt.
///
/// # Errors
/// [`Error::Invalid`], [`Error::WrongNode`].
pub fn report(request: v1::ReportRequest, identity: &Identity) -> Result<ReportCommand, Error> {
    let who = speaker(request.node.as_ref(), identity)?;
    let (run, seq, attempt) = step_ref("step", request.step.as_ref())?;
    Ok(ReportCommand {
        who,
        run,
        seq,
        attempt,
        nonce: nonce("nonce", &request.nonce)?,
        outcome: outcome(request.outcome)?,
        log_bytes: size("log_bytes", request.log_bytes)?,
    })
}

/// A number of bytes.
///
/// # Errors
/// [`Error::Invalid`].
pub fn size(field: &str, bytes: i64) -> Result<u64, Error> {
    u64::try_from(bytes).map_err(|_| Error::invalid(field, "must not be negative"))
}

/// A SHA-256 in hex.
///
/// # Errors
/// [`Error::Invalid`].
pub fn digest(field: &str, text: &str) -> Result<Digest, Error> {
    text.parse().map_err(|error: crate::record::RecordError| Error::invalid(field, error.to_string()))
}

/// The name of an output file: a relative path of plain components. Data only; it never names a file here, but
/// it will on the nodes that take it as an input.
///
/// # Errors
/// [`Error::Invalid`].
pub fn artifact_name(field: &str, name: String) -> Result<String, Error> {
    let plain = |part: &str| !part.is_empty() && part != "." && part != ".." && !part.contains('\0');
    if name.len() <= MAX_PATH && name.split('/').all(plain) {
        Ok(name)
    } else {
        let message = format!("must be a relative path without . and .. of at most {MAX_PATH} bytes");
        Err(Error::invalid(field, message))
    }
}

/// A node's full state.
///
/// # Errors
/// [`Error::Invalid`] with every problem, [`Error::WrongNode`].
pub fn advert(request: &v1::AdvertiseRequest, identity: &Identity) -> Result<Advert, Error> {
    let mut problems = Problems::default();
    let who = speaker_in("node", request.node.as_ref(), &identity.principal, &mut problems);
    text("label", &request.label, &mut problems);
    text("agent_version", &request.agent_version, &mut problems);
    if request.advert_no < 1 {
        problems.push("advert_no", "adverts of an instance count from 1");
    }
    for (field, length) in
        [("replaces", request.replaces.len()), ("running", request.running.len()), ("finished", request.finished.len())]
    {
        listed(field, length, &mut problems);
    }
    let replaces = request
        .replaces
        .iter()
        .take(MAX_LISTED)
        .enumerate()
        .filter_map(|(at, id)| problems.parse(&format!("replaces[{at}]"), id))
        .collect();
    let capabilities = capabilities("capabilities", &request.capabilities, &mut problems);
    let policy = policy("policy", request.policy.as_ref(), &mut problems);
    let running = steps("running", &request.running, &mut problems);
    let finished = steps("finished", &request.finished, &mut problems);
    let advert = who.map(|who| Advert {
        who,
        label: request.label.clone(),
        advert_no: request.advert_no,
        replaces,
        capabilities,
        policy,
        stopping: request.stopping,
        goodbye: request.goodbye,
        running,
        finished,
        agent_version: request.agent_version.clone(),
    });
    let advert = problems.finish(advert)?;
    identity.speaks_for(&advert.who.node)?;
    Ok(advert)
}

fn steps(field: &str, steps: &[v1::StepRef], problems: &mut Problems) -> Vec<(RunId, Seq, u32)> {
    steps
        .iter()
        .take(MAX_LISTED)
        .enumerate()
        .filter_map(|(at, step)| match step_ref(&format!("{field}[{at}]"), Some(step)) {
            Ok(step) => Some(step),
            Err(e) => {
                problems.0.extend(e.violations().iter().cloned());
                None
            }
        })
        .collect()
}

fn text(field: &str, text: &str, problems: &mut Problems) {
    if text.len() > MAX_TEXT {
        problems.push(field, format!("has {} bytes; at most {MAX_TEXT} are allowed", text.len()));
    }
    if text.chars().any(char::is_control) {
        problems.push(field, "holds control characters; write plain text");
    }
}

fn word(field: &str, word: &str, problems: &mut Problems) {
    if word.is_empty() {
        problems.push(field, "is empty");
    }
    text(field, word, problems);
}

/// Capabilities of an advert, within the limits.
pub fn capabilities(field: &str, list: &[v1::Capability], problems: &mut Problems) -> Vec<Capability> {
    if list.len() > MAX_CAPABILITIES {
        problems.push(field, format!("has {} entries; at most {MAX_CAPABILITIES} are allowed", list.len()));
        return Vec::new();
    }
    let capability = |(at, it): (usize, &v1::Capability)| {
        let field = format!("{field}[{at}]");
        word(&format!("{field}.name"), &it.name, problems);
        if it.attrs.len() > MAX_ATTRS {
            let message = format!("has {} entries; at most {MAX_ATTRS} are allowed", it.attrs.len());
            problems.push(format!("{field}.attrs"), message);
            return None;
        }
        let mut attrs = std::collections::BTreeMap::new();
        for (name, value) in &it.attrs {
            let shown: String = name.chars().take(40).collect();
            let field = format!("{field}.attrs[{shown:?}]");
            word(&field, name, problems);
            match attr(&field, value, problems) {
                Some(value) => attrs.insert(name.clone(), value),
                None => continue,
            };
        }
        Some(Capability { name: it.name.clone(), attrs })
    };
    list.iter().enumerate().filter_map(capability).collect()
}

fn attr(field: &str, value: &v1::AttrValue, problems: &mut Problems) -> Option<AttrValue> {
    use v1::attr_value::Kind;
    match value.kind.as_ref() {
        Some(Kind::Text(it)) => {
            text(field, it, problems);
            Some(AttrValue::Text(it.clone()))
        }
        Some(Kind::Number(number)) => Some(AttrValue::Number(*number)),
        Some(Kind::Flag(flag)) => Some(AttrValue::Flag(*flag)),
        None => {
            problems.push(field, "has no value: send a text, a number or a flag");
            None
        }
    }
}

/// The owner's policy. Absent and empty are the same thing. The owner's words are cleaned and cut, never
/// refused: an owner who says too much must still be obeyed.
pub fn policy(field: &str, policy: Option<&v1::Policy>, problems: &mut Problems) -> Policy {
    let Some(policy) = policy else { return Policy::default() };
    Policy {
        drain: problems.parse::<Drain>(&format!("{field}.drain"), &policy.drain).unwrap_or_default(),
        reason: clean(&policy.reason),
        since: (policy.since_at > 0).then(|| Timestamp::from_millis(policy.since_at)),
        error: clean(&policy.error),
    }
}

/// Free text for screens and logs: control characters become blanks, what is too long is cut.
#[must_use]
pub fn clean(text: &str) -> String {
    let cleaned = text.chars().map(|c| if c.is_control() { ' ' } else { c });
    let mut cleaned: String = cleaned.take(MAX_REASON).collect();
    cleaned.truncate(cleaned.trim_end().len());
    cleaned
}
