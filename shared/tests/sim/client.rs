//! Submitters: each wants one Run, and asks again with the same id until it is told.

use std::sync::Arc;

use serde_json::json;
use shared::{
    Principal, RunId,
    contract::{Contract, contract_hash},
    domain::{AnswerAsk, Cancel, RunState, Shape, StepState, Submit, match_roles},
};

use crate::{
    event::{Body, Call, Event, From},
    world::World,
};

#[derive(Debug)]
pub(crate) struct Client {
    submit: Submit,
    pub(crate) asked: bool,
    pub(crate) accepted: bool,
    pub(crate) cancelled: bool,
}

impl Client {
    pub(crate) fn new(at: usize, contract: Arc<Contract>) -> Self {
        let submit = Submit {
            run: RunId::new(&format!("r{at:03}")).unwrap(),
            principal: Principal::new("anna").unwrap(),
            contract_hash: contract_hash(&contract).into(),
            shape: Shape::new(&contract.requires),
            contract,
        };
        Self { submit, asked: false, accepted: false, cancelled: false }
    }

    pub(crate) const fn run(&self) -> &RunId {
        &self.submit.run
    }
}

impl World {
    /// Somebody looks at the open questions and answers some, now and then one that was withdrawn.
    pub(crate) fn person(&mut self) {
        let pause = self.rng.between(1_000, 20_000);
        self.after(pause, Event::Person);
        let mut answers = Vec::new();
        for run in self.mediator.rows.runs.values().filter(|run| run.state == RunState::Running) {
            for step in run.steps.iter().filter(|step| matches!(step.state, StepState::Asked { .. })) {
                let fork = run.spec(step.seq).and_then(|spec| spec.dispatch.clone());
                answers.push((run.id.clone(), step.name.clone(), step.attempt, fork));
            }
        }
        for (run, step, attempt, fork) in answers {
            if self.calm.is_none() && self.rng.chance(self.luck.think) {
                continue;
            }
            let attempt = if self.rng.chance(50) { attempt + 1 } else { attempt };
            let value = fork.map(|fork| (*self.rng.pick(&fork.to.values())).to_owned()).unwrap_or_default();
            let (by, sha256) = (Principal::new("anna").unwrap(), String::new());
            let answer = AnswerAsk { run, step, attempt, by, answer: json!({"v": value}), sha256, size: 0 };
            self.count("questions answered");
            self.call(None, Call { from: From::Nobody, body: Body::Ask(Box::new(answer)) });
        }
        if self.calm.is_some_and(|since| self.now > since + 60_000) {
            self.give_up();
        }
    }

    /// Ends Runs whose acquire waits for what this fleet does not have.
    fn give_up(&mut self) {
        let nodes: Vec<_> = self.mediator.rows.nodes.values().collect();
        let mut hopeless = Vec::new();
        for run in self.mediator.rows.runs.values().filter(|run| run.state == RunState::Running) {
            for step in run.steps.iter().filter(|step| step.state == StepState::Waiting) {
                let Some(acquire) = run.spec(step.seq).and_then(|spec| spec.acquire.as_ref()) else { continue };
                let others = nodes.iter().copied().filter(|node| !run.nodes().contains(&node.id));
                if match_roles(&[acquire.require()], others, |_| false).is_err() {
                    hopeless.push(run.id.clone());
                }
            }
        }
        for run in hopeless {
            self.count("hopeless acquires");
            let cancel = Cancel { run, by: Principal::new("boss").unwrap() };
            self.call(None, Call { from: From::Nobody, body: Body::Cancel(cancel) });
        }
    }

    pub(crate) fn submit(&mut self, at: usize) {
        if self.clients[at].accepted {
            return;
        }
        self.clients[at].asked = true;
        let body = Body::Submit(Box::new(self.clients[at].submit.clone()));
        self.call(None, Call { from: From::Client(at), body });
        let again = self.rng.between(1_000, 5_000);
        self.after(again, Event::Submit(at));
    }

    pub(crate) fn cancel_one(&mut self) {
        let at = self.rng.index(self.clients.len());
        if !self.clients[at].asked {
            return;
        }
        self.clients[at].cancelled = true;
        let cancel = Cancel { run: self.clients[at].run().clone(), by: Principal::new("boss").unwrap() };
        self.say(|_| format!("somebody cancels {}", cancel.run));
        self.call(None, Call { from: From::Nobody, body: Body::Cancel(cancel) });
    }
}
