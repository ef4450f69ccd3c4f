//! When two states are the same: names of leases, revisions and the time of day do not matter, only their order and
//! what is left.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    hash::{DefaultHasher, Hash as _, Hasher as _},
};

use shared::{Nonce, Timestamp, domain::StepState};

use crate::{
    agent::{Message, Work},
    state::{State, TICK},
};

/// A state's identity. 128 bits, so that two states are not taken for one.
pub(crate) fn of(state: &State) -> (u64, u64) {
    let text = Names::new(state).tell(state);
    let hash = |salt: u8| {
        let mut hasher = DefaultHasher::new();
        (salt, &text).hash(&mut hasher);
        hasher.finish()
    };
    (hash(1), hash(2))
}

struct Names {
    nonces: BTreeMap<Nonce, usize>,
    revs: BTreeMap<i64, usize>,
    now: Timestamp,
}

impl Names {
    fn new(state: &State) -> Self {
        let mut revs: Vec<i64> = state.fleet.nodes().map(|node| node.rev).collect();
        revs.extend(state.agents.iter().map(|agent| agent.known_rev));
        for message in &state.net {
            match message {
                Message::Reply { reply, .. } => revs.push(reply.rev),
                Message::Step { rev, .. } => revs.push(*rev),
                Message::Advert { .. } | Message::Report { .. } | Message::Answer { .. } => {}
            }
        }
        revs.sort_unstable();
        revs.dedup();
        let revs = revs.into_iter().enumerate().map(|(rank, rev)| (rev, rank)).collect();
        Self { nonces: BTreeMap::new(), revs, now: state.now }
    }

    fn nonce(&mut self, nonce: Nonce) -> usize {
        let next = self.nonces.len();
        *self.nonces.entry(nonce).or_insert(next)
    }

    /// Ticks left; what is past is past.
    fn left(&self, at: Timestamp) -> i64 {
        ((at.millis() - self.now.millis()) / TICK.millis().cast_signed()).max(0)
    }

    fn work(&mut self, work: &Work) -> String {
        format!("{}/{}/{}/{}", work.run, work.seq, work.attempt, self.nonce(work.nonce))
    }

    fn tell(mut self, state: &State) -> String {
        let mut text = format!("{:?} {}", state.budget, state.submitted);
        for node in state.fleet.nodes() {
            let agent = state.agents.iter().find(|it| it.node == node.id);
            let no = agent.map_or(0, |it| it.next_advert) - node.advert_no;
            let (rev, left) = (self.revs[&node.rev], self.left(node.expires_at));
            write!(text, "\nN {} {} {no} {:?} {left} {rev}", node.id, node.instance, node.policy.drain).unwrap();
            if let Some(lease) = state.fleet.lease(&node.id) {
                let (nonce, left) = (self.nonce(lease.nonce), self.left(lease.not_after));
                write!(text, " held {} {nonce} {left}", lease.run).unwrap();
            }
        }
        for run in state.fleet.runs.values() {
            let cause = run.cause().map_or("", |cause| cause.as_str());
            write!(text, "\nR {} {} {cause} {} {:?}", run.id, run.state.as_str(), run.losses, run.nodes()).unwrap();
            for step in &run.steps {
                let on = match &step.state {
                    StepState::Claimed { node, .. } => node.as_str(),
                    _ => "",
                };
                write!(text, " {}{on} {}", step.state.as_str(), step.attempt).unwrap();
                for attempt in &step.attempts {
                    let nonce = self.nonce(attempt.nonce);
                    let answer = attempt.answer.as_ref().map_or("", |it| it.state.as_str());
                    write!(text, "({} {nonce} {answer})", attempt.instance).unwrap();
                }
            }
        }
        for agent in &state.agents {
            let rev = self.revs[&agent.known_rev];
            let left = agent.ends.map_or(-1, |at| self.left(at));
            write!(text, "\nA {} {} {:?} {:?}", agent.life, agent.beats, agent.drain, agent.acked).unwrap();
            write!(text, " {rev} {left} {:?}", agent.seen).unwrap();
            for (run, nonce) in &agent.known {
                write!(text, " known {run} {}", self.nonce(*nonce)).unwrap();
            }
            for nonce in &agent.over {
                write!(text, " over {}", self.nonce(*nonce)).unwrap();
            }
            if let Some(work) = &agent.exec {
                write!(text, " runs {}", self.work(work)).unwrap();
            }
            if let Some((work, killed)) = &agent.spool {
                write!(text, " spooled {} {killed}", self.work(work)).unwrap();
            }
        }
        let mut net: Vec<String> = state.net.iter().map(|message| self.message(state, message)).collect();
        net.sort_unstable();
        text.push_str(&net.join("\n"));
        text
    }

    fn message(&mut self, state: &State, message: &Message) -> String {
        match message {
            Message::Advert { from, life, advert, sent } => {
                let no = state.agents[*from].next_advert - advert.advert_no;
                let (drain, left) = (advert.policy.drain, self.left(*sent + state.settings.horizon()));
                format!("M advert {from} {life} {no} {drain:?} {left} {:?} {:?}", advert.running, advert.finished)
            }
            Message::Reply { to, life, reply, sent } => {
                let leases: Vec<_> = reply.leases.iter().map(|(run, nonce)| (run, self.nonce(*nonce))).collect();
                let (rev, left) = (self.revs[&reply.rev], self.left(*sent + state.settings.horizon()));
                format!("M reply {to} {life} {rev} {left} {:?} {leases:?}", reply.policy.drain)
            }
            Message::Step { to, life, work, rev } => {
                format!("M step {to} {life} {} {}", self.work(work), self.revs[rev])
            }
            Message::Report { from, life, work, killed } => {
                format!("M report {from} {life} {} {killed}", self.work(work))
            }
            Message::Answer { to, life, work, settled, over } => {
                format!("M answer {to} {life} {} {settled} {over}", self.work(work))
            }
        }
    }
}
