//! What must hold after every act.

use shared::domain::{Changes, Drain, EventKind, Fleet, Refusal, ReportReply, invariant};

use crate::{agent::Work, state::State};

impl State {
    /// After every command.
    pub(crate) fn look(&mut self, before: &Fleet, changes: &Changes) {
        if let Some(why) = invariant::check(&self.fleet, &self.settings, self.now) {
            self.fail(why);
        }
        for event in changes.events.iter().filter(|it| it.kind == EventKind::LeaseGranted) {
            let Some(node) = event.node.as_ref() else { continue };
            for agent in self.agents.clone().iter().filter(|it| it.node == *node) {
                let speaks = self.fleet.node(node).is_some_and(|it| it.instance == agent.speaker(agent.life).instance);
                if speaks && agent.acked != Drain::None {
                    self.fail(format!("{node} is granted after its drain was acknowledged"));
                }
            }
        }
        let (fleet, now) = (self.fleet.clone(), self.now);
        for lease in fleet.leases().filter(|it| it.holds(now)) {
            let was = before.lease(&lease.node).filter(|it| it.nonce == lease.nonce);
            if was.is_some_and(|it| !it.holds(now)) {
                self.fail(format!("the lease on {} is revived", lease.node));
            }
        }
        for (id, run) in &self.fleet.runs.clone() {
            let Some(old) = before.runs.get(id) else { continue };
            for (step, old) in run.steps.iter().zip(&old.steps) {
                for (attempt, old) in step.attempts.iter().zip(&old.attempts) {
                    if old.answer.is_some() && attempt.answer != old.answer {
                        self.fail(format!("the answer to {id}/{} changed", step.name));
                    }
                }
            }
        }
    }

    /// A step begins on an agent.
    pub(crate) fn begins(&mut self, at: usize, work: &Work) {
        for (other, agent) in self.agents.clone().iter().enumerate().filter(|(other, _)| *other != at) {
            let same = agent.exec.as_ref().filter(|it| it.run == work.run && it.seq == work.seq);
            let held =
                |it: &Work| self.fleet.lease(&self.agents[other].node).is_some_and(|lease| lease.nonce == it.nonce);
            if same.is_some_and(held) {
                self.fail(format!("{}/{} runs twice at once", work.run, work.seq));
            }
        }
    }

    pub(crate) fn reported(&mut self, work: &Work, answer: &Result<ReportReply, Refusal>) {
        let step = self.fleet.runs.get(&work.run).and_then(|run| run.step(work.seq));
        let stored = step.and_then(|it| it.attempt(work.attempt)).and_then(|it| it.answer.clone());
        if let (Some(stored), Err(refusal)) = (stored, answer) {
            self.fail(format!("a report that was answered {stored:?} is refused: {refusal}"));
        }
    }

    /// Nothing runs under a lease that has run out.
    pub(crate) fn time_passed(&mut self) {
        for agent in self.agents.clone() {
            let Some(work) = &agent.exec else { continue };
            let lease = self.fleet.lease(&agent.node).filter(|it| it.nonce == work.nonce);
            if lease.is_some_and(|it| !it.holds(self.now)) {
                self.fail(format!("{} still runs {}/{} and its lease has run out", agent.node, work.run, work.seq));
            }
        }
    }

    pub(crate) fn reaping(&mut self) {
        self.time_passed();
    }
}
