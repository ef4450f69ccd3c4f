//! A thousand agents lose their mediator and come back.

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use anyhow::{Result, ensure};
use serde_json::Value;
use tests::{Engine, Mediator};

use crate::{
    board::{Board, Goal},
    calls::{Caller, contract, mediator, runtime},
    fleet::{Fleet, Plan, Steps, capability},
    size::Size,
};

/// Longer than the longest pause of an agent.
const LIMIT: Duration = Duration::from_secs(45);

/// Kills the mediator under agents that all hold a lease, and starts it again after a while.
pub(crate) fn measure(board: &mut Board, size: &Size) -> Result<()> {
    let mut mediator = mediator(Engine::Sqlite, &[]);
    let agents = size.returning;
    let plan = Plan { agents, nodes_each: 1, capability: capability("build", 8), drain: "", steps: Steps::Hold };
    let fleet = Fleet::start(&mediator, plan)?;
    let runtime = runtime()?;
    {
        let _entered = runtime.enter();
        let caller = Caller::new(&mediator)?;
        let contract = contract("build", &["/bin/true"]);
        runtime.block_on(caller.submit_all((0..agents).map(|it| (format!("held-{it}"), contract.clone()))))?;
    }
    let started = Instant::now();
    while fleet.held() < agents {
        ensure!(started.elapsed() < LIMIT, "only {} of {agents} nodes have work", fleet.held());
        std::thread::sleep(Duration::from_millis(20));
    }
    let (mut lost, mut ratios, mut windows) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..size.rounds.min(2) {
        let before = leases(&mediator);
        ensure!(before.len() == agents, "{} of {agents} leases", before.len());
        mediator.kill_at_once();
        fleet.lost();
        std::thread::sleep(size.away);
        mediator.restart();
        let (started, mut connects) = (Instant::now(), Vec::new());
        while connects.len() < 2 * agents && started.elapsed() < LIMIT {
            std::thread::sleep(Duration::from_millis(100));
            connects.extend(fleet.take_connects());
        }
        ensure!(connects.len() >= 2 * agents, "only {} of {} connections are back", connects.len(), 2 * agents);
        let after = leases(&mediator);
        lost.push(before.difference(&after).count() as f64);
        let (ratio, window) = peak_to_mean(&connects);
        ratios.push(ratio);
        windows.push(window);
    }
    board.put("reconnect_lost_leases", lost);
    board.put("reconnect_peak_to_mean", ratios);
    board.beside("all connections are back within, s", windows, Goal::None);
    Ok(())
}

/// Node, Run and when it was granted: a lease that was given anew is another one.
fn leases(mediator: &Mediator) -> BTreeSet<String> {
    mediator
        .leases()
        .iter()
        .map(|it: &Value| format!("{} {} {}", it["node_id"], it["run_id"], it["granted_at"]))
        .collect()
}

/// Connections of the busiest second over those of a second on average, from the first to the last; and how long
/// that was.
fn peak_to_mean(connects: &[Instant]) -> (f64, f64) {
    let Some(first) = connects.iter().min() else { return (f64::NAN, 0.0) };
    let mut seconds: Vec<usize> = Vec::new();
    for at in connects {
        let second = usize::try_from(at.duration_since(*first).as_secs()).unwrap_or(usize::MAX);
        seconds.resize(seconds.len().max(second + 1), 0);
        seconds[second] += 1;
    }
    println!("   connections in each second: {seconds:?}");
    let mean = connects.len() as f64 / seconds.len() as f64;
    (seconds.iter().max().map_or(0.0, |peak| *peak as f64) / mean, seconds.len() as f64)
}
