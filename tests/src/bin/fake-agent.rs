//! A coding agent for tests: it does what its prompt tells it, line by line.
//!
//! | line | meaning |
//! |---|---|
//! | `say TEXT` | prints a line |
//! | `answer TEXT` | leaves this answer in `$ANSWER_FILE` |
//! | `turns N` | takes so many turns, but no more than `$MAX_TURNS`, and prints how many it took |
//! | `leave FILE TEXT` | writes a file below `$OUT` |
//! | `sleep MS` | is slow |
//! | `deaf` | goes on after SIGTERM |
//! | `crash` | ends by a signal |
//! | `exit N` | ends |
//!
//! `[attempt N]` and `[round N]` before a line have it done only then. The prompt comes from `--prompt TEXT`,
//! `--brief FILE`, or stdin. `--schema FILE` and `--turns N` are printed. Every start adds a line to the file of
//! `--count FILE`.

use std::{
    io::{Read as _, Write as _},
    process::{Command, ExitCode},
    time::Duration,
};

use anyhow::{Context as _, Result, bail};

fn main() -> ExitCode {
    match act() {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            eprintln!("fake-agent: {error:#}");
            ExitCode::from(99)
        }
    }
}

fn var(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

fn act() -> Result<u8> {
    let mut prompt = None;
    let mut args = std::env::args().skip(1);
    while let Some(flag) = args.next() {
        let value = args.next().with_context(|| format!("{flag} needs a value"))?;
        match flag.as_str() {
            "--prompt" => prompt = Some(value),
            "--brief" => prompt = Some(std::fs::read_to_string(value)?),
            "--schema" => eprintln!("schema {}", std::fs::read_to_string(value)?),
            "--turns" => eprintln!("turns {value}"),
            "--count" => {
                writeln!(std::fs::File::options().create(true).append(true).open(value)?, "started")?;
            }
            other => bail!("unknown flag {other}"),
        }
    }
    let prompt = match prompt {
        Some(prompt) => prompt,
        None => {
            let mut text = String::new();
            std::io::stdin().read_to_string(&mut text)?;
            text
        }
    };
    for line in prompt.lines().filter_map(now).filter(|line| !line.is_empty()) {
        if let Some(code) = obey(line)? {
            return Ok(code);
        }
    }
    Ok(0)
}

/// The line without its condition, if that holds.
fn now(line: &str) -> Option<&str> {
    let line = line.trim();
    let Some((condition, rest)) = line.strip_prefix('[').and_then(|it| it.split_once(']')) else { return Some(line) };
    let (what, number) = condition.split_once(' ')?;
    (var(&what.to_uppercase()).as_deref() == Some(number)).then(|| rest.trim())
}

fn obey(line: &str) -> Result<Option<u8>> {
    let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
    match word {
        "say" => println!("{rest}"),
        "answer" => std::fs::write(var("ANSWER_FILE").context("ANSWER_FILE is not set")?, rest)?,
        "turns" => {
            let wanted: u32 = rest.parse()?;
            let most = var("MAX_TURNS").map(|it| it.parse()).transpose()?.unwrap_or(u32::MAX);
            println!("took {} turns", wanted.min(most));
        }
        "leave" => {
            let (file, text) = rest.split_once(' ').context("leave FILE TEXT")?;
            std::fs::write(std::path::Path::new(&var("OUT").context("OUT is not set")?).join(file), text)?;
        }
        "sleep" => std::thread::sleep(Duration::from_millis(rest.parse()?)),
        "deaf" => {
            // A shell that ignores the signal stands for an agent that does.
            let status = Command::new("sh").args(["-c", "trap '' TERM; while :; do sleep 1; done"]).status()?;
            bail!("the shell ended: {status}");
        }
        "crash" => {
            let me = std::process::id().to_string();
            Command::new("kill").args(["-9", &me]).status()?;
        }
        "exit" => return Ok(Some(rest.parse()?)),
        other => bail!("the prompt says {other:?}, and nobody taught me that"),
    }
    Ok(None)
}
