//! How long a person or the next Run waits: one real agent, one node, processes that note the time.

use std::{
    collections::BTreeMap,
    path::Path,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;
use tests::{Agent, AgentOptions, Engine, Mediator, mediator::binary};
use tokio::runtime::Runtime;

use crate::{
    board::{Board, percentile},
    calls::{Caller, contract, mediator, now, runtime},
    proc,
    size::Size,
};

/// All that one idle node tells.
pub(crate) fn measure(board: &mut Board, size: &Size) -> Result<()> {
    let mediator = mediator(Engine::Sqlite, &[]);
    let agent = Agent::start_with(&mediator, &AgentOptions::builder("bench"));
    mediator.wait_node("bench", "is listed", |_| true);
    let runtime = runtime()?;
    let _entered = runtime.enter();
    let stamps =
        Stamps { caller: Caller::new(&mediator)?, runtime: &runtime, home: mediator.home.path(), capability: "build" };
    let mut submit: Vec<Vec<f64>> = Vec::new();
    for round in 0..size.rounds {
        submit.push(stamps.submit_to_start(&format!("idle-{round}"), size.samples)?);
    }
    put(board, "submit_to_start_ms_p50", &submit, 0.5);
    put(board, "submit_to_start_ms_p99", &submit, 0.99);
    let mut free: Vec<Vec<f64>> = Vec::new();
    for round in 0..size.rounds {
        free.push(stamps.free_to_start(&format!("next-{round}"), size.samples)?);
    }
    put(board, "free_to_start_ms_p50", &free, 0.5);
    put(board, "free_to_start_ms_p99", &free, 0.99);
    policy(board, &mediator, &agent, size)?;
    // Idle now, but it has worked: what an agent takes that has been there for a while.
    board.put("enode_rss_mib", vec![proc::rss_mib(agent.pid())?]);
    Ok(())
}

/// One percentile of each round.
pub(crate) fn put(board: &mut Board, key: &'static str, rounds: &[Vec<f64>], share: f64) {
    board.put(key, rounds.iter().map(|samples| percentile(samples, share)).collect());
}

/// Saves the owner's file and looks until the page shows it; every second save takes the word back.
fn policy(board: &mut Board, mediator: &Mediator, agent: &Agent, size: &Size) -> Result<()> {
    let mut took = Vec::new();
    for _ in 0..size.samples.div_ceil(10) {
        for (word, shown) in [("graceful", Value::from("graceful")), ("", Value::Null)] {
            let started = Instant::now();
            agent.set_drain(word);
            loop {
                let page: Value = serde_json::from_str(&proc::timed_get(mediator, "/v1/nodes")?.1)?;
                if page["nodes"][0]["draining"] == shown {
                    break;
                }
                ensure!(started.elapsed() < Duration::from_secs(20), "the policy does not show: {page}");
                std::thread::sleep(Duration::from_millis(1));
            }
            if word == "graceful" {
                took.push(proc::millis(started.elapsed()));
            }
        }
    }
    board.put("policy_to_draining_ms", took);
    Ok(())
}

/// Runs on one node, whose processes note when they began and ended.
pub(crate) struct Stamps<'a> {
    pub(crate) caller: Caller,
    pub(crate) runtime: &'a Runtime,
    pub(crate) home: &'a Path,
    pub(crate) capability: &'static str,
}

impl Stamps<'_> {
    fn contract(&self, name: &str, id: &str) -> Result<String> {
        let (program, file) = (binary("stamp"), self.home.join(name));
        let path = |path: &Path| path.to_str().map(str::to_owned).context("a path in UTF-8");
        Ok(contract(self.capability, &[&path(&program)?, &path(&file)?, id]))
    }

    /// When each process began and ended, in milliseconds since 1970.
    fn read(&self, name: &str) -> Result<BTreeMap<String, (f64, f64)>> {
        let line = |line: &str| {
            let words: Vec<&str> = line.split(' ').collect();
            let [id, began, ended] = words.as_slice() else { anyhow::bail!("a line of three words: {line}") };
            let at = |text: &str| anyhow::Ok(text.parse::<f64>()? / 1e6);
            Ok(((*id).to_owned(), (at(began)?, at(ended)?)))
        };
        std::fs::read_to_string(self.home.join(name))?.lines().map(line).collect()
    }

    /// From just before the call to the first action of the process, one Run after the other.
    pub(crate) fn submit_to_start(&self, name: &str, samples: usize) -> Result<Vec<f64>> {
        let mut submitted = BTreeMap::new();
        for number in 0..samples {
            let id = format!("{name}-{number}");
            let contract = self.contract(name, &id)?;
            submitted.insert(id.clone(), now());
            self.runtime.block_on(self.caller.submit(&id, &contract))?;
            self.runtime.block_on(self.caller.sealed(&id))?;
        }
        let stamps = self.read(name)?;
        submitted.iter().map(|(id, at)| Ok(stamps.get(id).context("a stamp")?.0 - at)).collect()
    }

    /// From the end of one process to the first action of the next, all of them in line from the start.
    pub(crate) fn free_to_start(&self, name: &str, samples: usize) -> Result<Vec<f64>> {
        let ids: Vec<String> = (0..=samples).map(|number| format!("{name}-{number}")).collect();
        let runs: Vec<(String, String)> =
            ids.iter().map(|id| Ok((id.clone(), self.contract(name, id)?))).collect::<Result<_>>()?;
        // Somebody has the node until all of them are in line.
        let before = contract(self.capability, &["/bin/sleep", "2"]);
        self.runtime.block_on(self.caller.submit(&format!("{name}-before"), &before))?;
        self.runtime.block_on(self.caller.submit_all(runs))?;
        for id in &ids {
            self.runtime.block_on(self.caller.sealed(id))?;
        }
        let mut stamps: Vec<(f64, f64)> = self.read(name)?.into_values().collect();
        ensure!(stamps.len() == ids.len(), "{} of {} processes ran", stamps.len(), ids.len());
        stamps.sort_by(|a, b| a.0.total_cmp(&b.0));
        Ok(stamps.windows(2).map(|pair| pair[1].0 - pair[0].1).collect())
    }
}
