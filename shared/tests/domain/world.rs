//! A fleet with agents, an own clock and own ids. After every command it looks that
//! * a refusal has changed nothing,
//! * every row that differs is named in the changes,
//! * all invariants hold, and a sweep would find nothing to promote.

use std::{collections::BTreeMap, sync::Arc};

use shared::{
    Duration, InstanceId, NodeId, Nonce, Principal, RunId, StreamId, Timestamp,
    contract::{AttrValue, contract_hash, parse},
    domain::{
        Advert, AdvertReply, Cancel, Capability, Changes, Claim, ClaimedStep, Cx, Decide, Drain, FailReason, Fleet,
        Ids, OpenWork, Outcome, Policy, Reap, Refusal, Report, ReportReply, Rescan, Run, RunState, Settings, Shape,
        Speaker, Submit, Submitted, Wake, invariant,
    },
};

struct Counter(u128);

impl Ids for Counter {
    fn nonce(&mut self) -> Nonce {
        self.0 += 1;
        Nonce::from_bits(self.0)
    }
}

/// What an agent says of one node.
#[derive(Debug, Clone)]
pub(crate) struct Agent {
    pub(crate) advert: Advert,
}

pub(crate) struct World {
    pub(crate) fleet: Fleet,
    pub(crate) now: Timestamp,
    pub(crate) settings: Settings,
    pub(crate) agents: BTreeMap<String, Agent>,
    /// Of the last command.
    pub(crate) changes: Changes,
    ids: Counter,
    serial: u32,
}

pub(crate) fn node_id(name: &str) -> NodeId {
    NodeId::new(name).unwrap()
}

pub(crate) fn run_id(name: &str) -> RunId {
    RunId::new(name).unwrap()
}

/// Capabilities from words: `build`, or `build:os=linux,cores=8`.
pub(crate) fn capabilities(words: &[&str]) -> Vec<Capability> {
    let value = |text: &str| text.parse().map_or_else(|_| AttrValue::Text(text.to_owned()), AttrValue::Number);
    words
        .iter()
        .map(|word| {
            let (name, attrs) = word.split_once(':').unwrap_or((word, ""));
            let attrs = attrs.split(',').filter_map(|attr| attr.split_once('='));
            let attrs = attrs.map(|(name, text)| (name.to_owned(), value(text))).collect();
            Capability { name: name.to_owned(), attrs }
        })
        .collect()
}

/// One role `b` of one node with `build`, one step.
pub(crate) const ONE: &str = "{requires: [{as: b, capability: build}], steps: [{id: s, uses: b, run: [x]}]}";
/// The same with two steps.
pub(crate) const TWO: &str =
    "{requires: [{as: b, capability: build}], steps: [{id: s, uses: b, run: [x]}, {id: t, uses: b, run: [x]}]}";

impl World {
    pub(crate) fn new() -> Self {
        Self {
            fleet: Fleet::default(),
            now: Timestamp::from_millis(1_000_000),
            settings: Settings::default(),
            agents: BTreeMap::new(),
            changes: Changes::default(),
            ids: Counter(0),
            serial: 0,
        }
    }

    /// A world with these nodes, each of which can `build`.
    pub(crate) fn with(nodes: &[&str]) -> Self {
        let mut world = Self::new();
        for node in nodes {
            world.join(node, &["build"]);
        }
        world
    }

    /// Applies a command as the mediator does.
    pub(crate) fn apply<D: Decide>(&mut self, command: &D) -> Result<D::Answer, Refusal> {
        let before = self.fleet.clone();
        let mut changes = Changes::default();
        let mut cx = Cx::new(self.now, &self.settings, &mut self.ids, &mut changes);
        let answer = self.fleet.apply(command, &mut cx);
        drop(cx);
        if answer.is_err() {
            assert_eq!(self.fleet, before, "a refused command changed the fleet");
            assert_eq!(changes, Changes::default(), "a refused command noted changes");
        }
        assert_eq!(unnamed(&before, &self.fleet, &changes), Vec::<String>::new(), "rows differ and are not named");
        self.check();
        self.changes = changes;
        answer
    }

    /// Invariants, and that the safety net finds nothing.
    pub(crate) fn check(&mut self) {
        assert_eq!(invariant::check(&self.fleet, &self.settings, self.now), None);
        let mut copy = self.fleet.clone();
        let mut changes = Changes::default();
        let mut cx = Cx::new(self.now, &self.settings, &mut self.ids, &mut changes);
        copy.apply(&Rescan::Sweep, &mut cx).unwrap();
        drop(cx);
        assert!(changes.promotions.is_empty(), "the sweep promoted {:?}", changes.promotions);
    }

    pub(crate) fn wait(&mut self, seconds: u64) {
        self.now = self.now + Duration::from_secs(seconds);
        self.check();
    }

    fn fresh(&mut self, kind: &str) -> String {
        self.serial += 1;
        format!("{kind}-{}", self.serial)
    }

    pub(crate) fn speaker(&self, node: &str) -> Speaker {
        self.agents[node].advert.who.clone()
    }

    pub(crate) fn agent(&mut self, node: &str) -> &mut Advert {
        &mut self.agents.get_mut(node).unwrap().advert
    }

    /// A new node adverts and opens its stream.
    pub(crate) fn join(&mut self, node: &str, words: &[&str]) {
        let instance = InstanceId::new(&self.fresh("instance")).unwrap();
        let advert = Advert {
            who: Speaker {
                node: node_id(node),
                instance,
                streams: Vec::new(),
                principal: Principal::new("owner").unwrap(),
            },
            label: String::new(),
            advert_no: 0,
            replaces: Vec::new(),
            capabilities: capabilities(words),
            policy: Policy::default(),
            stopping: false,
            goodbye: false,
            running: Vec::new(),
            finished: Vec::new(),
            agent_version: "1".to_owned(),
        };
        self.agents.insert(node.to_owned(), Agent { advert });
        self.advert(node).unwrap();
        // What the advert promoted is looked at by tests; opening a stream promotes nothing.
        let changes = self.changes.clone();
        self.open(node).unwrap();
        self.changes = changes;
    }

    /// The node says what it has.
    pub(crate) fn advert(&mut self, node: &str) -> Result<AdvertReply, Refusal> {
        let advert = self.agent(node);
        advert.advert_no += 1;
        let advert = advert.clone();
        self.apply(&advert)
    }

    pub(crate) fn open(&mut self, node: &str) -> Result<StreamId, Refusal> {
        let stream = StreamId::new(&self.fresh("stream")).unwrap();
        let advert = self.agent(node);
        advert.who.streams.push(stream);
        let who = advert.who.clone();
        self.apply(&OpenWork { who })
    }

    /// The owner changes the policy and the node says so.
    pub(crate) fn drain(&mut self, node: &str, drain: Drain) -> Result<AdvertReply, Refusal> {
        self.agent(node).policy.drain = drain;
        self.advert(node)
    }

    /// The agent's process starts again: another instance, which replaces the one before.
    pub(crate) fn restart(&mut self, node: &str, finished: &[&ClaimedStep]) -> Result<AdvertReply, Refusal> {
        let instance = InstanceId::new(&self.fresh("instance")).unwrap();
        let advert = self.agent(node);
        advert.replaces = vec![std::mem::replace(&mut advert.who.instance, instance)];
        advert.who.streams.clear();
        advert.advert_no = 0;
        advert.running.clear();
        advert.finished = finished.iter().map(|it| (it.run.clone(), it.seq, it.attempt)).collect();
        self.advert(node)
    }

    pub(crate) fn command(&self, run: &str, contract: &str) -> Submit {
        let contract = Arc::new(parse(contract.as_bytes()).unwrap());
        Submit {
            run: run_id(run),
            principal: Principal::new("anna").unwrap(),
            contract_hash: contract_hash(&contract).into(),
            shape: Shape::new(&contract.requires),
            contract,
        }
    }

    pub(crate) fn submit(&mut self, run: &str, contract: &str) -> Submitted {
        let submit = self.command(run, contract);
        self.apply(&submit).unwrap()
    }

    pub(crate) fn claim(&mut self, node: &str) -> Option<ClaimedStep> {
        self.try_claim(node).unwrap()
    }

    pub(crate) fn try_claim(&mut self, node: &str) -> Result<Option<ClaimedStep>, Refusal> {
        let who = self.speaker(node);
        self.apply(&Claim { who })
    }

    /// What the node would say of a step that ended by itself.
    pub(crate) fn report_of(&self, node: &str, step: &ClaimedStep, exit_code: i32) -> Report {
        let out = step.contract.steps[step.seq as usize].outputs().map(str::to_owned).collect();
        Report {
            who: self.speaker(node),
            run: step.run.clone(),
            seq: step.seq,
            attempt: step.attempt,
            nonce: step.nonce,
            outcome: Outcome::Completed { exit_code },
            produced: out,
            fork_value: None,
            invalid: None,
            log_bytes: 0,
        }
    }

    pub(crate) fn report(&mut self, node: &str, step: &ClaimedStep, exit_code: i32) -> Result<ReportReply, Refusal> {
        let report = self.report_of(node, step, exit_code);
        self.apply(&report)
    }

    /// A step that forks ends, and its output says this.
    pub(crate) fn report_pick(&mut self, node: &str, step: &ClaimedStep, pick: &str) -> Result<ReportReply, Refusal> {
        let report = Report { fork_value: Some(Ok(pick.to_owned())), ..self.report_of(node, step, 0) };
        self.apply(&report)
    }

    pub(crate) fn report_lost(&mut self, node: &str, step: &ClaimedStep) -> Result<ReportReply, Refusal> {
        let outcome = Outcome::NotCompleted { reason: FailReason::Timeout, message: "too long".to_owned() };
        let report = Report { outcome, ..self.report_of(node, step, 0) };
        self.apply(&report)
    }

    /// Claims on this node and reports success.
    pub(crate) fn work(&mut self, node: &str) {
        let step = self.claim(node).unwrap();
        self.report(node, &step, 0).unwrap();
    }

    pub(crate) fn cancel(&mut self, run: &str) -> Result<Run, Refusal> {
        self.apply(&Cancel { run: run_id(run), by: Principal::new("boss").unwrap() })
    }

    pub(crate) fn reap(&mut self) -> usize {
        self.apply(&Reap).unwrap()
    }

    pub(crate) fn run(&self, run: &str) -> &Run {
        &self.fleet.runs[&run_id(run)]
    }

    pub(crate) fn state(&self, run: &str) -> &'static str {
        self.run(run).state.as_str()
    }

    /// `FAILED drain: s=DONE t=SKIPPED`
    pub(crate) fn show(&self, run: &str) -> String {
        let run = self.run(run);
        let cause = run.cause().map_or_else(String::new, |cause| format!(" {}", cause.as_str()));
        let steps: Vec<String> = run.steps.iter().map(|it| format!("{}={}", it.name, it.state.as_str())).collect();
        format!("{}{cause}: {}", run.state.as_str(), steps.join(" "))
    }

    pub(crate) fn lease(&self, node: &str) -> Option<String> {
        self.fleet.lease(&node_id(node)).map(|lease| lease.run.to_string())
    }

    /// `RUN@Wake` of the last command.
    pub(crate) fn promoted(&self) -> Vec<String> {
        self.changes.promotions.iter().map(|it| format!("{}@{}", it.run, it.wake)).collect()
    }

    pub(crate) fn expect_promoted(&self, run: &str, wake: Wake) {
        assert_eq!(self.promoted(), [format!("{run}@{wake}")]);
        assert_eq!(self.state(run), "RUNNING");
    }
}

/// Rows that differ and are not named.
fn unnamed(before: &Fleet, after: &Fleet, changes: &Changes) -> Vec<String> {
    let mut found = Vec::new();
    let mut want = |named: bool, what: String| {
        if !named {
            found.push(what);
        }
    };
    if (before.rev, before.next_place) != (after.rev, after.next_place) {
        want(changes.fleet, "fleet".to_owned());
    }
    if before.reaped_at != after.reaped_at {
        want(changes.reaped, "reaped_at".to_owned());
    }
    for node in after.nodes() {
        let Some(old) = before.node(&node.id) else {
            want(changes.nodes.contains(&node.id), format!("new node {}", node.id));
            continue;
        };
        let mut renewed = old.clone();
        renewed.seen_at = node.seen_at;
        renewed.expires_at = node.expires_at;
        renewed.advert_no = node.advert_no;
        let mut touched = renewed.clone();
        (touched.rev, touched.stream) = (node.rev, node.stream.clone());
        if touched != *node {
            want(changes.nodes.contains(&node.id), format!("node {}", node.id));
        } else if renewed != *node {
            let named = changes.touched.contains(&node.id) || changes.nodes.contains(&node.id);
            want(named, format!("rev of {}", node.id));
        } else if old != node {
            let named = changes.renewed.contains(&node.id) || changes.nodes.contains(&node.id);
            want(named, format!("times of {}", node.id));
        }
    }
    for node in after.nodes() {
        if before.lease(&node.id) != after.lease(&node.id) {
            want(changes.leases.contains(&node.id), format!("lease of {}", node.id));
        }
    }
    for (id, run) in &after.runs {
        if changes.new_runs.contains(id) {
            continue;
        }
        let Some(old) = before.runs.get(id) else {
            want(false, format!("new run {id}"));
            continue;
        };
        let mut same_row = run.clone();
        same_row.steps.clone_from(&old.steps);
        if same_row != *old {
            want(changes.runs.contains(id), format!("run {id}"));
        }
        for (step, old) in run.steps.iter().zip(&old.steps) {
            let mut same_row = step.clone();
            same_row.attempts.clone_from(&old.attempts);
            if same_row != *old {
                want(changes.steps.contains(&(id.clone(), step.seq)), format!("step {id}/{}", step.seq));
            }
            for attempt in &step.attempts {
                if old.attempt(attempt.number) != Some(attempt) {
                    let key = (id.clone(), step.seq, attempt.number);
                    want(changes.attempts.contains(&key), format!("attempt {key:?}"));
                }
            }
        }
    }
    let ended = |run: &Run| matches!(run.state, RunState::Succeeded(_) | RunState::Failed(_));
    for (id, run) in &after.runs {
        if ended(run) && !before.runs.get(id).is_some_and(ended) {
            want(changes.sealed.contains(id), format!("sealing of {id}"));
        }
    }
    found
}
