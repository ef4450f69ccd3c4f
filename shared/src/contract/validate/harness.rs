//! `agent`: the harness that a step names is one that its role lets its node have.

use super::{Problems, Seg};
use crate::contract::{AttrMatch, Contract, Require, decode::Gaps, problem::cut};

/// The capability that a node with harnesses offers, and its attribute that names one (`docs/contract.md`).
const CAPABILITY: &str = "agent";
const ATTRIBUTE: &str = "harness";

pub(super) fn check(contract: &Contract, gaps: &Gaps, problems: &mut Problems<'_>) {
    let acquired: Vec<Require> =
        contract.steps.iter().filter_map(|step| step.acquire.as_ref()).map(|it| it.require()).collect();
    for (at, step) in contract.steps.iter().enumerate().filter(|(at, _)| !gaps.steps.contains(at)) {
        let (Some(agent), Some(uses)) = (&step.agent, &step.uses) else { continue };
        let role = contract.requires.iter().chain(&acquired).find(|it| it.role == uses.role);
        let Some(role) = role.filter(|it| it.capability == CAPABILITY) else { continue };
        let allowed: Vec<String> = match role.attrs.get(ATTRIBUTE) {
            Some(AttrMatch::Equals(value)) => vec![value.to_string()],
            Some(AttrMatch::Any(any)) => any.any.iter().map(ToString::to_string).collect(),
            // A harness has a name; that no number is one is for the fleet to say.
            Some(AttrMatch::Min(_)) | None => continue,
        };
        if allowed.is_empty() || allowed.contains(&agent.harness) {
            continue;
        }
        let path = [Seg::Key("steps"), Seg::At(at), Seg::Key("agent"), Seg::Key("harness")];
        let message = format!(
            "this step asks for harness {:?}, but its role {} asks for a node with {}; write `harness: {}`, or change \
             the role",
            cut(&agent.harness),
            role.role,
            cut(&allowed.join(" or ")),
            cut(&allowed[0]),
        );
        problems.add(&path, message);
    }
}
