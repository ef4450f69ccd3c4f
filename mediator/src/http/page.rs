//! The JSON of the pages. Keys are fixed: they are what other people's programs read.
//!
//! What is absent is left out, never null. `draining` is the drain word itself, `attempt` of a step is left
//! out before its first execution, and a verdict holds its cause only.

use serde::Serialize;
use shared::{
    NodeId, RunId, StepName, Timestamp, WorkId,
    domain::{Assigned, Capability, Drain, Reject},
};

use crate::service::observe::{self, EventRow, LeaseView, NodeView, Page, RunDetail, RunView, StepView};

/// `/v1/nodes`
#[derive(Serialize)]
pub(super) struct Nodes {
    observed_at: Timestamp,
    nodes: Vec<Node>,
}

#[derive(Serialize)]
struct Node {
    node_id: NodeId,
    label: String,
    instance: shared::InstanceId,
    capabilities: Vec<Capability>,
    seen_at: Timestamp,
    expires_at: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none")]
    lease: Option<NodeLease>,
    #[serde(skip_serializing_if = "Option::is_none")]
    draining: Option<Drain>,
}

#[derive(Serialize)]
struct NodeLease {
    run_id: RunId,
    not_after: Timestamp,
}

impl From<Page<NodeView>> for Nodes {
    fn from(page: Page<NodeView>) -> Self {
        let node = |node: NodeView| Node {
            node_id: node.id,
            label: node.label,
            instance: node.instance,
            capabilities: node.capabilities,
            seen_at: node.seen_at,
            expires_at: node.expires_at,
            lease: node.lease.map(|lease| NodeLease { run_id: lease.run, not_after: lease.not_after }),
            draining: Some(node.drain).filter(|drain| *drain != Drain::None),
        };
        Self { observed_at: page.observed_at, nodes: page.rows.into_iter().map(node).collect() }
    }
}

/// `/v1/leases`
#[derive(Serialize)]
pub(super) struct Leases {
    observed_at: Timestamp,
    leases: Vec<Lease>,
}

#[derive(Serialize)]
struct Lease {
    node_id: NodeId,
    run_id: RunId,
    granted_at: Timestamp,
    not_after: Timestamp,
}

impl From<Page<LeaseView>> for Leases {
    fn from(page: Page<LeaseView>) -> Self {
        let lease = |lease: LeaseView| Lease {
            node_id: lease.node,
            run_id: lease.run,
            granted_at: lease.granted_at,
            not_after: lease.not_after,
        };
        Self { observed_at: page.observed_at, leases: page.rows.into_iter().map(lease).collect() }
    }
}

/// `/v1/runs`
#[derive(Serialize)]
pub(super) struct Runs {
    observed_at: Timestamp,
    runs: Vec<Run>,
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
}

#[derive(Serialize)]
struct Run {
    run_id: RunId,
    state: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    verdict: Option<Verdict>,
    #[serde(skip_serializing_if = "Option::is_none")]
    work_id: Option<WorkId>,
    created_at: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none")]
    ended_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    assigned: Vec<Assigned>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    current: Vec<Current>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reject: Option<Reject>,
}

#[derive(Serialize)]
struct Verdict {
    cause: &'static str,
}

#[derive(Serialize)]
struct Current {
    node: NodeId,
    step: StepName,
    attempt: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    started_at: Option<Timestamp>,
}

impl From<observe::CurrentView> for Current {
    fn from(it: observe::CurrentView) -> Self {
        Self { node: it.node, step: it.step, attempt: it.attempt, started_at: it.started_at }
    }
}

impl From<RunView> for Run {
    fn from(run: RunView) -> Self {
        Self {
            run_id: run.id,
            state: run.state,
            verdict: run.verdict.map(|verdict| Verdict { cause: verdict.cause }),
            work_id: run.work_id,
            created_at: run.created_at,
            ended_at: run.ended_at,
            assigned: run.assigned,
            current: run.current.into_iter().map(Current::from).collect(),
            reject: run.reject,
        }
    }
}

impl From<Page<RunView>> for Runs {
    fn from(page: Page<RunView>) -> Self {
        let runs = page.rows.into_iter().map(Run::from).collect();
        Self { observed_at: page.observed_at, runs, next: page.next }
    }
}

/// `/v1/runs/{id}`: the fields of the list, and the steps.
#[derive(Serialize)]
pub(super) struct Detail {
    observed_at: Timestamp,
    #[serde(flatten)]
    run: Run,
    steps: Vec<Step>,
}

#[derive(Serialize)]
struct Step {
    seq: u32,
    id: StepName,
    state: &'static str,
    uses: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    node: Option<NodeId>,
    needs: Vec<StepName>,
    #[serde(skip_serializing_if = "Option::is_none")]
    attempt: Option<u32>,
    chosen: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    started_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ended_at: Option<Timestamp>,
}

impl From<RunDetail> for Detail {
    fn from(detail: RunDetail) -> Self {
        let step = |step: StepView| Step {
            seq: step.seq,
            id: step.id,
            state: step.state,
            uses: step.uses,
            node: step.node,
            needs: step.needs,
            attempt: Some(step.attempt).filter(|attempt| *attempt > 0),
            chosen: step.chosen,
            started_at: step.started_at,
            ended_at: step.ended_at,
        };
        let steps = detail.steps.into_iter().map(step).collect();
        Self { observed_at: detail.observed_at, run: detail.run.into(), steps }
    }
}

/// The data of one server-sent event.
#[derive(Serialize)]
pub(super) struct Event {
    seq: i64,
    at: Timestamp,
    kind: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    run_id: Option<RunId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    node_id: Option<NodeId>,
    data: serde_json::Value,
}

impl From<EventRow> for Event {
    fn from(event: EventRow) -> Self {
        Self {
            seq: event.seq,
            at: event.at,
            kind: event.kind,
            run_id: event.run_id,
            node_id: event.node_id,
            data: event.data,
        }
    }
}
