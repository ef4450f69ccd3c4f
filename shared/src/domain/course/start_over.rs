//! Starting over: a Run that lost a node goes back to its place in line, and keeps what it promised to keep.

use std::collections::BTreeSet;

use serde_json::json;

use super::fork;
use crate::{
    RunId, Seq,
    domain::{AskChange, Cause, Cx, EventKind, Fleet, Place, Run, RunState, Shape, Step, StepState, Wake},
};

/// RUNNING → QUEUED in the transaction of the loss; the scan at its end may run it again at once.
pub(in crate::domain) fn start_over(fleet: &mut Fleet, cx: &mut Cx<'_>, id: &RunId, cause: &Cause, wake: Wake) {
    let now = cx.now;
    let Some(run) = fleet.runs.get_mut(id).filter(|run| run.state == RunState::Running) else { return };
    let nodes = run.nodes();
    for step in &run.steps {
        match step.state {
            StepState::Asked { .. } => cx.changes.asks.push(AskChange::withdrawn(id, step)),
            StepState::Waiting => drop(fleet.queue.remove(Place::of_acquire(run.place, step.seq))),
            _ => {}
        }
    }
    run.state = RunState::Queued;
    run.starts += 1;
    if !matches!(cause, Cause::Drain(_)) {
        run.losses += 1;
    }
    run.assigned.clear();
    reset_steps(run);
    fork::spread(run, now);
    cx.changes.steps.extend(run.steps.iter().map(|step| (id.clone(), step.seq)));
    let shape = Shape::new(&run.contract.requires);
    let (place, created_at) = (Place::of_run(run.place), run.created_at);
    let data = json!({"cause": cause.as_str(), "starts": run.starts});
    cx.changes.event(EventKind::RunStartedOver, Some(id), cause.node(), data);
    fleet.touch_run(id, cx);
    fleet.release_held(id, nodes, wake, cx);
    let hash = shape.hash.clone();
    fleet.queue.insert(place, id.clone(), shape, created_at);
    cx.joined.extend(fleet.queue.head_of(&hash));
}

/// Every step begins anew, except what is kept: a DONE step with `keep`, and what its fork decided.
fn reset_steps(run: &mut Run) {
    let contract = run.contract.clone();
    let index = contract.index();
    let kept: BTreeSet<Seq> = run.steps.iter().filter(|step| is_kept(run, step)).map(|step| step.seq).collect();
    let decided: BTreeSet<Seq> = kept
        .iter()
        .filter_map(|seq| contract.steps.get(*seq as usize)?.dispatch.as_ref())
        .flat_map(|fork| fork.to.steps())
        .filter_map(|target| index.get(target.as_str()).copied())
        .collect();
    for step in &mut run.steps {
        if kept.contains(&step.seq) {
            continue;
        }
        let skipped_at = match step.state {
            StepState::Skipped { at } => Some(at),
            _ => None,
        };
        step.reset();
        step.round = 0;
        if !decided.contains(&step.seq) {
            step.chosen = false;
            step.picked = None;
        } else if step.picked == Some(false)
            && let Some(at) = skipped_at
        {
            step.state = StepState::Skipped { at };
        }
    }
}

fn is_kept(run: &Run, step: &Step) -> bool {
    matches!(step.state, StepState::Done { .. }) && run.spec(step.seq).is_some_and(|spec| spec.keep)
}
