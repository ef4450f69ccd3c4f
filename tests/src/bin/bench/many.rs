//! A fleet of ten thousand nodes that have nothing to do: what their adverts cost, and how fast they are listed.

use std::time::Instant;

use anyhow::{Result, ensure};
use tests::Engine;

use crate::{
    board::{Board, Goal, percentile},
    calls::{Caller, contract, mediator, runtime},
    fleet::{Fleet, Plan, Steps, capability},
    proc,
    size::{NODES_EACH, Size},
};

/// Adverts at the shipped interval, pages and submissions meanwhile.
pub(crate) fn measure(board: &mut Board, size: &Size) -> Result<()> {
    let mediator = mediator(Engine::Sqlite, &[]);
    let plan = Plan {
        agents: size.agents,
        nodes_each: NODES_EACH,
        capability: capability("build", 8),
        drain: "",
        steps: Steps::Report,
    };
    let nodes = plan.agents * plan.nodes_each;
    let _fleet = Fleet::start(&mediator, plan)?;
    let (mut rates, mut fractions) = (Vec::new(), Vec::new());
    for _ in 0..size.rounds {
        let count = || proc::metric(&mediator, "mediator_adverts_total");
        let (started, adverts, cpu) = (Instant::now(), count()?, proc::cpu(mediator.pid())?);
        std::thread::sleep(size.adverts_for);
        let (adverts, cpu) = (count()? - adverts, proc::cpu(mediator.pid())?.saturating_sub(cpu));
        let took = started.elapsed().as_secs_f64();
        rates.push(adverts / took);
        fractions.push(cpu.as_secs_f64() / took);
    }
    board.put("adverts_per_s", rates);
    board.put("adverts_cpu_fraction", fractions);
    let live = proc::metric(&mediator, "mediator_nodes{state=\"free\"}")?;
    ensure!(live as usize == nodes, "{live} of {nodes} nodes are live: their adverts do not keep up");

    // Both while the adverts go on.
    let (mut lists, mut bytes) = (Vec::new(), 0);
    for _ in 0..size.samples.div_ceil(10) {
        let (took, page) = proc::timed_get(&mediator, "/v1/nodes")?;
        lists.push(took);
        bytes = page.len();
    }
    board.put("list_nodes_10k_ms", lists);
    board.note(format!("The list of {nodes} nodes has {bytes} bytes."));
    let runtime = runtime()?;
    let _entered = runtime.enter();
    let caller = Caller::new(&mediator)?;
    let contract = contract("build", &["/bin/true"]);
    let mut p99 = Vec::new();
    for round in 0..size.rounds {
        let mut took = Vec::new();
        for number in 0..size.samples {
            let started = Instant::now();
            runtime.block_on(caller.submit(&format!("many-{round}-{number}"), &contract))?;
            took.push(proc::millis(started.elapsed()));
        }
        p99.push(percentile(&took, 0.99));
    }
    board.beside("answer to a submission meanwhile, ms, p99", p99, Goal::None);
    Ok(())
}
