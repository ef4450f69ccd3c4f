//! A fake agent of one node. What a message means to it is decided by the real agent's own core; around it are
//! a disk that outlives the process, a heartbeat, a work stream, one step at a time, and results on their way.

mod beat;
mod deliver;
mod stream;
mod work;

use std::collections::{BTreeSet, VecDeque};

use shared::{
    InstanceId, NodeId, Principal, StreamId, Timestamp,
    contract::AttrValue,
    domain::{Capability, ClaimedStep, Drain, Policy, Speaker},
};

pub(crate) use self::work::Exec;
use self::{
    beat::Advertising,
    deliver::{Reporting, Spooled},
};
use crate::{
    agent_core::{LeaseKey, NodeCore, StepKey},
    contracts::{KINDS, WORDS},
    event::{Conn, Event, Mine, To, node_id},
    net::Cut,
    rng::Rng,
    world::World,
};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) enum Stage {
    #[default]
    Working,
    Stopping,
    Goodbye,
}

/// What outlives the process, unless the disk is lost with it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Disk {
    acknowledged: Option<InstanceId>,
    started: Vec<InstanceId>,
    spool: VecDeque<Spooled>,
    folders: BTreeSet<LeaseKey>,
}

/// What the mediator has acknowledged and the agent has not taken back since.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Acked {
    pub(crate) drain: Drain,
    pub(crate) stopping: bool,
}

#[derive(Debug, Clone)]
pub(crate) struct Proc {
    pub(crate) node: NodeId,
    owner: Principal,
    pub(crate) life: u32,
    pub(crate) up: bool,
    /// A copy that was switched off for good.
    pub(crate) is_retired: bool,
    /// What came while the machine was suspended.
    pub(crate) frozen: Option<Vec<Mine>>,
    pub(crate) cut: Cut,
    /// What it can do, and what it could do on its best day.
    pub(crate) skills: Vec<Capability>,
    pub(crate) all_skills: Vec<Capability>,
    /// The policy file.
    pub(crate) policy: Policy,
    pub(crate) stage: Stage,
    told_stopping: bool,
    pub(crate) core: NodeCore,
    pub(crate) instance: InstanceId,
    replaces: Vec<InstanceId>,
    pub(crate) disk: Disk,
    advertising: Option<Advertising>,
    /// Only the timer with this number counts.
    beat: u32,
    /// Something changed while an advert was under way.
    again: bool,
    pub(crate) conn: Option<Conn>,
    is_open: bool,
    sent_streams: Vec<StreamId>,
    jobs: VecDeque<Box<ClaimedStep>>,
    pub(crate) exec: Option<Exec>,
    reporting: Option<Reporting>,
    pub(crate) acked: Acked,
    /// The present instance was accepted, and whether another process for the node was alive since.
    was_accepted: bool,
    pub(crate) rival: bool,
    /// What a copy of the running machine had in hand: nothing can keep that from happening twice.
    pub(crate) copied: BTreeSet<StepKey>,
}

impl Proc {
    pub(crate) fn draw(at: usize, rng: &mut Rng) -> Self {
        let mut skills = Vec::new();
        for (i, word) in WORDS.iter().enumerate() {
            if i == 0 || rng.chance(400) {
                let mut attrs = std::collections::BTreeMap::new();
                if rng.chance(500) {
                    attrs.insert("kind".to_owned(), AttrValue::Text((*rng.pick(&KINDS)).to_owned()));
                }
                if rng.chance(500) {
                    attrs.insert("cores".to_owned(), AttrValue::Number(rng.below(10).cast_signed()));
                }
                skills.push(Capability { name: (*word).to_owned(), attrs });
            }
        }
        Self {
            node: node_id(at),
            owner: Principal::new("owner").unwrap(),
            life: 0,
            up: false,
            is_retired: false,
            frozen: None,
            cut: Cut::default(),
            all_skills: skills.clone(),
            skills,
            policy: Policy::default(),
            stage: Stage::Working,
            told_stopping: false,
            core: NodeCore::default(),
            instance: InstanceId::new("none").unwrap(),
            replaces: Vec::new(),
            disk: Disk::default(),
            advertising: None,
            beat: 0,
            again: false,
            conn: None,
            is_open: false,
            sent_streams: Vec::new(),
            jobs: VecDeque::new(),
            exec: None,
            reporting: None,
            acked: Acked::default(),
            was_accepted: false,
            rival: false,
            copied: BTreeSet::new(),
        }
    }

    fn speaker(&self) -> Speaker {
        Speaker {
            node: self.node.clone(),
            instance: self.instance.clone(),
            streams: self.core.streams().to_vec(),
            principal: self.owner.clone(),
        }
    }

    /// The process is gone; its disk stays.
    pub(crate) fn die(&mut self) {
        *self = Self {
            life: self.life + 1,
            up: false,
            frozen: None,
            stage: Stage::Working,
            told_stopping: false,
            core: NodeCore::default(),
            replaces: Vec::new(),
            advertising: None,
            conn: None,
            is_open: false,
            jobs: VecDeque::new(),
            exec: None,
            reporting: None,
            acked: Acked::default(),
            was_accepted: false,
            rival: false,
            copied: BTreeSet::new(),
            ..self.clone()
        };
    }
}

/// What to do about a message that was refused as superseded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Superseded {
    Resend,
    Idle,
}

impl World {
    pub(crate) fn agent(&mut self, to: To, mine: Mine) {
        let proc = &mut self.agents[to.at];
        if !proc.up || proc.life != to.life {
            return;
        }
        if let Some(frozen) = &mut proc.frozen {
            frozen.push(mine);
            return;
        }
        let at = to.at;
        match mine {
            Mine::Answer(id, answer) => {
                if self.agents[at].advertising.as_ref().is_some_and(|it| it.id == id) {
                    self.advert_answered(at, answer);
                } else if self.agents[at].reporting.as_ref().is_some_and(|it| it.id == id) {
                    self.report_answered(at, answer);
                }
            }
            Mine::TimedOut(id) => {
                let proc = &self.agents[at];
                if proc.advertising.as_ref().is_some_and(|it| it.id == id) {
                    self.advert_answered(at, crate::event::Answer::Down);
                } else if proc.reporting.as_ref().is_some_and(|it| it.id == id) {
                    self.report_answered(at, crate::event::Answer::Down);
                } else if proc.conn == Some(id) && !proc.is_open {
                    self.stream_ended(at);
                }
            }
            Mine::Item(conn, item) => self.obey(at, conn, item),
            Mine::Beat(number) => {
                if self.agents[at].beat == number {
                    self.advert(at);
                }
            }
            Mine::Watch => self.watch(at),
            Mine::Reopen => self.open_stream(at),
            Mine::Deliver => self.deliver(at),
            Mine::StepEnds(key) => self.step_ends(at, &key),
            Mine::StopNow => self.stop_now(at),
            Mine::Exit => self.exit(at),
        }
    }

    /// A process starts on what its disk says.
    pub(crate) fn boot(&mut self, at: usize) {
        if self.agents[at].up || self.agents[at].is_retired {
            return;
        }
        let instance = self.names.instance();
        let proc = &mut self.agents[at];
        proc.up = true;
        proc.instance = instance.clone();
        proc.replaces = proc.disk.acknowledged.iter().chain(&proc.disk.started).cloned().collect();
        proc.disk.started.push(instance);
        for lease in &proc.disk.folders {
            proc.core.found(lease.clone());
        }
        for spooled in &mut proc.disk.spool {
            (spooled.dropped, spooled.unanswered) = (false, false);
            proc.core.found_result(spooled.key.clone(), spooled.nonce);
        }
        self.note_rivals(at);
        self.say(|world| format!("{} boots as {}", world.agents[at].node, world.agents[at].instance));
        self.beat_after(at, 0);
    }

    pub(crate) fn resume(&mut self, at: usize) {
        let Some(frozen) = self.agents[at].frozen.take() else { return };
        self.say(|world| format!("{} is resumed", world.agents[at].node));
        // It kills first and talks afterwards.
        self.watch(at);
        for mine in frozen {
            self.after_at(0, at, mine);
        }
    }

    /// Another speaks for the node, or the message was older than what was said since.
    fn superseded(&mut self, at: usize, instance: &InstanceId, streams: &[StreamId]) -> Superseded {
        let proc = &mut self.agents[at];
        if *instance != proc.instance || proc.core.lacks_newest(streams) {
            return Superseded::Resend;
        }
        let groundless = proc.was_accepted && !proc.rival;
        let who = format!("{} {}", proc.node, proc.instance);
        proc.core.supersede("another speaks".to_owned());
        proc.instance = self.names.instance();
        proc.replaces.clear();
        proc.disk.acknowledged = None;
        proc.disk.started = vec![proc.instance.clone()];
        proc.conn = None;
        proc.acked = Acked::default();
        proc.was_accepted = false;
        self.count("superseded");
        self.say(|_| format!("{who} is superseded"));
        if groundless {
            self.rules.fail("ghost", || format!("{who} is superseded, and nobody else was alive for the node"));
        }
        self.drop_exec(at);
        self.leave_if_idle(at);
        Superseded::Idle
    }

    /// Told to stop.
    pub(crate) fn terminate(&mut self, at: usize) {
        let proc = &mut self.agents[at];
        if !proc.up || proc.stage > Stage::Working {
            return;
        }
        proc.stage = Stage::Stopping;
        self.count("agents told to stop");
        self.say(|world| format!("{} is told to stop", world.agents[at].node));
        self.beat_soon(at);
        self.after_at(20_000, at, Mine::StopNow);
        self.after_at(30_000, at, Mine::Exit);
    }

    fn leave_if_idle(&mut self, at: usize) {
        let proc = &mut self.agents[at];
        let unclaimable = proc.told_stopping || proc.core.superseded().is_some();
        let idle = proc.exec.is_none() && proc.core.running().next().is_none() && proc.disk.spool.is_empty();
        if proc.stage == Stage::Stopping && unclaimable && idle {
            proc.stage = Stage::Goodbye;
            self.beat_soon(at);
            self.after_at(3_000, at, Mine::Exit);
        }
    }

    fn exit(&mut self, at: usize) {
        self.say(|world| format!("{} exits", world.agents[at].node));
        self.agents[at].die();
        let back = if self.calm.is_some() { 1_000 } else { self.rng.between(100, 60_000) };
        self.after(back, Event::Boot(at));
    }

    /// Whether somebody else is up for this node.
    fn note_rivals(&mut self, at: usize) {
        let node = self.agents[at].node.clone();
        let rival = self.has_rival(at);
        for proc in self.agents.iter_mut().filter(|proc| proc.node == node) {
            proc.rival |= rival;
        }
    }

    fn has_rival(&self, at: usize) -> bool {
        self.agents.iter().enumerate().any(|(other, it)| other != at && it.up && it.node == self.agents[at].node)
    }

    pub(crate) fn since(&mut self) -> Option<Timestamp> {
        // The agent's wall clock is for show only, and may be anywhere.
        Some(Timestamp::from_millis(self.rng.below(1 << 42).cast_signed()))
    }
}

impl World {
    /// A copy of a running machine goes on by itself: its connections are gone, its process runs.
    pub(crate) fn wake_copy(&mut self, of: usize, at: usize) {
        let keys: BTreeSet<StepKey> = self.agents[at].core.running().cloned().collect();
        self.note_rivals(at);
        let instance = self.agents[at].instance.clone();
        self.rules.heard.remove(&instance);
        self.rules.copied.extend(self.agents[at].core.streams().iter().cloned());
        for proc in [of, at] {
            self.agents[proc].copied.extend(keys.iter().cloned());
        }
        let pause = self.rng.below(2_000);
        let proc = &mut self.agents[at];
        (proc.conn, proc.advertising, proc.reporting, proc.again) = (None, None, None, false);
        let running = proc.exec.as_ref().map(|exec| exec.key.clone());
        let deadline = proc.core.deadline().map(|(end, _)| end.millis());
        self.beat_after(at, pause);
        self.after_at(pause, at, Mine::Reopen);
        self.after_at(pause, at, Mine::Deliver);
        if let Some(key) = running {
            let takes = self.rng.between(1, 20_000);
            self.after_at(takes, at, Mine::StepEnds(key));
        }
        if let Some(end) = deadline {
            self.after_at(end.saturating_sub(self.now + 500), at, Mine::Watch);
        }
        if self.agents[at].stage > Stage::Working {
            self.after_at(10_000, at, Mine::Exit);
        }
    }
}
