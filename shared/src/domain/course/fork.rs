//! Forks: which way a Run goes, and what is left aside.

use crate::domain::{Run, StepState};
use crate::{Seq, StepName, Timestamp, contract::Targets};

/// Applies a fork's decision and lets skipping spread. Returns the steps that changed.
///
/// `chosen` says "picked at least once" and is never taken back here; `picked` is this fork's last decision.
pub(super) fn decide(run: &mut Run, targets: &Targets, pick: &StepName, now: Timestamp) -> Vec<Seq> {
    let contract = run.contract.clone();
    let index = contract.index();
    let mut changed = Vec::new();
    for target in targets.steps() {
        let Some(seq) = index.get(target.as_str()).copied() else { continue };
        let Some(step) = run.step_mut(seq) else { continue };
        let is_pick = target == pick;
        step.picked = Some(is_pick);
        step.chosen |= is_pick;
        if !is_pick && step.state == StepState::Pending {
            step.state = StepState::Skipped { at: now };
        }
        changed.push(seq);
    }
    changed.extend(spread(run, now));
    changed
}

/// A step all of whose needs are skipped is skipped. Needs point back, so one pass in order is enough.
pub(super) fn spread(run: &mut Run, now: Timestamp) -> Vec<Seq> {
    let mut changed = Vec::new();
    for at in 0..run.steps.len() {
        let step = &run.steps[at];
        let skipped = |need: &Seq| matches!(run.step(*need).map(|it| &it.state), Some(StepState::Skipped { .. }));
        if step.state == StepState::Pending && !step.needs.is_empty() && step.needs.iter().all(skipped) {
            run.steps[at].state = StepState::Skipped { at: now };
            changed.push(run.steps[at].seq);
        }
    }
    changed
}
