//! `success_when`: conditions that can be evaluated at all.

use super::{Problems, Seg, graph::Graph};
use crate::contract::{MAX_STEPS, problem::cut};

pub(super) fn check(graph: &Graph<'_>, problems: &mut Problems<'_>) {
    let conditions = &graph.contract.success_when;
    if conditions.len() > MAX_STEPS {
        let message = format!("a contract has at most {MAX_STEPS} conditions; this one has {}", conditions.len());
        return problems.add(&[Seg::Key("success_when")], message);
    }
    for (at, condition) in conditions.iter().enumerate() {
        let path = [Seg::Key("success_when"), Seg::At(at)];
        let says = condition.exit_code.is_some()
            || condition.produced.is_some()
            || condition.within_attempts.is_some()
            || condition.required;
        if !says {
            problems.add(&path, "says nothing; write exit_code, produced, within_attempts or required: true");
        }
        if condition.within_attempts == Some(0) {
            problems.add(&[path[0], path[1], Seg::Key("within_attempts")], "must be at least 1");
        }
        let Some(step) = graph.index.get(condition.step.as_str()) else {
            problems.add(&[path[0], path[1], Seg::Key("step")], format!("there is no step {}", condition.step));
            continue;
        };
        let spec = &graph.contract.steps[*step];
        if condition.exit_code.is_some() && !spec.kind().is_executed() {
            let path = [path[0], path[1], Seg::Key("exit_code")];
            problems.add(&path, format!("step {} runs no program and has no exit code", condition.step));
        }
        let Some(produced) = &condition.produced else { continue };
        if produced.is_empty() {
            problems.add(&[path[0], path[1], Seg::Key("produced")], "names no file");
        }
        let out: std::collections::HashSet<&str> = spec.outputs().collect();
        for (name_at, name) in produced.iter().enumerate() {
            if !out.contains(name.as_str()) {
                let path = [path[0], path[1], Seg::Key("produced"), Seg::At(name_at)];
                problems.add(&path, format!("{:?} is not in the `out` of step {}", cut(name), condition.step));
            }
        }
    }
}
