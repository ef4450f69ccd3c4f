//! The order of the line, and what holds each ticket in it. The one place that knows: worker, board and
//! `enode tickets list` all draw from [`line`], so that they cannot differ.

use std::{cmp::Reverse, collections::HashMap, sync::Arc};

use serde::Serialize;

use super::{
    data::{Priority, Ticket},
    name::{Lane, Stem},
    queue::Queue,
};

/// Where a ticket stands. Reading the fields from the top is reading the rule; stems differ, so the order is total.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    effective: Reverse<Priority>,
    created_ns: i64,
    stem: Stem,
}

/// Why nobody takes an open ticket that stands in line. The fourth reason, an open ticket that says `session_id`, is
/// an accident and stands in no line: [`accidents`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "reason", rename_all = "snake_case")]
pub enum Hold {
    /// Something in `deps` is not done.
    DepsWait {
        /// What, in the order of the file.
        unmet: Vec<Stem>,
    },
    /// One of these is the answer to its question.
    AnswerWait {
        /// The stem of that answer.
        awaiting: Stem,
        /// Everything that is not done, the answer included.
        unmet: Vec<Stem>,
    },
    /// Priority 1, and something is in progress.
    LowestWaits {
        /// How many tickets are.
        in_progress: usize,
    },
}

/// A ticket in line.
#[derive(Debug, Clone)]
pub struct Entry {
    /// The ticket.
    pub ticket: Arc<Ticket>,
    /// Its own priority, or that of the most urgent one that waits for it.
    pub effective: Priority,
    /// What holds it; nothing: it is a candidate.
    pub hold: Option<Hold>,
}

/// All open tickets but the accidents, the next one first. Candidates are those without a hold: one that waits keeps
/// its place.
#[must_use]
pub fn line(queue: &Queue) -> Vec<Entry> {
    let effective = effective(queue);
    let mut placed: Vec<(Place, &Arc<Ticket>)> = queue
        .tickets()
        .iter()
        .filter(|it| it.lane == Lane::Waiting && it.session_id.is_none())
        .map(|it| {
            let effective = Reverse(effective.get(&it.stem).copied().unwrap_or(it.priority));
            (Place { effective, created_ns: it.created_ns, stem: it.stem.clone() }, it)
        })
        .collect();
    placed.sort_by(|a, b| a.0.cmp(&b.0));
    let entry = |(place, ticket): (Place, &Arc<Ticket>)| {
        let effective = place.effective.0;
        Entry { hold: hold(queue, ticket, effective), ticket: ticket.clone(), effective }
    };
    placed.into_iter().map(entry).collect()
}

/// What a worker may take, in its order.
pub fn candidates(queue: &Queue) -> impl Iterator<Item = Entry> {
    line(queue).into_iter().filter(|entry| entry.hold.is_none())
}

/// What waits for an answer, in the order of the line, each with that answer's stem.
pub fn asking(queue: &Queue) -> impl Iterator<Item = (Arc<Ticket>, Stem)> {
    line(queue).into_iter().filter_map(|entry| match entry.hold {
        Some(Hold::AnswerWait { awaiting, .. }) => Some((entry.ticket, awaiting)),
        Some(Hold::DepsWait { .. } | Hold::LowestWaits { .. }) | None => None,
    })
}

/// Open tickets that say `session_id`: no worker takes them and no reaper looks at them. All of them, by stem.
pub fn accidents(queue: &Queue) -> impl Iterator<Item = &Arc<Ticket>> {
    queue.tickets().iter().filter(|it| it.lane == Lane::Waiting && it.session_id.is_some())
}

fn hold(queue: &Queue, ticket: &Ticket, effective: Priority) -> Option<Hold> {
    let in_progress = queue.in_progress();
    let lowest = || (effective == Priority::LOWEST && in_progress > 0).then_some(Hold::LowestWaits { in_progress });
    waits_for(queue, ticket).or_else(lowest)
}

/// What a ticket waits for by its own text, whatever its priority.
pub(super) fn waits_for(queue: &Queue, ticket: &Ticket) -> Option<Hold> {
    let unmet = queue.unmet(ticket);
    match ticket.awaiting.as_ref().filter(|it| unmet.contains(it)) {
        Some(awaiting) => Some(Hold::AnswerWait { awaiting: awaiting.clone(), unmet }),
        None => (!unmet.is_empty()).then_some(Hold::DepsWait { unmet }),
    }
}

/// The effective priority of every ticket that is not done: the highest of its own and of everything that waits for
/// it, however far. Done tickets neither inherit nor pass on.
///
/// From the highest priority down each ticket is reached once, so cycles end and a long chain costs no more than a
/// short one.
#[must_use]
pub fn effective(queue: &Queue) -> HashMap<Stem, Priority> {
    let mut found: HashMap<Stem, Priority> = HashMap::new();
    let active = |it: &&Arc<Ticket>| it.lane != Lane::Done;
    for priority in Priority::descending() {
        let mut reached: Vec<&Arc<Ticket>> =
            queue.tickets().iter().filter(active).filter(|it| it.priority == priority).collect();
        while let Some(ticket) = reached.pop() {
            if found.contains_key(&ticket.stem) {
                continue;
            }
            found.insert(ticket.stem.clone(), priority);
            reached.extend(ticket.deps.iter().filter_map(|dep| queue.find(dep)).filter(active));
        }
    }
    found
}

/// Tickets that wait for each other: each group once, in the order of stems. Nobody will ever take one of them.
///
/// Tarjan's strongly connected components, without recursion: a chain of deps may be as long as the queue.
#[must_use]
pub fn cycles(queue: &Queue) -> Vec<Vec<Stem>> {
    const NEW: usize = usize::MAX;
    let active: Vec<&Arc<Ticket>> = queue.tickets().iter().filter(|it| it.lane != Lane::Done).collect();
    let index: HashMap<&Stem, usize> = active.iter().enumerate().map(|(at, it)| (&it.stem, at)).collect();
    let deps: Vec<Vec<usize>> = active
        .iter()
        .map(|it| it.deps.iter().filter_map(|dep| index.get(&queue.find(dep)?.stem).copied()).collect())
        .collect();
    let (mut found, mut low, mut is_open) = (vec![NEW; active.len()], vec![0; active.len()], vec![false; active.len()]);
    let (mut count, mut open, mut groups) = (0, Vec::new(), Vec::new());
    for root in 0..active.len() {
        let mut path = if found[root] == NEW { vec![(root, 0)] } else { Vec::new() };
        while let Some((at, next)) = path.pop() {
            if next == 0 {
                (found[at], low[at], is_open[at]) = (count, count, true);
                count += 1;
                open.push(at);
            } else if is_open[deps[at][next - 1]] {
                low[at] = low[at].min(low[deps[at][next - 1]]);
            }
            if let Some(dep) = deps[at].get(next) {
                path.push((at, next + 1));
                if found[*dep] == NEW {
                    path.push((*dep, 0));
                }
            } else if low[at] == found[at] {
                let mut group = open.split_off(open.iter().rposition(|it| *it == at).unwrap_or(0));
                group.iter().for_each(|it| is_open[*it] = false);
                group.sort_unstable();
                if group.len() > 1 || deps[at].contains(&at) {
                    groups.push(group);
                }
            }
        }
    }
    groups.sort_unstable();
    groups.into_iter().map(|group| group.into_iter().map(|it| active[it].stem.clone()).collect()).collect()
}

#[cfg(test)]
#[path = "order_tests.rs"]
mod tests;
