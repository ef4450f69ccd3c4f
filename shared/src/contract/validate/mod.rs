//! The rules of a contract that a grammar cannot say.
//!
//! Each file holds the rules of one part. Every rule notes its problem and goes on, so that an author sees all
//! of them at once. Nothing here may cost more than steps times needs, whatever a contract holds.

mod conditions;
mod files;
mod forks;
mod graph;
mod names;
mod release;
mod roles;
mod support;

use graph::Graph;

use super::{
    Contract, MAX_STEPS,
    problem::{Problems, Seg},
};

/// Notes everything that is wrong.
pub(super) fn check(contract: &Contract, problems: &mut Problems<'_>) {
    support::check(contract, problems);
    names::check(contract, problems);
    roles::check(contract, problems);
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
    release::check(&graph, problems);
    conditions::check(&graph, problems);
}
