//! Runs per second, from submission to sealed Record: real processes beside bare ones, and no processes at all.

use std::{
    process::{Command, Stdio},
    sync::atomic::{AtomicUsize, Ordering},
    time::Instant,
};

use anyhow::{Result, ensure};
use tests::{Agent, AgentOptions, Engine};

use crate::{
    board::{Board, Goal, median},
    calls::{Caller, contract, mediator, runtime},
    fleet::{Fleet, Plan, Steps, capability},
    peers,
    size::Size,
};

/// Processes at a time.
pub(crate) const SLOTS: usize = 64;

/// `/bin/true` started bare and as Runs, turn by turn.
pub(crate) fn real(board: &mut Board, size: &Size) -> Result<()> {
    let (mut bare, mut runs) = (Vec::new(), Vec::new());
    {
        let mediator = mediator(Engine::Sqlite, &[]);
        let options = AgentOptions { slots: u32::try_from(SLOTS)?, ..AgentOptions::builder("bench") };
        let _agent = Agent::start_with(&mediator, &options);
        mediator.wait_node(&format!("bench/{}", SLOTS - 1), "is listed", |_| true);
        let runtime = runtime()?;
        let _entered = runtime.enter();
        let caller = Caller::new(&mediator)?;
        for round in 0..size.rounds {
            bare.push(bare_per_second(size.real_runs));
            let ids: Vec<String> = (0..size.real_runs).map(|number| format!("true-{round}-{number}")).collect();
            let contract = contract("build", &["/bin/true"]);
            runs.push(runtime.block_on(caller.runs_per_second(&ids, &contract))?);
        }
        ensure!(mediator.promotions("Sweep") == 0, "the sweep found a Run that a wake point had missed");
    }
    let ratios = runs.iter().zip(&bare).map(|(run, bare)| run / bare).collect();
    board.put("spawn_limit_per_s", bare);
    board.put("true_runs_per_s", runs.clone());
    board.beside("true Runs / bare processes", ratios, Goal::AtLeast(0.70));
    peers::measure(board, size, median(&runs))
}

fn bare_per_second(count: usize) -> f64 {
    let (started, left) = (Instant::now(), AtomicUsize::new(count));
    let take = || left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok();
    std::thread::scope(|scope| {
        for _ in 0..SLOTS {
            scope.spawn(|| {
                while take() {
                    // The standard library uses posix_spawn for this.
                    let status = Command::new("/bin/true").stdin(Stdio::null()).status();
                    assert!(status.is_ok_and(|status| status.success()), "/bin/true");
                }
            });
        }
    });
    count as f64 / started.elapsed().as_secs_f64()
}

/// Runs without a process, SQLite.
pub(crate) fn noop_sqlite(board: &mut Board, size: &Size) -> Result<()> {
    board.put("noop_runs_per_s_sqlite", noop(Engine::Sqlite, size)?);
    Ok(())
}

/// Runs without a process, PostgreSQL.
pub(crate) fn noop_postgres(board: &mut Board, size: &Size) -> Result<()> {
    board.put("noop_runs_per_s_postgres", noop(Engine::Postgres, size)?);
    Ok(())
}

fn noop(engine: Engine, size: &Size) -> Result<Vec<f64>> {
    let mediator = mediator(engine, &[]);
    let agents = 8;
    let plan = Plan {
        agents,
        nodes_each: size.noop_nodes / agents,
        capability: capability("build", 8),
        drain: "",
        steps: Steps::Report,
    };
    let _fleet = Fleet::start(&mediator, plan)?;
    let runtime = runtime()?;
    let _entered = runtime.enter();
    let caller = Caller::new(&mediator)?;
    let one = |round: usize| {
        let ids: Vec<String> = (0..size.noop_runs).map(|number| format!("noop-{round}-{number}")).collect();
        runtime.block_on(caller.runs_per_second(&ids, &contract("build", &["/bin/true"])))
    };
    (0..size.rounds).map(one).collect()
}
