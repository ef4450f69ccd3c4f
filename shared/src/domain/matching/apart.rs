//! Roles that share no node with another.
//!
//! Without such roles the first nodes that will do are right. With them a node that one role takes may be the only
//! one for another, so places are searched for, in the order of use, with a bound on the work: at worst a Run waits
//! for an easier moment.

use super::{Assigned, Node, satisfies};
use crate::contract::Require;

/// Nodes looked at before the search gives up.
const MOST_LOOKS: u32 = 20_000;

struct Search<'r, 'a> {
    nodes: &'r [&'a Node],
    /// For each role the positions of the nodes that would do, in the order of use.
    fitting: Vec<Vec<usize>>,
    requires: &'r [Require],
    /// Roles with `apart`, as positions in `requires`.
    apart: Vec<usize>,
    taken: Vec<bool>,
    /// Whose nodes they are, for each role with `apart`.
    places: Vec<Vec<usize>>,
    looks: u32,
}

pub(super) fn assign<'r>(requires: &'r [Require], nodes: &[&Node]) -> Result<Vec<Assigned>, &'r Require> {
    let fits = |require: &Require| (0..nodes.len()).filter(|at| satisfies(&nodes[*at].capabilities, require)).collect();
    let mut search = Search {
        nodes,
        fitting: requires.iter().map(fits).collect(),
        requires,
        apart: (0..requires.len()).filter(|role| requires[*role].apart).collect(),
        taken: vec![false; nodes.len()],
        places: vec![Vec::new(); requires.len()],
        looks: 0,
    };
    if let Some(short) = (0..requires.len()).find(|role| search.lacks(*role)) {
        return Err(&requires[short]);
    }
    if search.place(0, 0) {
        Ok(search.result())
    } else {
        Err(search.apart.first().map_or(&requires[0], |role| &requires[*role]))
    }
}

impl Search<'_, '_> {
    /// Places the roles with `apart` from this one on, its nodes from this position in its list on.
    fn place(&mut self, at: usize, from: usize) -> bool {
        let Some(role) = self.apart.get(at).copied() else { return true };
        if self.places[role].len() == self.requires[role].count as usize {
            return self.place(at + 1, 0);
        }
        for next in from..self.fitting[role].len() {
            self.looks += 1;
            if self.looks > MOST_LOOKS {
                return false;
            }
            let node = self.fitting[role][next];
            if self.taken[node] {
                continue;
            }
            self.taken[node] = true;
            self.places[role].push(node);
            let open = (0..self.requires.len()).all(|other| !self.lacks(other));
            if open && self.place(at, next + 1) {
                return true;
            }
            self.places[role].pop();
            self.taken[node] = false;
        }
        false
    }

    /// Too few nodes are left for this role.
    fn lacks(&self, role: usize) -> bool {
        let left = self.fitting[role].iter().filter(|node| !self.taken[**node]).count();
        left + self.places[role].len() < self.requires[role].count as usize
    }

    fn result(&self) -> Vec<Assigned> {
        let mut assigned = Vec::new();
        for (role, require) in self.requires.iter().enumerate() {
            let free = self.fitting[role].iter().filter(|node| !self.taken[**node]).take(require.count as usize);
            let own = if require.apart { self.places[role].iter().collect() } else { free.collect::<Vec<_>>() };
            let given = own.into_iter().map(|node| self.nodes[*node].id.clone());
            assigned.extend(given.map(|node| Assigned { role: require.role.clone(), node }));
        }
        assigned
    }
}
