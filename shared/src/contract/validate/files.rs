//! `out` and `in`: names that stay inside their folder, and inputs that somebody has made before.

use std::collections::{HashMap, HashSet};

use super::{Problems, Seg, graph::Graph};
use crate::contract::{MAX_FILES, problem::cut};

pub(super) fn check(graph: &Graph<'_>, problems: &mut Problems<'_>) {
    let mut makers: HashMap<&str, Vec<usize>> = HashMap::new();
    for (at, step) in graph.contract.steps.iter().enumerate() {
        let path = [Seg::Key("steps"), Seg::At(at), Seg::Key("out")];
        if step.out.len() > MAX_FILES {
            problems.add(&path, format!("a step has at most {MAX_FILES} outputs; name their folder instead"));
            continue;
        }
        let mut seen = HashSet::new();
        for (name_at, name) in step.out.iter().enumerate() {
            let path = [path[0], path[1], path[2], Seg::At(name_at)];
            if let Err(why) = check_name(name) {
                problems.add(&path, format!("{:?} {why}", cut(name)));
            } else if !seen.insert(name) {
                problems.add(&path, format!("{:?} is named twice", cut(name)));
            }
        }
        for name in step.outputs() {
            let makers = makers.entry(name).or_default();
            if makers.last() != Some(&at) {
                makers.push(at);
            }
        }
    }
    for (at, step) in graph.contract.steps.iter().enumerate() {
        let Some(input) = &step.input else { continue };
        let path = [Seg::Key("steps"), Seg::At(at), Seg::Key("in"), Seg::Key("from")];
        if input.from.len() > MAX_FILES {
            problems.add(&path, format!("a step has at most {MAX_FILES} inputs; name their folder instead"));
            continue;
        }
        let mut seen = HashSet::new();
        for (from_at, from) in input.from.iter().enumerate() {
            let path = [path[0], path[1], path[2], path[3], Seg::At(from_at)];
            if !seen.insert(from) {
                problems.add(&path, format!("{:?} is named twice", cut(from)));
            } else if let Err(why) = check_input(graph, &makers, at, from) {
                problems.add(&path, why);
            }
        }
    }
}

/// A name below a folder that cannot lead out of it, spelled in one way only.
fn check_name(name: &str) -> Result<(), &'static str> {
    if name.is_empty() {
        return Err("is empty; name a file or folder below $OUT");
    }
    if name.len() > 512 {
        return Err("is longer than 512 bytes");
    }
    if name.starts_with('/') {
        return Err("is absolute; name a file or folder below $OUT");
    }
    if name.chars().any(char::is_control) {
        return Err("holds a control character");
    }
    match name.split('/').find(|part| part.is_empty() || *part == "." || *part == "..") {
        Some("..") => Err("leads out of $OUT; leave out '..'"),
        Some(".") => Err("has a part '.'; leave it out"),
        Some(_) => Err("has an empty part; write one '/' between names and none at the end"),
        None => Ok(()),
    }
}

/// `FILE` of some step before this one, or `STEP/FILE` of that one.
fn check_input(graph: &Graph<'_>, makers: &HashMap<&str, Vec<usize>>, at: usize, from: &str) -> Result<(), String> {
    let id = graph.name(at);
    let (of, file) = match from.split_once('/').and_then(|(step, file)| Some((*graph.index.get(step)?, file))) {
        Some((step, file)) => (Some(step), file),
        None => (None, from),
    };
    // In the order of the steps.
    let made = makers.get(file).map(Vec::as_slice).unwrap_or_default();
    let made = match of {
        Some(step) => made.binary_search(&step).map_or(&[][..], |found| &made[found..=found]),
        None => made,
    };
    let Some(maker) = made.first() else {
        return Err(match of {
            Some(step) => format!("step {} has no {:?} in its `out`", graph.name(step), cut(file)),
            None => format!("no step has {:?} in its `out`; write FILE or STEP/FILE", cut(file)),
        });
    };
    if made.iter().any(|maker| graph.waits(at, *maker)) {
        return Ok(());
    }
    let maker = graph.name(*maker);
    let from = cut(from);
    if maker == id {
        return Err(format!("{from:?} is made by this step itself; inputs come from steps that it needs"));
    }
    Err(format!("{from:?} is made by step {maker}, for which {id} does not wait; let {id} need {maker}"))
}
