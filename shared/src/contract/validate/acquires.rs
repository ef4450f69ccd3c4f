//! `acquire`: roles that are there only from then on.

use super::{Problems, Seg, graph::Graph};

pub(super) fn check(graph: &Graph<'_>, problems: &mut Problems<'_>) {
    for (from, step) in graph.contract.steps.iter().enumerate() {
        let Some(acquire) = &step.acquire else { continue };
        let role = &acquire.role;
        for (at, user) in graph.contract.steps.iter().enumerate() {
            let late = at == from || !graph.waits(at, from);
            let id = &user.id;
            if late && user.uses.as_ref().is_some_and(|uses| uses.role == *role) {
                let path = [Seg::Key("steps"), Seg::At(at), Seg::Key("uses")];
                let message =
                    format!("role {role} is there only when step {} has acquired it; let {id} need it", step.id);
                problems.add(&path, message);
            }
            if let Some(role_at) = user.release.iter().position(|it| it == role).filter(|_| late) {
                let path = [Seg::Key("steps"), Seg::At(at), Seg::Key("release"), Seg::At(role_at)];
                let message = format!("role {role} is acquired by step {}, for which {id} does not wait", step.id);
                problems.add(&path, message);
            }
        }
    }
}
