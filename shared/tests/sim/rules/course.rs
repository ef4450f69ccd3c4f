//! What a contract promises of repeating, of waiting for a person, and of starting over.

use shared::domain::{EventKind, Run, StepState};

use super::{Look, Rules, What, show};

impl Rules {
    pub(super) fn course(&mut self, what: &What<'_>, look: &Look<'_>, refused: bool) {
        for run in look.changes.runs.iter().filter_map(|id| look.after.runs.get(id)) {
            let over = run.losses > run.contract.on_lost.retry;
            self.must("retry", !over, || format!("{} began anew after {} losses", show(run), run.losses));
            for (step, spec) in run.steps.iter().zip(&run.contract.steps) {
                // Inside another loop its rounds are counted together with those of that one.
                let loops = run.contract.steps.iter().filter(|it| it.repeat.is_some()).count();
                let passes = spec.repeat.as_ref().filter(|_| loops == 1).map_or(u32::MAX, |it| it.max);
                self.must("loop", step.round < passes, || {
                    format!("{}/{} is in pass {}", run.id, step.name, step.round)
                });
                let tries = step.tries < spec.max_attempts;
                self.must("tries", tries, || format!("{}/{} is tried {} times more", run.id, step.name, step.tries));
            }
        }
        let kind = |kind| look.changes.events.iter().filter(move |it| it.kind == kind).filter_map(|it| it.run.as_ref());
        for id in kind(EventKind::RunStartedOver) {
            let Some((before, after)) = look.before.runs.get(id).zip(look.after.runs.get(id)) else { continue };
            let lost = kept(before).find(|seq| !kept(after).any(|it| it == *seq));
            self.must("keep", lost.is_none(), || format!("{} began anew and lost what it was to keep", show(after)));
        }
        self.reserved(look);
        if let What::Answer(answer) = what
            && !refused
        {
            let step =
                look.before.runs.get(&answer.run).and_then(|run| run.steps.iter().find(|it| it.name == answer.step));
            let asked =
                step.is_some_and(|it| matches!(it.state, StepState::Asked { .. }) && it.attempt == answer.attempt);
            self.must("ask", asked, || format!("{} is taken, and nobody asked", what.name()));
        }
    }

    /// What is kept for a wide Run is not given to a younger one.
    fn reserved(&mut self, look: &Look<'_>) {
        let Some((was, kept)) = look.before.reservation.as_ref().zip(look.after.reservation.as_ref()) else { return };
        for event in look.changes.events.iter().filter(|it| it.kind == EventKind::RunPromoted) {
            let Some(run) = event.run.as_ref().and_then(|id| look.before.runs.get(id).or(look.after.runs.get(id)))
            else {
                continue;
            };
            // What it was promoted with: an acquire of it may have been served since, and is never held back.
            let assigned = event.data["assigned"].as_array().into_iter().flatten();
            let given: Vec<&str> = assigned.filter_map(|it| it["node"].as_str()).collect();
            let taken = kept
                .nodes
                .intersection(&was.nodes)
                .find(|node| given.contains(&node.as_str()))
                .filter(|_| run.place > kept.place && was.run == kept.run);
            self.must("reserved", taken.is_none(), || format!("{} got {taken:?}, kept for {}", run.id, kept.run));
        }
    }
}

fn kept(run: &Run) -> impl Iterator<Item = u32> {
    let done = run.steps.iter().zip(&run.contract.steps);
    done.filter(|(step, spec)| spec.keep && matches!(step.state, StepState::Done { .. })).map(|(step, _)| step.seq)
}
