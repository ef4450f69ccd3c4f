//! A golden file per rule: contracts, events, and what each event makes of every Run.
//!
//! A file has a sentence, contracts under their names, `---`, and events. Below each event stands, indented, how
//! every Run looks then: `RUN STATE [cause] on NODES: STEP=STATE#attempt~round+` (`+` is `chosen`). With
//! `UPDATE_GOLDEN=1` the indented lines are written anew; read them before they are committed.

use std::{collections::BTreeMap, fmt::Write, path::PathBuf};

use shared::{
    Principal, StepName,
    contract::{Contract, parse},
    domain::{AnswerAsk, Changes, Drain, FailReason, Outcome, Report, StepState},
};

use crate::world::{World, run_id};

struct Golden {
    head: String,
    contracts: BTreeMap<String, String>,
    events: Vec<String>,
}

fn read(text: &str) -> Golden {
    let (head, rest) = text.split_once("---\n").expect("a file has `---` between contracts and events");
    let mut contracts: BTreeMap<String, String> = BTreeMap::new();
    let mut name = None;
    for line in head.lines() {
        match (line.strip_suffix(':').filter(|it| !it.starts_with(' ')), &name) {
            (Some(other), _) => name = Some(other.trim_start_matches("contract ").to_owned()),
            (None, Some(name)) => {
                let text = contracts.entry(name.clone()).or_default();
                text.push_str(line);
                text.push('\n');
            }
            (None, None) => {}
        }
    }
    let events = rest.lines().filter(|line| !line.starts_with(' ') && !line.is_empty()).map(str::to_owned).collect();
    Golden { head: head.to_owned(), contracts, events }
}

fn play(golden: &Golden) -> String {
    let mut text = format!("{}---\n", golden.head);
    let mut stage = Stage { world: World::new(), contracts: &golden.contracts, runs: Vec::new() };
    for event in &golden.events {
        writeln!(text, "{event}").unwrap();
        if let Some(said) = stage.event(event) {
            writeln!(text, "    {said}").unwrap();
        }
        for run in &stage.runs {
            writeln!(text, "    {}", stage.show(run)).unwrap();
        }
    }
    text
}

struct Stage<'g> {
    world: World,
    contracts: &'g BTreeMap<String, String>,
    runs: Vec<String>,
}

impl Stage<'_> {
    fn event(&mut self, event: &str) -> Option<String> {
        let words: Vec<&str> = event.split_whitespace().collect();
        let option = |name: &str| words.iter().find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
        let world = &mut self.world;
        world.changes = Changes::default();
        match words.as_slice() {
            ["node", name, capabilities @ ..] => world.join(name, capabilities),
            ["submit", name, rest @ ..] => {
                let contract = rest.first().map_or(*name, |it| it);
                world.submit(name, &self.contracts[contract]);
                self.runs.push((*name).to_owned());
            }
            ["work", node, ..] => {
                let Some(step) = world.claim(node) else { return Some("nothing to claim".to_owned()) };
                let exit = option("exit").map_or(0, |it| it.parse().unwrap());
                let mut report = world.report_of(node, &step, exit);
                report.fork_value = option("value").map(|it| Ok(it.to_owned()));
                if let Some(missing) = option("without") {
                    report.produced.retain(|file| file != missing);
                }
                report.invalid = option("invalid").map(str::to_owned);
                return world.apply(&report).err().map(|it| format!("refused: {it}"));
            }
            ["fail", node, reason] => {
                let Some(step) = world.claim(node) else { return Some("nothing to claim".to_owned()) };
                let reason: FailReason = reason.parse().unwrap();
                let outcome = Outcome::NotCompleted { reason, message: "as told".to_owned() };
                let report = Report { outcome, ..world.report_of(node, &step, 0) };
                return world.apply(&report).err().map(|it| format!("refused: {it}"));
            }
            ["claim", node] => {
                let step = world.claim(node);
                return Some(
                    step.map_or_else(|| "nothing to claim".to_owned(), |step| format!("{} is sent", step.name)),
                );
            }
            ["inputs", node] => {
                let inputs = world.claim(node).map(|step| step.inputs).unwrap_or_default();
                let said: Vec<String> =
                    inputs.iter().map(|it| format!("{} of attempt {}", it.path, it.attempt)).collect();
                return Some(said.join(", "));
            }
            ["answer", run, step, json, ..] => {
                let asked = &world.fleet.runs[&run_id(run)];
                let attempt = asked.steps.iter().find(|it| it.name.as_str() == *step).map_or(0, |it| it.attempt);
                let command = AnswerAsk {
                    run: run_id(run),
                    step: StepName::new(step).unwrap(),
                    attempt: option("attempt").map_or(attempt, |it| it.parse().unwrap()),
                    by: Principal::new(option("by").unwrap_or("anna")).unwrap(),
                    answer: serde_json::from_str(json).unwrap(),
                    sha256: "0".repeat(64),
                    size: 2,
                };
                return world.apply(&command).err().map(|it| format!("refused: {it}"));
            }
            ["drain", node, word] => {
                let word: Drain = word.trim_matches('"').parse().unwrap();
                world.drain(node, word).unwrap();
            }
            ["advert", node] => {
                let leases = world.advert(node).unwrap().leases.len();
                return Some(format!("{leases} leases"));
            }
            ["restart", node] => drop(world.restart(node, &[]).unwrap()),
            ["cancel", run] => drop(world.cancel(run).unwrap()),
            ["wait", seconds] => world.wait(seconds.parse().unwrap()),
            // Time goes by, and every agent goes on to advert.
            ["pass", seconds] => {
                let nodes: Vec<String> = world.agents.keys().cloned().collect();
                for _ in 0..seconds.parse::<u64>().unwrap() / 10 {
                    world.wait(10);
                    nodes.iter().for_each(|node| drop(world.advert(node).unwrap()));
                }
            }
            ["reap"] => drop(world.reap()),
            _ => panic!("unknown event {event:?}"),
        }
        let promoted = world.promoted();
        (!promoted.is_empty()).then(|| format!("served: {}", promoted.join(", ")))
    }

    fn show(&self, name: &str) -> String {
        let run = self.world.run(name);
        let cause = run.cause().map_or_else(String::new, |cause| format!(" {}", cause.as_str()));
        let held: Vec<&str> = run
            .nodes()
            .iter()
            .filter_map(|node| self.world.fleet.lease(node))
            .filter(|lease| lease.run == run.id)
            .map(|lease| self.world.fleet.node(&lease.node).unwrap().id.as_str())
            .collect();
        let on = if held.is_empty() { String::new() } else { format!(" on {}", held.join(",")) };
        let mut text = format!("{name} {}{cause}{on}:", run.state.as_str());
        for step in &run.steps {
            write!(text, " {}={}", step.name, step.state.as_str()).unwrap();
            if let StepState::Done { exit_code: Some(code), .. } = step.state
                && code != 0
            {
                write!(text, "({code})").unwrap();
            }
            if let StepState::Failed { reason, .. } = step.state {
                write!(text, "({reason})").unwrap();
            }
            if step.attempt > 0 {
                write!(text, "#{}", step.attempt).unwrap();
            }
            if step.round > 0 {
                write!(text, "~{}", step.round).unwrap();
            }
            if step.chosen {
                text.push('+');
            }
        }
        text
    }
}

#[test]
fn every_rule_is_as_its_golden_file_says() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/domain/golden");
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert!(files.len() >= 20, "only {} golden files", files.len());
    let mut wrong = Vec::new();
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap();
        let golden = read(&text);
        for (name, contract) in &golden.contracts {
            let parsed: Result<Contract, _> = parse(contract.as_bytes());
            assert!(parsed.is_ok(), "{}: contract {name}: {}", file.display(), parsed.unwrap_err());
        }
        let played = play(&golden);
        if played != text {
            if std::env::var_os("UPDATE_GOLDEN").is_some() {
                std::fs::write(&file, &played).unwrap();
            }
            wrong.push(format!("{}:\n{played}", file.display()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
