//! The network: it loses, delays, doubles and reorders calls. A stream keeps its order until it breaks, and then
//! brings nothing more.

use crate::{
    event::{Answer, Body, Call, CallId, Conn, Event, From, Item, Mine, Ms, To},
    world::World,
};

/// Which way is cut.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Cut {
    pub(crate) until: Ms,
    pub(crate) out: bool,
    pub(crate) back: bool,
}

impl World {
    fn delay(&mut self) -> Ms {
        if self.calm.is_none() && self.rng.chance(self.luck.late) {
            // Shorter than the horizon by far: a connection is given up long before.
            let longest = *self.rng.pick(&[200, 2_000, 20_000]);
            self.rng.between(20, longest)
        } else {
            self.rng.between(1, 12)
        }
    }

    fn is_cut(&self, at: usize, out: bool) -> bool {
        let cut = self.agents[at].cut;
        cut.until > self.now && (if out { cut.out } else { cut.back })
    }

    /// A call sets out for the mediator.
    pub(crate) fn call(&mut self, from: Option<usize>, call: Call) {
        if from.is_some_and(|at| self.is_cut(at, true)) || self.rng.chance(self.luck.lose) {
            return self.count("messages lost");
        }
        if self.rng.chance(self.luck.double) {
            self.count("messages doubled");
            // The second may come when much else has been said.
            let delay = self.delay() + if self.rng.chance(500) { self.rng.between(500, 20_000) } else { 0 };
            self.after(delay, Event::Arrive(Box::new(call.clone())));
        }
        let delay = self.delay();
        self.after(delay, Event::Arrive(Box::new(call)));
    }

    /// An agent's call, under a fresh number; silence is noticed after five seconds.
    pub(crate) fn ask(&mut self, at: usize, body: Body) -> CallId {
        let id = self.names.number();
        let from = From::Agent(self.to(at), id);
        self.call(Some(at), Call { from, body });
        self.after_at(5_000, at, Mine::TimedOut(id));
        id
    }

    pub(crate) fn answer(&mut self, from: From, answer: Answer) {
        match from {
            From::Agent(to, id) => {
                if self.is_cut(to.at, false) || self.rng.chance(self.luck.lose) {
                    return self.count("messages lost");
                }
                let delay = self.delay();
                self.after(delay, Event::Agent(to, Mine::Answer(id, answer)));
            }
            From::Client(at) => {
                if !matches!(answer, Answer::Down) && !self.rng.chance(self.luck.lose) {
                    let delay = self.delay();
                    self.after(delay, Event::Accepted(at));
                }
            }
            From::Stream(_) | From::Nobody => {}
        }
    }

    /// An item of a work stream, behind those before it.
    pub(crate) fn item(&mut self, conn: Conn, to: To, item: Item) {
        if self.broken.contains(&conn) {
            return;
        }
        if self.is_cut(to.at, false) || self.rng.chance(self.luck.break_stream / 8) {
            return self.break_stream(conn, to);
        }
        let at = (self.now + self.delay()).max(self.last_item.get(&conn).copied().unwrap_or(0));
        self.last_item.insert(conn, at);
        self.after(at - self.now, Event::Agent(to, Mine::Item(conn, item)));
    }

    /// What is on its way is lost, and the agent notices some time later.
    pub(crate) fn break_stream(&mut self, conn: Conn, to: To) {
        if self.broken.insert(conn) {
            self.count("streams broken");
            let noticed = self.rng.between(1, 10_000);
            self.after(noticed, Event::Agent(to, Mine::Item(conn, Item::Ended)));
        }
    }
}
