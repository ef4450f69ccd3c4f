//! A fleet, two agents, and what is on its way.

use std::sync::Arc;

use shared::{
    Duration, NodeId, Nonce, Principal, RunId, Timestamp,
    contract::{Contract, contract_hash, parse},
    domain::{Changes, Cx, Decide, Fleet, Ids, Refusal, Settings, Shape, Submit},
};

use crate::agent::{Agent, Message};

/// How often each act may still happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Budget {
    /// Adverts of each node.
    pub(crate) beats: u8,
    /// Intervals that pass; a lease lives for two.
    pub(crate) ticks: u8,
    pub(crate) lose: u8,
    pub(crate) double: u8,
    /// An agent is killed and comes back with what it had spooled.
    pub(crate) kill: u8,
    /// The mediator crashes after a commit: whatever is on its way is gone.
    pub(crate) blackout: u8,
    /// An owner takes the node back at a boundary.
    pub(crate) take: u8,
    /// An owner lends it again.
    pub(crate) give: u8,
    pub(crate) cancel: u8,
    /// Which messages take their time; the others are there at once.
    pub(crate) slow_adverts: bool,
    pub(crate) slow_steps: bool,
    pub(crate) slow_reports: bool,
    /// Both Runs are there from the beginning.
    pub(crate) submitted: bool,
}

#[derive(Debug, Clone, Default)]
struct Counter(u128);

impl Ids for Counter {
    fn nonce(&mut self) -> Nonce {
        self.0 += 1;
        Nonce::from_bits(self.0)
    }
}

pub(crate) const TICK: Duration = Duration::from_secs(10);
const RUNS: [&str; 2] = [
    "{requires: [{as: b, capability: build}],
      steps: [{id: s, uses: b, run: [x]}, {id: t, uses: b, run: [x]}], on_lost: {retry: 1}}",
    "{requires: [{as: b, capability: build, count: 2}],
      steps: [{id: s, uses: b, run: [x], needs: []}, {id: t, uses: 'b[1]', run: [x], needs: []}]}",
];

#[derive(Debug, Clone)]
pub(crate) struct State {
    pub(crate) fleet: Fleet,
    pub(crate) now: Timestamp,
    pub(crate) agents: Vec<Agent>,
    pub(crate) net: Vec<Message>,
    pub(crate) budget: Budget,
    /// How many Runs are submitted.
    pub(crate) submitted: usize,
    pub(crate) broken: Option<String>,
    pub(crate) settings: Settings,
    ids: Counter,
}

pub(crate) fn run_id(at: usize) -> RunId {
    RunId::new(&format!("r{at}")).unwrap()
}

fn contract(at: usize) -> Arc<Contract> {
    static PARSED: std::sync::OnceLock<Vec<Arc<Contract>>> = std::sync::OnceLock::new();
    PARSED.get_or_init(|| RUNS.iter().map(|text| Arc::new(parse(text.as_bytes()).unwrap())).collect())[at].clone()
}

impl State {
    /// Both agents are known and idle.
    pub(crate) fn new(budget: Budget) -> Self {
        let agents = ["a", "b"].iter().map(|name| Agent::new(NodeId::new(name).unwrap(), budget.beats)).collect();
        let mut state = Self {
            fleet: Fleet::default(),
            now: Timestamp::from_millis(1_000_000_000),
            agents,
            net: Vec::new(),
            budget,
            submitted: 0,
            broken: None,
            settings: Settings {
                renew: TICK,
                factor: 2,
                reserve_after: Duration::from_secs(3_600),
                ..Settings::default()
            },
            ids: Counter::default(),
        };
        for at in 0..2 {
            state.exchange(at);
        }
        state
    }

    pub(crate) fn is_all_submitted(&self) -> bool {
        self.submitted == RUNS.len()
    }

    pub(crate) fn submit(&mut self) {
        let contract = contract(self.submitted);
        let submit = Submit {
            run: run_id(self.submitted),
            principal: Principal::new("anna").unwrap(),
            contract_hash: contract_hash(&contract).into(),
            shape: Shape::new(&contract.requires),
            contract,
        };
        self.submitted += 1;
        let _never_refused = self.apply(&submit);
    }

    /// Applies a command and looks at what it did.
    pub(crate) fn apply<D: Decide>(&mut self, command: &D) -> Result<D::Answer, Refusal> {
        let before = self.fleet.clone();
        let mut changes = Changes::default();
        let answer = self.fleet.apply(command, &mut Cx::new(self.now, &self.settings, &mut self.ids, &mut changes));
        if answer.is_err() && self.fleet != before {
            self.fail("a refused command changed the fleet".to_owned());
        }
        self.look(&before, &changes);
        answer
    }

    pub(crate) fn fail(&mut self, why: String) {
        self.broken.get_or_insert(why);
    }
}
