//! Steps and their needs: names, order, and who waits for whom.

use std::collections::{HashMap, HashSet};

use super::{Problems, Seg};
use crate::{StepName, contract::Contract};

/// A set of steps, one bit each.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Set(Vec<u64>);

impl Set {
    pub(super) fn empty(len: usize) -> Self {
        Self(vec![0; len.div_ceil(64)])
    }
    pub(super) fn insert(&mut self, at: usize) {
        self.0[at / 64] |= 1 << (at % 64);
    }
    pub(super) fn is_empty(&self) -> bool {
        self.0.iter().all(|bits| *bits == 0)
    }
    pub(super) fn has(&self, at: usize) -> bool {
        self.0[at / 64] & (1 << (at % 64)) != 0
    }
    pub(super) fn add(&mut self, other: &Self) {
        self.0.iter_mut().zip(&other.0).for_each(|(mine, theirs)| *mine |= theirs);
    }
    pub(super) fn keep(&mut self, other: &Self) {
        self.0.iter_mut().zip(&other.0).for_each(|(mine, theirs)| *mine &= theirs);
    }
}

/// The steps of a contract by name, with their needs and all that those need.
pub(super) struct Graph<'c> {
    pub(super) contract: &'c Contract,
    pub(super) index: HashMap<&'c str, usize>,
    /// Needs that point back, defaults filled in.
    pub(super) needs: Vec<Vec<usize>>,
    /// Everything that has ended when this step begins.
    pub(super) before: Vec<Set>,
}

/// Cycles are worth a search each; this many are enough to learn from.
const MOST_CYCLES: usize = 10;

impl<'c> Graph<'c> {
    /// Notes what is wrong with names and needs, and leaves out what is.
    pub(super) fn new(contract: &'c Contract, problems: &mut Problems<'_>) -> Self {
        let mut index = HashMap::new();
        for (at, step) in contract.steps.iter().enumerate() {
            if let Some(first) = index.insert(step.id.as_str(), at) {
                index.insert(step.id.as_str(), first);
                let path = [Seg::Key("steps"), Seg::At(at), Seg::Key("id")];
                problems.add(&path, format!("step {} is there twice, first as steps[{first}]", step.id));
            }
        }
        let all: Vec<Vec<usize>> = contract
            .needs()
            .into_iter()
            .map(|needs| needs.into_iter().filter_map(|seq| usize::try_from(seq).ok()).collect())
            .collect();
        check_needs(contract, &index, &all, problems);
        // From here on only needs that point back count: what is wrong has been told.
        let needs: Vec<Vec<usize>> = all
            .into_iter()
            .enumerate()
            .map(|(at, needs)| needs.into_iter().filter(|need| *need < at).collect())
            .collect();
        let mut before: Vec<Set> = Vec::with_capacity(needs.len());
        for own in &needs {
            let mut set = Set::empty(needs.len());
            for need in own {
                set.insert(*need);
                set.add(&before[*need]);
            }
            before.push(set);
        }
        Self { contract, index, needs, before }
    }

    /// Whether `later` begins only after `earlier` has ended.
    pub(super) fn waits(&self, later: usize, earlier: usize) -> bool {
        self.before[later].has(earlier)
    }

    pub(super) fn name(&self, at: usize) -> &StepName {
        &self.contract.steps[at].id
    }
}

fn check_needs(contract: &Contract, index: &HashMap<&str, usize>, all: &[Vec<usize>], problems: &mut Problems<'_>) {
    let mut searched = 0;
    for (at, step) in contract.steps.iter().enumerate() {
        let mut seen = HashSet::new();
        for (need_at, need) in step.needs.iter().flatten().enumerate() {
            let path = [Seg::Key("steps"), Seg::At(at), Seg::Key("needs"), Seg::At(need_at)];
            let id = &step.id;
            if !seen.insert(need) {
                problems.add(&path, format!("step {need} is named twice"));
                continue;
            }
            match index.get(need.as_str()) {
                None => problems.add(&path, format!("there is no step {need}")),
                Some(found) if *found == at => problems.add(&path, format!("step {id} needs itself")),
                Some(found) if *found > at => {
                    searched += 1;
                    let cycle = if searched <= MOST_CYCLES { find_path(all, *found, at) } else { None };
                    problems.add(
                        &path,
                        match cycle {
                            Some(cycle) => {
                                let names: Vec<&str> = cycle.iter().map(|at| contract.steps[*at].id.as_str()).collect();
                                format!("step {id} would wait for itself: {id} needs {}", names.join(", which needs "))
                            }
                            None => format!("step {id} needs {need}, which comes later; move {need} before {id}"),
                        },
                    );
                }
                Some(_) => {}
            }
        }
    }
}

/// A way along needs from one step to another.
fn find_path(needs: &[Vec<usize>], from: usize, to: usize) -> Option<Vec<usize>> {
    let mut came = HashMap::from([(from, from)]);
    let mut todo = vec![from];
    while let Some(at) = todo.pop() {
        if at == to {
            let mut path = vec![to];
            let mut here = to;
            while here != from {
                here = came[&here];
                path.push(here);
            }
            path.reverse();
            return Some(path);
        }
        for need in &needs[at] {
            came.entry(*need).or_insert_with(|| {
                todo.push(*need);
                at
            });
        }
    }
    None
}
