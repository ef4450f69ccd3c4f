//! Our values as wire messages. Every one is built from a view, which has no nonce and no principal to leak;
//! the nonces of an agent's own leases and steps are the two exceptions, and go to that agent only.

use proto::v1;
use shared::{
    Timestamp,
    contract::AttrValue,
    domain::{Assigned, Capability, Drain, Finding, Policy, Reject},
};

use crate::service::ask::OpenAsk;
use crate::service::{
    advert::Advertised,
    explain::{Explanation, RoleExplanation},
    observe::{CurrentView, EventRow, LeaseView, NodeView, Page, RunDetail, RunView, StepView, VerdictView},
};

fn millis(at: Option<Timestamp>) -> Option<i64> {
    at.map(Timestamp::millis)
}

fn some(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}

/// An attribute.
#[must_use]
pub fn attr(value: &AttrValue) -> v1::AttrValue {
    use v1::attr_value::Kind;
    let kind = match value {
        AttrValue::Text(text) => Kind::Text(text.clone()),
        AttrValue::Number(number) => Kind::Number(*number),
        AttrValue::Flag(flag) => Kind::Flag(*flag),
    };
    v1::AttrValue { kind: Some(kind) }
}

/// A capability.
#[must_use]
pub fn capability(capability: &Capability) -> v1::Capability {
    let attrs = capability.attrs.iter().map(|(name, value)| (name.clone(), attr(value))).collect();
    v1::Capability { name: capability.name.clone(), attrs }
}

/// The policy that is acted on.
#[must_use]
pub fn policy(policy: &Policy) -> v1::Policy {
    v1::Policy {
        drain: policy.drain.as_str().to_owned(),
        reason: policy.reason.clone(),
        since_at: policy.since.map_or(0, Timestamp::millis),
        error: policy.error.clone(),
    }
}

/// The answer to an advert.
#[must_use]
pub fn advertised(advertised: &Advertised) -> v1::AdvertiseResponse {
    let Advertised { reply, interval, ttl } = advertised;
    let grant = |(run, nonce): &(shared::RunId, shared::Nonce)| v1::LeaseGrant {
        run_id: run.to_string(),
        nonce: nonce.reveal(),
    };
    v1::AdvertiseResponse {
        rev: reply.rev,
        leases: reply.leases.iter().map(grant).collect(),
        policy: Some(policy(&reply.policy)),
        interval_ms: size(interval.millis()),
        ttl_ms: size(ttl.millis()),
        stream: reply.stream.as_ref().map(ToString::to_string).unwrap_or_default(),
    }
}

/// A number of bytes or milliseconds.
#[must_use]
pub fn size(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// A node.
#[must_use]
pub fn node(node: &NodeView) -> v1::NodeView {
    v1::NodeView {
        node_id: node.id.to_string(),
        label: node.label.clone(),
        instance: Some(node.instance.to_string()),
        capabilities: node.capabilities.iter().map(capability).collect(),
        seen_at: node.seen_at.millis(),
        expires_at: node.expires_at.millis(),
        lease: node
            .lease
            .as_ref()
            .map(|lease| v1::LeaseView { run_id: lease.run.to_string(), not_after: lease.not_after.millis() }),
        draining: (node.drain != Drain::None).then(|| node.drain.to_string()),
        drain_reason: some(&node.drain_reason),
        drain_since_at: millis(node.drain_since),
        policy_error: some(&node.policy_error),
        stopping: node.stopping,
        agent_version: some(&node.agent_version),
    }
}

/// A lease, without its permit.
#[must_use]
pub fn lease(lease: &LeaseView) -> v1::LeaseRow {
    v1::LeaseRow {
        node_id: lease.node.to_string(),
        run_id: lease.run.to_string(),
        granted_at: lease.granted_at.millis(),
        not_after: lease.not_after.millis(),
    }
}

/// Assigned nodes.
#[must_use]
pub fn assigned(assigned: &[Assigned]) -> Vec<v1::Assigned> {
    assigned.iter().map(|it| v1::Assigned { r#as: it.role.to_string(), node: it.node.to_string() }).collect()
}

/// Why a Run was not taken.
#[must_use]
pub fn reject(reject: &Reject) -> v1::Reject {
    v1::Reject {
        code: u32::from(reject.code),
        r#as: reject.role.as_ref().map(ToString::to_string),
        reason: reject.reason.clone(),
    }
}

fn verdict(verdict: &VerdictView) -> v1::Verdict {
    v1::Verdict {
        cause: verdict.cause.to_owned(),
        node: verdict.node.as_ref().map(ToString::to_string),
        by: verdict.by.clone(),
        step: verdict.step.as_ref().map(ToString::to_string),
    }
}

fn current(step: &CurrentView) -> v1::CurrentStep {
    v1::CurrentStep {
        node: step.node.to_string(),
        step: step.step.to_string(),
        attempt: step.attempt,
        started_at: millis(step.started_at),
    }
}

/// A Run.
#[must_use]
pub fn run(run: &RunView) -> v1::RunView {
    v1::RunView {
        run_id: run.id.to_string(),
        state: run.state.clone(),
        verdict: run.verdict.as_ref().map(verdict),
        work_id: run.work_id.as_ref().map(ToString::to_string),
        created_at: run.created_at.millis(),
        ended_at: millis(run.ended_at),
        assigned: assigned(&run.assigned),
        current: run.current.iter().map(current).collect(),
        reject: run.reject.as_ref().map(reject),
    }
}

/// A page of Runs.
#[must_use]
pub fn runs(page: &Page<RunView>) -> v1::ListRunsResponse {
    v1::ListRunsResponse {
        observed_at: page.observed_at.millis(),
        runs: page.rows.iter().map(run).collect(),
        next: page.next.clone(),
    }
}

/// A step.
#[must_use]
pub fn step(step: &StepView) -> v1::StepView {
    v1::StepView {
        seq: step.seq,
        id: step.id.to_string(),
        state: step.state.to_owned(),
        uses: step.uses.clone(),
        node: step.node.as_ref().map(ToString::to_string),
        needs: step.needs.iter().map(ToString::to_string).collect(),
        attempt: step.attempt,
        chosen: step.chosen,
        started_at: millis(step.started_at),
        ended_at: millis(step.ended_at),
        exit_code: step.exit_code,
        reason: step.reason.map(str::to_owned),
        message: step.message.clone(),
        produced: step.produced.clone(),
        kind: step.kind.to_owned(),
        round: step.round,
        deadline_at: millis(step.deadline),
        waits_for: step.waits_for.clone(),
        answered_by: step.answered_by.clone(),
    }
}

/// Open questions. Who may answer is told only as whether the caller may.
#[must_use]
pub fn asks(observed_at: Timestamp, asks: &[(OpenAsk, bool)]) -> v1::ListAsksResponse {
    let view = |(ask, may_answer): &(OpenAsk, bool)| v1::AskView {
        run_id: ask.run.to_string(),
        step: ask.step.to_string(),
        attempt: ask.attempt,
        question: ask.question.get("question").and_then(|it| it.as_str()).unwrap_or_default().to_owned(),
        form: ask.question.get("form").map(ToString::to_string).unwrap_or_default(),
        asked_at: ask.asked_at.millis(),
        deadline_at: millis(ask.deadline),
        may_answer: *may_answer,
        work_id: ask.work.as_ref().map(ToString::to_string),
    };
    v1::ListAsksResponse { observed_at: observed_at.millis(), asks: asks.iter().map(view).collect() }
}

fn finding(finding: &Finding) -> v1::Finding {
    v1::Finding { condition: finding.condition.clone(), outcome: finding.holds.as_str().to_owned() }
}

/// A Run with its steps.
#[must_use]
pub fn detail(detail: &RunDetail) -> v1::RunDetail {
    v1::RunDetail {
        observed_at: detail.observed_at.millis(),
        run: Some(run(&detail.run)),
        steps: detail.steps.iter().map(step).collect(),
        findings: detail.findings.iter().map(finding).collect(),
        sealed_at: millis(detail.sealed_at),
        starts: detail.starts,
        losses: detail.losses,
    }
}

fn role(role: &RoleExplanation) -> v1::RoleExplanation {
    v1::RoleExplanation {
        r#as: role.role.to_string(),
        wanted: role.wanted,
        live: role.live,
        busy: role.busy,
        busy_draining: role.busy_draining,
        draining: role.draining,
        free: role.free,
        lacking: role.lacking.clone(),
        held: role.held.clone(),
        holders: role
            .holders
            .iter()
            .map(|(node, run)| v1::Holder { node: node.to_string(), run_id: run.to_string() })
            .collect(),
    }
}

/// An explanation.
#[must_use]
pub fn explanation(it: &Explanation) -> v1::ExplainResponse {
    v1::ExplainResponse {
        observed_at: it.observed_at.millis(),
        summary: it.summary.clone(),
        roles: it.roles.iter().map(role).collect(),
        place: it.place,
        wakes: it.wakes.iter().map(ToString::to_string).collect(),
        lendable: it.lendable,
        reasons: it.reasons.clone(),
    }
}

/// An event of the audit log.
#[must_use]
pub fn event(event: &EventRow) -> v1::Event {
    v1::Event {
        seq: event.seq,
        at: event.at.millis(),
        kind: event.kind.clone(),
        run_id: event.run_id.as_ref().map(ToString::to_string),
        node_id: event.node_id.as_ref().map(ToString::to_string),
        data: event.data.to_string(),
    }
}
