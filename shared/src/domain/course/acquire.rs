//! Acquire: one more resource for a Run that is under way.
//!
//! Every acquire stands in line, at its Run's place, and is served by the same scan as queued Runs; so nobody is
//! overtaken. One that does not wait leaves the line after the scan that it joined with.

use serde_json::json;

use super::{Ended, end_step, proceed};
use crate::{
    RunId, Seq,
    domain::{Assigned, Cx, EventKind, FailReason, Fleet, Place, Shape, StepState},
};

/// Puts an acquire that is ready in line. The scan at the end of this very command serves it if it can.
pub(super) fn stand_in_line(fleet: &mut Fleet, cx: &mut Cx<'_>, id: &RunId, seq: Seq) {
    let Some(run) = fleet.runs.get_mut(id) else { return };
    let place = Place::of_acquire(run.place, seq);
    let timeout = run.spec(seq).and_then(|spec| spec.timeout);
    let Some(acquire) = run.spec(seq).and_then(|spec| spec.acquire.clone()) else { return };
    let Some(step) = run.step_mut(seq) else { return };
    step.state = StepState::Waiting;
    step.started_at = Some(cx.now);
    step.deadline = timeout.map(|timeout| cx.now + timeout);
    cx.changes.steps.insert((id.clone(), seq));
    cx.changes.event(EventKind::StepWaiting, Some(id), None, json!({"step": step.name.as_str()}));
    fleet.touch_run(id, cx);
    fleet.queue.insert(place, id.clone(), Shape::of_acquire(id, seq, &acquire.require()), cx.now);
    cx.joined.insert(place);
    cx.stirred.anything();
    if !acquire.wait {
        cx.impatient.insert(place);
    }
}

/// Gives an acquire what it waited for.
pub(in crate::domain) fn acquired(fleet: &mut Fleet, cx: &mut Cx<'_>, id: &RunId, seq: Seq, assigned: Vec<Assigned>) {
    fleet.grant(id, &assigned, cx);
    if let Some(run) = fleet.runs.get_mut(id) {
        run.assigned.extend(assigned);
    }
    end(fleet, cx, id, seq, "acquired", StepState::Done { exit_code: None, at: cx.now });
}

/// Ends an acquire that gets nothing. A `dispatch` that knows the outcome takes it from there; otherwise the step
/// has failed.
pub(in crate::domain) fn end_acquire(fleet: &mut Fleet, cx: &mut Cx<'_>, id: &RunId, seq: Seq, reason: FailReason) {
    let outcome = reason.as_str();
    let spec = fleet.runs.get(id).and_then(|run| run.spec(seq));
    let Some(acquire) = spec.and_then(|spec| spec.acquire.as_ref()) else { return };
    let fork = spec.and_then(|spec| spec.dispatch.as_ref());
    let state = if fork.is_some_and(|fork| fork.to.chosen_by(outcome).is_some()) {
        StepState::Done { exit_code: None, at: cx.now }
    } else {
        let what = if reason == FailReason::Deadlock {
            "the runs that hold what it wants wait for each other"
        } else {
            "nothing that would do is free"
        };
        let message = format!("role {} (capability {}): {what}", acquire.role, acquire.capability);
        StepState::Failed { reason, message, at: cx.now }
    };
    end(fleet, cx, id, seq, outcome, state);
}

fn end(fleet: &mut Fleet, cx: &mut Cx<'_>, id: &RunId, seq: Seq, outcome: &str, state: StepState) {
    let Some(place) = fleet.runs.get(id).map(|run| run.place) else { return };
    fleet.queue.remove(Place::of_acquire(place, seq));
    let value = Some(Ok(outcome.to_owned()));
    end_step(fleet, cx, id, seq, Ended { state, produced: Vec::new(), value, node: None });
    proceed(fleet, cx, id);
}
