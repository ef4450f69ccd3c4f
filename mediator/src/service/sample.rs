//! Fleets and Runs for tests, with poison where nothing may ever look.

use std::sync::Arc;

use shared::{
    InstanceId, NodeId, Nonce, Principal, RunId, Timestamp,
    contract::Contract,
    domain::{
        Advert, Assigned, Attempt, Capability, Drain, Lease, Node, Place, Policy, Run, RunState, Shape, Speaker, Step,
        StepState,
    },
};

/// A nonce that must never be seen.
pub(crate) const POISON_NONCE: u128 = 0xdead_beef_dead_beef_dead_beef_dead_beef;
/// A principal that must never be seen.
pub(crate) const POISON_PRINCIPAL: &str = "poison-principal";

pub(crate) const NOW: Timestamp = Timestamp::from_millis(1_700_000_000_000);

/// `FUZZ_INPUTS` for each target: `make test` takes a few, `make soak` many.
pub(crate) fn inputs() -> proptest::test_runner::Config {
    let cases = std::env::var("FUZZ_INPUTS").ok().and_then(|it| it.parse().ok()).unwrap_or(2_000);
    proptest::test_runner::Config { cases, failure_persistence: None, ..proptest::test_runner::Config::default() }
}

/// Counts the statements of the store that this thread makes, by the names of their queries.
pub(crate) struct Statements {
    handle: metrics_exporter_prometheus::PrometheusHandle,
    _counts: metrics::LocalRecorderGuard<'static>,
}

impl Statements {
    pub(crate) fn count() -> Self {
        let recorder = Box::leak(Box::new(metrics_exporter_prometheus::PrometheusBuilder::new().build_recorder()));
        Self { handle: recorder.handle(), _counts: metrics::set_default_local_recorder(recorder) }
    }

    pub(crate) fn of(&self, query: &str) -> u64 {
        let line = format!("mediator_store_statements_total{{query=\"{query}\"}} ");
        self.handle.render().lines().find_map(|it| it.strip_prefix(&line)?.parse().ok()).unwrap_or(0)
    }
}

pub(crate) fn id<T: std::str::FromStr>(text: &str) -> T
where
    T::Err: std::fmt::Debug,
{
    text.parse().unwrap()
}

pub(crate) fn node(name: &str, capability: &str) -> Node {
    Node {
        id: id(name),
        rev: 7,
        label: format!("the {name}"),
        instance: id::<InstanceId>("i1"),
        stream: Some(id("s1")),
        advert_no: 3,
        stopping: false,
        principal: id::<Principal>(POISON_PRINCIPAL),
        capabilities: vec![Capability {
            name: capability.to_owned(),
            attrs: [
                ("cores".to_owned(), shared::contract::AttrValue::Number(8)),
                ("os".to_owned(), shared::contract::AttrValue::Text("linux".to_owned())),
            ]
            .into(),
        }],
        policy: Policy::default(),
        seen_at: Timestamp::from_millis(NOW.millis() - 4_000),
        expires_at: Timestamp::from_millis(NOW.millis() + 56_000),
        agent_version: "0.1.0".to_owned(),
    }
}

/// What the agent of this node says, with this policy.
pub(crate) fn advert(node: Node, policy: Policy, advert_no: i64) -> Advert {
    let streams = node.stream.into_iter().collect();
    Advert {
        who: Speaker { node: node.id, instance: node.instance, streams, principal: node.principal },
        label: node.label,
        advert_no,
        replaces: Vec::new(),
        capabilities: node.capabilities,
        policy,
        stopping: false,
        goodbye: false,
        running: Vec::new(),
        finished: Vec::new(),
        agent_version: node.agent_version,
    }
}

pub(crate) fn drained(mut node: Node, drain: Drain, reason: &str) -> Node {
    node.policy = Policy {
        drain,
        reason: reason.to_owned(),
        since: Some(Timestamp::from_millis(NOW.millis() - 600_000)),
        error: String::new(),
    };
    node
}

pub(crate) fn gone(mut node: Node, seconds: i64) -> Node {
    node.seen_at = Timestamp::from_millis(NOW.millis() - 60_000 - seconds * 1_000);
    node.expires_at = Timestamp::from_millis(NOW.millis() - seconds * 1_000);
    node
}

pub(crate) fn lease(node: &str, run: &str) -> Lease {
    Lease {
        node: id::<NodeId>(node),
        run: id::<RunId>(run),
        nonce: Nonce::from_bits(POISON_NONCE),
        granted_at: Timestamp::from_millis(NOW.millis() - 30_000),
        not_after: Timestamp::from_millis(NOW.millis() + 56_000),
    }
}

pub(crate) const CONTRACT: &str = r#"{
    "work": {"system": "gerrit", "change_id": "I5c9"},
    "env": {"SECRET": "poison-contract"},
    "requires": [{"as": "builder", "capability": "build", "attrs": {"os": "linux"}}],
    "steps": [
        {"id": "test", "uses": "builder", "run": ["make"], "out": ["verdict.json"],
         "dispatch": {"from": "verdict.json#/outcome", "to": ["ship", "repair"]}},
        {"id": "ship", "uses": "builder", "run": ["ship"]},
        {"id": "repair", "uses": "builder", "run": ["repair"]}
    ]
}"#;

pub(crate) fn contract(text: &str) -> Arc<Contract> {
    Arc::new(serde_json::from_str(text).unwrap())
}

pub(crate) fn run(name: &str, text: &str) -> Run {
    let contract = contract(text);
    let needs = contract.needs();
    let steps = contract.steps.iter().zip(needs).enumerate().map(|(seq, (spec, needs))| Step {
        seq: u32::try_from(seq).unwrap(),
        name: spec.id.clone(),
        kind: spec.kind(),
        state: StepState::Pending,
        attempt: 0,
        round: 0,
        tries: 0,
        needs,
        chosen: false,
        picked: None,
        started_at: None,
        deadline: None,
        produced: Vec::new(),
        attempts: Vec::new(),
    });
    Run {
        id: id(name),
        principal: id(POISON_PRINCIPAL),
        contract_hash: "00".into(),
        state: RunState::Queued,
        place: 1,
        assigned: Vec::new(),
        reject: None,
        work_id: contract.work_id(),
        starts: 0,
        losses: 0,
        created_at: Timestamp::from_millis(NOW.millis() - 40_000),
        ended_at: None,
        steps: steps.collect(),
        contract,
    }
}

/// The Run on a node, its first step claimed there.
pub(crate) fn running(mut run: Run, node: &str) -> Run {
    run.state = RunState::Running;
    for require in &run.contract.requires {
        run.assigned.push(Assigned { role: require.role.clone(), node: id(node) });
    }
    let at = Timestamp::from_millis(NOW.millis() - 20_000);
    let step = &mut run.steps[0];
    step.state = StepState::Claimed { node: id(node), at };
    step.attempt = 1;
    step.started_at = Some(at);
    step.attempts.push(Attempt {
        number: 1,
        starts: 0,
        node: id(node),
        instance: id("i1"),
        nonce: Nonce::from_bits(POISON_NONCE),
        claimed_at: at,
        answer: None,
    });
    run
}

/// A fleet of these rows; QUEUED Runs are in line.
pub(crate) fn fleet(nodes: &[Node], leases: &[Lease], queued: &[&Run]) -> shared::domain::Fleet {
    let mut fleet = shared::domain::Fleet::default();
    for node in nodes {
        fleet.load_node(node.clone());
    }
    for lease in leases {
        fleet.load_lease(&lease.node, Some(lease.clone()));
    }
    for run in queued {
        fleet.queue.insert(
            Place::of_run(run.place),
            run.id.clone(),
            Shape::new(&run.contract.requires),
            run.created_at,
        );
    }
    fleet
}
