//! Roles that share no node with another.
//!
//! Without such roles the first nodes that will do are right. With them a node that one role takes may be the only
//! one for another, so places are searched for, in the order of use, with a bound on the work: at worst a Run waits
//! for an easier moment.

use super::{Assigned, Lack, Node, satisfies};
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
    /// For each node the roles that it would do for.
    roles: Vec<Vec<usize>>,
    /// For each role how many of its nodes are not taken.
    left: Vec<usize>,
    /// Whose nodes they are, for each role with `apart`.
    places: Vec<Vec<usize>>,
    looks: u32,
}

pub(super) fn assign<'r>(requires: &'r [Require], nodes: &[&Node]) -> Result<Vec<Assigned>, Lack<'r>> {
    let fits = |require: &Require| (0..nodes.len()).filter(|at| satisfies(&nodes[*at].capabilities, require)).collect();
    let fitting: Vec<Vec<usize>> = requires.iter().map(fits).collect();
    let mut roles = vec![Vec::new(); nodes.len()];
    for (role, fitting) in fitting.iter().enumerate() {
        fitting.iter().for_each(|node| roles[*node].push(role));
    }
    let mut search = Search {
        nodes,
        roles,
        left: fitting.iter().map(Vec::len).collect(),
        fitting,
        requires,
        apart: (0..requires.len()).filter(|role| requires[*role].apart).collect(),
        taken: vec![false; nodes.len()],
        places: vec![Vec::new(); requires.len()],
        looks: 0,
    };
    if let Some(short) = (0..requires.len()).find(|role| search.lacks(*role)) {
        return Err(Lack { require: &requires[short], is_sure: true });
    }
    if search.place(0, 0) {
        return Ok(search.result());
    }
    let require = search.apart.first().map_or(&requires[0], |role| &requires[*role]);
    Err(Lack { require, is_sure: search.looks <= MOST_LOOKS })
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
            self.take(node, true);
            self.places[role].push(node);
            let open = (0..self.requires.len()).all(|other| !self.lacks(other));
            if open && self.place(at, next + 1) {
                return true;
            }
            self.places[role].pop();
            self.take(node, false);
        }
        false
    }

    fn take(&mut self, node: usize, taken: bool) {
        self.taken[node] = taken;
        for role in &self.roles[node] {
            let left = &mut self.left[*role];
            *left = if taken { *left - 1 } else { *left + 1 };
        }
    }

    /// Too few nodes are left for this role.
    fn lacks(&self, role: usize) -> bool {
        self.left[role] + self.places[role].len() < self.requires[role].count as usize
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
