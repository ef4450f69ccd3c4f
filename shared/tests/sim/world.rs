//! The virtual clock and what rings on it, from the first boot to the quiet at the end.

use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

use shared::{Duration, domain::Settings};

use crate::{
    agent::Proc,
    client::Client,
    event::{Conn, Event, Mine, Ms, Names, To},
    mediator::Mediator,
    plan::{Luck, Plan},
    rng::Rng,
    rules::Rules,
};

/// An event and when it is. Reversed, so that the heap gives the earliest; events of one moment in their order.
struct Due(Ms, u64, Event);

impl PartialEq for Due {
    fn eq(&self, other: &Self) -> bool {
        (self.0, self.1) == (other.0, other.1)
    }
}
impl Eq for Due {}
impl PartialOrd for Due {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Due {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (other.0, other.1).cmp(&(self.0, self.1))
    }
}

/// How a story ended.
#[derive(Debug)]
pub(crate) struct Story {
    pub(crate) broken: Option<String>,
    pub(crate) trace: Vec<String>,
    /// What happened how often: a simulation in which nothing happens proves nothing.
    pub(crate) counts: BTreeMap<&'static str, u64>,
}

pub(crate) struct World {
    pub(crate) now: Ms,
    pub(crate) rng: Rng,
    pub(crate) plan: Plan,
    pub(crate) luck: Luck,
    /// Faults are over since this moment.
    pub(crate) calm: Option<Ms>,
    pub(crate) settings: Settings,
    pub(crate) names: Names,
    pub(crate) mediator: Mediator,
    pub(crate) agents: Vec<Proc>,
    pub(crate) clients: Vec<Client>,
    pub(crate) rules: Rules,
    pub(crate) counts: BTreeMap<&'static str, u64>,
    /// Items of one stream arrive in order, and none after it broke.
    pub(crate) last_item: BTreeMap<Conn, Ms>,
    pub(crate) broken: BTreeSet<Conn>,
    heap: BinaryHeap<Due>,
    serial: u64,
    tracing: bool,
    trace: Vec<String>,
}

/// After the faults every Run has so long to end: many horizons, and every step of the longest line.
const PATIENCE: Ms = 4 * 3_600_000;

impl World {
    pub(crate) fn new(seed: u64, tracing: bool) -> Self {
        let mut rng = Rng::new(seed);
        let plan = Plan::draw(seed, &mut rng);
        let settings = Settings {
            max_per_run: plan.max_per_run,
            reserve_after: Duration::from_secs(plan.reserve_after),
            ..Settings::default()
        };
        let mut world = Self {
            now: 10_000_000,
            luck: plan.luck,
            calm: None,
            settings,
            names: Names::default(),
            mediator: Mediator::default(),
            agents: Vec::new(),
            clients: Vec::new(),
            rules: Rules::default(),
            counts: BTreeMap::new(),
            last_item: BTreeMap::new(),
            broken: BTreeSet::new(),
            heap: BinaryHeap::new(),
            serial: 0,
            tracing,
            trace: Vec::new(),
            rng,
            plan,
        };
        world.begin();
        world
    }

    fn begin(&mut self) {
        self.after(0, Event::MediatorStarts);
        for at in 0..self.plan.nodes {
            let proc = Proc::draw(at, &mut self.rng);
            self.agents.push(proc);
            let when = self.rng.below(5_000);
            self.after(when, Event::Boot(at));
        }
        let drawn: Vec<_> =
            (0..self.plan.contracts).map(|_| crate::contracts::draw(&mut self.rng, 3, self.luck.think > 900)).collect();
        for at in 0..self.plan.runs {
            let contract = self.rng.pick(&drawn).clone();
            self.clients.push(Client::new(at, contract));
            let last = if self.plan.rush { 15_000 } else { self.plan.trouble };
            let when = self.rng.between(4_000, last);
            self.after(when, Event::Submit(at));
        }
        self.after(3_000, Event::Fault);
        self.after(5_000, Event::Person);
        self.after(self.plan.trouble, Event::Calm);
    }

    /// Plays the story to its end.
    pub(crate) fn play(mut self) -> Story {
        while self.rules.broken.is_none() {
            let Some(Due(at, _, event)) = self.heap.pop() else { break };
            self.now = at;
            self.happen(event);
            let Some(since) = self.calm else { continue };
            if self.is_over() {
                self.last_look();
                break;
            }
            if self.now > since + PATIENCE {
                let left = self.what_is_left();
                self.rules.fail("quiescence", || format!("faults are over and this has not ended: {left}"));
            }
        }
        Story { broken: self.rules.broken, trace: self.trace, counts: self.counts }
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Arrive(call) => self.arrive(*call),
            Event::Group(life) => self.group(life),
            Event::MediatorStarts => self.mediator_starts(),
            Event::Reaper(life) => self.reaper(life),
            Event::Sweeper(life) => self.sweeper(life),
            Event::Agent(to, mine) => self.agent(to, mine),
            Event::Boot(at) => self.boot(at),
            Event::Resume(at) => self.resume(at),
            Event::Submit(at) => self.submit(at),
            Event::Accepted(at) => self.clients[at].accepted = true,
            Event::Person => self.person(),
            Event::Fault => self.fault(),
            Event::Calm => self.calm_down(),
        }
    }

    pub(crate) fn after(&mut self, ms: Ms, event: Event) {
        self.serial += 1;
        self.heap.push(Due(self.now + ms, self.serial, event));
    }

    /// Something for the present life of a process.
    pub(crate) fn after_at(&mut self, ms: Ms, at: usize, mine: Mine) {
        let to = self.to(at);
        self.after(ms, Event::Agent(to, mine));
    }

    pub(crate) fn to(&self, at: usize) -> To {
        To { at, life: self.agents[at].life }
    }

    pub(crate) fn say(&mut self, line: impl FnOnce(&Self) -> String) {
        if self.tracing {
            let line = format!("{:>9.3} {}", (self.now - 10_000_000) as f64 / 1_000.0, line(self));
            self.trace.push(line);
        }
    }

    pub(crate) fn count(&mut self, what: &'static str) {
        *self.counts.entry(what).or_default() += 1;
    }

    fn is_over(&self) -> bool {
        self.clients.iter().all(|client| client.accepted)
            && self.mediator.rows.runs.len() == self.clients.len()
            && self.mediator.rows.runs.values().all(|run| run.state.is_terminal() || self.may_wait(run))
            && self.mediator.rows.leases.is_empty()
    }

    /// A queued Run may wait for ever for what this fleet does not have, or for more than one Run may hold.
    fn may_wait(&self, run: &shared::domain::Run) -> bool {
        use shared::domain::{RunState, preview};
        let everybody = self.agents.iter().all(|proc| proc.is_retired || proc.core.is_accepted());
        run.state == RunState::Queued
            && everybody
            && preview(&self.mediator.fleet, &run.contract.requires, &self.settings, self.mediator_now())
                .is_err_and(|reject| reject.is_permanent())
    }

    fn what_is_left(&self) -> String {
        let runs = self.mediator.rows.runs.values().filter(|run| !run.state.is_terminal());
        let runs: Vec<String> = runs.map(crate::rules::show).collect();
        let leases: Vec<String> =
            self.mediator.rows.leases.values().map(|lease| format!("{} holds {}", lease.run, lease.node)).collect();
        let asked = self.clients.iter().filter(|client| !client.accepted).count();
        format!("runs {runs:?}, leases {leases:?}, {asked} submissions not answered")
    }
}
