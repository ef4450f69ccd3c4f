//! One step at a time: its folder, its process, its end.

use shared::{
    Nonce,
    domain::{ClaimedStep, FailReason, Outcome},
};

use super::deliver::Spooled;
use crate::{
    agent_core::{LeaseKey, StepKey},
    event::Mine,
    world::World,
};

/// A process that runs.
#[derive(Debug, Clone)]
pub(crate) struct Exec {
    pub(crate) key: StepKey,
    pub(crate) nonce: Nonce,
    step: Box<ClaimedStep>,
}

impl World {
    pub(super) fn next_job(&mut self, at: usize) {
        while self.agents[at].exec.is_none() {
            let Some(step) = self.agents[at].jobs.pop_front() else { return };
            let key = StepKey { run: step.run.clone(), seq: step.seq, attempt: step.attempt };
            if self.agents[at].core.is_open(&key) {
                self.start(at, key, step);
            }
        }
    }

    fn start(&mut self, at: usize, key: StepKey, step: Box<ClaimedStep>) {
        self.rules.starts(&self.agents, &self.mediator.fleet, at, &key, step.nonce, self.now);
        self.count("steps executed");
        self.say(|world| format!("{} executes {key}", world.agents[at].node));
        let folder = (key.run.clone(), step.nonce);
        let nonce = step.nonce;
        let proc = &mut self.agents[at];
        let missing = !step.first_on_node && !proc.disk.folders.contains(&folder);
        proc.disk.folders.insert(folder);
        proc.exec = Some(Exec { key: key.clone(), nonce, step });
        if missing {
            self.count("folders lost");
            let message = "its folder is gone".to_owned();
            return self.end_exec(at, Outcome::NotCompleted { reason: FailReason::WorkspaceLost, message });
        }
        let takes = self.rng.between(1, self.plan.longest);
        self.after_at(takes, at, Mine::StepEnds(key));
    }

    pub(super) fn step_ends(&mut self, at: usize, key: &StepKey) {
        if self.agents[at].exec.as_ref().is_none_or(|exec| exec.key != *key) {
            return;
        }
        let bad = self.rng.chance(self.luck.bad_end);
        let outcome = match (bad, self.rng.below(3)) {
            (false, _) => Outcome::Completed { exit_code: 0 },
            (true, 0) => Outcome::NotCompleted { reason: FailReason::Timeout, message: "too long".to_owned() },
            (true, code) => Outcome::Completed { exit_code: i32::try_from(code).unwrap() },
        };
        self.end_exec(at, outcome);
    }

    /// The process has ended: its result is spooled, if its lease still holds as far as known here.
    pub(super) fn end_exec(&mut self, at: usize, outcome: Outcome) {
        let Some(exec) = self.agents[at].exec.take() else { return };
        self.say(|world| format!("{} ends {}: {outcome:?}", world.agents[at].node, exec.key));
        let spec = &exec.step.contract.steps[exec.step.seq as usize];
        let fork_value = spec.dispatch.as_ref().map(|fork| Ok((*self.rng.pick(&fork.to.values())).to_owned()));
        let invalid = self.rng.chance(self.luck.bad_end / 5).then(|| "it does not fit its schema".to_owned());
        let produced = if self.rng.chance(self.luck.bad_end) { Vec::new() } else { spec.out.clone() };
        let proc = &mut self.agents[at];
        if proc.core.finish(&exec.key) {
            let spooled = Spooled {
                key: exec.key,
                nonce: exec.nonce,
                outcome,
                produced,
                fork_value,
                invalid,
                dropped: false,
                unanswered: false,
            };
            proc.disk.spool.push_back(spooled);
        }
        self.deliver(at);
        self.next_job(at);
        self.leave_if_idle(at);
    }

    /// Nobody wants what runs here.
    pub(super) fn drop_exec(&mut self, at: usize) {
        if let Some(exec) = self.agents[at].exec.take() {
            self.say(|world| format!("{} kills {}", world.agents[at].node, exec.key));
        }
    }

    /// Leases have ended: what runs is stopped, what is spooled is dropped, what lies about is removed.
    pub(super) fn end_leases(&mut self, at: usize, gone: &[LeaseKey]) {
        for (run, nonce) in gone {
            let proc = &mut self.agents[at];
            for spooled in proc.disk.spool.iter_mut().filter(|it| it.key.run == *run && it.nonce == *nonce) {
                spooled.dropped = true;
            }
            proc.disk.folders.remove(&(run.clone(), *nonce));
            if proc.exec.as_ref().is_some_and(|exec| exec.key.run == *run && exec.nonce == *nonce) {
                self.drop_exec(at);
            }
        }
        if !gone.is_empty() {
            self.next_job(at);
            self.deliver(at);
            self.leave_if_idle(at);
        }
    }

    /// The time to stop in is over.
    pub(super) fn stop_now(&mut self, at: usize) {
        let message = "the agent was told to stop".to_owned();
        self.end_exec(at, Outcome::NotCompleted { reason: FailReason::Stopped, message });
    }
}
