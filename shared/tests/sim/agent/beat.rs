//! The heartbeat: one advert after the other, and the time to live that each brings.

use shared::{
    Duration, InstanceId, StreamId,
    domain::{Advert, AdvertReply, Drain, FailReason, Outcome, Refusal},
};

use super::{Acked, Stage, Superseded};
use crate::{
    agent_core::{Reply, StepKey},
    clock::BootTime,
    event::{Answer, Body, CallId, Mine, Ms},
    world::World,
};

/// An advert under way.
#[derive(Debug, Clone)]
pub(crate) struct Advertising {
    pub(crate) id: CallId,
    sent: BootTime,
    rev: Option<i64>,
    instance: InstanceId,
    streams: Vec<StreamId>,
    drain: Drain,
    stopping: bool,
    goodbye: bool,
}

/// Killing begins so long before the leases end.
const MARGIN: Ms = 500;

impl World {
    pub(super) fn beat_after(&mut self, at: usize, pause: Ms) {
        self.agents[at].beat += 1;
        let beat = self.agents[at].beat;
        self.after_at(pause, at, Mine::Beat(beat));
    }

    /// Something changed that the mediator should know.
    pub(crate) fn beat_soon(&mut self, at: usize) {
        if self.agents[at].advertising.is_some() {
            self.agents[at].again = true;
        } else {
            let pause = self.rng.below(300);
            self.beat_after(at, pause);
        }
    }

    pub(super) fn advert(&mut self, at: usize) {
        self.watch(at);
        let triple = |key: &StepKey| (key.run.clone(), key.seq, key.attempt);
        let proc = &mut self.agents[at];
        let (stopping, goodbye) = (proc.stage > Stage::Working, proc.stage == Stage::Goodbye);
        let advert = Advert {
            who: proc.speaker(),
            label: String::new(),
            advert_no: proc.core.next_advert(),
            replaces: proc.replaces.clone(),
            capabilities: proc.skills.clone(),
            policy: proc.policy.clone(),
            stopping,
            goodbye,
            running: proc.core.running().map(triple).collect(),
            finished: proc.core.finished().map(triple).collect(),
            agent_version: String::new(),
        };
        // From here on the mediator may hear that less is held back than it acknowledged.
        proc.acked.drain = proc.acked.drain.min(advert.policy.drain);
        proc.acked.stopping &= stopping;
        let (rev, sent) = (proc.core.known_rev(), BootTime::from_millis(self.now));
        let (instance, streams, drain) = (advert.who.instance.clone(), advert.who.streams.clone(), advert.policy.drain);
        let id = self.ask(at, Body::Advert(Box::new(advert)));
        let under_way = Advertising { id, sent, rev, instance, streams, drain, stopping, goodbye };
        self.agents[at].advertising = Some(under_way);
    }

    pub(super) fn advert_answered(&mut self, at: usize, answer: Answer) {
        let Some(mark) = self.agents[at].advertising.take() else { return };
        let again = std::mem::take(&mut self.agents[at].again);
        let interval = self.settings.renew.millis() * self.rng.between(80, 100) / 100;
        let backoff = self.rng.between(20, 2_000);
        let pause = match answer {
            Answer::Advert(Ok(reply)) => {
                self.accepted(at, &mark, reply);
                if mark.goodbye {
                    return self.exit(at);
                }
                interval
            }
            Answer::Advert(Err(Refusal::Superseded { .. })) => {
                match self.superseded(at, &mark.instance, &mark.streams) {
                    Superseded::Resend => 0,
                    Superseded::Idle => interval,
                }
            }
            Answer::Advert(Err(_)) => interval,
            Answer::Down | Answer::Told | Answer::Report(_) => backoff,
        };
        self.beat_after(at, if again { 0 } else { pause });
    }

    fn accepted(&mut self, at: usize, mark: &Advertising, reply: AdvertReply) {
        let ttl = self.settings.horizon();
        let proc = &mut self.agents[at];
        if mark.instance != proc.instance {
            return;
        }
        if !proc.core.is_accepted() {
            proc.disk.acknowledged = Some(proc.instance.clone());
            proc.disk.started.clear();
        }
        proc.was_accepted = true;
        proc.told_stopping |= mark.stopping;
        let reply = Reply {
            rev: reply.rev,
            leases: reply.leases,
            policy: reply.policy,
            interval: Duration::default(),
            ttl,
            stream: reply.stream,
        };
        let gone = proc.core.apply(&reply, mark.sent, mark.rev);
        proc.acked = Acked { drain: proc.core.policy().drain.min(mark.drain), stopping: mark.stopping };
        let deadline = mark.sent.plus(ttl).millis();
        self.end_leases(at, &gone);
        self.after_at((deadline - MARGIN).saturating_sub(self.now), at, Mine::Watch);
        self.open_stream(at);
        self.deliver(at);
        self.leave_if_idle(at);
    }

    /// Ends what runs when its leases are about to.
    pub(super) fn watch(&mut self, at: usize) {
        let proc = &self.agents[at];
        let over = proc.core.deadline().is_some_and(|(end, _)| self.now + MARGIN >= end.millis());
        if proc.exec.is_some() && over {
            self.count("killed at the end of the time to live");
            let message = "its time to live ended".to_owned();
            self.end_exec(at, Outcome::NotCompleted { reason: FailReason::Killed, message });
        }
    }
}
