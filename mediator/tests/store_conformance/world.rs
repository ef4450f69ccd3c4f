//! A small fleet to play with: random commands, always such as could really come.

use std::{collections::BTreeMap, sync::Arc};

use proptest::prelude::*;
use shared::{
    Duration, InstanceId, NodeId, Nonce, Principal, RunId, StreamId, Timestamp,
    contract::Contract,
    domain::{
        Advert, Cancel, Capability, Changes, Claim, Cx, Decide, Drain, FailReason, Fleet, Ids, OpenWork, Outcome,
        Policy, Reap, Refusal, Report, Rescan, Settings, Shape, Speaker, StepState, Submit, Touches,
    },
};

pub(crate) const SETTINGS: Settings = Settings {
    renew: Duration::from_secs(10),
    factor: 6,
    max_per_run: 3,
    reserve_after: Duration::from_secs(300),
    restart_grace: None,
};

/// Read without the checks of a submission, as the store reads them.
const CONTRACTS: [&str; 5] = [
    r#"{"requires": [{"as": "a", "capability": "build"}], "steps": [{"id": "one", "uses": "a", "run": ["x"]}]}"#,
    r#"{"work": {"system": "git", "change_id": "I5"},
        "requires": [{"as": "a", "capability": "build", "attrs": {"os": "linux", "cores": {"min": 2}}}],
        "steps": [{"id": "one", "uses": "a", "run": ["x"], "out": ["f"], "timeout": "10s", "env": {"K": "v"}},
                  {"id": "two", "uses": "a", "run": ["y"], "in": {"from": ["f"]}, "out": ["g"]}],
        "success_when": [{"step": "two", "exit_code": 0, "produced": ["g"]}]}"#,
    r#"{"requires": [{"as": "a", "capability": "build"}, {"as": "b", "capability": "judge", "count": 2}],
        "steps": [{"id": "one", "uses": "a", "run": ["x"], "out": ["v"], "release": ["a"],
                   "dispatch": {"from": "v", "to": ["left", "right"]}},
                  {"id": "left", "uses": "b", "run": ["l"]}, {"id": "right", "uses": "b[1]", "run": ["r"]}]}"#,
    r#"{"requires": [{"as": "a", "capability": "judge"}, {"as": "b", "capability": "build"}],
        "steps": [{"id": "one", "uses": "a", "run": ["x"], "needs": []},
                  {"id": "two", "uses": "b", "run": ["y"], "needs": []}]}"#,
    r#"{"requires": [{"as": "a", "capability": "none"}], "steps": [{"id": "one", "uses": "a", "run": ["x"]}],
        "when_unmatched": "queue"}"#,
];

/// One thing that happens. Numbers choose among what there is.
#[derive(Debug, Clone)]
pub(crate) enum Op {
    Advert { node: u8, drain: Drain, stopping: bool, goodbye: bool, restart: bool, more: bool },
    Open { node: u8 },
    Submit { contract: u8 },
    Resubmit { run: u8 },
    Claim { node: u8 },
    Report { node: u8, exit: u8, pick: u8 },
    Cancel { run: u8 },
    Reap,
    Rescan(bool),
    Pass { secs: u8 },
}

pub(crate) fn ops() -> impl Strategy<Value = Op> {
    let drain = prop_oneof![6 => Just(Drain::None), 1 => Just(Drain::Graceful), 1 => Just(Drain::AtBoundary)];
    let rarely = || prop::bool::weighted(0.1);
    prop_oneof![
        6 => (0..4u8, drain, rarely(), rarely(), rarely(), rarely()).prop_map(
            |(node, drain, stopping, goodbye, restart, more)| Op::Advert { node, drain, stopping, goodbye, restart, more }
        ),
        1 => (0..4u8).prop_map(|node| Op::Advert {
            node, drain: Drain::None, stopping: false, goodbye: false, restart: true, more: true,
        }),
        1 => (0..4u8).prop_map(|node| Op::Open { node }),
        5 => (0..5u8).prop_map(|contract| Op::Submit { contract }),
        1 => any::<u8>().prop_map(|run| Op::Resubmit { run }),
        8 => (0..4u8).prop_map(|node| Op::Claim { node }),
        8 => (0..4u8, 0..6u8, 0..3u8).prop_map(|(node, exit, pick)| Op::Report { node, exit, pick }),
        2 => any::<u8>().prop_map(|run| Op::Cancel { run }),
        2 => Just(Op::Reap),
        1 => any::<bool>().prop_map(Op::Rescan),
        2 => (0..90u8).prop_map(|secs| Op::Pass { secs }),
    ]
}

/// What the outside of the fleet remembers.
pub(crate) struct World {
    pub(crate) now: Timestamp,
    pub(crate) runs: Vec<(RunId, u8)>,
    instances: BTreeMap<u8, u32>,
    advert_no: i64,
    ids: Counter,
    contracts: Vec<Arc<Contract>>,
}

pub(crate) struct Counter(u128);

impl Ids for Counter {
    fn nonce(&mut self) -> Nonce {
        self.0 += 1;
        Nonce::from_bits(self.0)
    }
}

/// Loads the Runs that a command touches before it is applied.
pub(crate) trait Load {
    async fn load(&mut self, fleet: &mut Fleet, touches: Touches, changes: &Changes);
}

/// For a fleet that has no store behind it.
impl Load for () {
    async fn load(&mut self, _: &mut Fleet, _: Touches, _: &Changes) {}
}

impl Load for mediator::store::FleetTx {
    async fn load(&mut self, fleet: &mut Fleet, touches: Touches, changes: &Changes) {
        let bad = self.load_runs(fleet, &touches, changes).await.unwrap();
        assert!(bad.is_empty(), "{bad:?}");
    }
}

fn node_id(node: u8) -> NodeId {
    NodeId::new(&format!("n{}/{}", node / 2, node % 2)).unwrap()
}

impl World {
    pub(crate) fn new(now: Timestamp) -> Self {
        let contracts = CONTRACTS.iter().map(|text| Arc::new(serde_json::from_str(text).unwrap())).collect();
        Self { now, runs: vec![], instances: BTreeMap::new(), advert_no: 0, ids: Counter(0), contracts }
    }

    fn speaker(&self, node: u8) -> Speaker {
        let life = self.instances.get(&node).copied().unwrap_or_default();
        Speaker {
            node: node_id(node),
            instance: InstanceId::new(&format!("i{node}-{life}")).unwrap(),
            streams: vec![StreamId::new(&format!("s{node}-{life}")).unwrap()],
            principal: Principal::new("yard").unwrap(),
        }
    }

    /// Applies what happens. Refusals are fine; they change nothing.
    pub(crate) async fn happen(&mut self, op: &Op, fleet: &mut Fleet, changes: &mut Changes, load: &mut impl Load) {
        match *op {
            Op::Advert { node, drain, stopping, goodbye, restart, more } => {
                let old = self.speaker(node);
                // What a restarted agent finds in its spool, if anything.
                let mut finished = vec![];
                if let Some(lease) = fleet.lease(&old.node).cloned().filter(|_| restart && more) {
                    load.load(fleet, Touches::from([lease.run.clone()]), changes).await;
                    let run = fleet.runs.get(&lease.run);
                    let claimed = run.and_then(|run| run.claimed_on(&old.node));
                    finished.extend(claimed.map(|step| (lease.run.clone(), step.seq, step.attempt)));
                }
                if restart {
                    *self.instances.entry(node).or_default() += 1;
                }
                let advert = self.advert(
                    node,
                    Policy {
                        drain,
                        reason: if drain == Drain::None { String::new() } else { "mine: \"now\" ☂".to_owned() },
                        since: (drain != Drain::None).then_some(self.now),
                        error: if stopping { "line 3: ?".to_owned() } else { String::new() },
                    },
                    more,
                );
                let advert = Advert { stopping, goodbye, replaces: vec![old.instance], finished, ..advert };
                self.apply(&advert, fleet, changes, load).await.ok();
            }
            Op::Open { node } => drop(self.apply(&OpenWork { who: self.speaker(node) }, fleet, changes, load).await),
            Op::Submit { contract } => {
                let run = RunId::new(&format!("run-{:04}", self.runs.len())).unwrap();
                self.runs.push((run.clone(), contract));
                self.submit(run, contract, fleet, changes, load).await;
            }
            Op::Resubmit { run } => {
                if let Some((run, contract)) = self.run(run) {
                    self.submit(run, contract, fleet, changes, load).await;
                }
            }
            Op::Claim { node } => drop(self.apply(&Claim { who: self.speaker(node) }, fleet, changes, load).await),
            Op::Report { node, exit, pick } => self.report(node, exit, pick, fleet, changes, load).await,
            Op::Cancel { run } => {
                if let Some((run, _)) = self.run(run) {
                    let by = Principal::new("ann").unwrap();
                    self.apply(&Cancel { run, by }, fleet, changes, load).await.ok();
                }
            }
            Op::Reap => drop(self.apply(&Reap, fleet, changes, load).await),
            Op::Rescan(startup) => {
                let rescan = if startup { Rescan::Startup } else { Rescan::Sweep };
                self.apply(&rescan, fleet, changes, load).await.ok();
            }
            Op::Pass { secs } => self.now = self.now + Duration::from_secs(secs.into()),
        }
    }

    fn run(&self, run: u8) -> Option<(RunId, u8)> {
        self.runs.get(usize::from(run) % self.runs.len().max(1)).cloned()
    }

    fn advert(&mut self, node: u8, policy: Policy, more: bool) -> Advert {
        self.advert_no += 1;
        let names: &[&str] = if more { &["build", "judge"] } else { [&["build"], &["judge"]][usize::from(node % 2)] };
        let attrs = serde_json::from_str(r#"{"os": "linux", "cores": 8, "gpu": false}"#).unwrap();
        let capability = |name: &&str| Capability { name: (*name).to_owned(), attrs: BTreeMap::clone(&attrs) };
        Advert {
            who: self.speaker(node),
            label: format!("bench {node} – 'left'"),
            advert_no: self.advert_no,
            replaces: vec![],
            capabilities: names.iter().map(capability).collect(),
            policy,
            stopping: false,
            goodbye: false,
            running: vec![],
            finished: vec![],
            agent_version: "0.1.0".to_owned(),
        }
    }

    async fn submit(
        &mut self,
        run: RunId,
        contract: u8,
        fleet: &mut Fleet,
        changes: &mut Changes,
        load: &mut impl Load,
    ) {
        let contract = self.contracts[usize::from(contract)].clone();
        let submit = Submit {
            run,
            principal: Principal::new("ann").unwrap(),
            contract_hash: format!("{:?}", contract.requires.len()).into(),
            shape: Shape::new(&contract.requires),
            contract,
        };
        self.apply(&submit, fleet, changes, load).await.ok();
    }

    /// What a node that holds a claimed step would say of it.
    async fn report(
        &mut self,
        node: u8,
        exit: u8,
        pick: u8,
        fleet: &mut Fleet,
        changes: &mut Changes,
        load: &mut impl Load,
    ) {
        let who = self.speaker(node);
        let Some(lease) = fleet.lease(&who.node).cloned() else { return };
        load.load(fleet, Touches::from([lease.run.clone()]), changes).await;
        let Some(step) = fleet.runs.get(&lease.run).and_then(|run| run.claimed_on(&who.node)) else { return };
        assert!(matches!(step.state, StepState::Claimed { .. }));
        let outcome = if exit == 5 {
            Outcome::NotCompleted { reason: FailReason::Timeout, message: "after 10s \u{0} 'x'".to_owned() }
        } else {
            Outcome::Completed { exit_code: i32::from(exit.saturating_sub(3)) }
        };
        let report = Report {
            run: lease.run,
            seq: step.seq,
            attempt: step.attempt,
            nonce: lease.nonce,
            outcome,
            produced: vec!["f".to_owned(), "g".to_owned()],
            invalid: None,
            log_bytes: u64::from(exit),
            fork_value: Some(Ok(["left", "right", "nowhere"][usize::from(pick)].to_owned())),
            who,
        };
        self.apply(&report, fleet, changes, load).await.ok();
    }

    /// Loads what the command touches, then applies it.
    pub(crate) async fn apply<D: Decide>(
        &mut self,
        command: &D,
        fleet: &mut Fleet,
        changes: &mut Changes,
        load: &mut impl Load,
    ) -> Result<D::Answer, Refusal> {
        load.load(fleet, command.touches(fleet, self.now), changes).await;
        fleet.apply(command, &mut Cx::new(self.now, &SETTINGS, &mut self.ids, changes))
    }
}
