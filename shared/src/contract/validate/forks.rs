//! `dispatch`: what it reads, what it leads to, and that each of its targets can be reached.

use std::collections::{HashMap, HashSet};

use super::{
    Problems, Seg,
    graph::{Graph, Set},
};
use crate::contract::{Dispatch, OUTCOME, Step, Targets, problem::cut};

pub(super) fn check(graph: &Graph<'_>, problems: &mut Problems<'_>) {
    let mut forked_by: HashMap<usize, usize> = HashMap::new();
    for (at, step) in graph.contract.steps.iter().enumerate() {
        let Some(fork) = &step.dispatch else { continue };
        let path = [Seg::Key("steps"), Seg::At(at), Seg::Key("dispatch"), Seg::Key("from")];
        if let Err(message) = check_source(fork, step) {
            problems.add(&path, message);
        }
        if step.acquire.is_some() {
            check_outcomes(at, fork, problems);
        }
        check_targets(graph, at, fork, &mut forked_by, problems);
    }
}

/// An acquire got what it wants.
const ACQUIRED: &str = "acquired";
/// What an acquire comes to.
const OUTCOMES: [&str; 3] = [ACQUIRED, "unavailable", "deadlock"];

/// An acquire chooses by the word of its outcome.
fn check_outcomes(at: usize, fork: &Dispatch, problems: &mut Problems<'_>) {
    let path = [Seg::Key("steps"), Seg::At(at), Seg::Key("dispatch"), Seg::Key("to")];
    if let Some(other) = fork.to.values().into_iter().find(|value| !OUTCOMES.contains(value)) {
        let message = format!(
            "{:?} is no outcome of an acquire; write `to: {{acquired: STEP, unavailable: STEP, deadlock: STEP}}`",
            cut(other)
        );
        problems.add(&path, message);
    }
    if fork.to.chosen_by(ACQUIRED).is_none() {
        let message = format!("says nothing of {ACQUIRED}, so that the step would fail when it gets what it wants");
        problems.add(&path, message);
    }
}

fn check_source(fork: &Dispatch, step: &Step) -> Result<(), String> {
    let shown = cut(&fork.from);
    if step.acquire.is_some() {
        let fine = fork.from == OUTCOME;
        return fine.then_some(()).ok_or_else(|| format!("an acquire leaves no file; write `from: {OUTCOME}`"));
    }
    let Some((file, pointer)) = fork.from.split_once('#') else {
        return Err(format!("{shown:?} names no place in a file; write FILE#/POINTER, such as verdict.json#/outcome"));
    };
    let tail_is_fine = |part: &str| part.is_empty() || part.starts_with(['0', '1']);
    if !pointer.starts_with('/') || !pointer.split('~').skip(1).all(tail_is_fine) {
        return Err(format!("{:?} is not a JSON pointer; it starts with '/', and '~' is written ~0", cut(pointer)));
    }
    if !step.outputs().any(|name| name == file) {
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
    for (to_at, name) in entries(&fork.to) {
        let path = [to[0], to[1], to[2], to[3], to_at];
        if !seen.insert(name) {
            // Several values may lead to one step; the same name twice in a list says nothing.
            if matches!(fork.to, Targets::Steps(_)) {
                problems.add(&path, format!("step {name} is named twice"));
            }
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
            let path = [to[0], to[1], to[2], to[3], to_at];
            let name = graph.name(target);
            let message = format!("step {name} cannot be reached: picking it skips every step that it needs");
            problems.add(&path, message);
        }
    }
}

/// The targets as written, each with where it stands below `to`.
fn entries(to: &Targets) -> Vec<(Seg<'_>, &crate::StepName)> {
    match to {
        Targets::Steps(steps) => steps.iter().enumerate().map(|(at, step)| (Seg::At(at), step)).collect(),
        Targets::Values(values) => values.iter().map(|(value, step)| (Seg::Key(value), step)).collect(),
    }
}

/// Keeps of these only where both steps of the pair can run in one and the same course: two branches of one fork
/// never do.
pub(super) fn retain_possible<T>(graph: &Graph<'_>, pairs: &mut Vec<T>, steps: impl Fn(&T) -> (usize, usize)) {
    for (fork, step) in graph.contract.steps.iter().enumerate() {
        let Some(dispatch) = &step.dispatch else { continue };
        if pairs.is_empty() {
            return;
        }
        let mut targets: Vec<usize> = dispatch
            .to
            .steps()
            .filter_map(|name| graph.index.get(name.as_str()).copied())
            .filter(|at| *at > fork)
            .collect();
        targets.sort_unstable();
        targets.dedup();
        let skipped = skipped_by_pick(graph, fork, &targets);
        pairs.retain(|pair| {
            let (one, other) = steps(pair);
            let (one, other) = (&skipped[one], &skipped[other]);
            (0..targets.len()).any(|pick| !one.has(pick) && !other.has(pick)) || targets.is_empty()
        });
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
