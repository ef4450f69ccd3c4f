//! The work id, and environments: their names and what `$NAME` in them refers to.

use std::collections::BTreeMap;

use super::{Problems, Seg};
use crate::{
    WorkId,
    contract::{
        Contract,
        expand::{AGENT_NAMES, ExpandError, FOLDERS, expand, is_env_name},
        problem::cut,
    },
};

pub(super) fn check(contract: &Contract, problems: &mut Problems<'_>) {
    check_work(contract, problems);
    let agent = |name: &str| AGENT_NAMES.contains(&name);
    let outer = |name: &str| contract.env.contains_key(name);
    check_env(&contract.env, &[Seg::Key("env")], problems, |name| agent(name) && !FOLDERS.contains(&name));
    for (at, step) in contract.steps.iter().enumerate() {
        let step_path = [Seg::Key("steps"), Seg::At(at)];
        check_env(&step.env, &[step_path[0], step_path[1], Seg::Key("env")], problems, |name| {
            agent(name) || outer(name)
        });
        if let Some(agent_step) = &step.agent {
            let path = [step_path[0], step_path[1], Seg::Key("agent"), Seg::Key("prompt")];
            check_text(&agent_step.prompt, &path, problems, |name| {
                agent(name) || outer(name) || step.env.contains_key(name)
            });
        }
        for (arg_at, arg) in step.run.iter().flatten().enumerate() {
            let path = [step_path[0], step_path[1], Seg::Key("run"), Seg::At(arg_at)];
            check_text(arg, &path, problems, |name| agent(name) || outer(name) || step.env.contains_key(name));
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

fn check_env(
    env: &BTreeMap<String, String>,
    path: &[Seg<'_>],
    problems: &mut Problems<'_>,
    known: impl Fn(&str) -> bool,
) {
    for (name, value) in env {
        let path: Vec<Seg<'_>> = path.iter().copied().chain([Seg::Key(name)]).collect();
        if AGENT_NAMES.contains(&name.as_str()) {
            problems.add(&path, "the agent sets this name itself; choose another");
        } else if !is_env_name(name) {
            problems.add(&path, "an environment name has letters, digits and '_', and no digit first");
        }
        check_text(value, &path, problems, &known);
    }
}

fn check_text(text: &str, path: &[Seg<'_>], problems: &mut Problems<'_>, known: impl Fn(&str) -> bool) {
    if text.contains('\0') {
        problems.add(path, "holds a NUL byte, which no program can be given");
    }
    // Only whether it expands is wanted, not what comes out.
    match expand(text, |name| known(name).then(String::new)) {
        Err(ExpandError::Unknown(name)) if FOLDERS.contains(&name.as_str()) => {
            problems.add(path, format!("${name} exists only within a step; use it in the step's own `env` or `run`"));
        }
        Err(ExpandError::Unknown(name)) => problems.add(path, ExpandError::Unknown(cut(&name)).to_string()),
        Err(error @ ExpandError::Malformed(_)) => problems.add(path, error.to_string()),
        Ok(_) => {}
    }
}
