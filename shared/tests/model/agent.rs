//! A small agent: one node, one step at a time, a spool, a time to live that counts from the sending.

use std::collections::BTreeSet;

use shared::{
    InstanceId, NodeId, Nonce, Principal, RunId, Seq, Timestamp,
    domain::{Advert, AdvertReply, Capability, Drain, FailReason, Outcome, Policy, Report, Speaker},
};

/// An execution that the agent was given.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Work {
    pub(crate) run: RunId,
    pub(crate) seq: Seq,
    pub(crate) attempt: u32,
    pub(crate) nonce: Nonce,
}

#[derive(Debug, Clone)]
pub(crate) enum Message {
    Advert {
        from: usize,
        life: u32,
        advert: Box<Advert>,
        sent: Timestamp,
    },
    Reply {
        to: usize,
        life: u32,
        reply: AdvertReply,
        sent: Timestamp,
    },
    Step {
        to: usize,
        life: u32,
        work: Work,
        rev: i64,
    },
    Report {
        from: usize,
        life: u32,
        work: Work,
        killed: bool,
    },
    /// What became of a report: whether it is said for good, and whether the Run is over.
    Answer {
        to: usize,
        life: u32,
        work: Work,
        settled: bool,
        over: bool,
    },
}

#[derive(Debug, Clone)]
pub(crate) struct Agent {
    pub(crate) node: NodeId,
    pub(crate) life: u32,
    pub(crate) next_advert: i64,
    pub(crate) beats: u8,
    /// The policy file, and what was acknowledged and not taken back since.
    pub(crate) drain: Drain,
    pub(crate) acked: Drain,
    /// When its leases end without another advert.
    pub(crate) ends: Option<Timestamp>,
    pub(crate) known_rev: i64,
    pub(crate) known: BTreeSet<(RunId, Nonce)>,
    pub(crate) over: BTreeSet<Nonce>,
    pub(crate) exec: Option<Work>,
    /// A result on disk, and whether the step was killed.
    pub(crate) spool: Option<(Work, bool)>,
    pub(crate) seen: BTreeSet<(RunId, Seq, u32)>,
}

impl Agent {
    pub(crate) const fn new(node: NodeId, beats: u8) -> Self {
        Self {
            node,
            life: 0,
            next_advert: 1,
            beats,
            drain: Drain::None,
            acked: Drain::None,
            ends: None,
            known_rev: 0,
            known: BTreeSet::new(),
            over: BTreeSet::new(),
            exec: None,
            spool: None,
            seen: BTreeSet::new(),
        }
    }

    fn instance(&self, life: u32) -> InstanceId {
        InstanceId::new(&format!("{}{life}", self.node)).unwrap()
    }

    pub(crate) fn speaker(&self, life: u32) -> Speaker {
        Speaker {
            node: self.node.clone(),
            instance: self.instance(life),
            streams: Vec::new(),
            principal: Principal::new("owner").unwrap(),
        }
    }

    pub(crate) fn advert(&mut self) -> Advert {
        let listed = |work: &Work| (work.run.clone(), work.seq, work.attempt);
        let advert = Advert {
            who: self.speaker(self.life),
            label: String::new(),
            advert_no: self.next_advert,
            replaces: (0..self.life).map(|life| self.instance(life)).collect(),
            capabilities: vec![Capability { name: "build".to_owned(), attrs: std::collections::BTreeMap::new() }],
            policy: Policy { drain: self.drain, ..Policy::default() },
            stopping: false,
            goodbye: false,
            running: self.exec.iter().map(listed).collect(),
            finished: self.spool.iter().map(|(work, _)| listed(work)).collect(),
            agent_version: String::new(),
        };
        self.next_advert += 1;
        self.acked = self.acked.min(self.drain);
        advert
    }

    pub(crate) fn report(&self, life: u32, work: &Work, killed: bool) -> Report {
        let outcome = if killed {
            Outcome::NotCompleted { reason: FailReason::Killed, message: "its time to live ended".to_owned() }
        } else {
            Outcome::Completed { exit_code: 0 }
        };
        Report {
            who: self.speaker(life),
            run: work.run.clone(),
            seq: work.seq,
            attempt: work.attempt,
            nonce: work.nonce,
            outcome,
            produced: Vec::new(),
            fork_value: None,
            invalid: None,
            log_bytes: 0,
        }
    }

    /// Learns from an accepted advert.
    pub(crate) fn learn(&mut self, reply: &AdvertReply, ends: Timestamp) {
        self.ends = Some(ends);
        if self.known_rev > reply.rev {
            return;
        }
        self.known_rev = reply.rev;
        self.acked = reply.policy.drain.min(self.drain);
        self.known = reply.leases.iter().cloned().collect();
        self.drop_what_is_not_known();
    }

    fn drop_what_is_not_known(&mut self) {
        let known = |work: &Work| self.known.contains(&(work.run.clone(), work.nonce));
        self.exec = self.exec.take().filter(known);
        self.spool = self.spool.take().filter(|(work, _)| known(work));
    }

    /// A step arrived. True: it is begun.
    pub(crate) fn receive(&mut self, work: Work, rev: i64, now: Timestamp) -> bool {
        let lease = (work.run.clone(), work.nonce);
        let late = self.known_rev >= rev && !self.known.contains(&lease);
        let lapsed = self.ends.is_none_or(|ends| ends <= now);
        if late || lapsed || self.over.contains(&work.nonce) || self.exec.is_some() {
            return false;
        }
        if !self.seen.insert((work.run.clone(), work.seq, work.attempt)) {
            return false;
        }
        if rev > self.known_rev {
            self.known_rev = rev;
            self.known = [lease].into();
            self.drop_what_is_not_known();
        }
        self.exec = Some(work);
        true
    }

    /// Time has come to kill what runs.
    pub(crate) fn watch(&mut self, now: Timestamp) {
        if self.ends.is_some_and(|ends| ends <= now)
            && let Some(work) = self.exec.take()
        {
            self.spool = Some((work, true));
        }
    }

    pub(crate) fn answered(&mut self, work: &Work, over: bool) {
        if self.spool.as_ref().is_some_and(|(it, _)| it == work) {
            self.spool = None;
        }
        if over {
            self.over.insert(work.nonce);
            self.known.remove(&(work.run.clone(), work.nonce));
            self.exec = self.exec.take().filter(|it| it.nonce != work.nonce);
        }
    }

    /// The process is gone; the disk stays.
    pub(crate) fn die(&mut self) {
        let found = self.spool.iter().map(|(work, _)| (work.run.clone(), work.seq, work.attempt));
        let seen = found.collect();
        *self = Self {
            life: self.life + 1,
            drain: self.drain,
            beats: self.beats + 1,
            spool: self.spool.take(),
            seen,
            ..Self::new(self.node.clone(), 0)
        };
    }
}
