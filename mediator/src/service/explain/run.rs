//! Why a Run waits: per role the nodes that could serve it, who holds them, and what can free them.

use std::collections::BTreeMap;

use shared::{
    RunId, Timestamp,
    domain::{Cause, Drain, Fleet, Node, Run, RunState, Settings, StepState, Verdict, Wake, match_roles},
};

use super::{
    Explanation, RoleExplanation, age, kept,
    role::{role, shortage},
    silence, some,
    waiting::{self, Waiting},
};

/// Explains one Run against the fleet of the same snapshot.
#[must_use]
pub fn explain_run(fleet: &Fleet, run: &Run, settings: &Settings, now: Timestamp) -> Explanation {
    let waiting = waiting::acquires(run);
    let queued = run.state == RunState::Queued;
    // Of interest is what it still has to get.
    let requires = run.contract.requires.iter().filter(|_| queued).chain(waiting.iter().map(|it| &it.require));
    let roles: Vec<RoleExplanation> = requires.map(|it| role(fleet, it, now)).collect();
    let place = (queued || !waiting.is_empty()).then(|| place(fleet, &run.id)).flatten();
    let too_wide = settings.max_per_run != 0 && run.contract.width() > settings.max_per_run;
    let mut wakes = match &run.state {
        RunState::Queued if !too_wide => wakes(fleet, &roles),
        RunState::Running => wakes(fleet, &roles),
        _ => Vec::new(),
    };
    let kept = kept::from(fleet, run, now).filter(|_| queued && !too_wide);
    if kept.is_some() {
        // Whatever ends the reservation lets go of its nodes.
        wakes.extend(kept::WAKES.into_iter().filter(|wake| !wakes.contains(wake)).collect::<Vec<_>>());
    }
    let summary = match &run.state {
        RunState::Queued if too_wide => format!(
            "run {} waits: it wants {} nodes and lease.max_per_run allows {}; raise the limit or cancel the run",
            run.id,
            run.contract.width(),
            settings.max_per_run,
        ),
        RunState::Queued => {
            let mut text = queued_summary(fleet, run, &roles, &wakes, place, kept.is_some(), now);
            text.push_str(&kept.map(|kept| format!("; {kept}")).unwrap_or_default());
            text.push_str(&kept::for_it(fleet, run).map(|kept| format!("; {kept}")).unwrap_or_default());
            text
        }
        RunState::Running | RunState::Verifying => running_summary(fleet, run, &waiting, settings, now),
        RunState::Succeeded(verdict) => {
            format!("run {} SUCCEEDED: {}{}", run.id, ended_by(run, verdict), ago(run, now))
        }
        RunState::Failed(verdict) => format!("run {} FAILED: {}{}", run.id, ended_by(run, verdict), ago(run, now)),
    };
    Explanation { observed_at: now, summary, roles, place, wakes, lendable: None, reasons: Vec::new() }
}

fn place(fleet: &Fleet, run: &RunId) -> Option<u32> {
    let at = fleet.queue.iter().position(|(_, queued)| queued.run == *run)?;
    u32::try_from(at + 1).ok()
}

/// What can make this Run runnable. A node that is missing or held back comes by an advert; one that is
/// leased comes by what ends its Run, or by a Run of several nodes giving one back.
fn wakes(fleet: &Fleet, roles: &[RoleExplanation]) -> Vec<Wake> {
    let short: Vec<&RoleExplanation> = roles.iter().filter(|role| role.is_short()).collect();
    let needs_advert = short.iter().any(|role| role.needs_advert(fleet));
    let leased = short.iter().any(|role| role.busy > 0);
    let mut held: BTreeMap<&RunId, u32> = BTreeMap::new();
    for lease in fleet.leases() {
        *held.entry(&lease.run).or_default() += 1;
    }
    let wide = short.iter().flat_map(|role| &role.holders).any(|(_, run)| held.get(run).is_some_and(|n| *n > 1));
    let mut wakes = Vec::new();
    if needs_advert {
        wakes.push(Wake::AdvertOpened);
    }
    if leased {
        wakes.extend([Wake::RunSettled, Wake::RunCancelled]);
        if wide {
            wakes.push(Wake::PartialRelease);
        }
        wakes.extend([Wake::LeaseExpired, Wake::NodeRestarted]);
    }
    // A further node is as good as one that is given back.
    if !short.is_empty() && !needs_advert {
        wakes.push(Wake::AdvertOpened);
    }
    wakes
}

fn queued_summary(
    fleet: &Fleet,
    run: &Run,
    roles: &[RoleExplanation],
    wakes: &[Wake],
    place: Option<u32>,
    is_kept: bool,
    now: Timestamp,
) -> String {
    let short: Vec<String> = run
        .contract
        .requires
        .iter()
        .zip(roles)
        .filter(|(_, role)| role.is_short())
        .map(|(require, role)| format!("for role {}: {}", role.role, shortage(fleet, require, role, now)))
        .collect();
    let again = match run.starts {
        0 => String::new(),
        1 => ", started over once".to_owned(),
        times => format!(", started over {times} times"),
    };
    let line = place.map(|place| format!(" (number {place} in line{again})")).unwrap_or_default();
    if short.is_empty() {
        let lendable = |node: &Node| fleet.is_busy(node);
        return match match_roles(&run.contract.requires, fleet.live(now), lendable) {
            // Enough for each role, and yet not for all of them at once.
            Err(reject) => format!("run {}{line} waits: {}", run.id, reject.reason),
            Ok(_) if is_kept => format!("run {}{line} waits", run.id),
            Ok(_) => format!("run {}{line} can run now and is about to be taken", run.id),
        };
    }
    let mut text = format!("run {}{line} waits {}", run.id, short.join("; and "));
    text.push_str(&freed(fleet, roles, wakes));
    text
}

/// The likeliest are enough for a sentence, in words; the list of wakes has all of them.
fn freed(fleet: &Fleet, roles: &[RoleExplanation], wakes: &[Wake]) -> String {
    let short = || roles.iter().filter(|role| role.is_short());
    let held = short().any(|role| role.draining > 0 || role.held_holders(fleet).next().is_some());
    let opens = if held { "an owner lends a node again or a further node comes" } else { "a further node comes" };
    let likely: Vec<(Wake, &str)> = wakes
        .iter()
        .filter_map(|wake| match wake {
            Wake::RunSettled => Some((*wake, "a run that holds a node ends")),
            Wake::AdvertOpened => Some((*wake, opens)),
            Wake::RunCancelled
            | Wake::LeaseExpired
            | Wake::NodeRestarted
            | Wake::PartialRelease
            | Wake::Startup
            | Wake::Submitted
            | Wake::Sweep => None,
        })
        .collect();
    if likely.is_empty() {
        return String::new();
    }
    // An advert that is needed does not make up for a lease that is.
    let both = short().any(|role| role.busy > 0 && role.needs_advert(fleet));
    let words: Vec<&str> = likely.iter().map(|(_, words)| *words).collect();
    let names: Vec<&str> = likely.iter().map(|(wake, _)| wake.as_str()).collect();
    format!("; it is freed when {} ({})", words.join(if both { ", and " } else { " or " }), names.join(", "))
}

fn running_summary(fleet: &Fleet, run: &Run, waiting: &[Waiting<'_>], settings: &Settings, now: Timestamp) -> String {
    let mut text = what_runs(fleet, run, waiting, now);
    for silent in silence::of(fleet, run, settings, now) {
        text.push_str("; ");
        text.push_str(&silent);
    }
    text
}

fn what_runs(fleet: &Fleet, run: &Run, waiting: &[Waiting<'_>], now: Timestamp) -> String {
    let claimed = run.steps.iter().filter_map(|step| match &step.state {
        StepState::Claimed { node, at } => Some(format!("step {} on {node} for {}", step.name, age(now.since(*at)))),
        StepState::Pending
        | StepState::Waiting
        | StepState::Asked { .. }
        | StepState::Done { .. }
        | StepState::Failed { .. }
        | StepState::Skipped { .. } => None,
    });
    let claimed: Vec<String> = claimed.collect();
    let waits = waiting::asks(run, now).chain(waiting.iter().map(|it| it.text(fleet, now)));
    let waits = waits.collect::<Vec<_>>().join("; ");
    match (claimed.is_empty(), waits.is_empty()) {
        (false, true) => return format!("run {} runs: {}", run.id, some(&claimed)),
        (false, false) => return format!("run {} runs: {}; and {waits}", run.id, some(&claimed)),
        (true, false) => return format!("run {} holds its nodes and {waits}", run.id),
        (true, true) => {}
    }
    let ready: Vec<String> = run
        .ready()
        .filter_map(|step| {
            let node = fleet.node(run.node_of_step(step.seq)?)?;
            Some(format!("step {} {}", step.name, claimable(node, now)))
        })
        .collect();
    if ready.is_empty() {
        return format!("run {} is {}", run.id, run.state.as_str());
    }
    format!("run {} holds its nodes and nothing is claimed: {}", run.id, some(&ready))
}

fn claimable(node: &Node, now: Timestamp) -> String {
    if !node.is_live(now) {
        return format!("waits for {}", node.id);
    }
    if node.stopping {
        return format!("is not claimed: the agent of {} is stopping", node.id);
    }
    if node.policy.drain == Drain::AtBoundary {
        return format!("is not claimed: {} drains at-boundary", node.id);
    }
    format!("waits to be claimed by {}", node.id)
}

fn ended_by(run: &Run, verdict: &Verdict) -> String {
    match &verdict.cause {
        Cause::Judged => {
            let failed: Vec<String> = verdict
                .findings
                .iter()
                .filter(|finding| finding.holds == shared::domain::Holds::Failed)
                .map(|finding| finding.condition.clone())
                .collect();
            if failed.is_empty() { "judged".to_owned() } else { format!("judged ({})", some(&failed)) }
        }
        Cause::StepFailed(step) => format!("step {step} did not complete"),
        Cause::Cancelled(_) => "cancelled".to_owned(),
        Cause::Drain(node) => format!("the owner of {node} took it back at a step boundary"),
        Cause::LeaseExpired(node) => format!("node {node} went silent and its lease ran out"),
        Cause::NodeRestarted(node) => format!("node {node} restarted in the middle of a step"),
        Cause::Rejected => run.reject.as_ref().map_or_else(|| "rejected".to_owned(), |reject| reject.reason.clone()),
    }
}

fn ago(run: &Run, now: Timestamp) -> String {
    run.ended_at.map(|at| format!(", {} ago", age(now.since(at)))).unwrap_or_default()
}
