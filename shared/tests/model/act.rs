//! What can happen next.

use shared::{
    Principal,
    domain::{Cancel, Claim, Drain, Reap, Refusal, RunState},
};

use crate::{
    agent::{Message, Work},
    state::{State, TICK, run_id},
};

#[derive(Debug, Clone)]
pub(crate) enum Act {
    Submit,
    Beat(usize),
    Deliver(usize),
    Lose(usize),
    Double(usize),
    /// The work stream of a node is told to look.
    Claim(usize),
    Finish(usize),
    Report(usize),
    Tick,
    Reap,
    Kill(usize),
    Blackout,
    Take(usize),
    Give(usize),
    Cancel,
}

impl State {
    pub(crate) fn possible(&self) -> Vec<Act> {
        let mut acts = Vec::new();
        let budget = self.budget;
        let mut can = |holds: bool, act: Act| {
            if holds {
                acts.push(act);
            }
        };
        can(!self.is_all_submitted(), Act::Submit);
        for at in 0..self.net.len() {
            can(true, Act::Deliver(at));
            can(budget.lose > 0, Act::Lose(at));
            can(budget.double > 0, Act::Double(at));
        }
        for (at, agent) in self.agents.iter().enumerate() {
            can(agent.beats > 0, Act::Beat(at));
            can(self.has_claim(at), Act::Claim(at));
            can(agent.exec.is_some(), Act::Finish(at));
            // Nothing is sent before an advert of this life was accepted.
            can(agent.spool.is_some() && agent.ends.is_some() && !self.is_reporting(at), Act::Report(at));
            can(budget.kill > 0, Act::Kill(at));
            can(budget.take > 0 && agent.drain == Drain::None, Act::Take(at));
            can(budget.give > 0 && agent.drain != Drain::None, Act::Give(at));
        }
        can(budget.ticks > 0, Act::Tick);
        can(self.fleet.leases().any(|lease| !lease.holds(self.now)), Act::Reap);
        can(budget.blackout > 0 && !self.net.is_empty(), Act::Blackout);
        can(budget.cancel > 0 && self.submitted > 0, Act::Cancel);
        acts
    }

    /// Whether a look at the node's step would send something that is not on its way yet.
    fn has_claim(&self, at: usize) -> bool {
        let on_its_way = self.net.iter().any(|it| matches!(it, Message::Step { to, .. } if *to == at));
        let id = &self.agents[at].node;
        let held = self.fleet.lease(id).filter(|lease| lease.holds(self.now));
        let run = held.and_then(|lease| self.fleet.runs.get(&lease.run));
        !on_its_way
            && run.is_some_and(|run| {
                run.claimed_on(id).is_some() || run.ready().any(|step| run.node_of_step(step.seq) == Some(id))
            })
    }

    fn is_reporting(&self, at: usize) -> bool {
        self.net.iter().any(|it| matches!(it, Message::Report { from, .. } if *from == at))
            || self.net.iter().any(|it| matches!(it, Message::Answer { to, .. } if *to == at))
    }

    pub(crate) fn take(&mut self, act: &Act) {
        self.act(act);
        while let Some(at) = self.net.iter().position(|message| !self.is_slow(message)) {
            let message = self.net.remove(at);
            self.deliver(message);
        }
    }

    const fn is_slow(&self, message: &Message) -> bool {
        match message {
            Message::Advert { .. } | Message::Reply { .. } => self.budget.slow_adverts,
            Message::Step { .. } => self.budget.slow_steps,
            Message::Report { .. } | Message::Answer { .. } => self.budget.slow_reports,
        }
    }

    fn act(&mut self, act: &Act) {
        match act {
            Act::Submit => self.submit(),
            Act::Beat(at) => self.beat(*at),
            Act::Deliver(at) => {
                let message = self.net.remove(*at);
                self.deliver(message);
            }
            Act::Lose(at) => {
                self.budget.lose -= 1;
                self.net.remove(*at);
            }
            Act::Double(at) => {
                self.budget.double -= 1;
                let message = self.net[*at].clone();
                self.deliver(message);
            }
            Act::Claim(at) => self.claim(*at),
            Act::Finish(at) => {
                if let Some(work) = self.agents[*at].exec.take() {
                    self.agents[*at].spool = Some((work, false));
                }
            }
            Act::Report(at) => {
                let agent = &self.agents[*at];
                if let Some((work, killed)) = agent.spool.clone() {
                    self.net.push(Message::Report { from: *at, life: agent.life, work, killed });
                }
            }
            Act::Tick => {
                self.budget.ticks -= 1;
                self.pass();
            }
            Act::Reap => drop(self.reap()),
            Act::Kill(at) => {
                self.budget.kill -= 1;
                self.agents[*at].die();
            }
            Act::Blackout => {
                self.budget.blackout -= 1;
                self.net.clear();
            }
            Act::Take(at) => {
                self.budget.take -= 1;
                self.agents[*at].drain = Drain::AtBoundary;
            }
            Act::Give(at) => {
                self.budget.give -= 1;
                self.agents[*at].drain = Drain::None;
            }
            Act::Cancel => {
                self.budget.cancel -= 1;
                let cancel = Cancel { run: run_id(0), by: Principal::new("boss").unwrap() };
                drop(self.apply(&cancel));
            }
        }
    }

    fn beat(&mut self, at: usize) {
        let agent = &mut self.agents[at];
        agent.beats = agent.beats.saturating_sub(1);
        agent.watch(self.now);
        let advert = Box::new(agent.advert());
        self.net.push(Message::Advert { from: at, life: agent.life, advert, sent: self.now });
    }

    fn claim(&mut self, at: usize) {
        let node = self.agents[at].node.clone();
        // The stream was opened by whoever speaks for the node.
        let Some(known) = self.fleet.node(&node).map(|node| node.instance.clone()) else { return };
        let life = (0..=self.agents[at].life).find(|life| self.agents[at].speaker(*life).instance == known);
        let Some(life) = life else { return };
        let who = self.agents[at].speaker(life);
        if let Ok(Some(step)) = self.apply(&Claim { who }) {
            let work = Work { run: step.run, seq: step.seq, attempt: step.attempt, nonce: step.nonce };
            self.net.push(Message::Step { to: at, life, work, rev: step.rev });
        }
    }

    fn deliver(&mut self, message: Message) {
        match message {
            Message::Advert { from, life, advert, sent } => {
                if let Ok(reply) = self.apply(&*advert) {
                    self.net.push(Message::Reply { to: from, life, reply, sent });
                }
            }
            Message::Reply { to, life, reply, sent } => {
                let ends = sent + self.settings.horizon();
                let now = self.now;
                if self.agents[to].life == life {
                    self.agents[to].learn(&reply, ends);
                    self.agents[to].watch(now);
                }
            }
            Message::Step { to, life, work, rev } => {
                let now = self.now;
                if self.agents[to].life == life && self.agents[to].receive(work.clone(), rev, now) {
                    self.begins(to, &work);
                }
            }
            Message::Report { from, life, work, killed } => {
                let report = self.agents[from].report(life, &work, killed);
                let answer = self.apply(&report);
                self.reported(&work, &answer);
                let settled = !matches!(answer, Err(Refusal::Superseded { .. }));
                let over = answer.is_ok_and(|it| matches!(it.run_state, "SUCCEEDED" | "FAILED"));
                self.net.push(Message::Answer { to: from, life, work, settled, over });
            }
            Message::Answer { to, life, work, settled, over } => {
                if self.agents[to].life == life && settled {
                    self.agents[to].answered(&work, over);
                }
            }
        }
    }

    /// One interval passes. Agents kill before their leases end.
    fn pass(&mut self) {
        self.now = self.now + TICK;
        for agent in &mut self.agents {
            agent.watch(self.now);
        }
        self.time_passed();
    }

    fn reap(&mut self) -> usize {
        self.reaping();
        self.apply(&Reap).unwrap_or_default()
    }

    /// An advert and its answer, with nothing in between.
    pub(crate) fn exchange(&mut self, at: usize) {
        self.beat(at);
        for _ in 0..2 {
            if let Some(message) = self.net.pop() {
                self.deliver(message);
            }
        }
    }

    /// Everything goes well from here on: all Runs must end.
    pub(crate) fn come_to_rest(&mut self) {
        self.net.clear();
        while !self.is_all_submitted() {
            self.submit();
        }
        for agent in &mut self.agents {
            agent.drain = Drain::None;
        }
        for round in 0..60 {
            for at in 0..self.agents.len() {
                self.exchange(at);
                if self.has_claim(at) {
                    self.take(&Act::Claim(at));
                }
                self.drain_net();
                self.take(&Act::Finish(at));
                self.take(&Act::Report(at));
                self.drain_net();
            }
            if round % 4 == 3 {
                self.pass();
                self.reap();
            }
        }
        let open =
            self.fleet.runs.values().find(|run| !matches!(run.state, RunState::Succeeded(_) | RunState::Failed(_)));
        if let Some(run) = open {
            let steps: Vec<&str> = run.steps.iter().map(|step| step.state.as_str()).collect();
            let text = format!("{} is {} for ever: {steps:?}", run.id, run.state.as_str());
            self.fail(text);
        }
        if self.fleet.leases().next().is_some() {
            self.fail("a lease is held for ever".to_owned());
        }
    }

    fn drain_net(&mut self) {
        while let Some(message) = self.net.pop() {
            self.deliver(message);
        }
    }
}
