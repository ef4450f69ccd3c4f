//! What holds after every command: one id, one sentence, one predicate each. The same predicates serve tests,
//! the simulation and debug builds of the mediator.

use super::{Fleet, RunState, Settings, StepState, line};
use crate::Timestamp;

/// A rule that must hold between two commands.
pub struct Invariant {
    /// `I1` …
    pub id: &'static str,
    /// The rule in words.
    pub rule: &'static str,
    /// What breaks it, if anything does.
    pub broken: fn(&Fleet, &Settings, Timestamp) -> Option<String>,
}

/// Every invariant that can be seen in the fleet itself. I3 (success is decided by conditions only) and I5
/// (all or nothing) are visible in the state they leave; I4 (a sealed Record never changes) and I8 (no nonce
/// and no principal in any answer) belong to the mediator's files and answers, and are checked there.
pub const ALL: [Invariant; 7] = [
    Invariant {
        id: "I1",
        rule: "a node is held by at most one Run, and by one that it was assigned to",
        broken: |fleet, _, _| {
            fleet.leases().find_map(|lease| {
                let run = fleet.runs.get(&lease.run)?;
                (!run.nodes().contains(&lease.node)).then(|| format!("{} holds {} unassigned", lease.run, lease.node))
            })
        },
    },
    Invariant {
        id: "I2",
        rule: "a terminal Run has no lease, and a queued one has none either",
        broken: |fleet, _, _| {
            fleet.leases().find_map(|lease| {
                let run = fleet.runs.get(&lease.run)?;
                (run.state != RunState::Running).then(|| format!("{} is {}", run.id, run.state.as_str()))
            })
        },
    },
    Invariant {
        id: "I3",
        rule: "a Run succeeds only where its conditions hold",
        broken: |fleet, _, _| {
            let succeeded = |run: &&super::Run| matches!(run.state, RunState::Succeeded(_));
            fleet.runs.values().filter(succeeded).find(|run| !super::judge(run).0).map(|run| run.id.to_string())
        },
    },
    Invariant {
        id: "I5",
        rule: "a running Run was given every node it asked for",
        broken: |fleet, _, _| {
            let short = |run: &&super::Run| {
                run.state == RunState::Running && run.assigned.len() < run.contract.width() as usize
            };
            fleet.runs.values().find(short).map(|run| run.id.to_string())
        },
    },
    Invariant {
        id: "I9",
        rule: "what is claimed on a node was claimed under the lease that its Run holds there",
        broken: |fleet, _, _| {
            let running = fleet.runs.values().filter(|run| run.state == RunState::Running);
            running.flat_map(|run| run.steps.iter().map(move |step| (run, step))).find_map(|(run, step)| {
                let StepState::Claimed { node, .. } = &step.state else { return None };
                let lease = fleet.lease(node).filter(|lease| lease.run == run.id);
                let nonce = step.attempts.last().map(|attempt| attempt.nonce);
                (lease.map(|lease| lease.nonce) != nonce).then(|| format!("{}/{} on {node}", run.id, step.name))
            })
        },
    },
    Invariant {
        id: "I6",
        rule: "a running Run has something that can still happen to it",
        broken: |fleet, _, _| {
            fleet.runs.values().filter(|run| run.state == RunState::Running).find_map(|run| {
                let can_begin = |step: &&super::Step| !step.kind.is_executed() || run.node_of_step(step.seq).is_some();
                let moving = run.ready().any(|step| can_begin(&step))
                    || run.steps.iter().any(|step| {
                        matches!(step.state, StepState::Claimed { .. } | StepState::Asked { .. } | StepState::Waiting)
                    });
                (!moving).then(|| format!("{} has nothing left to do", run.id))
            })
        },
    },
    Invariant {
        id: "I7",
        rule: "no wake is lost: nobody in line could be served now, except whom the reservation holds back",
        broken: |fleet, settings, now| {
            line::promotion::first_runnable(fleet, settings, now).map(|place| format!("{place:?} could be served"))
        },
    },
];

/// The first invariant that does not hold, in words.
#[must_use]
pub fn check(fleet: &Fleet, settings: &Settings, now: Timestamp) -> Option<String> {
    ALL.iter().find_map(|it| (it.broken)(fleet, settings, now).map(|why| format!("{}: {}: {why}", it.id, it.rule)))
}
