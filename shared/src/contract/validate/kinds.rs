//! What each kind of step says, and what it may not carry because it would mean nothing there.

use super::{Problems, Seg};
use crate::contract::{Contract, Step, StepKind, decode::Gaps};

/// Most executions of one step.
const MOST_ATTEMPTS: u32 = 100;
/// Longest question or prompt, in bytes.
const LONGEST_TEXT: usize = 64 * 1024;

pub(super) fn check(contract: &Contract, gaps: &Gaps, problems: &mut Problems<'_>) {
    for (at, step) in contract.steps.iter().enumerate().filter(|(at, _)| !gaps.steps.contains(at)) {
        let path = [Seg::Key("steps"), Seg::At(at)];
        if check_one(step, &path, problems) {
            for (key, why) in out_of_place(step) {
                problems.add(&[path[0], path[1], Seg::Key(key)], why);
            }
        }
        let mut texts = Vec::new();
        texts.extend(step.agent.as_ref().map(|agent| ("agent", "prompt", agent.prompt.as_str())));
        texts.extend(step.agent.as_ref().map(|agent| ("agent", "harness", agent.harness.as_str())));
        texts.extend(step.ask.as_ref().map(|ask| ("ask", "question", ask.question.as_str())));
        for (kind, key, text) in texts {
            let path = [path[0], path[1], Seg::Key(kind), Seg::Key(key)];
            if text.trim().is_empty() {
                problems.add(&path, "is empty");
            } else if text.len() > LONGEST_TEXT {
                problems.add(&path, format!("has {} bytes; at most {LONGEST_TEXT}", text.len()));
            }
        }
        if step.agent.as_ref().is_some_and(|agent| agent.max_turns == Some(0)) {
            let path = [path[0], path[1], Seg::Key("agent"), Seg::Key("max_turns")];
            problems.add(&path, "0 turns would do nothing; leave it out for no limit");
        }
        let attempts = [path[0], path[1], Seg::Key("max_attempts")];
        match step.max_attempts {
            0 => problems.add(&attempts, "0 attempts would never run; write 1 or leave the key out"),
            1..=MOST_ATTEMPTS => {}
            more => problems.add(&attempts, format!("must be 1 to {MOST_ATTEMPTS}, but is {more}")),
        }
        if step.timeout.is_some_and(|timeout| timeout.millis() == 0) {
            let path = [path[0], path[1], Seg::Key("timeout")];
            problems.add(&path, "must be longer than nothing; leave it out for no limit");
        }
    }
}

/// Exactly one kind, a program where it is `run`, and a node where it is executed. Tells whether it is of one kind.
fn check_one(step: &Step, path: &[Seg<'_>; 2], problems: &mut Problems<'_>) -> bool {
    let set = [
        (StepKind::Run, step.run.is_some()),
        (StepKind::Agent, step.agent.is_some()),
        (StepKind::Acquire, step.acquire.is_some()),
        (StepKind::Ask, step.ask.is_some()),
    ];
    let kinds: Vec<&str> = set.iter().filter(|(_, set)| *set).map(|(kind, _)| kind.as_str()).collect();
    match kinds.as_slice() {
        [] => {
            problems.add(path, "a step does one thing; write `run: [PROGRAM, ARGUMENT, ...]`");
            return false;
        }
        [_] => {}
        several => {
            let message = format!("a step does exactly one thing, but this one has {}", several.join(" and "));
            problems.add(path, message);
            return false;
        }
    }
    let run = [path[0], path[1], Seg::Key("run")];
    match step.run.as_deref() {
        Some([]) => problems.add(&run, "names no program; write `run: [PROGRAM, ARGUMENT, ...]`"),
        Some([program, ..]) if program.is_empty() => problems.add(&run, "the program's name is empty"),
        Some(_) | None => {}
    }
    if step.kind().is_executed() && step.uses.is_none() {
        problems.add(path, format!("`uses` is missing; name the role whose node runs step {}", step.id));
    }
    true
}

/// Keys that would be ignored on this kind, which nothing may be.
fn out_of_place(step: &Step) -> Vec<(&'static str, String)> {
    let kind = step.kind();
    if kind.is_executed() {
        return Vec::new();
    }
    let what = match kind {
        StepKind::Acquire => "an acquire is the mediator's own doing and runs no program",
        StepKind::Ask | StepKind::Run | StepKind::Agent => "an ask waits for a person and runs no program",
    };
    let keys = [
        ("uses", step.uses.is_some()),
        ("env", !step.env.is_empty()),
        ("in", step.input.is_some()),
        ("max_attempts", step.max_attempts > 1),
    ];
    let mut found: Vec<(&'static str, String)> = keys
        .into_iter()
        .filter(|(_, used)| *used)
        .map(|(key, _)| (key, format!("{what}; leave `{key}` out")))
        .collect();
    if !step.out.is_empty() {
        let instead =
            if kind == StepKind::Ask { "the answer is its answer.json" } else { "its `outcome` can be dispatched on" };
        found.push(("out", format!("{what}; {instead}")));
    }
    if step.repeat.is_some() {
        found.push(("loop", format!("{what}; put the loop on a `run` or `agent` step")));
    }
    found
}
