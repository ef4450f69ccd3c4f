//! `loop`: a range that is over when its last step ends, so that it can begin again as one.

use std::ops::RangeInclusive;

use super::{Problems, Seg, forks::retain_possible, graph::Graph};
use crate::contract::{Loop, problem::cut};

/// Most passes through a range.
const MOST_PASSES: u32 = 1_000;

/// Each loop's last step with its range, where it has one.
pub(super) fn ranges<'g>(graph: &'g Graph<'_>) -> impl Iterator<Item = (usize, RangeInclusive<usize>)> + 'g {
    graph.contract.steps.iter().enumerate().filter_map(|(last, step)| {
        let first = *graph.index.get(step.repeat.as_ref()?.back_to.as_str())?;
        (first <= last).then_some((last, first..=last))
    })
}

pub(super) fn check(graph: &Graph<'_>, problems: &mut Problems<'_>) {
    for (at, step) in graph.contract.steps.iter().enumerate() {
        let Some(repeat) = &step.repeat else { continue };
        check_words(graph, at, repeat, problems);
    }
    let ranges: Vec<_> = ranges(graph).collect();
    check_nesting(graph, &ranges, problems);
    check_over(graph, &ranges, problems);
    for (last, range) in &ranges {
        check_release(graph, *last, range, problems);
        check_behind(graph, *last, range, problems);
    }
}

fn check_words(graph: &Graph<'_>, at: usize, repeat: &Loop, problems: &mut Problems<'_>) {
    let path = [Seg::Key("steps"), Seg::At(at), Seg::Key("loop")];
    let mut refuse = |key, message: String| problems.add(&[path[0], path[1], path[2], Seg::Key(key)], message);
    let (id, back_to) = (graph.name(at), &repeat.back_to);
    match graph.index.get(back_to.as_str()) {
        None => refuse("back_to", format!("there is no step {back_to}")),
        Some(first) if *first > at => refuse("back_to", format!("step {back_to} comes after {id}; a loop leads back")),
        Some(first) if *first != at && !graph.waits(at, *first) => {
            refuse("back_to", format!("step {id} does not wait for {back_to}, so that a pass would not end with {id}"));
        }
        Some(_) => {}
    }
    if !(1..=MOST_PASSES).contains(&repeat.max) {
        refuse("max", format!("must be 1 to {MOST_PASSES}, but is {}", repeat.max));
    }
    let Some(until) = &repeat.until else { return };
    if until.exit_code.is_none() && until.produced.as_ref().is_none_or(Vec::is_empty) {
        refuse("until", "says nothing; write exit_code or produced".to_owned());
    }
    for name in until.produced.iter().flatten() {
        if !graph.contract.steps[at].outputs().any(|out| out == name) {
            refuse("until", format!("{:?} is not in this step's `out`", cut(name)));
        }
    }
}

/// One range may lie inside another, but not across its end.
fn check_nesting(graph: &Graph<'_>, ranges: &[(usize, RangeInclusive<usize>)], problems: &mut Problems<'_>) {
    for (last, range) in ranges {
        // It begins inside the other and ends behind the other's end.
        let crossed = ranges.iter().find(|(end, it)| it.start() < range.start() && range.contains(end) && end < last);
        if let Some((other, _)) = crossed {
            let path = [Seg::Key("steps"), Seg::At(*last), Seg::Key("loop"), Seg::Key("back_to")];
            let message = format!(
                "its range begins inside that of step {} and ends behind it; put one inside the other",
                graph.name(*other)
            );
            problems.add(&path, message);
        }
    }
}

/// Every step of a range has ended when its last step ends: it waits for it, or both never run.
fn check_over(graph: &Graph<'_>, ranges: &[(usize, RangeInclusive<usize>)], problems: &mut Problems<'_>) {
    let mut open: Vec<(usize, usize)> = ranges
        .iter()
        .flat_map(|(last, range)| {
            range.clone().filter(move |at| at != last && !graph.waits(*last, *at)).map(move |at| (*last, at))
        })
        .collect();
    retain_possible(graph, &mut open, |pair| *pair);
    for (last, at) in open {
        let path = [Seg::Key("steps"), Seg::At(last), Seg::Key("loop"), Seg::Key("back_to")];
        let (id, open) = (graph.name(last), graph.name(at));
        let message =
            format!("step {open} is in the range and can still run when {id} ends; let {id} need it, or move it out");
        problems.add(&path, message);
    }
}

/// A role given back inside a range is not there in the next pass, unless it is acquired again on the way.
fn check_release(graph: &Graph<'_>, last: usize, range: &RangeInclusive<usize>, problems: &mut Problems<'_>) {
    let steps = &graph.contract.steps;
    let acquired =
        |role: &crate::RoleName| range.clone().any(|at| steps[at].acquire.as_ref().is_some_and(|it| it.role == *role));
    for at in range.clone() {
        for (role_at, role) in steps[at].release.iter().enumerate().filter(|(_, role)| !acquired(role)) {
            let path = [Seg::Key("steps"), Seg::At(at), Seg::Key("release"), Seg::At(role_at)];
            let message = format!(
                "role {role} would be gone in the next pass of the loop of step {}; release it behind the range",
                graph.name(last)
            );
            problems.add(&path, message);
        }
    }
}

/// What is acquired or decided inside a range holds only when its last pass is over: whoever relies on it waits for
/// that, or never runs together with the step that goes back.
fn check_behind(graph: &Graph<'_>, last: usize, range: &RangeInclusive<usize>, problems: &mut Problems<'_>) {
    let steps = &graph.contract.steps;
    let early = |at: &usize| !range.contains(at) && !graph.waits(*at, last);
    let mut found: Vec<(usize, &str, String)> = Vec::new();
    for inside in range.clone() {
        for role in steps[inside].acquire.iter().map(|it| &it.role) {
            let uses = |at: &usize| steps[*at].uses.as_ref().is_some_and(|it| it.role == *role);
            let why = format!("role {role} is given back");
            found.extend((0..steps.len()).filter(early).filter(uses).map(|at| (at, "uses", why.clone())));
        }
        // The last step decides only in its last pass.
        let decided = steps[inside].dispatch.iter().filter(|_| inside != last).flat_map(|it| it.to.steps());
        let decided = decided.filter_map(|name| graph.index.get(name.as_str()).copied()).filter(early);
        found.extend(decided.map(|at| (at, "needs", format!("step {} decides anew", graph.name(inside)))));
    }
    retain_possible(graph, &mut found, |(at, ..)| (last, *at));
    for (at, key, why) in found {
        let path = [Seg::Key("steps"), Seg::At(at), Seg::Key(key)];
        let (id, end) = (graph.name(at), graph.name(last));
        problems.add(&path, format!("{why} when the loop of step {end} goes back; let {id} need {end}"));
    }
}
