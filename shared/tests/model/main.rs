//! Model check: every interleaving of a few messages, ticks and faults on two nodes and two Runs, over the very
//! functions that production runs.
//!
//! A state is a fleet with two small agents and what is on its way between them. From each state every possible
//! next act is taken (`act`), states that differ only in names and in absolute time count as one (`key`), and after
//! each act the promises are looked at (`check`). A scene says how often each act may happen. From every state the
//! fleet must also be able to come to rest: without further faults all Runs end.

#![expect(clippy::unwrap_used, clippy::print_stderr, reason = "a test may fail, and says what it did")]

mod act;
mod agent;
mod check;
mod key;
mod state;

use std::collections::{HashSet, VecDeque};

use act::Act;
use state::{Budget, State};

/// From every so many new states the fleet is led to rest. That takes long.
const TRY_REST: usize = 50;

/// So many states of each scene are enough for every day; `MODEL_STATES` sets another limit.
const MOST_STATES: usize = 10_000;

/// Explores a scene, nearest states first, to its end or to the limit, and returns how many states it has.
fn explore(scene: &str, budget: Budget) -> usize {
    let most = std::env::var("MODEL_STATES").map_or(MOST_STATES, |text| text.parse().unwrap());
    let mut first = State::new(budget);
    if budget.submitted {
        first.submit();
        first.submit();
    }
    let mut known = HashSet::from([key::of(&first)]);
    let mut ways: Vec<(usize, Option<Act>)> = vec![(0, None)];
    let mut todo = VecDeque::from([(first, 0)]);
    let mut taken = 0u64;
    let mut complete = 0;
    while let Some((state, from)) = todo.pop_front() {
        if known.len() >= most {
            complete = way(&ways, from).len();
            break;
        }
        for act in state.possible() {
            let mut next = state.clone();
            next.take(&act);
            taken += 1;
            let is_new = known.insert(key::of(&next));
            if is_new && next.broken.is_none() && known.len().is_multiple_of(TRY_REST) {
                let mut rest = next.clone();
                rest.come_to_rest();
                next.broken = rest.broken;
            }
            if let Some(broken) = &next.broken {
                panic!("{scene}: {broken}\nafter {:#?}\nand {act:?}", way(&ways, from));
            }
            if is_new {
                ways.push((from, Some(act)));
                todo.push_back((next, ways.len() - 1));
            }
        }
    }
    let deepest = way(&ways, ways.len() - 1).len();
    let extent = if complete == 0 { "every one".to_owned() } else { format!("every one within {complete} acts") };
    eprintln!("{scene}: {} states ({extent}, {deepest} deep), {taken} acts", known.len());
    known.len()
}

/// The acts that led to a state.
fn way(ways: &[(usize, Option<Act>)], mut at: usize) -> Vec<Act> {
    let mut acts = Vec::new();
    while let (from, Some(act)) = &ways[at] {
        acts.push(act.clone());
        at = *from;
    }
    acts.reverse();
    acts
}

const NONE: Budget = Budget {
    beats: 0,
    ticks: 0,
    lose: 0,
    double: 0,
    kill: 0,
    blackout: 0,
    take: 0,
    give: 0,
    cancel: 0,
    slow_adverts: false,
    slow_steps: false,
    slow_reports: false,
    submitted: true,
};

#[test]
fn queue_and_wakes() {
    let budget = Budget { submitted: false, beats: 1, ticks: 2, kill: 1, take: 1, give: 1, cancel: 1, ..NONE };
    let states = explore("queue and wakes", budget);
    assert!(states > 5_000, "only {states} states");
}

#[test]
fn advert_lease_reaper() {
    let budget = Budget { beats: 2, ticks: 3, lose: 1, double: 1, slow_adverts: true, ..NONE };
    let states = explore("advert, lease, reaper", budget);
    assert!(states > 5_000, "only {states} states");
}

#[test]
fn claim_deliver_report() {
    let budget =
        Budget { beats: 1, lose: 1, double: 1, kill: 1, blackout: 1, slow_steps: true, slow_reports: true, ..NONE };
    let states = explore("claim, deliver, report", budget);
    assert!(states > 5_000, "only {states} states");
}

#[test]
fn at_boundary() {
    let budget = Budget { beats: 2, double: 1, take: 1, give: 1, slow_adverts: true, slow_reports: true, ..NONE };
    let states = explore("at-boundary", budget);
    assert!(states > 5_000, "only {states} states");
}
