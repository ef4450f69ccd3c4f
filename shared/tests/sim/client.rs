//! Submitters: each wants one Run, and asks again with the same id until it is told.

use std::sync::Arc;

use shared::{
    Principal, RunId,
    contract::{Contract, contract_hash},
    domain::{Cancel, Shape, Submit},
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
