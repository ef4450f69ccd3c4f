//! `dispatch`: what it reads, what it leads to, and that each of its targets can be reached.

use std::collections::{HashMap, HashSet};

use super::{
    Problems, Seg,
    graph::{Graph, Set},
};
use crate::contract::{Dispatch, problem::cut};

pub(super) fn check(graph: &Graph<'_>, problems: &mut Problems<'_>) {
    let mut forked_by: HashMap<usize, usize> = HashMap::new();
    for (at, step) in graph.contract.steps.iter().enumerate() {
        let Some(fork) = &step.dispatch else { continue };
        let path = [Seg::Key("steps"), Seg::At(at), Seg::Key("dispatch"), Seg::Key("from")];
        if let Err(message) = check_source(fork, &step.out) {
            problems.add(&path, message);
        }
        check_targets(graph, at, fork, &mut forked_by, problems);
    }
}

fn check_source(fork: &Dispatch, out: &[String]) -> Result<(), String> {
    let shown = cut(&fork.from);
    let Some((file, pointer)) = fork.from.split_once('#') else {
        return Err(format!("{shown:?} names no place in a file; write FILE#/POINTER, such as verdict.json#/outcome"));
    };
    let tail_is_fine = |part: &str| part.is_empty() || part.starts_with(['0', '1']);
    if !pointer.starts_with('/') || !pointer.split('~').skip(1).all(tail_is_fine) {
        return Err(format!("{:?} is not a JSON pointer; it starts with '/', and '~' is written ~0", cut(pointer)));
    }
    if !out.iter().any(|name| name == file) {
        return Err(format!("{:?} is not in this step's `out`; add it there", cut(file)));
    }
    Ok(())
}

fn check_targets(
    graph: &Graph<'_>,
    at: usize,
    fork: &Dispatch,
    forked_by: &mut HashMap<usize, usize>,
    problems: &mut Problems<'_>,
) {
    let to = [Seg::Key("steps"), Seg::At(at), Seg::Key("dispatch"), Seg::Key("to")];
    let id = graph.name(at);
    let mut seen = HashSet::new();
    let mut targets = Vec::new();
    for (to_at, name) in fork.to.iter().enumerate() {
        let path = [to[0], to[1], to[2], to[3], Seg::At(to_at)];
        if !seen.insert(name) {
            problems.add(&path, format!("step {name} is named twice"));
            continue;
        }
        match graph.index.get(name.as_str()) {
            None => problems.add(&path, format!("there is no step {name}")),
            Some(target) if *target == at => problems.add(&path, format!("step {id} dispatches to itself")),
            Some(target) if *target < at => {
                let message = format!("step {name} comes before {id} and cannot be reached from it; a fork leads on");
                problems.add(&path, message);
            }
            Some(target) => match forked_by.insert(*target, at) {
                Some(other) => {
                    let message = format!(
                        "step {name} is a target of step {} already; one fork decides on a step",
                        graph.name(other)
                    );
                    problems.add(&path, message);
                }
                None => targets.push((to_at, *target)),
            },
        }
    }
    if seen.len() < 2 {
        problems.add(&to, "a fork leads to at least two different steps");
    }
    let mut doubtful = Vec::new();
    for (to_at, target) in &targets {
        let name = graph.name(*target);
        if !graph.waits(*target, at) {
            let path = [Seg::Key("steps"), Seg::At(*target), Seg::Key("needs")];
            problems.add(
                &path,
                format!("step {name} must need {id}, which dispatches to it, or it could run before {id} has decided"),
            );
        } else if !graph.needs[*target].contains(&at) {
            doubtful.push((*to_at, *target));
        }
    }
    if doubtful.is_empty() {
        return;
    }
    let skipped = skipped_by_pick(graph, at, &targets.iter().map(|(_, target)| *target).collect::<Vec<_>>());
    for (to_at, target) in doubtful {
        let pick = targets.iter().position(|(_, it)| *it == target).unwrap_or_default();
        if skipped[target].has(pick) {
            let path = [to[0], to[1], to[2], to[3], Seg::At(to_at)];
            let name = graph.name(target);
            let message = format!("step {name} cannot be reached: picking it skips every step that it needs");
            problems.add(&path, message);
        }
    }
}

/// For each step the picks of this fork under which it is skipped, as positions in `targets`.
pub(super) fn skipped_by_pick(graph: &Graph<'_>, fork: usize, targets: &[usize]) -> Vec<Set> {
    let none = Set::empty(targets.len());
    let position: HashMap<usize, usize> = targets.iter().enumerate().map(|(pick, target)| (*target, pick)).collect();
    let mut skipped: Vec<Set> = Vec::with_capacity(graph.needs.len());
    for (at, needs) in graph.needs.iter().enumerate() {
        // A step is skipped when all that it needs is; what runs before or beside the fork is not touched by it.
        let mut set = match needs.split_first() {
            Some((first, rest)) if at > fork => {
                let mut set = skipped[*first].clone();
                for need in rest {
                    if set.is_empty() {
                        break;
                    }
                    set.keep(&skipped[*need]);
                }
                set
            }
            _ => none.clone(),
        };
        if let Some(own) = position.get(&at) {
            (0..targets.len()).filter(|pick| pick != own).for_each(|pick| set.insert(pick));
        }
        skipped.push(set);
    }
    skipped
}
