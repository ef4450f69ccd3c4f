//! The work id, and environments: their names and what `$NAME` in them refers to.

use std::collections::BTreeMap;

use super::{Problems, Seg};
use crate::{
    WorkId,
    contract::{
        Contract,
        expand::{AGENT_NAMES, ExpandError, FOLDERS, HARNESS_NAMES, MAX_EXPANDED, expand, is_env_name},
        problem::cut,
    },
};

pub(super) fn check(contract: &Contract, problems: &mut Problems<'_>) {
    check_work(contract, problems);
    // How long the agent's values are is not known here: at least nothing.
    let agent = |name: &str| AGENT_NAMES.contains(&name).then_some(0);
    let has_agent = contract.steps.iter().any(|step| step.agent.is_some());
    let harness = has_agent.then_some(", or set it in the `env` of those steps that need it");
    let path = [Seg::Key("env")];
    let outer = check_env(&contract.env, &path, problems, (0, harness), |name| {
        agent(name).filter(|_| !FOLDERS.contains(&name))
    });
    let outer_bytes = outer.values().sum::<usize>();
    for (at, step) in contract.steps.iter().enumerate() {
        let step_path = [Seg::Key("steps"), Seg::At(at)];
        let outer = |name: &str| agent(name).or_else(|| outer.get(name).copied());
        // What the step sets itself takes the place of the contract's.
        let replaced = step.env.keys().filter_map(|name| outer(name)).sum::<usize>();
        let before = outer_bytes.saturating_sub(replaced);
        let path = [step_path[0], step_path[1], Seg::Key("env")];
        let own = check_env(&step.env, &path, problems, (before, step.agent.as_ref().map(|_| "")), outer);
        let known = |name: &str| agent(name).or_else(|| own.get(name).copied()).or_else(|| outer(name));
        if let Some(agent_step) = &step.agent {
            let path = [step_path[0], step_path[1], Seg::Key("agent"), Seg::Key("prompt")];
            check_text(&agent_step.prompt, &path, problems, 0, known);
        }
        let mut before = 0;
        for (arg_at, arg) in step.run.iter().flatten().enumerate() {
            let path = [step_path[0], step_path[1], Seg::Key("run"), Seg::At(arg_at)];
            before += check_text(arg, &path, problems, before, known);
        }
    }
}

fn check_work(contract: &Contract, problems: &mut Problems<'_>) {
    let Some(work) = &contract.work else { return };
    let mut refuse = |key, message: &str| problems.add(&[Seg::Key("work"), Seg::Key(key)], message);
    if work.system.is_empty() {
        refuse("system", "must not be empty");
    } else if work.system.contains(':') {
        refuse("system", "must not hold ':', which ends it in the work id SYSTEM:CHANGE_ID");
    }
    if work.change_id.is_empty() {
        refuse("change_id", "must not be empty");
    }
    if let Err(error) = WorkId::new(&format!("{}:{}", work.system, work.change_id)) {
        problems.add(&[Seg::Key("work")], error.to_string());
    }
}

/// The least that each value expands to. With `harness` the names that one is given are refused, with this advice.
fn check_env<'a>(
    env: &'a BTreeMap<String, String>,
    path: &[Seg<'_>],
    problems: &mut Problems<'_>,
    (mut before, harness): (usize, Option<&str>),
    known: impl Fn(&str) -> Option<usize>,
) -> BTreeMap<&'a str, usize> {
    let mut sizes = BTreeMap::new();
    for (name, value) in env {
        let path: Vec<Seg<'_>> = path.iter().copied().chain([Seg::Key(name)]).collect();
        if AGENT_NAMES.contains(&name.as_str()) {
            problems.add(&path, "the agent sets this name itself; choose another");
        } else if let Some(advice) = harness.filter(|_| HARNESS_NAMES.contains(&name.as_str())) {
            problems.add(&path, format!("the agent sets this name itself for an `agent` step; choose another{advice}"));
        } else if !is_env_name(name) {
            problems.add(&path, "an environment name has letters, digits and '_', and no digit first");
        }
        let size = check_text(value, &path, problems, before, &known);
        before += size;
        sizes.insert(name.as_str(), size);
    }
    sizes
}

/// The least that a text expands to; `known` says that of a name. `before` is that of what stands before it.
fn check_text(
    text: &str,
    path: &[Seg<'_>],
    problems: &mut Problems<'_>,
    before: usize,
    known: impl Fn(&str) -> Option<usize>,
) -> usize {
    if text.contains('\0') {
        problems.add(path, "holds a NUL byte, which no program can be given");
    }
    // Only whether it expands is wanted, and how long that is, not what comes out.
    let mut put_in = 0_usize;
    let expanded = expand(text, |name| {
        put_in = put_in.saturating_add(known(name)?);
        Some(String::new())
    });
    let expanded = expanded.and_then(|literal| match literal.len().saturating_add(put_in) {
        size if size > MAX_EXPANDED => Err(ExpandError::TooLong),
        size if before.saturating_add(size) > MAX_EXPANDED => Err(ExpandError::TooLongTogether),
        size => Ok(size),
    });
    match expanded {
        Ok(size) => return size,
        Err(ExpandError::Unknown(name)) if FOLDERS.contains(&name.as_str()) => {
            problems.add(path, format!("${name} exists only within a step; use it in the step's own `env` or `run`"));
        }
        Err(ExpandError::Unknown(name)) => problems.add(path, ExpandError::Unknown(cut(&name)).to_string()),
        Err(error @ (ExpandError::Malformed(_) | ExpandError::TooLong | ExpandError::TooLongTogether)) => {
            problems.add(path, error.to_string());
        }
    }
    0
}
