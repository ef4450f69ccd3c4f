//! The rules of a contract that a grammar cannot say.
//!
//! Each file holds the rules of one part. Every rule notes its problem and goes on, so that an author sees all
//! of them at once. Nothing here may cost more than steps times needs, whatever a contract holds.

mod acquires;
mod conditions;
mod files;
mod forks;
mod graph;
mod harness;
mod keep;
mod kinds;
mod loops;
mod names;
mod release;
mod roles;

use graph::Graph;

use super::{
    Contract, MAX_STEPS,
    decode::Gaps,
    problem::{Problems, Seg},
};

/// Notes everything that is wrong, as far as it can be judged in spite of the gaps.
pub(super) fn check(contract: &Contract, gaps: &Gaps, problems: &mut Problems<'_>) {
    if !gaps.env {
        names::check(contract, problems);
    }
    if !gaps.roles {
        roles::check(contract, problems);
        harness::check(contract, gaps, problems);
    }
    kinds::check(contract, gaps, problems);
    if gaps.graph {
        return;
    }
    let steps = contract.steps.len();
    if steps == 0 {
        return problems.add(&[Seg::Key("steps")], "a contract has at least one step");
    }
    if steps > MAX_STEPS {
        let message = format!("a contract has at most {MAX_STEPS} steps; this one has {steps}");
        return problems.add(&[Seg::Key("steps")], message);
    }
    let graph = Graph::new(contract, problems);
    forks::check(&graph, problems);
    files::check(&graph, problems);
    acquires::check(&graph, problems);
    release::check(&graph, problems);
    loops::check(&graph, problems);
    keep::check(&graph, problems);
    if !gaps.conditions {
        conditions::check(&graph, problems);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::{Dispatch, Targets, parse, tree};

    /// As dense as a contract can be: every step needs all before it, reads what all of them made, and forks
    /// wherever it may. Anything cubic would take minutes here.
    #[test]
    fn the_densest_contract_is_checked_in_no_time() {
        let text = "requires: [{as: b, capability: c}]\nsteps: [{id: s, uses: b, run: [x], out: [f]}]";
        let mut contract = parse(text.as_bytes()).unwrap();
        let model = contract.steps[0].clone();
        let name = |at: usize| crate::StepName::new(&format!("s{at}")).unwrap();
        contract.steps = (0..MAX_STEPS)
            .map(|at| {
                let mut step = model.clone();
                step.id = name(at);
                step.needs = Some((0..at).map(name).collect());
                step.input =
                    (at > 0).then(|| crate::contract::Input { from: (0..at).map(|it| format!("s{it}/f")).collect() });
                step.release = vec![contract.requires[0].role.clone()];
                if at % 3 == 0 && at + 2 < MAX_STEPS {
                    step.dispatch = Some(Dispatch {
                        from: "f#/a".to_owned(),
                        to: Targets::Steps(vec![name(at + 1), name(at + 2)]),
                    });
                }
                step
            })
            .collect();
        let root = tree::read(text).unwrap();
        let mut problems = Problems::new(&root);
        #[expect(clippy::disallowed_methods, reason = "a test may look at its own watch")]
        let begun = std::time::Instant::now();
        check(&contract, &Gaps::default(), &mut problems);
        assert!(begun.elapsed().as_secs() < 20, "{:?}", begun.elapsed());
        // Later steps use the role that earlier ones release.
        assert!(problems.finish().unwrap_err().to_string().contains("uses role b and can still run"));
    }
}
