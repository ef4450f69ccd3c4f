//! `release`: a role is given back only when nothing can use it any more.

use super::{Problems, Seg, forks::retain_possible, graph::Graph};

/// A step that gives a role back, and one that could still use it.
struct Conflict {
    release: (usize, usize),
    user: usize,
}

/// Enough to learn from; as many are held against the forks at once.
const MOST: usize = 200;
/// As often. Each look costs as much as the contract has forks.
const MOST_LOOKS: usize = 50;

pub(super) fn check(graph: &Graph<'_>, problems: &mut Problems<'_>) {
    let mut conflicts = Vec::new();
    let mut candidates = candidates(graph);
    for looked in 0.. {
        let mut some: Vec<Conflict> = candidates.by_ref().take(MOST).collect();
        if some.is_empty() || conflicts.len() >= MOST {
            break;
        }
        if looked == MOST_LOOKS {
            let path = [Seg::Key("steps"), Seg::At(some[0].release.0), Seg::Key("release")];
            problems.add(&path, "there are too many steps that release roles for others to use; release fewer");
            break;
        }
        retain_possible(graph, &mut some, |it| (it.release.0, it.user));
        conflicts.extend(some);
    }
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

/// Every step that uses a role and has not surely ended when the role is released.
fn candidates<'g>(graph: &'g Graph<'_>) -> impl Iterator<Item = Conflict> + 'g {
    let releases = graph
        .contract
        .steps
        .iter()
        .enumerate()
        .flat_map(|(at, step)| step.release.iter().enumerate().map(move |(role_at, role)| ((at, role_at), role)));
    releases.flat_map(move |(release, role)| {
        let uses = |user: &usize| graph.contract.steps[*user].uses.as_ref().is_some_and(|uses| uses.role == *role);
        let open = move |user: &usize| *user != release.0 && !graph.waits(release.0, *user);
        (0..graph.contract.steps.len())
            .filter(uses)
            .filter(open)
            .map(move |user| Conflict { release, user })
            .collect::<Vec<_>>()
    })
}
