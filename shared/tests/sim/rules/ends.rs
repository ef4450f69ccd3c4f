//! Every Run that ends says why, and it is true.

use shared::contract::OnDrain;
use shared::domain::{Cause, Drain, FailReason, Run, RunState, StepState};

use super::{Look, Rules, What, show};

impl Rules {
    pub(super) fn ends(&mut self, what: &What<'_>, look: &Look<'_>) {
        for id in &look.changes.sealed {
            let Some(run) = look.after.runs.get(id) else {
                self.fail("cause", || format!("{id} is sealed and nobody has it"));
                continue;
            };
            let Some(cause) = run.cause() else {
                self.fail("cause", || format!("{} is sealed and has not ended", show(run)));
                continue;
            };
            let lapsed = |node| look.before.leases.get(node).is_some_and(|it| it.run == *id && !it.holds(look.now));
            let true_cause = match (cause, what) {
                (Cause::Judged, _) => !run.steps.iter().any(failed_by_itself),
                (Cause::StepFailed(step), _) => run.steps.iter().any(|it| it.name == *step && failed_by_itself(it)),
                (Cause::Cancelled(_), What::Cancel(cancel)) => cancel.run == *id,
                (Cause::Drain(node), _) => {
                    let word = look.after.node(node).map(|node| node.policy.drain);
                    let held = look.before.leases.contains_key(node);
                    word == Some(Drain::AtBoundary) && held && run.contract.on_drain == OnDrain::Close && !settled(run)
                }
                (Cause::LeaseExpired(node), What::Reap) => lapsed(node) && run.losses >= run.contract.on_lost.retry,
                (Cause::NodeRestarted(node), What::Advert(advert)) => {
                    advert.who.node == *node
                        && look.before.nodes.get(node).is_some_and(|it| it.instance != advert.who.instance)
                        && run.losses >= run.contract.on_lost.retry
                }
                (Cause::Rejected, What::Submit(_)) => true,
                _ => false,
            };
            let deserved = !matches!(run.state, RunState::Succeeded(_)) || well(run);
            self.must("verdict", deserved, || format!("it has not succeeded: {}", show(run)));
            self.must("cause", true_cause, || format!("after {}: {} ({cause:?})", what.name(), show(run)));
        }
    }
}

/// It did not complete, and not because the Run closed or its node went.
fn failed_by_itself(step: &shared::domain::Step) -> bool {
    match &step.state {
        StepState::Failed { reason, .. } => {
            !matches!(reason, FailReason::RunClosed | FailReason::NodeRestarted | FailReason::LeaseExpired)
        }
        _ => false,
    }
}

/// Its own steps had decided it: then settling wins over the owner's boundary.
fn settled(run: &Run) -> bool {
    let bad = |step: &shared::domain::Step| match &step.state {
        StepState::Done { exit_code, .. } => exit_code.is_some_and(|code| code != 0),
        _ => false,
    };
    let loops = run.contract.steps.iter().any(|it| it.repeat.is_some());
    run.steps.iter().any(failed_by_itself)
        || (!loops && run.contract.success_when.is_empty() && run.steps.iter().any(bad))
}

/// What success means, told once more: no step failed, every condition on a step that ran is met; without conditions
/// every step that ran ended well, and none that was picked is out of reach.
fn well(run: &Run) -> bool {
    let code = |step: &shared::domain::Step| match step.state {
        StepState::Done { exit_code, .. } => exit_code,
        _ => None,
    };
    let skipped = |step: &shared::domain::Step| matches!(step.state, StepState::Skipped { .. });
    let conditions = &run.contract.success_when;
    let ended = run.steps.iter().all(|step| !step.is_open() && !matches!(step.state, StepState::Failed { .. }));
    let plain = |step: &shared::domain::Step| {
        if skipped(step) { step.picked != Some(true) } else { code(step).is_none_or(|it| it == 0) }
    };
    let met = conditions.iter().all(|condition| {
        let Some(step) = run.steps.iter().find(|it| it.name == condition.step) else { return false };
        if skipped(step) {
            return !condition.required && step.picked != Some(true);
        }
        condition.exit_code.is_none_or(|wanted| code(step) == Some(wanted))
            && condition.produced.iter().flatten().all(|file| step.produced.contains(file))
    });
    ended && met && (!conditions.is_empty() || run.steps.iter().all(plain))
}
