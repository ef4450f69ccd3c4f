//! The demonstration: a mediator and three agents on this machine, real work, and the owner's word.
//!
//! At its end, tickets: files in a folder that the same fleet works on (`tickets`).
//!
//! Everything it claims it has observed; it exits with 0 only if it observed all of it.

mod tickets;

use std::{
    path::Path,
    process::{Command, ExitCode},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};
use tests::{
    Agent, AgentOptions, Engine, Mediator,
    mediator::{run, step_of},
};

/// Longer than a first build of the crate and its libraries takes on a small machine.
const LIMIT: Duration = Duration::from_secs(20 * 60);

fn main() -> ExitCode {
    match demonstrate() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            println!("\nThe demonstration ends here: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn demonstrate() -> Result<()> {
    let repository = repository()?;
    say("A mediator on embedded SQLite, and three machines of three owners.");
    // What tests have no time for: a small machine that is busy with a build may be late with an advert.
    let mediator = Mediator::start_with(Engine::Sqlite, &[("MEDIATOR_LEASE__RENEW", "5s")]);
    let machine = |name, capability: &str, room: &str| {
        let capabilities = format!("[[capability]]\nname = \"{capability}\"\nattrs = {{ room = \"{room}\" }}\n");
        let extra = "pass_env = [\"PATH\", \"HOME\", \"CARGO_HOME\", \"RUSTUP_HOME\"]\n";
        let options = AgentOptions { capabilities: &capabilities, extra, ..AgentOptions::builder(name) };
        Agent::start_as_user(&mediator, &options)
    };
    let _bench = machine("bench", "build", "workshop");
    let _desk = machine("desk", "judge", "office");
    let attic = machine("attic", "build", "attic");
    observe("three machines advertise themselves", || {
        Ok(mediator.json(&["nodes"])["nodes"].as_array().map(Vec::len) == Some(3))
    })?;
    show(&mediator, &["nodes"]);

    say("A Run: fetch this repository, build and test its `shared` crate on one machine, judge the report on another.");
    let build =
        std::fs::read_to_string("examples/contracts/build-shared.yaml").context("run this from the repository")?;
    let build = build.replace("@REPO@", &repository);
    submit(&mediator, "build-shared", &build)?;

    say("A second Run that needs the same machine: it waits in line and can say why.");
    submit(
        &mediator,
        "second",
        "requires: [{as: b, capability: build, attrs: {room: workshop}}]\nsteps: [{id: hello, uses: b, run: [echo, 'at last: $RUN_ID on $NODE_ID']}]\n",
    )?;
    observe("it is QUEUED", || Ok(mediator.state("second") == "QUEUED"))?;
    show(&mediator, &["explain", "second"]);

    say("In the attic a Run of two steps begins, and another waits behind it.");
    submit(
        &mediator,
        "attic-1",
        "requires: [{as: b, capability: build, attrs: {room: attic}}]\nsteps:\n  - {id: one, uses: b, run: [sleep, '4']}\n  - {id: two, uses: b, run: [sleep, '4']}\n",
    )?;
    submit(
        &mediator,
        "attic-2",
        "requires: [{as: b, capability: build, attrs: {room: attic}}]\nsteps: [{id: one, uses: b, run: [echo, back]}]\n",
    )?;
    observe("its first step runs", || Ok(step_of(&mediator.show("attic-1"), "one")["state"] == "CLAIMED"))?;

    say("The owner of the attic wants it back after the running step, and says so in the policy file:");
    attic.write_policy("drain = \"at-boundary\"\nreason = \"the heating is being mended\"\n");
    println!(
        "    {}\n        drain = \"at-boundary\"\n        reason = \"the heating is being mended\"",
        attic.policy_path().display()
    );
    observe("the mediator shows it draining", || {
        Ok(mediator.node("attic").is_some_and(|node| node["draining"] == "at-boundary"))
    })?;
    observe("the running step ended, the next was not begun, and the Run says why", || {
        let page = mediator.show("attic-1");
        Ok(page["run"]["verdict"]["cause"] == "drain"
            && step_of(&page, "one")["state"] == "DONE"
            && step_of(&page, "two")["state"] == "SKIPPED")
    })?;
    observe("nothing is granted on it although it is free", || {
        Ok(mediator.state("attic-2") == "QUEUED" && mediator.leases().iter().all(|lease| lease["node_id"] != "attic"))
    })?;
    show(&mediator, &["nodes"]);

    say("The owner releases it. Nothing central could have.");
    let released = attic.cli(&["undrain"]);
    ensure!(released.code == 0, "enode undrain: {}", released.stderr);
    observe("what waited for it ran (wake point 6, AdvertOpened)", || {
        Ok(mediator.state("attic-2") == "SUCCEEDED" && mediator.promotions("AdvertOpened") == 1)
    })?;

    say("Meanwhile the crate is being built and tested:");
    follow(&mediator, "build-shared")?;
    let page = mediator.show("build-shared");
    show(&mediator, &["show", "build-shared"]);
    ensure!(page["run"]["state"] == "SUCCEEDED", "the build did not succeed");
    ensure!(
        step_of(&page, "judge")["node"] == "desk" && step_of(&page, "test")["node"] == "bench",
        "the work ran where it should not"
    );
    ensure!(
        step_of(&page, "ship")["chosen"] == true && step_of(&page, "repair")["state"] == "SKIPPED",
        "the fork went the wrong way"
    );
    observe("the second Run was promoted (wake point 1, RunSettled) and ran", || {
        Ok(mediator.state("second") == "SUCCEEDED" && mediator.promotions("RunSettled") == 1)
    })?;
    observe("its Record is sealed", || Ok(mediator.show("build-shared")["sealed_at"].is_string()))?;
    ensure!(mediator.promotions("Sweep") == 0, "the sweep found a Run that a wake point had missed");

    say("What an operator sees:");
    for command in ["nodes", "leases", "runs"] {
        show(&mediator, &[command]);
    }
    println!("\nThe same as JSON, while a mediator runs: {}/v1/nodes, /v1/runs, /v1/leases, /metrics", mediator.url());
    tickets::demonstrate(&mediator)?;
    println!("\nEvery step of the demonstration was observed.");
    Ok(())
}

/// This repository as git can clone it.
fn repository() -> Result<String> {
    let top = run(Command::new("git").args(["rev-parse", "--show-toplevel"]));
    if top.code != 0 || !Path::new(top.stdout.trim()).join("shared/Cargo.toml").exists() {
        bail!("run `make demo` inside a git clone of this repository: {}", top.stderr);
    }
    Ok(format!("file://{}", top.stdout.trim()))
}

fn say(text: &str) {
    println!("\n== {text}");
}

fn show(mediator: &Mediator, args: &[&str]) {
    println!("\n$ mediator {}", args.join(" "));
    let ran = mediator.cli(args);
    print!("{}{}", ran.stdout, ran.stderr);
}

fn submit(mediator: &Mediator, id: &str, contract: &str) -> Result<()> {
    let file = mediator.home.path().join(format!("{id}.yaml"));
    std::fs::write(&file, contract)?;
    let ran = mediator.cli(&["submit", file.to_str().context("a UTF-8 path")?, "--run-id", id]);
    println!("$ mediator submit {id}.yaml --run-id {id}\n{}{}", ran.stdout, ran.stderr);
    ensure!(ran.code == 0, "the Run was refused");
    Ok(())
}

/// Waits for something and says so. An observation that is not made ends the demonstration.
fn observe(what: &str, mut holds: impl FnMut() -> Result<bool>) -> Result<()> {
    let started = Instant::now();
    while !holds()? {
        ensure!(started.elapsed() < LIMIT, "not observed: {what}");
        std::thread::sleep(Duration::from_millis(100));
    }
    println!("  observed: {what}");
    Ok(())
}

/// Shows what a Run is doing until it has ended.
fn follow(mediator: &Mediator, id: &str) -> Result<()> {
    let started = Instant::now();
    let mut shown = String::new();
    loop {
        let page = mediator.show(id);
        let state = page["run"]["state"].as_str().unwrap_or_default().to_owned();
        let doing = page["run"]["current"][0]["step"].as_str().unwrap_or_default().to_owned();
        let log = mediator.cli(&["logs", id, &doing]).stdout;
        let line = format!("{state} {doing}: {}", log.lines().last().unwrap_or_default());
        if line != shown {
            println!("  {:>4}s {}", started.elapsed().as_secs(), line.chars().take(120).collect::<String>());
            shown = line;
        }
        if state == "SUCCEEDED" || state == "FAILED" {
            return Ok(());
        }
        ensure!(started.elapsed() < LIMIT, "{id} has not ended");
        std::thread::sleep(Duration::from_millis(500));
    }
}
