//! Every Run that ends says why, and it is true.

use shared::domain::{Cause, Drain, FailReason, Run, StepState};

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
                (Cause::Judged, What::Report(_)) => !run.steps.iter().any(failed_by_itself),
                (Cause::StepFailed(step), What::Report(_) | What::Claim(_)) => {
                    run.steps.iter().any(|it| it.name == *step && failed_by_itself(it))
                }
                (Cause::Cancelled(_), What::Cancel(cancel)) => cancel.run == *id,
                (Cause::Drain(node), What::Report(_) | What::Advert(_)) => {
                    let word = look.after.node(node).map(|node| node.policy.drain);
                    word == Some(Drain::AtBoundary) && look.before.leases.contains_key(node) && !settled(run)
                }
                (Cause::LeaseExpired(node), What::Reap) => lapsed(node),
                (Cause::NodeRestarted(node), What::Advert(advert)) => {
                    advert.who.node == *node
                        && look.before.nodes.get(node).is_some_and(|it| it.instance != advert.who.instance)
                }
                (Cause::Rejected, What::Submit(_)) => true,
                _ => false,
            };
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
    run.steps.iter().any(failed_by_itself) || (run.contract.success_when.is_empty() && run.steps.iter().any(bad))
}
