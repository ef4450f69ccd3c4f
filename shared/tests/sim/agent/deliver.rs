//! Results on their way: from the disk to the mediator, one at a time, until each is acknowledged or refused.

use shared::{
    InstanceId, Nonce, StreamId,
    domain::{Outcome, Refusal, Report},
};

use super::Superseded;
use crate::{
    agent_core::StepKey,
    event::{Answer, Body, CallId, Mine},
    world::World,
};

/// A result on disk.
#[derive(Debug, Clone)]
pub(crate) struct Spooled {
    pub(crate) key: StepKey,
    pub(crate) nonce: Nonce,
    pub(crate) outcome: Outcome,
    pub(crate) produced: Vec<String>,
    pub(crate) fork_value: Option<Result<String, String>>,
    pub(crate) invalid: Option<String>,
    /// Its lease has ended.
    pub(crate) dropped: bool,
    /// It was sent, and nobody knows what became of it.
    pub(crate) unanswered: bool,
}

/// A report under way.
#[derive(Debug, Clone)]
pub(crate) struct Reporting {
    pub(crate) id: CallId,
    key: StepKey,
    instance: InstanceId,
    streams: Vec<StreamId>,
    last_try: bool,
}

impl World {
    pub(super) fn deliver(&mut self, at: usize) {
        let proc = &mut self.agents[at];
        if proc.reporting.is_some() || !proc.core.is_accepted() {
            return;
        }
        let Some(spooled) = proc.disk.spool.front().cloned() else { return };
        if spooled.dropped && !spooled.unanswered {
            return self.settled(at, &spooled.key);
        }
        let who = proc.speaker();
        let (instance, streams) = (who.instance.clone(), who.streams.clone());
        let report = Report {
            who,
            run: spooled.key.run.clone(),
            seq: spooled.key.seq,
            attempt: spooled.key.attempt,
            nonce: spooled.nonce,
            outcome: spooled.outcome,
            produced: spooled.produced,
            fork_value: spooled.fork_value,
            invalid: spooled.invalid,
            log_bytes: 0,
        };
        let id = self.ask(at, Body::Report(Box::new(report)));
        let under_way = Reporting { id, key: spooled.key, instance, streams, last_try: spooled.dropped };
        self.agents[at].reporting = Some(under_way);
    }

    pub(super) fn report_answered(&mut self, at: usize, answer: Answer) {
        let Some(mark) = self.agents[at].reporting.take() else { return };
        let again = match answer {
            Answer::Report(Ok(reply)) => {
                let spooled = self.agents[at].disk.spool.iter().find(|it| it.key == mark.key);
                let lease = spooled.map(|it| (it.key.run.clone(), it.nonce));
                self.settled(at, &mark.key);
                if let Some(lease) = lease.filter(|_| matches!(reply.run_state, "SUCCEEDED" | "FAILED")) {
                    self.agents[at].core.end(&lease);
                    self.end_leases(at, &[lease]);
                }
                return;
            }
            _ if mark.last_try => return self.settled(at, &mark.key),
            Answer::Report(Err(Refusal::Superseded { .. })) => {
                if self.superseded(at, &mark.instance, &mark.streams) == Superseded::Idle {
                    // Sent again should this node ever be accepted again.
                    return;
                }
                0
            }
            Answer::Report(Err(_)) => {
                self.count("results refused");
                return self.settled(at, &mark.key);
            }
            Answer::Down | Answer::Told | Answer::Advert(_) => {
                if let Some(spooled) = self.agents[at].disk.spool.iter_mut().find(|it| it.key == mark.key) {
                    spooled.unanswered = true;
                }
                self.rng.between(20, 3_000)
            }
        };
        self.after_at(again, at, Mine::Deliver);
    }

    /// Acknowledged, or refused for good.
    fn settled(&mut self, at: usize, key: &StepKey) {
        let proc = &mut self.agents[at];
        proc.disk.spool.retain(|it| it.key != *key);
        proc.core.settled(key);
        self.leave_if_idle(at);
        self.deliver(at);
    }
}
