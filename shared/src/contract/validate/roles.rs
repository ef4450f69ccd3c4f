//! `requires`, and every place that names a role.

use std::collections::HashMap;

use super::{Problems, Seg};
use crate::{
    RoleName,
    contract::{AttrMatch, Contract, MAX_COUNT, MAX_ROLES, StepKind, problem::cut},
};

pub(super) fn check(contract: &Contract, problems: &mut Problems<'_>) {
    let requires = Seg::Key("requires");
    if contract.requires.is_empty() {
        problems.add(&[requires], "a contract requires at least one role");
    }
    if contract.requires.len() > MAX_ROLES {
        let message = format!("a contract has at most {MAX_ROLES} roles; this one has {}", contract.requires.len());
        return problems.add(&[requires], message);
    }
    let mut counts: HashMap<&RoleName, u32> = HashMap::new();
    for (at, require) in contract.requires.iter().enumerate() {
        let mut refuse = |key, message: String| problems.add(&[requires, Seg::At(at), Seg::Key(key)], message);
        if counts.insert(&require.role, require.count).is_some() {
            refuse("as", format!("role {} is there twice; roles are told apart by their names", require.role));
        }
        if !(1..=MAX_COUNT).contains(&require.count) {
            refuse("count", format!("must be 1 to {MAX_COUNT}, but is {}", require.count));
        }
        if !is_word(&require.capability) {
            refuse("capability", "must be a word of 1 to 128 printable characters without blanks".to_owned());
        }
        for (name, want) in &require.attrs {
            let path = [requires, Seg::At(at), Seg::Key("attrs"), Seg::Key(name)];
            if !is_word(name) {
                problems.add(&path, "an attribute's name has 1 to 128 printable characters and no blanks");
            }
            if matches!(want, AttrMatch::Any(any) if any.any.is_empty()) {
                problems.add(&path, "`any` names no value, so that no node could ever do");
            }
        }
    }
    for (at, step) in contract.steps.iter().enumerate() {
        let steps = [Seg::Key("steps"), Seg::At(at)];
        let path = [steps[0], steps[1], Seg::Key("uses")];
        match &step.uses {
            None if step.run.is_some() => {
                problems.add(&steps, format!("`uses` is missing; name the role whose node runs step {}", step.id));
            }
            None => {}
            Some(uses) => match counts.get(&uses.role) {
                None => problems.add(&path, unknown_role(&uses.role, contract)),
                Some(count) if uses.index >= *count => {
                    let role = &uses.role;
                    let message =
                        format!("role {role} has {count} node(s), {role}[0] to {role}[{}]", count.max(&1) - 1);
                    problems.add(&path, message);
                }
                Some(_) => {}
            },
        }
        for (role_at, role) in step.release.iter().enumerate() {
            if !counts.contains_key(role) {
                let path = [steps[0], steps[1], Seg::Key("release"), Seg::At(role_at)];
                problems.add(&path, unknown_role(role, contract));
            }
        }
        check_kind(contract, at, problems);
    }
}

fn unknown_role(role: &RoleName, contract: &Contract) -> String {
    let known: Vec<&str> = contract.requires.iter().map(|it| it.role.as_str()).collect();
    format!("there is no role {role}; `requires` has {}", cut(&known.join(", ")))
}

/// Exactly one kind, and a program where it is `run`.
fn check_kind(contract: &Contract, at: usize, problems: &mut Problems<'_>) {
    let step = &contract.steps[at];
    let path = [Seg::Key("steps"), Seg::At(at)];
    let set = [
        (StepKind::Run, step.run.is_some()),
        (StepKind::Agent, step.agent.is_some()),
        (StepKind::Acquire, step.acquire.is_some()),
        (StepKind::Ask, step.ask.is_some()),
    ];
    let kinds: Vec<&str> = set.iter().filter(|(_, set)| *set).map(|(kind, _)| kind.as_str()).collect();
    match kinds.as_slice() {
        [] => problems.add(&path, "a step does one thing; write `run: [PROGRAM, ARGUMENT, ...]`"),
        [_] => {}
        several => {
            problems.add(&path, format!("a step does exactly one thing, but this one has {}", several.join(" and ")))
        }
    }
    let run = [path[0], path[1], Seg::Key("run")];
    match step.run.as_deref() {
        Some([]) => problems.add(&run, "names no program; write `run: [PROGRAM, ARGUMENT, ...]`"),
        Some([program, ..]) if program.is_empty() => problems.add(&run, "the program's name is empty"),
        Some(_) | None => {}
    }
    if step.timeout.is_some_and(|timeout| timeout.millis() == 0) {
        let path = [path[0], path[1], Seg::Key("timeout")];
        problems.add(&path, "must be longer than nothing; leave it out for no limit");
    }
}

fn is_word(text: &str) -> bool {
    (1..=128).contains(&text.len()) && !text.chars().any(|c| c.is_control() || c.is_whitespace())
}
