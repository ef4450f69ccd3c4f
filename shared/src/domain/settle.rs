//! How a Run ends: [`close`] is the only way to a terminal state, [`settle`] looks whether it is time.

use serde_json::json;

use super::{AskChange, Cause, Cx, EventKind, FailReason, Fleet, Place, RunState, StepState, Verdict, Wake, verdict};
use crate::{RunId, Seq};

/// The wake point under which the leases of a Run that ended this way are freed.
pub(super) const fn wake_of(cause: &Cause) -> Wake {
    match cause {
        // A rejected Run held nothing; its name stands here only so that the list is whole.
        Cause::Judged | Cause::StepFailed(_) | Cause::Rejected => Wake::RunSettled,
        Cause::Cancelled(_) | Cause::Drain(_) => Wake::RunCancelled,
        Cause::LeaseExpired(_) => Wake::LeaseExpired,
        Cause::NodeRestarted(_) => Wake::NodeRestarted,
    }
}

/// Ends a Run: its open steps, its place in line, its leases.
pub(super) fn close(fleet: &mut Fleet, cx: &mut Cx<'_>, id: &RunId, cause: Cause, succeeded: bool) {
    let now = cx.now;
    let Some(run) = fleet.runs.get_mut(id).filter(|run| !run.state.is_terminal()) else { return };
    let claimed_fails_as = match cause {
        Cause::LeaseExpired(_) => FailReason::LeaseExpired,
        Cause::NodeRestarted(_) => FailReason::NodeRestarted,
        Cause::Judged | Cause::StepFailed(_) | Cause::Cancelled(_) | Cause::Drain(_) | Cause::Rejected => {
            FailReason::RunClosed
        }
    };
    // Only the steps on the node that was lost share its fate; the others are stopped because the Run closed.
    let lost = match &cause {
        Cause::LeaseExpired(node) | Cause::NodeRestarted(node) => Some(node.clone()),
        Cause::Judged | Cause::StepFailed(_) | Cause::Cancelled(_) | Cause::Drain(_) | Cause::Rejected => None,
    };
    let place = run.place;
    let waiting: Vec<Seq> =
        run.steps.iter().filter(|step| step.state == StepState::Waiting).map(|step| step.seq).collect();
    for step in &mut run.steps {
        if matches!(step.state, StepState::Asked { .. }) {
            cx.changes.asks.push(AskChange::withdrawn(id, step));
        }
        step.state = match &step.state {
            StepState::Pending | StepState::Waiting | StepState::Asked { .. } => StepState::Skipped { at: now },
            StepState::Claimed { node, .. } => {
                let reason = if lost.as_ref() == Some(node) { claimed_fails_as } else { FailReason::RunClosed };
                let message = format!("ended by the mediator: {}", sentence(&cause));
                StepState::Failed { reason, message, at: now }
            }
            StepState::Done { .. } | StepState::Failed { .. } | StepState::Skipped { .. } => continue,
        };
        cx.changes.steps.insert((id.clone(), step.seq));
    }
    let findings = if matches!(cause, Cause::Judged) { verdict::findings(run) } else { Vec::new() };
    let verdict = Verdict { cause: cause.clone(), findings };
    let was_queued = run.state == RunState::Queued;
    run.state = if succeeded { RunState::Succeeded(verdict) } else { RunState::Failed(verdict) };
    run.ended_at = Some(now);
    let (nodes, state) = (run.nodes(), run.state.as_str());

    if was_queued {
        fleet.queue.remove(Place::of_run(place));
    }
    for seq in waiting {
        fleet.queue.remove(Place::of_acquire(place, seq));
    }
    fleet.touch_run(id, cx);
    cx.changes.sealed.insert(id.clone());
    cx.changes.event(EventKind::RunClosed, Some(id), None, json!({"state": state, "cause": cause.as_str()}));
    fleet.release_held(id, nodes, wake_of(&cause), cx);
}

fn sentence(cause: &Cause) -> String {
    match cause {
        Cause::Judged => "the run was decided".to_owned(),
        Cause::StepFailed(step) => format!("step {step} did not complete"),
        // Not by whom: a message is an observation, and a principal shows in none.
        Cause::Cancelled(_) => "cancelled".to_owned(),
        Cause::Drain(node) => format!("the owner of {node} took it back at a step boundary"),
        Cause::LeaseExpired(node) => format!("node {node} went silent and its lease ran out"),
        Cause::NodeRestarted(node) => format!("node {node} restarted and no longer knew the step"),
        Cause::Rejected => "no node will do".to_owned(),
    }
}

/// Looks whether a Run is over, after one of its steps has changed.
pub(super) fn settle(fleet: &mut Fleet, cx: &mut Cx<'_>, id: &RunId) {
    let Some(run) = fleet.runs.get_mut(id).filter(|run| run.state == RunState::Running) else { return };
    if let Some(step) = run.steps.iter().find(|step| matches!(step.state, StepState::Failed { .. })) {
        let cause = Cause::StepFailed(step.name.clone());
        return close(fleet, cx, id, cause, false);
    }
    let open = run.steps.iter().any(super::Step::is_open);
    if open {
        // Without conditions the first step that ends otherwise than well decides; with them only the end does.
        let decided = run.contract.success_when.is_empty() && {
            let resettable = run.resettable();
            run.steps.iter().any(|step| verdict::ends_run_by_itself(step) && !resettable.contains(&step.seq))
        };
        if decided {
            close(fleet, cx, id, Cause::Judged, false);
        }
        return;
    }
    run.state = RunState::Verifying;
    let (succeeded, _) = verdict::judge(run);
    cx.changes.event(EventKind::RunVerifying, Some(id), None, json!({}));
    close(fleet, cx, id, Cause::Judged, succeeded);
}
