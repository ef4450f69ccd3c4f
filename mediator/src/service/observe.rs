//! What can be seen of the fleet: views of stored rows, each page from one snapshot, with the store's clock.
//!
//! A view has no field for a nonce or for the principal of a node or Run, so neither can reach an answer
//! (invariant I8). The two exceptions are who cancelled a Run and who answered its questions: the detail of that
//! Run says it, no list and no HTTP page does. Only rows are read here, never a cache; nothing is decided.

use std::collections::BTreeSet;

use shared::{
    InstanceId, NodeId, RunId, StepName, Timestamp, WorkId,
    domain::{Assigned, Capability, Cause, Drain, Finding, Lease, Node, Reject, Run, Step, StepState, Verdict, wanted},
};

use super::Services;
pub use crate::store::{EventRow, RunFilter};
use crate::{
    error::Error,
    store::{Counts, ReadTx, RunRow},
};

/// One node as it is now.
#[derive(Debug, Clone)]
#[expect(missing_docs, reason = "the names are those of the domain")]
pub struct NodeView {
    pub id: NodeId,
    pub label: String,
    pub instance: InstanceId,
    pub capabilities: Vec<Capability>,
    pub seen_at: Timestamp,
    pub expires_at: Timestamp,
    pub lease: Option<LeaseView>,
    pub drain: Drain,
    pub drain_reason: String,
    pub drain_since: Option<Timestamp>,
    pub policy_error: String,
    pub stopping: bool,
    pub agent_version: String,
}

/// One lease as it is now, without its permit.
#[derive(Debug, Clone)]
#[expect(missing_docs, reason = "the names are those of the domain")]
pub struct LeaseView {
    pub node: NodeId,
    pub run: RunId,
    pub granted_at: Timestamp,
    pub not_after: Timestamp,
}

/// What ended a Run: the word, and what it names.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are those of the wire")]
pub struct VerdictView {
    pub cause: &'static str,
    pub node: Option<NodeId>,
    /// In a Run's detail only.
    pub by: Option<String>,
    pub step: Option<StepName>,
}

/// A step that is being executed.
#[derive(Debug, Clone)]
#[expect(missing_docs, reason = "the names are those of the wire")]
pub struct CurrentView {
    pub node: NodeId,
    pub step: StepName,
    pub attempt: u32,
    pub started_at: Option<Timestamp>,
}

/// One Run as it is now, without its contract.
#[derive(Debug, Clone)]
#[expect(missing_docs, reason = "the names are those of the domain")]
pub struct RunView {
    pub id: RunId,
    pub state: String,
    pub verdict: Option<VerdictView>,
    pub work_id: Option<WorkId>,
    pub created_at: Timestamp,
    pub ended_at: Option<Timestamp>,
    pub assigned: Vec<Assigned>,
    pub current: Vec<CurrentView>,
    pub reject: Option<Reject>,
}

/// One step as it is now.
#[derive(Debug, Clone)]
#[expect(missing_docs, reason = "the names are those of the domain")]
pub struct StepView {
    pub seq: u32,
    pub id: StepName,
    pub state: &'static str,
    pub uses: String,
    pub node: Option<NodeId>,
    pub needs: Vec<StepName>,
    pub attempt: u32,
    pub chosen: bool,
    pub started_at: Option<Timestamp>,
    pub ended_at: Option<Timestamp>,
    pub exit_code: Option<i32>,
    pub reason: Option<&'static str>,
    pub message: Option<String>,
    pub produced: Vec<String>,
    pub kind: &'static str,
    pub round: u32,
    pub deadline: Option<Timestamp>,
    pub waits_for: Option<String>,
    /// In a Run's detail only.
    pub answered_by: Option<String>,
}

/// One Run with its steps.
#[derive(Debug, Clone)]
pub struct RunDetail {
    /// The store's clock in the same snapshot.
    pub observed_at: Timestamp,
    /// The Run.
    pub run: RunView,
    /// Its steps by `seq`.
    pub steps: Vec<StepView>,
    /// How its conditions look.
    pub findings: Vec<Finding>,
    /// When its Record was sealed.
    pub sealed_at: Option<Timestamp>,
    /// How often it has started over.
    pub starts: u32,
    /// How many of these times because a node was lost.
    pub losses: u32,
}

/// A page of rows and the moment they were all true.
#[derive(Debug, Clone)]
pub struct Page<T> {
    /// The store's clock in the same snapshot.
    pub observed_at: Timestamp,
    /// The rows.
    pub rows: Vec<T>,
    /// Where the next page starts, when there is more.
    pub next: Option<String>,
}

/// Most rows on one page.
pub const MAX_LIMIT: u32 = 1_000;
/// Rows on a page when nothing is said.
pub const DEFAULT_LIMIT: u32 = 100;

/// 0 is the default; too much is the most there is.
#[must_use]
pub const fn page_limit(asked: u64) -> u32 {
    match asked {
        0 => DEFAULT_LIMIT,
        1..=999 => asked as u32,
        _ => MAX_LIMIT,
    }
}

/// The key after which a page starts: `MILLISECONDS.RUN`.
#[must_use]
pub fn page_key(row: &RunView) -> String {
    format!("{}.{}", row.created_at.millis(), row.id)
}

/// Parses what [`page_key`] wrote.
///
/// # Errors
/// A sentence, when the text is not a `next` of ours.
pub fn parse_page_key(text: &str) -> Result<(Timestamp, RunId), String> {
    let wrong = || "is not a `next` of an earlier answer; leave it out to start with the newest run".to_owned();
    let (at, run) = text.split_once('.').ok_or_else(wrong)?;
    let at = at.parse().map_err(|_| wrong())?;
    Ok((Timestamp::from_millis(at), RunId::new(run).map_err(|_| wrong())?))
}

/// Every state word of a Run.
pub const RUN_STATES: [&str; 5] = ["QUEUED", "RUNNING", "VERIFYING", "SUCCEEDED", "FAILED"];

impl Services {
    /// Every node with its lease.
    ///
    /// # Errors
    /// [`Error::Store`].
    pub async fn nodes(&self) -> Result<Page<NodeView>, Error> {
        let mut tx = self.store.read().await?;
        let observed_at = tx.now();
        let mut leases: std::collections::BTreeMap<NodeId, Lease> =
            tx.leases().await?.into_iter().map(|lease| (lease.node.clone(), lease)).collect();
        let mut rows: Vec<NodeView> = tx
            .nodes()
            .await?
            .into_iter()
            .map(|node| {
                let lease = leases.remove(&node.id);
                NodeView::new(node, lease)
            })
            .collect();
        rows.sort_by(|a, b| a.id.cmp(&b.id));
        Ok(Page { observed_at, rows, next: None })
    }

    /// Every lease.
    ///
    /// # Errors
    /// [`Error::Store`].
    pub async fn leases(&self) -> Result<Page<LeaseView>, Error> {
        let mut tx = self.store.read().await?;
        let mut rows: Vec<LeaseView> = tx.leases().await?.into_iter().map(LeaseView::from).collect();
        rows.sort_by(|a, b| a.node.cmp(&b.node));
        Ok(Page { observed_at: tx.now(), rows, next: None })
    }

    /// Runs, newest first, ties by id.
    ///
    /// # Errors
    /// [`Error::Store`].
    pub async fn runs(&self, mut filter: RunFilter) -> Result<Page<RunView>, Error> {
        let limit = page_limit(filter.limit.into());
        // One row more than was asked for tells whether there is a next page.
        filter.limit = limit + 1;
        let mut tx = self.store.read().await?;
        let mut rows: Vec<RunView> = tx.runs(&filter).await?.into_iter().map(RunView::from).collect();
        let more = rows.len() > limit as usize;
        rows.truncate(limit as usize);
        let next = rows.last().filter(|_| more).map(page_key);
        Ok(Page { observed_at: tx.now(), rows, next })
    }

    /// One Run with its steps.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::Store`].
    pub async fn run(&self, id: &RunId) -> Result<RunDetail, Error> {
        let mut tx = self.store.read().await?;
        detail(&mut tx, id).await
    }

    /// How many there are of what, for the gauges.
    ///
    /// # Errors
    /// [`Error::Store`].
    pub async fn counts(&self) -> Result<Counts, Error> {
        let mut tx = self.store.read().await?;
        Ok(tx.counts().await?)
    }

    /// The Run row itself, for decisions of the edge (who owns it, which steps have logs).
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::Store`].
    pub async fn run_row(&self, id: &RunId) -> Result<(Run, Option<Timestamp>), Error> {
        let mut tx = self.store.read().await?;
        tx.run(id).await?.ok_or_else(|| no_run(id))
    }

    /// Events after `after`, oldest first.
    ///
    /// # Errors
    /// [`Error::Store`].
    pub async fn events_after(&self, after: i64, limit: u32) -> Result<Vec<EventRow>, Error> {
        let mut tx = self.store.read().await?;
        Ok(tx.events(after, limit).await?)
    }

    /// The last event's number; 0 when there is none.
    ///
    /// # Errors
    /// [`Error::Store`].
    pub async fn last_event(&self) -> Result<i64, Error> {
        let mut tx = self.store.read().await?;
        Ok(tx.last_event().await?)
    }
}

async fn detail(tx: &mut ReadTx, id: &RunId) -> Result<RunDetail, Error> {
    let (run, sealed_at) = tx.run(id).await?.ok_or_else(|| no_run(id))?;
    let mut detail = RunDetail::new(tx.now(), &run, sealed_at);
    if run.contract.steps.iter().any(|step| step.ask.is_some()) {
        for answer in tx.answers(&BTreeSet::from([id.clone()])).await? {
            let step = detail.steps.get_mut(answer.seq as usize).filter(|step| step.attempt == answer.attempt);
            if let Some(step) = step {
                step.answered_by = Some(answer.by);
            }
        }
    }
    Ok(detail)
}

pub(super) fn no_run(id: &RunId) -> Error {
    Error::NotFound(format!("run {id}; `mediator runs` lists those there are"))
}

impl NodeView {
    /// The view of a row.
    #[must_use]
    pub fn new(node: Node, lease: Option<Lease>) -> Self {
        Self {
            id: node.id,
            label: node.label,
            instance: node.instance,
            capabilities: node.capabilities,
            seen_at: node.seen_at,
            expires_at: node.expires_at,
            lease: lease.map(LeaseView::from),
            drain: node.policy.drain,
            drain_reason: node.policy.reason,
            drain_since: node.policy.since,
            policy_error: node.policy.error,
            stopping: node.stopping,
            agent_version: node.agent_version,
        }
    }
}

impl From<Lease> for LeaseView {
    fn from(lease: Lease) -> Self {
        Self { node: lease.node, run: lease.run, granted_at: lease.granted_at, not_after: lease.not_after }
    }
}

impl From<&Verdict> for VerdictView {
    fn from(verdict: &Verdict) -> Self {
        let mut view = Self { cause: verdict.cause.as_str(), node: None, by: None, step: None };
        match &verdict.cause {
            Cause::Judged | Cause::Rejected => {}
            Cause::StepFailed(step) => view.step = Some(step.clone()),
            Cause::Cancelled(by) => view.by = Some(by.to_string()),
            Cause::Drain(node) | Cause::LeaseExpired(node) | Cause::NodeRestarted(node) => {
                view.node = Some(node.clone());
            }
        }
        view
    }
}

impl From<RunRow> for RunView {
    fn from(row: RunRow) -> Self {
        Self {
            id: row.run_id,
            state: row.state,
            // A list tells that it was cancelled, the detail by whom.
            verdict: row.verdict.as_ref().map(|verdict| VerdictView { by: None, ..VerdictView::from(verdict) }),
            work_id: row.work_id,
            created_at: row.created_at,
            ended_at: row.ended_at,
            assigned: row.assigned,
            current: row
                .current
                .into_iter()
                .map(|it| CurrentView { node: it.node, step: it.step, attempt: it.attempt, started_at: it.started_at })
                .collect(),
            reject: row.reject,
        }
    }
}

impl From<&Run> for RunView {
    fn from(run: &Run) -> Self {
        let current = run.steps.iter().filter_map(|step| match &step.state {
            StepState::Claimed { node, at } => Some(CurrentView {
                node: node.clone(),
                step: step.name.clone(),
                attempt: step.attempt,
                started_at: Some(*at),
            }),
            StepState::Pending
            | StepState::Waiting
            | StepState::Asked { .. }
            | StepState::Done { .. }
            | StepState::Failed { .. }
            | StepState::Skipped { .. } => None,
        });
        Self {
            id: run.id.clone(),
            state: run.state.as_str().to_owned(),
            verdict: run.state.verdict().map(VerdictView::from),
            work_id: run.work_id.clone(),
            created_at: run.created_at,
            ended_at: run.ended_at,
            assigned: run.assigned.clone(),
            current: current.collect(),
            reject: run.reject.clone(),
        }
    }
}

impl StepView {
    /// The view of one step of a Run.
    #[must_use]
    pub fn new(run: &Run, step: &Step) -> Self {
        let (mut exit_code, mut reason, mut message) = (None, None, None);
        match &step.state {
            StepState::Done { exit_code: code, .. } => exit_code = *code,
            StepState::Failed { reason: why, message: words, .. } => {
                reason = Some(why.as_str());
                message = Some(words.clone()).filter(|words| !words.is_empty());
            }
            StepState::Pending
            | StepState::Waiting
            | StepState::Claimed { .. }
            | StepState::Asked { .. }
            | StepState::Skipped { .. } => {}
        }
        let uses = run.spec(step.seq).and_then(|spec| spec.uses.as_ref());
        // Where it runs or ran. Before that it has no node: a Run that starts over may get another one.
        let node = step.attempts.last().map(|attempt| &attempt.node);
        Self {
            seq: step.seq,
            id: step.name.clone(),
            state: step.state.as_str(),
            uses: uses.map(ToString::to_string).unwrap_or_default(),
            node: node.cloned(),
            needs: step.needs.iter().filter_map(|seq| run.step(*seq)).map(|need| need.name.clone()).collect(),
            attempt: step.attempt,
            chosen: step.chosen,
            started_at: step.started_at,
            ended_at: step.ended_at(),
            exit_code,
            reason,
            message,
            produced: step.produced.clone(),
            kind: step.kind.as_str(),
            round: step.round,
            deadline: step.deadline.filter(|_| step.is_open()),
            waits_for: waits_for(run, step),
            answered_by: None,
        }
    }
}

fn waits_for(run: &Run, step: &Step) -> Option<String> {
    let spec = run.spec(step.seq)?;
    match &step.state {
        StepState::Asked { .. } => spec.ask.as_ref().map(|ask| ask.question.clone()),
        StepState::Waiting => spec.acquire.as_ref().map(|acquire| {
            let require = acquire.require();
            let count = if require.count == 1 { "a node".to_owned() } else { format!("{} nodes", require.count) };
            format!("role {}: {count} with {}", require.role, wanted(&require))
        }),
        StepState::Pending
        | StepState::Claimed { .. }
        | StepState::Done { .. }
        | StepState::Failed { .. }
        | StepState::Skipped { .. } => None,
    }
}

impl RunDetail {
    /// The view of a Run with its steps.
    #[must_use]
    pub fn new(observed_at: Timestamp, run: &Run, sealed_at: Option<Timestamp>) -> Self {
        Self {
            observed_at,
            run: RunView::from(run),
            steps: run.steps.iter().map(|step| StepView::new(run, step)).collect(),
            // Before the end nothing is judged: a condition that does not hold yet has not failed.
            findings: run.state.verdict().map(|verdict| verdict.findings.clone()).unwrap_or_default(),
            sealed_at,
            starts: run.starts,
            losses: run.losses,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_key_reads_back_and_garbage_is_told_apart() {
        let key = parse_page_key("1700000000123.build-1.2").unwrap();
        assert_eq!((key.0.millis(), key.1.as_str()), (1_700_000_000_123, "build-1.2"));
        for bad in ["", "x", "1", "1.", "x.a", "1.a b"] {
            assert!(parse_page_key(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn limits_are_those_of_the_specification() {
        assert_eq!([0, 1, 100, 999, 1000, 1001, u64::MAX].map(page_limit), [100, 1, 100, 999, 1000, 1000, 1000]);
    }
}
