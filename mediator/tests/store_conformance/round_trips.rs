//! Every state of every row comes back as it was written.

use std::sync::Arc;

use shared::{
    InstanceId, NodeId, Nonce, Principal, RunId, StepName, StreamId, Timestamp, WorkId,
    contract::{self, StepKind},
    domain::{
        Answer, Assigned, Attempt, Cause, Changes, Drain, FailReason, Finding, Fleet, Holds, Lease, Node, Policy,
        Reject, Run, RunState, Step, StepState, Touches, Verdict,
    },
};

use crate::support::{Bed, START};

on_both_engines!(nodes, leases, runs, steps_and_attempts, the_fleet_row);

fn at(ms: i64) -> Timestamp {
    Timestamp::from_millis(START.millis() + ms)
}

pub(crate) fn node(id: &str) -> Node {
    Node {
        id: NodeId::new(id).unwrap(),
        rev: 1,
        label: "left bench".to_owned(),
        instance: InstanceId::new("i1").unwrap(),
        stream: None,
        advert_no: 7,
        stopping: false,
        principal: Principal::new("yard").unwrap(),
        capabilities: serde_json::from_str(
            r#"[{"name": "build", "attrs": {"os": "linux", "cores": 8, "gpu": true, "odd \" name": "'; --"}}]"#,
        )
        .unwrap(),
        policy: Policy::default(),
        seen_at: at(0),
        expires_at: at(60_000),
        agent_version: "0.1.0".to_owned(),
    }
}

pub(crate) fn run(id: &str, steps: usize) -> Run {
    let list: Vec<String> = (0..steps).map(|at| format!("{{id: s{at}, uses: a, run: [x, '\u{1F980} \"']}}")).collect();
    let text = format!("{{requires: [{{as: a, capability: build}}], steps: [{}]}}", list.join(", "));
    let contract = Arc::new(contract::parse(text.as_bytes()).unwrap());
    let needs = contract.needs();
    let steps = contract.steps.iter().zip(needs).enumerate().map(|(seq, (spec, needs))| Step {
        seq: u32::try_from(seq).unwrap(),
        name: spec.id.clone(),
        kind: StepKind::Run,
        state: StepState::Pending,
        attempt: 0,
        round: 0,
        tries: 0,
        needs,
        chosen: false,
        picked: None,
        started_at: None,
        deadline: None,
        produced: vec![],
        attempts: vec![],
    });
    Run {
        id: RunId::new(id).unwrap(),
        principal: Principal::new("ann").unwrap(),
        contract_hash: "abc".into(),
        state: RunState::Running,
        place: 1,
        assigned: vec![],
        reject: None,
        work_id: None,
        starts: 0,
        losses: 0,
        created_at: at(0),
        ended_at: None,
        steps: steps.collect(),
        contract,
    }
}

/// Writes a fleet's rows, all of them.
pub(crate) async fn write_all(bed: &Bed, fleet: &mut Fleet) {
    let mut tx = bed.store.begin_fleet().await.unwrap();
    let mut changes = Changes { fleet: true, ..Changes::default() };
    fleet.rev += 1;
    changes.nodes.extend(fleet.nodes().map(|node| node.id.clone()));
    changes.leases.extend(fleet.leases().map(|lease| lease.node.clone()));
    changes.new_runs.extend(fleet.runs.keys().cloned());
    for run in fleet.runs.values() {
        for step in &run.steps {
            changes.attempts.extend(step.attempts.iter().map(|it| (run.id.clone(), step.seq, it.number)));
        }
    }
    tx.write(fleet, &changes).await.unwrap();
    tx.commit().await.unwrap();
}

/// What comes back, with all Runs loaded.
pub(crate) async fn read_all(bed: &Bed, touches: Touches) -> Fleet {
    let mut fleet = Fleet::default();
    let mut tx = bed.store.begin_fleet().await.unwrap();
    tx.sync(&mut fleet).await.unwrap();
    let bad = tx.load_runs(&mut fleet, &touches, &Changes::default()).await.unwrap();
    assert!(bad.is_empty(), "{bad:?}");
    fleet
}

async fn comes_back(bed: &Bed, fleet: &mut Fleet) {
    write_all(bed, fleet).await;
    let got = read_all(bed, fleet.runs.keys().cloned().collect()).await;
    assert_eq!(got.nodes().collect::<Vec<_>>(), fleet.nodes().collect::<Vec<_>>());
    assert_eq!(got.leases().collect::<Vec<_>>(), fleet.leases().collect::<Vec<_>>());
    assert_eq!(got.runs, fleet.runs);
}

async fn nodes(bed: Bed) {
    let mut fleet = Fleet::default();
    for (n, drain) in [Drain::None, Drain::Graceful, Drain::AtBoundary].into_iter().enumerate() {
        for stopping in [false, true] {
            let mut row = node(&format!("n{n}/{}", i32::from(stopping)));
            row.stopping = stopping;
            row.stream = stopping.then(|| StreamId::new("s1").unwrap());
            row.label = "ü\n\t\"'\\ \u{1}".to_owned();
            row.policy = Policy {
                drain,
                reason: "until \"noon\"".to_owned(),
                since: stopping.then(|| at(-5)),
                error: "line 1".to_owned(),
            };
            row.capabilities.truncate(n);
            row.advert_no = i64::MAX;
            fleet.load_node(row);
        }
    }
    comes_back(&bed, &mut fleet).await;
    let nodes = bed.store.read().await.unwrap().nodes().await.unwrap();
    assert_eq!(nodes, fleet.nodes().cloned().collect::<Vec<_>>());
}

fn with_lease(fleet: &mut Fleet, node: &Node, run: &RunId, nonce: u128) {
    fleet.load_node(node.clone());
    fleet.load_lease(
        &node.id,
        Some(Lease {
            node: node.id.clone(),
            run: run.clone(),
            nonce: Nonce::from_bits(nonce),
            granted_at: at(1),
            not_after: at(60_001),
        }),
    );
}

async fn leases(bed: Bed) {
    let mut fleet = Fleet::default();
    let holder = run("r1", 1);
    for (name, nonce) in [("a", 0), ("b", u128::MAX), ("c/5", 0x00ff)] {
        with_lease(&mut fleet, &node(name), &holder.id, nonce);
    }
    fleet.runs.insert(holder.id.clone(), holder);
    comes_back(&bed, &mut fleet).await;
    let leases = bed.store.read().await.unwrap().leases().await.unwrap();
    assert_eq!(leases, fleet.leases().cloned().collect::<Vec<_>>());
}

async fn runs(bed: Bed) {
    let node = NodeId::new("n/1").unwrap();
    let causes = [
        Cause::Judged,
        Cause::StepFailed(StepName::new("s0").unwrap()),
        Cause::Cancelled(Principal::new("ann").unwrap()),
        Cause::Drain(node.clone()),
        Cause::LeaseExpired(node.clone()),
        Cause::NodeRestarted(node.clone()),
        Cause::Rejected,
    ];
    let finding = |holds| Finding { condition: "s0: exit_code = 0 (was 2)".to_owned(), holds };
    let findings = [Holds::Held, Holds::Failed, Holds::Vacuous].map(finding).to_vec();
    let verdicts = causes.map(|cause| Verdict { cause, findings: findings.clone() });
    let ended = verdicts.iter().flat_map(|it| [RunState::Failed(it.clone()), RunState::Succeeded(it.clone())]);
    let mut fleet = Fleet::default();
    for (n, state) in ended.chain([RunState::Running, RunState::Verifying]).enumerate() {
        let mut row = run(&format!("r{n}"), 1);
        row.ended_at = state.is_terminal().then(|| at(9));
        row.state = state;
        row.place = i64::try_from(n).unwrap();
        row.starts = 3;
        row.losses = u32::MAX;
        if n % 2 == 0 {
            row.work_id = Some(WorkId::new("gerrit:I5 ü").unwrap());
            row.assigned = vec![Assigned { role: shared::RoleName::new("a").unwrap(), node: node.clone() }];
        } else {
            let role = (n % 4 == 1).then(|| shared::RoleName::new("a").unwrap());
            row.reject = Some(Reject { code: 422, role, reason: "nobody: \"x\"".to_owned() });
        }
        fleet.runs.insert(row.id.clone(), row);
    }
    comes_back(&bed, &mut fleet).await;
    for row in fleet.runs.values() {
        let (got, sealed_at) = bed.store.read().await.unwrap().run(&row.id).await.unwrap().unwrap();
        assert_eq!((&got, sealed_at), (row, None));
    }
    assert!(bed.store.read().await.unwrap().run(&RunId::new("nobody").unwrap()).await.unwrap().is_none());
}

async fn steps_and_attempts(bed: Bed) {
    let node = NodeId::new("n/1").unwrap();
    let mut states = vec![
        StepState::Pending,
        StepState::Waiting,
        StepState::Claimed { node: node.clone(), at: at(3) },
        StepState::Claimed { node: node.clone(), at: at(4) },
        StepState::Asked { at: at(5) },
        StepState::Done { exit_code: None, at: at(6) },
        StepState::Done { exit_code: Some(i32::MIN), at: at(6) },
        StepState::Done { exit_code: Some(0), at: at(6) },
        StepState::Skipped { at: at(7) },
    ];
    for reason in FailReason::ALL {
        states.push(StepState::Failed { reason, message: "a\u{0}b \"c\" \u{1F980}".to_owned(), at: at(8) });
    }
    let mut row = run("r", states.len());
    for (step, state) in row.steps.iter_mut().zip(states) {
        step.state = state;
        let n = step.seq;
        (step.round, step.tries, step.chosen) = (n, n + 1, n % 2 == 1);
        step.picked = [None, Some(false), Some(true)][n as usize % 3];
        step.started_at = (n % 4 != 1).then(|| at(3));
        step.deadline = (n % 2 == 0).then(|| at(99));
        step.produced = (0..n % 3).map(|file| format!("out/{file} \u{0}ü.xml")).collect();
        step.needs = (0..n).collect();
        step.attempt = n % 3;
        step.attempts = (1..=n % 3)
            .map(|number| Attempt {
                number,
                starts: n,
                node: node.clone(),
                instance: InstanceId::new("i1").unwrap(),
                nonce: Nonce::from_bits(u128::from(n)),
                claimed_at: at(3),
                answer: (number == 1).then(|| Answer { state: "DONE".to_owned(), log_bytes: 1 << 40 }),
            })
            .collect();
    }
    let mut fleet = Fleet::default();
    fleet.runs.insert(row.id.clone(), row);
    comes_back(&bed, &mut fleet).await;
}

async fn the_fleet_row(bed: Bed) {
    let mut fleet = Fleet::default();
    (fleet.next_place, fleet.reaped_at) = (41, Some(at(-1)));
    write_all(&bed, &mut fleet).await;
    let got = bed.fresh_fleet().await;
    assert_eq!((got.rev, got.next_place, got.reaped_at), (1, 41, Some(at(-1))));
}
