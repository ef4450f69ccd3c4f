//! Loops: a range of steps begins its next pass.

use std::{
    collections::{BTreeSet, HashMap},
    ops::RangeInclusive,
};

use super::fork;
use crate::{
    NodeId, Seq, Timestamp,
    contract::{self, Until},
    domain::{Run, Step, StepState},
};

/// Whether the loop on this step goes back, now that it is DONE with these outputs.
pub(super) fn goes_back(spec: &contract::Step, step: &Step, done: &StepState, produced: &[String]) -> bool {
    spec.repeat.as_ref().is_some_and(|repeat| {
        has_passes_left(step, repeat.max) && !repeat.until.as_ref().is_some_and(|until| holds(until, done, produced))
    })
}

fn has_passes_left(step: &Step, max: u32) -> bool {
    step.round.saturating_add(1) < max
}

fn holds(until: &Until, done: &StepState, produced: &[String]) -> bool {
    let StepState::Done { exit_code, .. } = done else { return false };
    until.exit_code.is_none_or(|wanted| *exit_code == Some(wanted))
        && until.produced.iter().flatten().all(|file| produced.contains(file))
}

/// What a rewind has touched.
pub(super) struct Rewound {
    /// Steps that changed.
    pub(super) steps: Vec<Seq>,
    /// Nodes acquired inside the range, which are acquired again on the way.
    pub(super) given_back: Vec<NodeId>,
}

/// Sets every step of the range into its next round, and revives what was skipped in it or behind it because of
/// something inside it. What a fork before the range has left aside stays aside: that fork decides once.
pub(super) fn rewind(run: &mut Run, last: Seq, now: Timestamp) -> Rewound {
    let Some(range) = run.contract.loop_range(last) else { return Rewound { steps: vec![], given_back: vec![] } };
    let (behind, forks) = (skipped_by(run, &range), forks(run));
    let mut given_back = Vec::new();
    for seq in range.clone() {
        if let Some(acquire) = run.spec(seq).and_then(|spec| spec.acquire.as_ref()) {
            let role = acquire.role.clone();
            let gone = run.assigned.extract_if(.., |it| it.role == role);
            given_back.extend(gone.map(|it| it.node));
        }
        if let Some(step) = run.step_mut(seq) {
            step.reset();
            step.round += 1;
            let decided_before = forks.get(&seq).is_some_and(|fork| !range.contains(fork));
            if decided_before && step.picked == Some(false) {
                step.state = StepState::Skipped { at: now };
            }
        }
    }
    for seq in &behind {
        if let Some(step) = run.step_mut(*seq) {
            step.reset();
        }
    }
    fork::spread(run, now);
    Rewound { steps: range.chain(behind).collect(), given_back }
}

impl Run {
    /// Steps that a loop with passes left may still set back.
    #[must_use]
    pub(in crate::domain) fn resettable(&self) -> BTreeSet<Seq> {
        let mut found = BTreeSet::new();
        for last in self.steps.iter().filter(|step| step.is_open()) {
            let repeat = self.spec(last.seq).and_then(|spec| spec.repeat.as_ref());
            if let Some(range) = repeat
                .filter(|repeat| has_passes_left(last, repeat.max))
                .and_then(|_| self.contract.loop_range(last.seq))
            {
                found.extend(skipped_by(self, &range));
                found.extend(range);
            }
        }
        found
    }
}

/// What was skipped behind a range because of something inside it: a fork in there decided against it, or it needs
/// something in there, directly or through others. Needs point back, so one pass in order is enough.
fn skipped_by(run: &Run, range: &RangeInclusive<Seq>) -> BTreeSet<Seq> {
    let (forks, mut found) = (forks(run), BTreeSet::new());
    for step in &run.steps {
        let skipped = matches!(step.state, StepState::Skipped { .. });
        if step.seq <= *range.end() || !skipped {
            continue;
        }
        let inside = |seq: &Seq| range.contains(seq) || found.contains(seq);
        let because = match forks.get(&step.seq).filter(|_| step.picked == Some(false)) {
            // Decided against: only the fork that did so can take that back.
            Some(fork) => inside(fork),
            None => step.needs.iter().any(inside),
        };
        if because {
            found.insert(step.seq);
        }
    }
    found
}

/// Which step decides about which.
fn forks(run: &Run) -> HashMap<Seq, Seq> {
    let (index, steps) = (run.contract.index(), run.contract.steps.iter().zip(0..));
    steps
        .flat_map(|(spec, fork)| spec.dispatch.iter().flat_map(|it| it.to.steps()).map(move |target| (target, fork)))
        .filter_map(|(target, fork)| Some((*index.get(target.as_str())?, fork)))
        .collect()
}
