//! `keep`: a promise that can be kept when the Run starts over on other nodes.

use super::{Problems, Seg, graph::Graph, loops};
use crate::contract::StepKind;

pub(super) fn check(graph: &Graph<'_>, problems: &mut Problems<'_>) {
    let steps = &graph.contract.steps;
    let ranges: Vec<_> = loops::ranges(graph).collect();
    for (at, step) in steps.iter().enumerate().filter(|(_, step)| step.keep) {
        let path = [Seg::Key("steps"), Seg::At(at), Seg::Key("keep")];
        if step.kind() == StepKind::Acquire {
            problems.add(&path, "an acquired node is given back when the Run starts over; nothing can be kept of it");
        }
        if !step.release.is_empty() {
            problems.add(&path, "a step with `release` is repeated, because its roles are leased again");
        }
        if let Some((last, _)) = ranges.iter().find(|(_, range)| range.contains(&at)) {
            let message =
                format!("it is in the range of the loop of step {}, whose passes start over", steps[*last].id);
            problems.add(&path, message);
        }
        if let Some(need) = graph.needs[at].iter().find(|need| !steps[**need].keep) {
            let message = format!("step {} needs {}, which is not kept; keep it, too", step.id, steps[*need].id);
            problems.add(&path, message);
        }
    }
}
