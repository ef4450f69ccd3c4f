//! `requires` and `acquire`, and every place that names a role.

use std::collections::HashMap;

use super::{Problems, Seg};
use crate::{
    RoleName,
    contract::{AttrMatch, Contract, MAX_COUNT, MAX_ROLES, Require, problem::cut},
};

/// Most nodes of all roles with `apart` together. Finding places for them is a search.
const MAX_APART: u32 = 256;

pub(super) fn check(contract: &Contract, problems: &mut Problems<'_>) {
    let requires = Seg::Key("requires");
    if contract.requires.is_empty() {
        problems.add(&[requires], "a contract requires at least one role");
    }
    let acquires = contract.steps.iter().filter(|step| step.acquire.is_some()).count();
    let roles = contract.requires.len() + acquires;
    if roles > MAX_ROLES {
        return problems.add(&[requires], format!("a contract has at most {MAX_ROLES} roles; this one has {roles}"));
    }
    let mut counts: HashMap<&RoleName, u32> = HashMap::new();
    let mut take = |role, count| counts.insert(role, count).is_some();
    for (at, require) in contract.requires.iter().enumerate() {
        let twice = take(&require.role, require.count);
        check_wanted(require, twice, &[requires, Seg::At(at)], problems);
    }
    for (at, step) in contract.steps.iter().enumerate() {
        let Some(acquire) = &step.acquire else { continue };
        let twice = take(&acquire.role, acquire.count);
        check_wanted(&acquire.require(), twice, &[Seg::Key("steps"), Seg::At(at), Seg::Key("acquire")], problems);
    }
    let apart = contract.requires.iter().filter(|it| it.apart).fold(0u32, |sum, it| sum.saturating_add(it.count));
    if apart > MAX_APART {
        problems
            .add(&[requires], format!("roles with `apart: true` have at most {MAX_APART} nodes; these have {apart}"));
    }
    check_uses(contract, &counts, problems);
}

fn check_wanted(require: &Require, twice: bool, path: &[Seg<'_>], problems: &mut Problems<'_>) {
    let below = |keys: &[Seg<'static>]| -> Vec<Seg<'_>> { path.iter().chain(keys).copied().collect() };
    let mut refuse = |key, message: String| problems.add(&below(&[Seg::Key(key)]), message);
    if twice {
        refuse("as", format!("role {} is there twice; roles are told apart by their names", require.role));
    }
    if !(1..=MAX_COUNT).contains(&require.count) {
        refuse("count", format!("must be 1 to {MAX_COUNT}, but is {}", require.count));
    }
    if !is_word(&require.capability) {
        refuse("capability", "must be a word of 1 to 128 printable characters without blanks".to_owned());
    }
    for (name, want) in &require.attrs {
        let path: Vec<Seg<'_>> = path.iter().copied().chain([Seg::Key("attrs"), Seg::Key(name)]).collect();
        if !is_word(name) {
            problems.add(&path, "an attribute's name has 1 to 128 printable characters and no blanks");
        }
        if matches!(want, AttrMatch::Any(any) if any.any.is_empty()) {
            problems.add(&path, "`any` names no value, so that no node could ever do");
        }
    }
}

fn check_uses(contract: &Contract, counts: &HashMap<&RoleName, u32>, problems: &mut Problems<'_>) {
    for (at, step) in contract.steps.iter().enumerate() {
        let steps = [Seg::Key("steps"), Seg::At(at)];
        let path = [steps[0], steps[1], Seg::Key("uses")];
        if let Some(uses) = &step.uses {
            match counts.get(&uses.role) {
                None => problems.add(&path, unknown_role(&uses.role, contract)),
                Some(count) if uses.index >= *count => {
                    let role = &uses.role;
                    let message = match count {
                        0 | 1 => format!("role {role} has one node: write {role}"),
                        _ => format!("role {role} has {count} nodes, {role}[0] to {role}[{}]", count - 1),
                    };
                    problems.add(&path, message);
                }
                Some(_) => {}
            }
        }
        for (role_at, role) in step.release.iter().enumerate() {
            if !counts.contains_key(role) {
                let path = [steps[0], steps[1], Seg::Key("release"), Seg::At(role_at)];
                problems.add(&path, unknown_role(role, contract));
            }
        }
    }
}

fn unknown_role(role: &RoleName, contract: &Contract) -> String {
    let required = contract.requires.iter().map(|it| it.role.as_str());
    let acquired = contract.steps.iter().filter_map(|step| step.acquire.as_ref()).map(|it| it.role.as_str());
    let known: Vec<&str> = required.chain(acquired).collect();
    format!("there is no role {role}; known here: {}", cut(&known.join(", ")))
}

fn is_word(text: &str) -> bool {
    (1..=128).contains(&text.len()) && !text.chars().any(|c| c.is_control() || c.is_whitespace())
}
