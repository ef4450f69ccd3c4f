//! The work stream: opened while the mediator knows who speaks, and obeyed.

use shared::domain::Refusal;

use super::Superseded;
use crate::{
    agent_core::{Received, StepKey},
    clock::BootTime,
    event::{Body, Conn, Item, Mine},
    world::World,
};

impl World {
    pub(super) fn open_stream(&mut self, at: usize) {
        let fresh = self.names.stream();
        let to = self.to(at);
        let proc = &mut self.agents[at];
        if proc.conn.is_some() || !proc.core.is_accepted() {
            return;
        }
        proc.core.stream_drawn(fresh);
        let who = proc.speaker();
        let conn = self.names.number();
        let proc = &mut self.agents[at];
        (proc.conn, proc.is_open) = (Some(conn), false);
        proc.sent_streams.clone_from(&who.streams);
        self.call(Some(at), crate::event::Call { from: crate::event::From::Nobody, body: Body::Open(who, conn, to) });
        self.after_at(5_000, at, Mine::TimedOut(conn));
    }

    pub(super) fn stream_ended(&mut self, at: usize) {
        self.agents[at].conn = None;
        let pause = self.rng.between(20, 1_000);
        self.after_at(pause, at, Mine::Reopen);
    }

    pub(super) fn obey(&mut self, at: usize, conn: Conn, item: Item) {
        if self.agents[at].conn != Some(conn) {
            return;
        }
        let proc = &mut self.agents[at];
        match item {
            Item::Opened(stream) => {
                proc.is_open = true;
                proc.core.stream_acknowledged(&stream);
            }
            Item::Step(step) => {
                let key = StepKey { run: step.run.clone(), seq: step.seq, attempt: step.attempt };
                if proc.core.is_lapsed(BootTime::from_millis(self.now)) {
                    self.count("steps that came after the time to live");
                    self.say(|_| format!("{key} waits until an advert is accepted again"));
                    return self.beat_soon(at);
                }
                match proc.core.receive(&key, step.nonce, step.rev) {
                    Received::Ignore(why) => self.say(|_| format!("{key} is not started: {why}")),
                    Received::Start(gone) => {
                        proc.jobs.push_back(step);
                        self.end_leases(at, &gone);
                        self.next_job(at);
                    }
                }
            }
            Item::Stop(run, nonce, rev) => {
                let lease = (run, nonce);
                if proc.core.stop(&lease, rev) {
                    self.end_leases(at, &[lease]);
                }
            }
            Item::Ended => self.stream_ended(at),
            Item::Refused(Refusal::Superseded { .. }) => {
                let (instance, streams) = (proc.instance.clone(), proc.sent_streams.clone());
                if self.superseded(at, &instance, &streams) == Superseded::Resend {
                    self.stream_ended(at);
                }
            }
            Item::Refused(_) => self.stream_ended(at),
        }
    }
}
