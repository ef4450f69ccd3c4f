//! Many nodes in this process: they speak the node protocol as an agent does, and start no processes.
//!
//! Adverts, work streams, reports, connections (two an agent), pauses after a failure and limits of time are those
//! of the real agent; the pauses are drawn by its own code. What is left out is what happens on the machine:
//! policy file, workspace, process, log, spool.

use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicI64, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::{Result, ensure};
use enode::session::retry::Backoff;
use proto::v1::{self, node_service_client::NodeServiceClient, report_request::Outcome, work_item::Item};
use tests::Mediator;
use tokio::{
    runtime::{Handle, Runtime},
    sync::{Notify, Semaphore},
};
use tonic::{
    Status,
    service::interceptor::InterceptedService,
    transport::{Channel, Endpoint},
};

use crate::calls::{Bearer, runtime};

type Client = NodeServiceClient<InterceptedService<Channel, Bearer>>;

const ADVERT_WITHIN: Duration = Duration::from_secs(5);
/// Owners of a large fleet: agents share their tokens.
const OWNERS: usize = 16;
/// First adverts under way. Ten thousand machines are not switched on in the same second.
const JOINING: usize = 256;

/// What a node does with a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Steps {
    /// Reports at once that it has ended well.
    Report,
    /// Is busy with it for ever.
    Hold,
}

/// What a fleet is like.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) agents: usize,
    pub(crate) nodes_each: usize,
    pub(crate) capability: v1::Capability,
    pub(crate) drain: &'static str,
    pub(crate) steps: Steps,
}

/// A capability with one number that requirements can ask for.
pub(crate) fn capability(name: &str, cores: i64) -> v1::Capability {
    let kind = Some(v1::attr_value::Kind::Number(cores));
    v1::Capability { name: name.to_owned(), attrs: [("cores".to_owned(), v1::AttrValue { kind })].into() }
}

/// A running fleet; it is gone without a word when dropped.
pub(crate) struct Fleet {
    shared: Arc<Shared>,
    runtime: Option<Runtime>,
}

struct Shared {
    plan: Plan,
    joining: Semaphore,
    joined: AtomicUsize,
    opened: AtomicUsize,
    /// Steps that are held.
    held: AtomicUsize,
    /// How often the mediator was lost.
    losses: AtomicUsize,
    /// When a connection worked for the first time since the mediator was lost.
    connects: Mutex<Vec<Instant>>,
}

impl Fleet {
    /// Starts it and waits until every node is known and has its work stream.
    pub(crate) fn start(mediator: &Mediator, plan: Plan) -> Result<Self> {
        let (agents, nodes) = (plan.agents, plan.agents * plan.nodes_each);
        let tokens: Vec<String> =
            (0..OWNERS.min(agents)).map(|it| mediator.token("node", &format!("owner-{it}"))).collect();
        let shared = Arc::new(Shared {
            plan,
            joining: Semaphore::new(JOINING),
            joined: AtomicUsize::default(),
            opened: AtomicUsize::default(),
            held: AtomicUsize::default(),
            losses: AtomicUsize::new(1),
            connects: Mutex::default(),
        });
        let fleet = Self { shared, runtime: Some(runtime()?) };
        let started = Instant::now();
        for number in 0..agents {
            let bearer = Bearer::new(&tokens[number % tokens.len()])?;
            fleet.agent(mediator, number, &bearer)?;
        }
        while fleet.shared.opened.load(Ordering::SeqCst) < nodes {
            let joined = fleet.shared.joined.load(Ordering::SeqCst);
            ensure!(started.elapsed() < Duration::from_secs(120), "only {joined} of {nodes} nodes have joined");
            std::thread::sleep(Duration::from_millis(20));
        }
        println!("   {nodes} nodes of {agents} agents are there after {:.1} s", started.elapsed().as_secs_f64());
        Ok(fleet)
    }

    fn agent(&self, mediator: &Mediator, number: usize, bearer: &Bearer) -> Result<()> {
        let Some(handle) = self.runtime.as_ref().map(Runtime::handle) else { return Ok(()) };
        let _entered = handle.enter();
        let (heart, work) = (Arc::new(Link::new(mediator, bearer)?), Arc::new(Link::new(mediator, bearer)?));
        for slot in 0..self.shared.plan.nodes_each {
            let node = Node::new(&format!("f{number}-{slot}"), self.shared.clone(), heart.clone(), work.clone());
            handle.spawn(node.clone().adverts());
            handle.spawn(node.works());
        }
        Ok(())
    }

    /// How many steps its nodes have been given to hold.
    pub(crate) fn held(&self) -> usize {
        self.shared.held.load(Ordering::SeqCst)
    }

    /// The mediator is gone: whatever connection works from now on is a new one.
    pub(crate) fn lost(&self) {
        self.shared.losses.fetch_add(1, Ordering::SeqCst);
        self.take_connects();
    }

    /// When connections worked again since the last call. Each is told once a loss.
    pub(crate) fn take_connects(&self) -> Vec<Instant> {
        std::mem::take(&mut *locked(&self.shared.connects))
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One connection, opened when it is needed.
struct Link {
    client: Client,
    /// The number of the loss since which it works.
    since: AtomicUsize,
}

impl Link {
    fn new(mediator: &Mediator, bearer: &Bearer) -> Result<Self> {
        let endpoint = Endpoint::from_shared(mediator.url())?
            .connect_timeout(Duration::from_secs(5))
            .http2_keep_alive_interval(Duration::from_secs(10))
            .keep_alive_timeout(Duration::from_secs(5))
            .keep_alive_while_idle(true);
        let client = NodeServiceClient::with_interceptor(endpoint.connect_lazy(), bearer.clone());
        Ok(Self { client, since: AtomicUsize::new(0) })
    }
}

/// What a node knows of itself.
#[derive(Default)]
struct Known {
    /// The acknowledged stream first, then those drawn since.
    streams: Vec<String>,
    running: Vec<v1::StepRef>,
    finished: Vec<v1::StepRef>,
    interval: Duration,
}

/// One node.
struct Node {
    id: String,
    instance: String,
    advert_no: AtomicI64,
    known: Mutex<Known>,
    advert_now: Notify,
    accepted: Notify,
    shared: Arc<Shared>,
    heart: Arc<Link>,
    work: Arc<Link>,
}

impl Node {
    fn new(id: &str, shared: Arc<Shared>, heart: Arc<Link>, work: Arc<Link>) -> Arc<Self> {
        Arc::new(Self {
            id: id.to_owned(),
            instance: enode::clock::fresh_instance().to_string(),
            advert_no: AtomicI64::new(0),
            known: Mutex::new(Known { interval: Duration::from_secs(10), ..Known::default() }),
            advert_now: Notify::new(),
            accepted: Notify::new(),
            shared,
            heart,
            work,
        })
    }

    fn speaker(&self, streams: Vec<String>) -> Option<v1::NodeRef> {
        Some(v1::NodeRef { node_id: self.id.clone(), instance: self.instance.clone(), streams })
    }

    fn interval(&self) -> shared::Duration {
        shared::Duration::from_millis(u64::try_from(locked(&self.known).interval.as_millis()).unwrap_or(u64::MAX))
    }

    fn advert(&self, plan: &Plan) -> v1::AdvertiseRequest {
        let known = locked(&self.known);
        v1::AdvertiseRequest {
            node: self.speaker(known.streams.clone()),
            label: "simulated machine".to_owned(),
            advert_no: self.advert_no.fetch_add(1, Ordering::SeqCst) + 1,
            capabilities: vec![plan.capability.clone()],
            policy: Some(v1::Policy { drain: plan.drain.to_owned(), ..v1::Policy::default() }),
            running: known.running.clone(),
            finished: known.finished.clone(),
            agent_version: env!("CARGO_PKG_VERSION").to_owned(),
            ..v1::AdvertiseRequest::default()
        }
    }

    async fn adverts(self: Arc<Self>) {
        let mut backoff = Backoff::new();
        let mut joining = self.shared.joining.acquire().await.ok();
        loop {
            let call = async { self.heart.client.clone().advertise(self.advert(&self.shared.plan)).await };
            let answer = tokio::time::timeout(ADVERT_WITHIN, call).await;
            let answer = answer.unwrap_or_else(|_| Err(Status::deadline_exceeded("an advert")));
            let pause = match answer {
                Ok(answer) => {
                    backoff.reset();
                    self.shared.works(&self.heart);
                    let millis = u64::try_from(answer.into_inner().interval_ms).unwrap_or(10_000);
                    locked(&self.known).interval = Duration::from_millis(millis);
                    if joining.take().is_some() {
                        self.shared.joined.fetch_add(1, Ordering::SeqCst);
                        self.accepted.notify_one();
                        // Machines that were not switched on together do not advert together either.
                        Duration::from_secs_f64(enode::clock::random_fraction() * millis as f64 / 1_000.0)
                    } else {
                        Duration::from_millis(millis)
                    }
                }
                Err(_) => backoff.next_pause(self.interval()).std(),
            };
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = self.advert_now.notified() => {}
            }
        }
    }

    async fn works(self: Arc<Self>) {
        self.accepted.notified().await;
        let mut backoff = Backoff::new();
        loop {
            // Why it ended is of no interest here.
            drop(self.follow(&mut backoff).await);
            backoff.pause(self.interval()).await;
        }
    }

    /// Opens the work stream and obeys it until it ends.
    async fn follow(self: &Arc<Self>, backoff: &mut Backoff) -> Result<(), Status> {
        let streams = {
            let mut known = locked(&self.known);
            known.streams.push(enode::clock::fresh_stream().to_string());
            known.streams.clone()
        };
        let request = v1::WorkRequest { node: self.speaker(streams) };
        let mut items = self.work.client.clone().work(request).await?.into_inner();
        while let Some(item) = items.message().await? {
            backoff.reset();
            self.shared.works(&self.work);
            match item.item {
                Some(Item::Opened(opened)) => {
                    locked(&self.known).streams = vec![opened.stream];
                    self.shared.opened.fetch_add(1, Ordering::SeqCst);
                }
                Some(Item::Step(step)) => self.obey(&step).await,
                Some(Item::Stop(stop)) => locked(&self.known).running.retain(|it| it.run_id != stop.run_id),
                Some(Item::AdvertNow(_)) => self.advert_now.notify_one(),
                None => {}
            }
        }
        Ok(())
    }

    async fn obey(&self, step: &v1::Step) {
        let attempt = v1::StepRef { run_id: step.run_id.clone(), seq: step.seq, attempt: step.attempt };
        if self.shared.plan.steps == Steps::Hold {
            locked(&self.known).running.push(attempt);
            self.shared.held.fetch_add(1, Ordering::SeqCst);
            return;
        }
        locked(&self.known).finished.push(attempt.clone());
        let mut backoff = Backoff::new();
        loop {
            let streams = locked(&self.known).streams.clone();
            let report = v1::ReportRequest {
                node: self.speaker(streams),
                step: Some(attempt.clone()),
                nonce: step.nonce.clone(),
                log_bytes: 0,
                outcome: Some(Outcome::Completed(v1::Completed { exit_code: 0 })),
            };
            match self.work.client.clone().report(report).await {
                // A late one is nobody's any more.
                Ok(_) => break,
                Err(status) if status.code() == tonic::Code::FailedPrecondition => break,
                Err(_) => backoff.pause(self.interval()).await,
            }
        }
        locked(&self.known).finished.retain(|it| *it != attempt);
    }
}

impl Shared {
    /// Something was answered over this connection.
    fn works(&self, link: &Link) {
        let now = self.losses.load(Ordering::SeqCst);
        if link.since.swap(now, Ordering::SeqCst) != now {
            locked(&self.connects).push(Instant::now());
        }
    }
}

/// One more node, whose adverts are sent one by one.
pub(crate) struct Solo {
    node: Arc<Node>,
    plan: Plan,
    handle: Handle,
}

impl Solo {
    /// Makes it known; it drains.
    pub(crate) fn join(mediator: &Mediator, handle: &Handle, id: &str, capability: v1::Capability) -> Result<Self> {
        let _entered = handle.enter();
        let bearer = Bearer::new(&mediator.token("node", id))?;
        let plan = Plan { agents: 1, nodes_each: 1, capability, drain: "graceful", steps: Steps::Hold };
        let shared = Arc::new(Shared {
            plan: plan.clone(),
            joining: Semaphore::new(1),
            joined: AtomicUsize::default(),
            opened: AtomicUsize::default(),
            held: AtomicUsize::default(),
            losses: AtomicUsize::new(1),
            connects: Mutex::default(),
        });
        let link = Arc::new(Link::new(mediator, &bearer)?);
        let node = Node::new(id, shared, link.clone(), link);
        let mut solo = Self { node, plan, handle: handle.clone() };
        solo.advert("graceful")?;
        Ok(solo)
    }

    /// Sends an advert with this word of the owner. Returns how long the answer took.
    pub(crate) fn advert(&mut self, drain: &'static str) -> Result<Duration> {
        self.plan.drain = drain;
        let advert = self.node.advert(&self.plan);
        let mut client = self.node.heart.client.clone();
        let started = Instant::now();
        let answer = self.handle.block_on(async { client.advertise(advert).await })?.into_inner();
        let took = started.elapsed();
        ensure!(answer.leases.is_empty(), "{} was to be of no use to anybody", self.node.id);
        Ok(took)
    }
}
