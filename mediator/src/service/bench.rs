//! A mediator in miniature for tests: a real SQLite store, real files, and the fleet's rules applied one
//! command at a time, with poison for every nonce and principal.

use std::{path::Path, sync::Arc};

use shared::{
    Nonce, Timestamp,
    domain::{
        Advert, AdvertReply, Cancel, Changes, Claim, ClaimedStep, Cx, Decide, Fleet, Ids, OpenWork, Outcome, Policy,
        Report, Settings, Shape, Speaker, Submit, Submitted,
    },
};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::{
    Services,
    contracts::Contracts,
    hub::Hub,
    leave::Leave,
    notify::Notifier,
    sample::{NOW, POISON_NONCE, POISON_PRINCIPAL, advert, contract, id, node},
    texts::Texts,
};
use crate::{clock::Clock, record::RecordStore, store::Store, writer::Writer};

struct Poison;

impl Ids for Poison {
    fn nonce(&mut self) -> Nonce {
        Nonce::from_bits(POISON_NONCE)
    }
}

pub(crate) struct Bench {
    dir: tempfile::TempDir,
    pub(crate) clock: Clock,
    pub(crate) services: Services,
    fleet: Fleet,
    events: watch::Sender<i64>,
}

impl Bench {
    pub(crate) async fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let clock = Clock::manual(NOW);
        let store = Store::open(&url(dir.path()), clock.clone()).await.unwrap();
        let (events, receiver) = watch::channel(0);
        // What comes over the wire goes through the real writer. It ends with the last handle.
        let leave = Leave::new(Settings::default());
        let hub = Hub::default();
        let notifier = Notifier { hub: hub.clone(), seal: Arc::default(), events: events.clone() };
        let (writer, writing) = Writer::new(store.clone(), leave.follow(), notifier);
        tokio::spawn(writing);
        let services = Services {
            store,
            records: RecordStore::open(dir.path()).unwrap(),
            settings: Settings::default(),
            writer,
            contracts: Contracts::default(),
            texts: Texts::default(),
            hub,
            leave,
            events: receiver,
            stop: CancellationToken::new(),
        };
        Self { dir, clock, services, fleet: Fleet::default(), events }
    }

    /// Applies one command in a transaction of its own, as the writer does.
    pub(crate) async fn apply<D: Decide>(&mut self, command: D) -> D::Answer {
        let mut tx = self.services.store.begin_fleet().await.unwrap();
        tx.sync(&mut self.fleet).await.unwrap();
        let mut changes = Changes::default();
        let touches = command.touches(&self.fleet, tx.now());
        tx.load_runs(&mut self.fleet, &touches, &changes).await.unwrap();
        let mut ids = Poison;
        let mut cx = Cx::new(tx.now(), &self.services.settings, &mut ids, &mut changes);
        let answer = self.fleet.apply(&command, &mut cx).unwrap();
        tx.write(&self.fleet, &changes).await.unwrap();
        tx.commit().await.unwrap();
        self.events.send_replace(self.services.last_event().await.unwrap());
        answer
    }

    /// Where state and Records are.
    pub(crate) fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Where the files of Runs are while they are on their way in.
    pub(crate) fn drafts(&self) -> std::path::PathBuf {
        self.dir.path().join("runs/.tmp")
    }

    /// Time goes on, so that rows can be told apart.
    pub(crate) fn tick(&self) {
        self.clock.advance(shared::Duration::from_secs(1));
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    pub(crate) async fn advert(&mut self, name: &str, capability: &str, policy: Policy) -> AdvertReply {
        self.apply(self.advert_of(name, capability, policy)).await
    }

    /// The advert alone, for whoever sends it another way.
    pub(crate) fn advert_of(&self, name: &str, capability: &str, policy: Policy) -> Advert {
        let said = advert(node(name, capability), policy, self.now().millis());
        Advert { who: speaker(name), ..said }
    }

    pub(crate) async fn submit(&mut self, name: &str, text: &str) -> Submitted {
        let contract = contract(text);
        let shape = Shape::new(&contract.requires);
        let submit =
            Submit { run: id(name), principal: id(POISON_PRINCIPAL), contract, contract_hash: "00".into(), shape };
        self.apply(submit).await
    }

    pub(crate) async fn claim(&mut self, name: &str) -> ClaimedStep {
        self.apply(OpenWork { who: speaker(name) }).await;
        self.apply(Claim { who: speaker(name) }).await.unwrap()
    }

    pub(crate) async fn report(&mut self, name: &str, step: &ClaimedStep, exit_code: i32, fork: Option<&str>) {
        let report = Report {
            who: speaker(name),
            run: step.run.clone(),
            seq: step.seq,
            attempt: step.attempt,
            nonce: step.nonce,
            outcome: Outcome::Completed { exit_code },
            produced: Vec::new(),
            fork_value: fork.map(|value| Ok(value.to_owned())),
            invalid: None,
            log_bytes: 0,
        };
        self.apply(report).await;
    }

    pub(crate) async fn cancel(&mut self, name: &str) {
        self.apply(Cancel { run: id(name), by: id("someone") }).await;
    }
}

pub(crate) fn url(dir: &Path) -> String {
    format!("sqlite:{}", dir.join("mediator.db").display())
}

pub(crate) fn speaker(name: &str) -> Speaker {
    Speaker {
        node: id(name),
        instance: id(&format!("i-{}", name.replace('/', "-"))),
        streams: vec![id("s1")],
        principal: id(POISON_PRINCIPAL),
    }
}

/// One contract of one role, for a capability.
pub(crate) fn one_step(capability: &str) -> String {
    format!(
        r#"{{"requires": [{{"as": "r", "capability": "{capability}"}}],
            "steps": [{{"id": "only", "uses": "r", "run": ["true"]}}]}}"#
    )
}
