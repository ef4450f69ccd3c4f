//! The last part: tickets, which are files in a folder, worked on by the fleet of the demonstration.

use std::{
    process::Child,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use tests::{Mediator, Queue, mediator::signal};

use super::{LIMIT, observe, say};

/// A ticket that anybody can write with an editor.
const HELLO: &str = "---\ntitle: Say hello\nkind: work\n---\n\nHello from a file.\n";
/// What is run for one without a template.
const COMMAND: &str = "cat \"$IN/ticket.md\"; sleep 1";
const SHIP: &str = "---\ntitle: Ship it\nkind: ship\n---\n\nAsk first.\n";
/// The contract for tickets of kind `ship`: its first step asks a person, the second has the answer.
const TEMPLATE: &str = "requires: [{as: b, capability: build, attrs: {room: workshop}}]\nsteps:\n  \
    - {id: may, ask: {question: 'To whom does it go?'}}\n  \
    - {id: ship, uses: b, in: {from: [answer.json]}, run: [sh, -c, 'echo shipped to; cat $IN/answer.json']}\n";

/// A worker, stopped when it goes out of sight.
struct Worker(Child);

impl Drop for Worker {
    fn drop(&mut self) {
        signal(self.0.id(), "TERM");
        let _ended = self.0.wait();
    }
}

/// A ticket goes from a file to `.done.md`, and one asks on its way and is answered through a file.
pub(super) fn demonstrate(mediator: &Mediator) -> Result<()> {
    say(
        "A queue of tickets: a folder of Markdown files that people and programs write. It is worked on by the same fleet.",
    );
    let queue = Queue::new(Some(mediator));
    let templates = queue.home.path().join("templates");
    std::fs::create_dir(&templates)?;
    std::fs::write(templates.join("ship.yaml"), TEMPLATE)?;
    write(&queue, "hello.md", HELLO);
    show(&queue, &["list"]);

    say("A worker takes the next ticket, has a Run made for it, and renames the file at its end:");
    let templates = templates.to_str().context("a UTF-8 path")?;
    let _worker = Worker(queue.spawn(&["work", "--templates", templates, "--command", COMMAND]));
    println!("$ enode tickets work --templates DIR --command '{COMMAND}' &");
    let names = follow(&queue, "hello", "hello.done.md")?;
    ensure!(names.iter().any(|name| name == "hello.wip.md"), "nobody saw hello in progress: {names:?}");
    ensure!(queue.text("hello.done.md").ends_with("---\n\nHello from a file.\n"), "its text was changed");
    let run = run_of(mediator, "hello")?;
    observe("its Run has succeeded, and printed the ticket's text", || {
        Ok(mediator.state(&run) == "SUCCEEDED" && mediator.cli(&["logs", &run, "work"]).stdout.contains("from a file"))
    })?;

    say("Another one, whose Run asks a person. The question is written into the ticket, which then waits for a file:");
    write(&queue, "ship.md", SHIP);
    observe("ship waits for an answer, and nobody works on it", || Ok(queue.ticket("ship")["state"] == "answer_wait"))?;
    let text = queue.text("ship.md");
    ensure!(text.contains("To whom does it go?"), "the question is not in the ticket: {text}");
    println!("\n{}\n", indented("ship.md", &text));
    let run = run_of(mediator, "ship")?;
    observe("its Run still waits", || Ok(mediator.state(&run) == "RUNNING"))?;

    say("The answer is one new file. Any editor will do:");
    let awaiting = queue.ticket("ship")["awaiting"].as_str().context("what it waits for")?.to_owned();
    let answer = "---\ntitle: Yes\nkind: answer\n---\n\nto everybody\n";
    write(&queue, &format!("{awaiting}.done.md"), answer);
    follow(&queue, "ship", "ship.done.md")?;
    observe("the same Run had the answer, and has succeeded", || {
        let log = mediator.cli(&["logs", &run, "ship"]).stdout;
        Ok(mediator.state(&run) == "SUCCEEDED" && log == "shipped to\n\"to everybody\"")
    })?;
    show(&queue, &["list"]);
    Ok(())
}

fn write(queue: &Queue, name: &str, text: &str) {
    println!("{}", indented(name, text));
    queue.write(name, text);
}

fn indented(name: &str, text: &str) -> String {
    let lines = text.lines().map(|line| format!("        {line}").trim_end().to_owned());
    format!("    {name}\n{}", lines.collect::<Vec<_>>().join("\n"))
}

fn show(queue: &Queue, args: &[&str]) {
    println!("\n$ enode tickets {}", args.join(" "));
    let ran = queue.cli(args);
    print!("{}{}", ran.stdout, ran.stderr);
}

/// Shows each name that a ticket's file has until it has the last. Gives back all of them.
fn follow(queue: &Queue, stem: &str, last: &str) -> Result<Vec<String>> {
    let (started, mut seen) = (Instant::now(), Vec::<String>::new());
    loop {
        let names = queue.files().into_keys().filter(|name| name.split('.').next() == Some(stem));
        for name in names {
            if seen.last() != Some(&name) {
                println!("  {:>4.1}s {name}", started.elapsed().as_secs_f64());
                seen.push(name);
            }
        }
        if seen.last().is_some_and(|name| name == last) {
            return Ok(seen);
        }
        let log = || std::fs::read_to_string(queue.home.path().join("log")).unwrap_or_default();
        ensure!(started.elapsed() < LIMIT, "{stem} was not done; its worker said:\n{}", log());
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn run_of(mediator: &Mediator, stem: &str) -> Result<String> {
    let page = mediator.json(&["runs", "--work", &format!("ticket:{stem}")]);
    let runs: Vec<&Value> = page["runs"].as_array().into_iter().flatten().collect();
    ensure!(runs.len() == 1, "one Run was made for {stem}, and there are {}", runs.len());
    Ok(runs[0]["run_id"].as_str().context("its id")?.to_owned())
}
