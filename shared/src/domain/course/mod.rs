//! The course of a Run: what follows from the end of a step, whoever ended it.
//!
//! A node's report, a person's answer, a free node for an acquire, a timeout: all of them come to [`end_step`],
//! which does what the contract ties to the step in one order (repeat, loop, fork, release), and then to
//! [`proceed`], which settles the Run and starts what the mediator itself does next (ask, acquire).

mod acquire;
mod ask;
pub(super) mod fork;
mod loss;
mod rewind;
mod start_over;

pub(super) use acquire::{acquired, end_acquire};
pub(super) use ask::withdraw;
pub use ask::{Artifact, AskChange, AskChangeKind};
pub(super) use loss::{boundary, lose_node};

use serde_json::json;

use super::{Cx, EventKind, FailReason, Fleet, RunState, StepState, Wake, settle};
use crate::{NodeId, RunId, Seq, contract::StepKind};

/// How a step ended.
pub(super) struct Ended {
    /// DONE or FAILED.
    pub(super) state: StepState,
    /// Those of its outputs that are there.
    pub(super) produced: Vec<String>,
    /// For a step that forks: the value it chooses by, or why there is none.
    pub(super) value: Option<Result<String, String>>,
    /// Where it ran.
    pub(super) node: Option<NodeId>,
}

/// Ends a step. Returns the word of the state it then has: PENDING where it is repeated.
pub(super) fn end_step(fleet: &mut Fleet, cx: &mut Cx<'_>, id: &RunId, seq: Seq, ended: Ended) -> &'static str {
    let Ended { state, produced, value, node } = ended;
    let Some(run) = fleet.runs.get_mut(id) else { return state.as_str() };
    let contract = run.contract.clone();
    let Some(spec) = contract.steps.get(seq as usize) else { return state.as_str() };
    let goes_back = matches!(state, StepState::Done { .. })
        && run.step(seq).is_some_and(|step| rewind::goes_back(spec, step, &state, &produced));
    let (state, pick) = match (state, &spec.dispatch) {
        // In a pass that goes back the step decides no fork.
        (state @ StepState::Done { .. }, Some(fork)) if !goes_back => match choose(fork, value) {
            Ok(target) => (state, Some(target)),
            Err(message) => (StepState::Failed { reason: FailReason::InvalidOutput, message, at: cx.now }, None),
        },
        (state, _) => (state, None),
    };
    let Some(step) = run.step_mut(seq) else { return state.as_str() };
    let mut data = json!({"step": step.name.as_str(), "attempt": step.attempt, "state": state.as_str()});
    if let StepState::Failed { reason, message, .. } = &state {
        data["reason"] = reason.as_str().into();
        data["message"] = message.as_str().into();
    }
    let repeats = matches!(&state, StepState::Failed { reason, .. } if reason.is_repeatable())
        && spec.kind().is_executed()
        && step.tries.saturating_add(1) < spec.max_attempts;
    step.state = state;
    step.produced = produced;
    cx.changes.event(EventKind::StepEnded, Some(id), node.as_ref(), data);
    cx.changes.steps.insert((id.clone(), seq));
    if repeats {
        let tries = step.tries + 1;
        step.reset();
        step.tries = tries;
    } else if matches!(step.state, StepState::Done { .. }) {
        if goes_back {
            go_back(fleet, cx, id, seq);
        } else {
            follow(fleet, cx, id, seq, pick);
        }
    }
    fleet.touch_run(id, cx);
    fleet.runs.get(id).and_then(|run| run.step(seq)).map_or("", |step| step.state.as_str())
}

fn choose(fork: &crate::contract::Dispatch, value: Option<Result<String, String>>) -> Result<crate::StepName, String> {
    let value = match value {
        Some(Ok(value)) => value,
        Some(Err(why)) => return Err(format!("dispatch from {}: {why}", fork.from)),
        None => return Err(format!("dispatch from {}: no value was read", fork.from)),
    };
    fork.to
        .chosen_by(&value)
        .cloned()
        .ok_or_else(|| format!("dispatch from {}: {value:?} is none of {}", fork.from, fork.to.values().join(", ")))
}

/// The range of a loop begins its next pass: in the one that is over its last step gives nothing back.
fn go_back(fleet: &mut Fleet, cx: &mut Cx<'_>, id: &RunId, seq: Seq) {
    let Some(run) = fleet.runs.get_mut(id) else { return };
    let rewound = rewind::rewind(run, seq, cx.now);
    let round = run.step(seq).map_or(0, |step| step.round);
    cx.changes.steps.extend(rewound.steps.iter().map(|seq| (id.clone(), *seq)));
    cx.changes.event(EventKind::RunRewound, Some(id), None, json!({"seq": seq, "round": round}));
    fleet.release_held(id, rewound.given_back, Wake::PartialRelease, cx);
}

/// What a DONE step brings about, where no loop goes back.
fn follow(fleet: &mut Fleet, cx: &mut Cx<'_>, id: &RunId, seq: Seq, pick: Option<crate::StepName>) {
    let Some(run) = fleet.runs.get_mut(id) else { return };
    let fork = run.spec(seq).and_then(|spec| spec.dispatch.as_ref()).map(|fork| fork.to.clone());
    if let (Some(targets), Some(pick)) = (fork, pick) {
        let changed = fork::decide(run, &targets, &pick, cx.now);
        cx.changes.steps.extend(changed.into_iter().map(|seq| (id.clone(), seq)));
    }
    release_roles(fleet, cx, id, seq);
}

/// Goes on with a Run after any of its steps has changed: whether it is over, what the mediator does for it
/// itself, and the owners' boundaries. Settling wins.
pub(super) fn proceed(fleet: &mut Fleet, cx: &mut Cx<'_>, id: &RunId) {
    fail_without_node(fleet, cx, id);
    settle::settle(fleet, cx, id);
    begin_own_steps(fleet, cx, id);
    for node in fleet.nodes_held_by(id) {
        boundary(fleet, cx, &node);
    }
    announce_ready(fleet, cx, id);
}

/// A step that is ready and whose role was never acquired could wait for ever: the way that led here went past the
/// acquire, or its outcome was another.
fn fail_without_node(fleet: &mut Fleet, cx: &mut Cx<'_>, id: &RunId) {
    let Some(run) = fleet.runs.get(id).filter(|run| run.state == RunState::Running) else { return };
    let stuck = run.ready().find(|step| step.kind.is_executed() && run.node_of_step(step.seq).is_none());
    let Some((seq, uses)) = stuck.and_then(|step| Some((step.seq, run.spec(step.seq)?.uses.clone()?))) else { return };
    let message = format!("role {} was not acquired on the way to this step", uses.role);
    let state = StepState::Failed { reason: FailReason::Unavailable, message, at: cx.now };
    // The one is enough: it ends the Run.
    end_step(fleet, cx, id, seq, Ended { state, produced: Vec::new(), value: None, node: None });
}

/// Opens asks that are ready, and puts acquires that are ready in line.
fn begin_own_steps(fleet: &mut Fleet, cx: &mut Cx<'_>, id: &RunId) {
    let Some(run) = fleet.runs.get(id).filter(|run| run.state == RunState::Running) else { return };
    let ready: Vec<(Seq, StepKind)> = run.ready().map(|step| (step.seq, step.kind)).collect();
    for (seq, kind) in ready {
        match kind {
            StepKind::Run | StepKind::Agent => {}
            StepKind::Ask => ask::open(fleet, cx, id, seq),
            StepKind::Acquire => acquire::stand_in_line(fleet, cx, id, seq),
        }
    }
}

/// Gives back the nodes of roles that this step, which is DONE, releases, as far as the Run holds them for nothing
/// else.
fn release_roles(fleet: &mut Fleet, cx: &mut Cx<'_>, id: &RunId, seq: Seq) {
    let Some(run) = fleet.runs.get(id) else { return };
    if run.spec(seq).is_none_or(|spec| spec.release.is_empty()) {
        return;
    }
    let kept = |node: &NodeId| {
        run.assigned.iter().any(|it| it.node == *node && !run.has_released(&it.role)) || run.needs_node(node)
    };
    let freed: Vec<NodeId> = run.nodes().into_iter().filter(|node| !kept(node)).collect();
    fleet.release_held(id, freed, Wake::PartialRelease, cx);
}

/// Tells the nodes of a Run that have something to claim. One that executes a step is told when that has ended.
fn announce_ready(fleet: &Fleet, cx: &mut Cx<'_>, id: &RunId) {
    let Some(run) = fleet.runs.get(id).filter(|run| run.state == RunState::Running) else { return };
    for step in run.ready() {
        if let Some(node) = run.node_of_step(step.seq).filter(|node| run.claimed_on(node).is_none()) {
            cx.changes.work.insert(node.clone());
        }
    }
}
