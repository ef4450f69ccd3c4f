//! What a running Run waits for that no node of its own can give it: a person, or one more node.

use shared::{
    Timestamp,
    contract::Require,
    domain::{Fleet, Run, Step, StepState},
};

use crate::schema;

use super::{
    age,
    role::{role, shortage},
};

/// An acquire that stands in line.
pub(super) struct Waiting<'a> {
    step: &'a Step,
    /// What it wants.
    pub(super) require: Require,
}

/// Every acquire of a Run that stands in line.
pub(super) fn acquires(run: &Run) -> Vec<Waiting<'_>> {
    let waiting = run.steps.iter().filter(|step| step.state == StepState::Waiting);
    waiting
        .filter_map(|step| {
            let require = run.contract.steps.get(step.seq as usize)?.acquire.as_ref()?.require();
            Some(Waiting { step, require })
        })
        .collect()
}

impl Waiting<'_> {
    /// "step more waits 5s for role extra: 1 of 1 matching node is leased (run a on n1)"
    pub(super) fn text(&self, fleet: &Fleet, now: Timestamp) -> String {
        let role = role(fleet, &self.require, now);
        let since = self.step.started_at.map_or(now, |at| at);
        let what = if role.is_short() {
            shortage(fleet, &self.require, &role, now)
        } else {
            "it can be served now".to_owned()
        };
        format!(
            "step {} waits for role {} for {}: {what}{}",
            self.step.name,
            role.role,
            age(now.since(since)),
            limit(self.step, now)
        )
    }
}

/// The open questions of a Run: "step ok asks a person since 5m: Ship it?"
pub(super) fn asks(run: &Run, now: Timestamp) -> impl Iterator<Item = String> {
    run.steps.iter().filter_map(move |step| {
        let StepState::Asked { at } = step.state else { return None };
        let ask = run.contract.steps.get(step.seq as usize)?.ask.as_ref()?;
        let question: String = ask.question.split_whitespace().collect::<Vec<_>>().join(" ");
        Some(format!(
            "step {} has asked a person for {}: {question:?} (`mediator answer {} --step {} {}`){}",
            step.name,
            age(now.since(at)),
            run.id,
            step.name,
            schema::answer_arguments(ask.form.as_ref()),
            limit(step, now)
        ))
    })
}

fn limit(step: &Step, now: Timestamp) -> String {
    let left = |end: Timestamp| age(end.since(now));
    step.deadline.map(|end| format!("; it gives up in {}", left(end))).unwrap_or_default()
}
