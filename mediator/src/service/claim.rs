//! One node's work stream: opened, then fed with what is claimed for it.

use shared::{
    StreamId,
    domain::{Claim, ClaimedStep, OpenWork, Speaker},
};
use tokio::sync::mpsc;

use super::{
    Services,
    hub::{Gone, Signal},
};
use crate::{error::Error, store::ArtifactRow};

/// What a stream carries.
#[derive(Debug)]
pub enum Work {
    /// The stream is the node's one stream now.
    Opened(StreamId),
    /// A step to execute, with the files to lay out.
    Step(Box<ClaimedStep>, Vec<Input>),
    /// The agent is to advert at once.
    AdvertNow,
    /// A lease has gone: stop what runs under it.
    Stop(Box<Gone>),
}

/// One file to lay out in `$IN`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Input {
    /// Where, below `$IN`.
    pub path: String,
    /// What.
    pub sha256: String,
    /// How long, in bytes.
    pub size: u64,
}

/// An open work stream. Dropping it closes it.
pub struct WorkStream {
    services: Services,
    who: Speaker,
    stream: StreamId,
    signals: mpsc::Receiver<Signal>,
    opened: bool,
    look: bool,
}

impl Services {
    /// Makes this the node's one work stream.
    ///
    /// # Errors
    /// The speaker is not the rightful one; a store that is not available.
    pub async fn open_work(&self, who: Speaker) -> Result<WorkStream, Error> {
        let stream = self.writer.apply(OpenWork { who: who.clone() }).await?;
        // From here on this stream speaks only as itself: once a newer one is stored, its claims are refused.
        let who = Speaker { streams: vec![stream.clone()], ..who };
        let signals = self.hub.open(who.clone());
        Ok(WorkStream { services: self.clone(), who, stream, signals, opened: false, look: true })
    }
}

impl WorkStream {
    /// The next thing to send; `None` when the stream has been replaced or the mediator stops.
    ///
    /// # Errors
    /// The speaker is no longer the rightful one; a store that is not available.
    pub async fn next(&mut self) -> Result<Option<Work>, Error> {
        if !std::mem::replace(&mut self.opened, true) {
            return Ok(Some(Work::Opened(self.stream.clone())));
        }
        loop {
            // Boxed: ten thousand streams wait for a signal, and none of them should keep room for what it does then.
            if std::mem::take(&mut self.look)
                && let Some(step) = Box::pin(self.services.writer.apply(Claim { who: self.who.clone() })).await?
            {
                return Box::pin(self.services.work(Box::new(step))).await.map(Some);
            }
            match self.signals.recv().await {
                None => return Ok(None),
                Some(Signal::Work) => self.look = true,
                Some(Signal::Step(step)) => return Box::pin(self.services.work(step)).await.map(Some),
                Some(Signal::AdvertNow) => return Ok(Some(Work::AdvertNow)),
                Some(Signal::Stop(gone)) => return Ok(Some(Work::Stop(gone))),
            }
        }
    }
}

impl Drop for WorkStream {
    fn drop(&mut self) {
        // Closed first, so that the hub can tell it from a stream that has taken its place.
        self.signals.close();
        self.services.hub.close(&self.who.node);
    }
}

impl Services {
    /// A claimed step with its files.
    async fn work(&self, step: Box<ClaimedStep>) -> Result<Work, Error> {
        self.contracts.claimed(&step);
        let inputs = self.inputs(&step).await?;
        Ok(Work::Step(step, inputs))
    }

    /// The files behind a step's inputs: each name stands for a file or for everything below a folder.
    async fn inputs(&self, step: &ClaimedStep) -> Result<Vec<Input>, Error> {
        if step.inputs.is_empty() {
            return Ok(Vec::new());
        }
        let rows = self.store.read().await?.artifacts(&step.run).await?;
        let mut files = Vec::new();
        for wanted in &step.inputs {
            let of_attempt = |row: &&ArtifactRow| row.seq == wanted.seq && row.attempt == wanted.attempt;
            for row in rows.iter().filter(of_attempt) {
                if let Some(rest) = below(&row.name, &wanted.name) {
                    let path = format!("{}{rest}", wanted.path);
                    files.push(Input { path, sha256: row.sha256.clone(), size: row.size });
                }
            }
        }
        Ok(files)
    }
}

/// What follows `name` in `file`: nothing when it is that file, `/…` when it lies below it.
pub(super) fn below<'a>(file: &'a str, name: &str) -> Option<&'a str> {
    file.strip_prefix(name).filter(|rest| rest.is_empty() || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use shared::domain::{Drain, Policy, RunState};

    use super::{Work, below};
    use crate::service::{
        SubmitCommand,
        bench::{Bench, one_step, speaker},
        sample::{Statements, id},
    };

    /// The first claim of a commit can end its Run, and so give the node of the next one to a Run that nobody has read.
    #[tokio::test]
    async fn a_node_that_another_claim_has_freed_goes_to_the_next_run_with_its_lease() {
        let mut bench = Bench::new().await;
        let held = Policy { drain: Drain::Graceful, reason: "not yet".to_owned(), ..Policy::default() };
        for (node, capability) in [("n1", "c"), ("n2", "d")] {
            bench.advert(node, capability, held.clone()).await;
        }
        let services = bench.services.clone();
        let mut streams = Vec::new();
        for node in ["n1", "n2"] {
            let mut stream = services.open_work(speaker(node)).await.unwrap();
            assert!(matches!(stream.next().await, Ok(Some(Work::Opened(_)))));
            streams.push(stream);
        }
        // It ends as soon as somebody reads it: what it acquires is not there, and it does not wait.
        let ends = "requires: [{as: a, capability: c}, {as: b, capability: d}]\n\
                    steps: [{id: s, acquire: {as: x, capability: c, wait: false}}]\n";
        for (run, text) in [("ends", ends.to_owned()), ("next", one_step("d"))] {
            let command =
                SubmitCommand { contract_text: text.into_bytes(), run_id: Some(run.to_owned()), principal: id("ann") };
            assert_eq!(services.submit(command).await.unwrap().run.state, RunState::Queued, "{run}");
        }
        for (node, capability) in [("n1", "c"), ("n2", "d")] {
            bench.tick();
            let advert = bench.advert_of(node, capability, Policy::default());
            services.advertise(advert).await.unwrap();
        }
        let page = services.run(&id("ends")).await.unwrap();
        assert_eq!(page.run.state, "FAILED");
        let step = tokio::time::timeout(std::time::Duration::from_secs(10), streams[1].next()).await;
        assert!(matches!(step, Ok(Ok(Some(Work::Step(step, _)))) if step.run == id("next")));
        let leases = services.leases().await.unwrap().rows;
        assert_eq!(leases.iter().map(|it| it.run.as_str()).collect::<Vec<_>>(), ["next"]);
    }

    #[tokio::test]
    async fn a_step_is_claimed_in_the_commit_that_grants_its_node() {
        let mut bench = Bench::new().await;
        bench.advert("n1", "c", Policy::default()).await;
        let services = bench.services.clone();
        let mut stream = services.open_work(speaker("n1")).await.unwrap();
        assert!(matches!(stream.next().await, Ok(Some(Work::Opened(_)))));
        let statements = Statements::count();
        let submit = async {
            // What the stream looks for by itself as it opens is not there yet.
            while statements.of("fleet.commit") < 1 {
                tokio::task::yield_now().await;
            }
            let contract_text = one_step("c").into_bytes();
            let command = SubmitCommand { contract_text, run_id: Some("r1".to_owned()), principal: id("ann") };
            services.submit(command).await.unwrap()
        };
        let (step, _) = tokio::join!(stream.next(), submit);
        assert!(matches!(step, Ok(Some(Work::Step(step, _))) if step.run == id("r1")));
        assert_eq!(statements.of("fleet.commit"), 2, "one of them the look that found nothing");
    }

    #[test]
    fn a_name_stands_for_a_file_or_a_folder() {
        assert_eq!(below("dist/a/b", "dist"), Some("/a/b"));
        assert_eq!(below("dist", "dist"), Some(""));
        assert_eq!(below("distant", "dist"), None);
    }
}
