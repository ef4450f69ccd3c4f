//! A long line of Runs that cannot run, before a large fleet that is not lent.
//!
//! The hardest wake there is: a node is lent that satisfies every requirement in the line, and each of them asks
//! for two such nodes, so every shape is tested and nobody is served. The Runs come in by submission.

use std::time::Instant;

use anyhow::{Result, ensure};
use tests::{Agent, AgentOptions, Engine, Mediator};
use tokio::runtime::Runtime;

use crate::{
    board::{Board, Goal},
    calls::{Caller, mediator, runtime},
    fleet::{Fleet, Plan, Solo, Steps, capability},
    latency::{Stamps, put},
    proc,
    size::{NODES_EACH, Size},
};

/// More than any requirement asks for.
const CORES: i64 = 1_000_000;

/// The curve, and what else a full line shows.
pub(crate) fn measure(board: &mut Board, size: &Size) -> Result<()> {
    for (at, shapes) in size.shapes.into_iter().enumerate() {
        let line = Line::start(size)?;
        let full = line.curve(board, size, shapes, at == 0)?;
        if at == 0 && full {
            line.full(board, size)?;
        }
    }
    Ok(())
}

struct Line {
    runtime: Runtime,
    fleet: Fleet,
    mediator: Mediator,
}

impl Line {
    fn start(size: &Size) -> Result<Self> {
        // Adverts have a measurement of their own: here they are to stand before few of the wakes. And nobody is
        // to get nodes reserved in the middle of it.
        let extra = [("MEDIATOR_LEASE__RENEW", "2m"), ("MEDIATOR_QUEUE__RESERVE_AFTER", "1h")];
        let mediator = mediator(Engine::Sqlite, &extra);
        let plan = Plan {
            agents: size.agents,
            nodes_each: NODES_EACH,
            capability: capability("build", CORES),
            drain: "graceful",
            steps: Steps::Hold,
        };
        Ok(Self { runtime: runtime()?, fleet: Fleet::start(&mediator, plan)?, mediator })
    }

    /// Fills the line step by step and wakes it at each. False: it did not become full in time.
    fn curve(&self, board: &mut Board, size: &Size, shapes: usize, counts: bool) -> Result<bool> {
        let _entered = self.runtime.enter();
        let caller = Caller::new(&self.mediator)?;
        let mut waking = Solo::join(&self.mediator, self.runtime.handle(), "waking", capability("build", CORES))?;
        let nodes = size.agents * NODES_EACH;
        // The first line is the one of the goals; the others only show the curve.
        let within = if counts { size.fill_for } else { size.fill_for / 2 };
        let started = Instant::now();
        let mut filled = 0;
        for runs in size.line {
            while filled < runs {
                if started.elapsed() > within {
                    board.note(format!(
                        "After {:.0} s only {filled} of {runs} Runs of {shapes} shapes were in line; not measured further.",
                        within.as_secs_f64()
                    ));
                    return Ok(false);
                }
                let next = runs.min(filled + 1_000);
                let batch = (filled..next).map(|number| (format!("line-{number}"), wide(number % shapes)));
                self.runtime.block_on(caller.submit_all(batch))?;
                filled = next;
            }
            let queued = proc::metric(&self.mediator, "mediator_runs{state=\"QUEUED\"}")?;
            ensure!(queued as usize == runs, "{queued} of {runs} Runs are in line");
            let (mut wakes, mut others) = (Vec::new(), Vec::new());
            for _ in 0..size.wakes {
                wakes.push(proc::millis(waking.advert("")?));
                others.push(proc::millis(waking.advert("graceful")?));
            }
            let name = format!("wake, {runs} Runs of {shapes} shapes x {nodes} nodes, ms");
            if counts && runs == size.line[2] {
                board.put("blocked_wake_100k_x_10k_ms", wakes);
                board.beside("an advert there that wakes nobody, ms", others, Goal::None);
            } else {
                board.beside(name, wakes, Goal::None);
            }
        }
        let rate = filled as f64 / started.elapsed().as_secs_f64();
        board.beside(format!("submitted into a line of {shapes} shapes, per s"), vec![rate], Goal::None);
        Ok(true)
    }

    /// What else the full line shows.
    fn full(&self, board: &mut Board, size: &Size) -> Result<()> {
        board.put("mediator_rss_mib_10k_100k", vec![proc::rss_mib(self.mediator.pid())?]);
        // It satisfies everybody in the line as well, and they all stand before those that it can serve.
        let capabilities = format!(
            "[[capability]]\nname = \"build\"\nattrs = {{ cores = {CORES} }}\n[[capability]]\nname = \"real\"\n"
        );
        let options = AgentOptions { capabilities: &capabilities, ..AgentOptions::builder("real") };
        let _agent = Agent::start_with(&self.mediator, &options);
        self.mediator.wait_node("real", "is listed", |_| true);
        let _entered = self.runtime.enter();
        let stamps = Stamps {
            caller: Caller::new(&self.mediator)?,
            runtime: &self.runtime,
            home: self.mediator.home.path(),
            capability: "real",
        };
        let mut free = Vec::new();
        for round in 0..size.rounds {
            free.push(stamps.free_to_start(&format!("behind-{round}"), size.samples)?);
        }
        put(board, "free_to_start_100k_ms_p99", &free, 0.99);
        ensure!(self.fleet.held() == 0, "somebody in the line was served");
        Ok(())
    }
}

/// Asks for two nodes, so that one that is lent helps nobody; each shape asks for another number of cores.
fn wide(shape: usize) -> String {
    format!(
        "requires: [{{as: b, capability: build, count: 2, attrs: {{cores: {{min: {}}}}}}}]\nsteps: [{{id: t, uses: b, run: [/bin/true]}}]\n",
        shape + 1
    )
}
