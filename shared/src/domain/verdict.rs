//! How a Run ends: by the contract's mechanical conditions, never by what an agent says of itself (I3).

use crate::{NodeId, Principal, StepName, contract::Condition};

use super::{Run, Step, StepState};

/// How a Run ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// What ended it.
    pub cause: Cause,
    /// One sentence per condition, when it was judged.
    pub findings: Vec<Finding>,
}

/// What ended a Run. Every closing can be told apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cause {
    /// Its conditions were evaluated.
    Judged,
    /// A step did not complete.
    StepFailed(StepName),
    /// Somebody cancelled it.
    Cancelled(Principal),
    /// An owner took this node back.
    Drain(NodeId),
    /// This node went silent.
    LeaseExpired(NodeId),
    /// This node restarted in the middle of a step.
    NodeRestarted(NodeId),
    /// It was never taken.
    Rejected,
}

impl Cause {
    /// The node it is about.
    #[must_use]
    pub const fn node(&self) -> Option<&NodeId> {
        match self {
            Self::Drain(node) | Self::LeaseExpired(node) | Self::NodeRestarted(node) => Some(node),
            Self::Judged | Self::StepFailed(_) | Self::Cancelled(_) | Self::Rejected => None,
        }
    }

    /// The word in the store, on the wire and on the screen.
    #[must_use]
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Judged => "judged",
            Self::StepFailed(_) => "step_failed",
            Self::Cancelled(_) => "cancelled",
            Self::Drain(_) => "drain",
            Self::LeaseExpired(_) => "lease_expired",
            Self::NodeRestarted(_) => "node_restarted",
            Self::Rejected => "rejected",
        }
    }
}

/// What became of one condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Holds {
    /// It holds.
    Held,
    /// It does not.
    Failed,
    /// Its step was skipped and never picked: it says nothing.
    Vacuous,
}

impl Holds {
    /// The word on the wire and in the Record.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Held => "held",
            Self::Failed => "failed",
            Self::Vacuous => "vacuous",
        }
    }
}

/// A condition and what became of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The condition in words: `test: exit_code = 0 (was 2)`.
    pub condition: String,
    /// What became of it.
    pub holds: Holds,
}

/// Whether a Run with no open and no FAILED step succeeded.
#[must_use]
pub fn judge(run: &Run) -> (bool, Vec<Finding>) {
    let findings = findings(run);
    if run.contract.success_when.is_empty() {
        return (run.steps.iter().all(|step| !ends_run_by_itself(step)), findings);
    }
    let failed = findings.iter().any(|finding| finding.holds == Holds::Failed);
    // Conditions that all look at skipped steps say nothing, and nothing said is not success.
    let evaluated = findings.iter().any(|finding| finding.holds == Holds::Held);
    (!failed && evaluated, findings)
}

/// Without conditions, a step that ended this way decides the Run on the spot.
pub(super) fn ends_run_by_itself(step: &Step) -> bool {
    match &step.state {
        StepState::Done { exit_code, .. } => exit_code.is_some_and(|code| code != 0),
        StepState::Skipped { .. } => step.picked == Some(true),
        StepState::Failed { .. } => true,
        StepState::Pending | StepState::Waiting | StepState::Claimed { .. } | StepState::Asked { .. } => false,
    }
}

pub(super) fn findings(run: &Run) -> Vec<Finding> {
    if run.contract.success_when.is_empty() {
        return Vec::new();
    }
    let index = run.contract.index();
    let step = |name: &StepName| index.get(name.as_str()).and_then(|seq| run.step(*seq));
    run.contract.success_when.iter().flat_map(|condition| findings_of(step(&condition.step), condition)).collect()
}

fn findings_of(step: Option<&Step>, condition: &Condition) -> Vec<Finding> {
    let name = &condition.step;
    let Some(step) = step else {
        return vec![Finding { condition: format!("{name}: no such step"), holds: Holds::Failed }];
    };
    if matches!(step.state, StepState::Skipped { .. }) {
        let holds = if condition.required || step.picked == Some(true) { Holds::Failed } else { Holds::Vacuous };
        return vec![Finding { condition: format!("{name}: was skipped"), holds }];
    }
    let check = |text: String, held: bool| {
        let holds = if held { Holds::Held } else { Holds::Failed };
        Finding { condition: format!("{name}: {text}"), holds }
    };
    let mut found = Vec::new();
    if let Some(wanted) = condition.exit_code {
        let got = match step.state {
            StepState::Done { exit_code, .. } => exit_code,
            _ => None,
        };
        let was = got.map_or_else(|| "has none".to_owned(), |code| format!("was {code}"));
        found.push(check(format!("exit_code = {wanted} ({was})"), got == Some(wanted)));
    }
    for file in condition.produced.iter().flatten() {
        found.push(check(format!("produced {file}"), step.produced.contains(file)));
    }
    if let Some(most) = condition.within_attempts {
        let rounds = step.round.saturating_add(1);
        found.push(check(format!("within_attempts {most} (took {rounds})"), rounds <= most));
    }
    if found.is_empty() {
        // `required: true` alone: the step must have been reached.
        found.push(check("was reached".to_owned(), matches!(step.state, StepState::Done { .. })));
    }
    found
}
