//! `release`: a role is given back only when nothing can use it any more.

use super::{Problems, Seg, forks::retain_possible, graph::Graph};

/// A step that gives a role back, and one that could still use it.
struct Conflict {
    release: (usize, usize),
    user: usize,
}

/// Enough to learn from; each costs a look at every fork.
const MOST: usize = 200;

pub(super) fn check(graph: &Graph<'_>, problems: &mut Problems<'_>) {
    let mut conflicts = candidates(graph);
    retain_possible(graph, &mut conflicts, |it| (it.release.0, it.user));
    for Conflict { release: (at, role_at), user } in conflicts {
        let step = &graph.contract.steps[at];
        let path = [Seg::Key("steps"), Seg::At(at), Seg::Key("release"), Seg::At(role_at)];
        let (role, user) = (&step.release[role_at], graph.name(user));
        let message = format!(
            "step {user} uses role {role} and can still run when {} ends; release it in a step that needs {user}",
            step.id
        );
        problems.add(&path, message);
    }
}

/// The first step for each release that uses the role and has not surely ended by then.
fn candidates(graph: &Graph<'_>) -> Vec<Conflict> {
    let mut found = Vec::new();
    for (at, step) in graph.contract.steps.iter().enumerate() {
        for (role_at, role) in step.release.iter().enumerate() {
            for (user, other) in graph.contract.steps.iter().enumerate() {
                let uses = other.uses.as_ref().is_some_and(|uses| uses.role == *role);
                if uses && user != at && !graph.waits(at, user) {
                    found.push(Conflict { release: (at, role_at), user });
                    if found.len() >= MOST {
                        return found;
                    }
                }
            }
        }
    }
    found
}
