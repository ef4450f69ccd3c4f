//! Submit: enqueue, then scan, in one transaction, so that nobody overtakes an older Run.

use std::sync::Arc;

use serde_json::json;

use super::{
    Assigned, Cause, Cx, Decide, EventKind, Fleet, Node, Place, Refusal, Reject, Run, RunState, Settings, Shape, Step,
    StepState, Touches, Verdict, line, matching,
};
use crate::{
    Principal, RunId, Seq, Timestamp,
    contract::{Contract, WhenUnmatched},
};

/// A contract to run.
#[derive(Debug, Clone)]
pub struct Submit {
    /// The Run's id, drawn by the client.
    pub run: RunId,
    /// Who submits.
    pub principal: Principal,
    /// What to do.
    pub contract: Arc<Contract>,
    /// SHA-256 of the contract's canonical JSON, hex.
    pub contract_hash: Arc<str>,
    /// What it requires.
    pub shape: Shape,
}

/// What became of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Submitted {
    /// The Run as it now stands.
    pub run: Run,
    /// It was known already; nothing was stored.
    pub existing: bool,
}

/// What submitting these requirements would come to now: nodes, not now (409), or never (422).
///
/// # Errors
/// The [`Reject`] that the Run would get.
pub fn preview(
    fleet: &Fleet,
    requires: &[crate::contract::Require],
    settings: &Settings,
    now: Timestamp,
) -> Result<Vec<Assigned>, Reject> {
    if let Some(reject) = too_wide(requires, settings) {
        return Err(reject);
    }
    let reserved = |node: &Node| fleet.reservation.as_ref().is_some_and(|it| it.nodes.contains(&node.id));
    matching::match_roles(requires, fleet.live(now), |node| fleet.is_busy(node) || reserved(node))
}

/// A width over the limit is a rule of the fleet, not a lack of nodes: waiting would not help.
fn too_wide(requires: &[crate::contract::Require], settings: &Settings) -> Option<Reject> {
    let width: u32 = requires.iter().fold(0, |sum, require| sum.saturating_add(require.count));
    let most = settings.max_per_run;
    let reason = format!("the run wants {width} nodes; lease.max_per_run allows {most}");
    (most != 0 && width > most).then_some(Reject { code: matching::NEVER, role: None, reason })
}

impl Decide for Submit {
    type Answer = Submitted;

    fn touches(&self, _: &Fleet, _: Timestamp) -> Touches {
        [self.run.clone()].into()
    }

    fn decide(&self, fleet: &mut Fleet, cx: &mut Cx<'_>) -> Result<Submitted, Refusal> {
        if let Some(known) = fleet.runs.get(&self.run) {
            return if known.contract_hash == self.contract_hash && known.principal == self.principal {
                Ok(Submitted { run: known.clone(), existing: true })
            } else {
                Err(Refusal::RunExists(self.run.clone()))
            };
        }
        // Whether it runs now is the scan's to say: an older Run of the same shape goes first.
        let reject = too_wide(&self.shape.requires, cx.settings).or_else(|| match self.contract.when_unmatched {
            WhenUnmatched::Reject => matching::impossible(&self.shape.requires, fleet.live(cx.now)),
            WhenUnmatched::Queue => None,
        });
        let mut run = self.new_run(fleet.next_place, cx.now);
        fleet.next_place += 1;
        fleet.advance(cx);
        cx.changes.new_runs.insert(run.id.clone());
        if let Some(reject) = reject {
            cx.changes.event(EventKind::RunRejected, Some(&run.id), None, json!({"reason": reject.reason}));
            cx.changes.sealed.insert(run.id.clone());
            run.reject(reject, cx.now);
            fleet.runs.insert(run.id.clone(), run.clone());
            return Ok(Submitted { run, existing: false });
        }
        cx.changes.event(EventKind::RunQueued, Some(&run.id), None, json!({"place": run.place}));
        fleet.queue.insert(Place::of_run(run.place), run.id.clone(), self.shape.clone(), cx.now);
        fleet.runs.insert(run.id.clone(), run);
        cx.joined.extend(fleet.queue.head_of(&self.shape.hash));
        line::promotion::scan(fleet, cx);
        let run = fleet.runs.get(&self.run).cloned().ok_or_else(|| Refusal::NotFound(format!("run {}", self.run)))?;
        Ok(Submitted { run, existing: false })
    }
}

impl Submit {
    fn new_run(&self, place: i64, now: Timestamp) -> Run {
        let needs = self.contract.needs();
        let steps = self.contract.steps.iter().zip(needs).enumerate().map(|(seq, (spec, needs))| Step {
            seq: seq as Seq,
            name: spec.id.clone(),
            kind: spec.kind(),
            state: StepState::Pending,
            attempt: 0,
            round: 0,
            tries: 0,
            needs,
            chosen: false,
            picked: None,
            started_at: None,
            deadline: None,
            produced: Vec::new(),
            attempts: Vec::new(),
        });
        Run {
            id: self.run.clone(),
            principal: self.principal.clone(),
            contract: self.contract.clone(),
            contract_hash: self.contract_hash.clone(),
            state: RunState::Queued,
            place,
            assigned: Vec::new(),
            reject: None,
            work_id: self.contract.work_id(),
            starts: 0,
            losses: 0,
            created_at: now,
            ended_at: None,
            steps: steps.collect(),
        }
    }
}

impl Run {
    fn reject(&mut self, reject: Reject, now: Timestamp) {
        for step in &mut self.steps {
            step.state = StepState::Skipped { at: now };
        }
        self.reject = Some(reject);
        self.state = RunState::Failed(Verdict { cause: Cause::Rejected, findings: Vec::new() });
        self.ended_at = Some(now);
    }
}
