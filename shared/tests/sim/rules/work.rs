//! A step runs once at a time, its result is taken from whoever holds the lease, and never lost.

use shared::{
    Nonce,
    domain::{Advert, FailReason, Fleet, Outcome, Refusal, Report, StepState},
};

use super::{Look, Rules, What};
use crate::{agent::Proc, agent_core::StepKey, event::Ms};

impl Rules {
    /// An agent starts a process.
    pub(crate) fn starts(&mut self, agents: &[Proc], fleet: &Fleet, at: usize, key: &StepKey, nonce: Nonce, now: Ms) {
        let triple = (key.run.clone(), key.seq, key.attempt);
        let first = self.started.insert(triple) || agents[at].copied.contains(key) || agents[at].rival;
        self.must("once", first, || format!("{key} is executed again on {}", agents[at].node));
        let holds = |proc: &Proc, nonce: Nonce| {
            fleet.lease(&proc.node).is_some_and(|lease| lease.run == key.run && lease.nonce == nonce)
        };
        for (other, proc) in agents.iter().enumerate().filter(|(_, proc)| proc.up && proc.frozen.is_none()) {
            let Some(exec) = &proc.exec else { continue };
            if other == at || exec.key.run != key.run || exec.key.seq != key.seq {
                continue;
            }
            // Two copies of one running machine look alike until the loser speaks next; see `copies`.
            let copied = agents[at].copied.contains(key) || proc.instance == agents[at].instance;
            let twice = exec.nonce == nonce || (holds(proc, exec.nonce) && holds(&agents[at], nonce));
            self.must("twice", copied || !twice, || {
                format!("{key} begins on {} and {} runs on {} at {now}", agents[at].node, exec.key, proc.node)
            });
        }
    }

    /// Of two copies of one running machine only the one that opened its stream last is heard.
    pub(super) fn copies(&mut self, what: &What<'_>, look: &Look<'_>, refused: Option<&Refusal>) {
        let Some(at) = look.from.filter(|_| refused.is_none()) else { return };
        match what {
            What::Open(who) if who.streams.last().is_some_and(|it| !self.copied.contains(it)) => {
                self.heard.insert(who.instance.clone(), at);
            }
            What::Advert(Advert { who, .. }) => {
                let heard = self.heard.get(&who.instance).is_none_or(|it| *it == at);
                self.must("copy", heard, || format!("{} of another copy is taken", what.name()));
            }
            _ => {}
        }
    }

    pub(super) fn results(&mut self, what: &What<'_>, look: &Look<'_>, refused: Option<&Refusal>) {
        match what {
            What::Report(report) => self.reported(report, look, refused),
            What::Advert(advert) if refused.is_none() => self.spooled(advert, look),
            _ => {}
        }
        // An answer is written once.
        for (run, seq, number) in &look.changes.attempts {
            let Some(attempt) =
                look.after.runs.get(run).and_then(|it| it.step(*seq)).and_then(|it| it.attempt(*number))
            else {
                continue;
            };
            let key = (run.clone(), *seq, *number);
            let Some(answer) = attempt.answer.clone() else { continue };
            let first = self.answers.entry(key).or_insert_with(|| answer.clone()).clone();
            self.must("result", first == answer, || format!("the answer to {run}/{seq}/{number} is written twice"));
        }
    }

    fn reported(&mut self, report: &Report, look: &Look<'_>, refused: Option<&Refusal>) {
        let Report { run, seq, attempt, .. } = report;
        let key = format!("{run}/{seq}/{attempt}");
        let before = look.before.runs.get(run).and_then(|it| it.step(*seq));
        let row = before.and_then(|it| it.attempt(*attempt));
        if row.is_some_and(|it| it.answer.is_some() && it.nonce == report.nonce && it.node == report.who.node) {
            let nothing = look.changes.is_empty();
            return self.must("answer", refused.is_none() && nothing, || {
                format!(
                    "{key} was answered before, and is now {}",
                    refused.map_or("taken again".to_owned(), |it| it.to_string())
                )
            });
        }
        if refused.is_some() {
            return;
        }
        let node = &report.who.node;
        let lease = look.before.leases.get(node).filter(|it| it.holds(look.now));
        let holds = lease.is_some_and(|it| it.run == *run && it.nonce == report.nonce);
        self.must("fence", holds, || format!("{key} of {node} is taken, and its lease has ended"));
        let instance = look.before.nodes.get(node).map(|it| &it.instance);
        self.must("fence", instance == Some(&report.who.instance), || {
            format!("{key} is taken from {} that does not speak for {node}", report.who.instance)
        });
        let claimed = before.is_some_and(|it| {
            it.attempt == *attempt && matches!(&it.state, StepState::Claimed { node: on, .. } if on == node)
        });
        let by = row.is_some_and(|it| it.instance == report.who.instance);
        self.must("fence", claimed && by, || format!("{key} is taken from {node}, and was not claimed there by it"));
        if let Outcome::Completed { exit_code } = report.outcome {
            let Some(after) = look.after.runs.get(run) else { return };
            let Some(step) = after.step(*seq) else { return };
            let again = after.starts > look.before.runs[run].starts
                || after.contract.steps.iter().any(|it| it.repeat.is_some());
            let kept = match &step.state {
                StepState::Done { exit_code: code, .. } => *code == Some(exit_code),
                StepState::Failed { reason, .. } => *reason == FailReason::InvalidOutput,
                // Gone back in a loop, tried again after an invalid output, or begun anew.
                StepState::Pending | StepState::Skipped { .. } => again || report.invalid.is_some(),
                _ => false,
            };
            self.must("result", kept, || format!("{key} ended with {exit_code} and is {:?}", step.state));
        }
    }

    /// What an agent has finished and spooled is never lost to its restart.
    fn spooled(&mut self, advert: &Advert, look: &Look<'_>) {
        for (run, seq, attempt) in &advert.finished {
            let before = look.before.runs.get(run).and_then(|it| it.step(*seq));
            let claimed = before.is_some_and(|it| {
                it.attempt == *attempt
                    && matches!(&it.state, StepState::Claimed { node, .. } if *node == advert.who.node)
            });
            let after = look.after.runs.get(run).and_then(|it| it.step(*seq));
            let lost =
                after.is_some_and(|it| matches!(it.state, StepState::Failed { reason: FailReason::NodeRestarted, .. }));
            self.must("spool", !(claimed && lost), || {
                format!("{run}/{seq}/{attempt} is finished and spooled on {}, and counts as lost", advert.who.node)
            });
        }
    }

    /// The same report gets the same answer.
    pub(crate) fn answered(&mut self, what: &What<'_>, look: &Look<'_>, answer: &str) {
        let What::Report(report) = what else { return };
        let step = look.after.runs.get(&report.run).and_then(|it| it.step(report.seq));
        let stored = step.and_then(|it| it.attempt(report.attempt)).and_then(|it| it.answer.as_ref());
        let same = stored.is_some_and(|it| answer.contains(&format!("{:?}", it.state)));
        self.must("answer", same, || format!("{} is answered {answer}, and {stored:?} is stored", what.name()));
    }
}
