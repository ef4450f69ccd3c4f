//! Seeded simulation: the pure domain, a fake fleet around the real agent's core, a virtual clock, and bad luck.
//!
//! A seed is a whole story: machines, contracts, messages that are lost, late, doubled or overtaken, crashes of
//! mediator and agents, suspended and copied machines, owners who take their nodes back. After every command the
//! rules are looked at (`rules`), and when the faults are over everything must come to its end. A seed that
//! breaks a rule is printed with the command that plays it again with its trace; those that once did are in
//! `pinned` and are played for ever.
//!
//!     SIM_SEED=4711 cargo nextest run -p shared --test sim one_seed --no-capture
//!     SIM_SEEDS=20000 cargo nextest run -p shared --test sim every_seed

#![expect(clippy::unwrap_used, clippy::print_stderr, reason = "a test may fail, and says what it did")]

#[path = "../../../enode/src/session/core.rs"]
#[expect(dead_code, unreachable_pub, reason = "the agent's own file; it has more than a simulation needs")]
mod agent_core;

mod agent;
mod client;
mod clock;
mod contracts;
mod event;
mod faults;
mod mediator;
mod net;
mod plan;
mod rng;
mod rules;
mod store;
mod world;

use std::{
    collections::BTreeMap,
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering},
    },
};

use world::{Story, World};

const SEEDS: u64 = 500;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name} must be a number")))
}

/// A panic inside the domain is a broken rule as well.
fn play(seed: u64, tracing: bool) -> Story {
    let played = std::panic::catch_unwind(|| World::new(seed, tracing).play());
    played.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|it| (*it).to_owned())).unwrap_or_default();
        Story { broken: Some(format!("panic: {text}")), trace: Vec::new(), counts: BTreeMap::new() }
    })
}

fn replay(seed: u64) -> String {
    format!("SIM_SEED={seed} cargo nextest run -p shared --test sim one_seed --no-capture")
}

#[test]
fn every_seed_holds() {
    let (first, seeds) = (number("SIM_FIRST").unwrap_or(0), number("SIM_SEEDS").unwrap_or(SEEDS));
    let most = usize::try_from(number("SIM_MOST").unwrap_or(5)).unwrap();
    let next = AtomicU64::new(first);
    let broken = Mutex::new(BTreeMap::new());
    let total = Mutex::new(BTreeMap::<&str, u64>::new());
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= first + seeds || broken.lock().unwrap().len() >= most {
                        return;
                    }
                    let story = play(seed, false);
                    let mut total = total.lock().unwrap();
                    for (what, count) in story.counts {
                        *total.entry(what).or_default() += count;
                    }
                    drop(total);
                    if let Some(rule) = story.broken {
                        broken.lock().unwrap().insert(seed, rule);
                    }
                }
            });
        }
    });
    let total = total.into_inner().unwrap();
    eprintln!("{total:#?}");
    let broken = broken.into_inner().unwrap();
    let told: Vec<String> =
        broken.iter().map(|(seed, rule)| format!("seed {seed}: {rule}\n  {}", replay(*seed))).collect();
    assert!(told.is_empty(), "{} seeds are broken\n{}", told.len(), told.join("\n"));
}

#[test]
fn pinned_seeds_hold() {
    for line in include_str!("pinned").lines() {
        let Some(seed) = line.split_whitespace().next().filter(|it| !it.starts_with('#')) else { continue };
        let seed = seed.parse().unwrap();
        assert_eq!(play(seed, false).broken, None, "{line}\n{}", replay(seed));
    }
}

/// Plays one seed and shows its trace.
#[test]
fn one_seed() {
    let Some(seed) = number("SIM_SEED") else { return };
    let story = play(seed, true);
    for line in &story.trace {
        eprintln!("{line}");
    }
    eprintln!("{:#?}", story.counts);
    assert_eq!(story.broken, None, "seed {seed}");
}

#[test]
fn a_seed_is_a_whole_story() {
    let (once, again) = (play(3, true), play(3, true));
    assert_eq!(once.trace, again.trace);
}
