//! Wires the agent together: the order of start and stop, and the only place that starts long-lived tasks.
//!
//! Start: folders, what earlier lives left (their process groups are killed before anything else), heartbeat,
//! then per node work stream, worker and outbox. Stop, first signal: adverts say `stopping` until the
//! mediator has heard it, so that nothing new is claimed; what runs may end and is reported, the outbox gets a moment, adverts say goodbye, tasks end. Second signal, or the stop timeout:
//! what runs is killed and reported as `stopped`; the rest is the same.

use std::{path::PathBuf, sync::Arc};

use anyhow::Context as _;
use shared::{Duration, NodeId};
use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    sync::mpsc,
    task::JoinSet,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    clock,
    config::Config,
    heartbeat::Heartbeat,
    identity::Identity,
    local,
    policy::{PolicyFile, quarantine::Quarantine},
    session::{
        core::NodeCore,
        delivery,
        link::Link,
        node::{Job, Node, Stop, StopCause},
        outbox::Outbox,
        stream,
        upload::Caller,
    },
    spool::{Spool, folder_name},
    state::{AgentState, Stage},
    work::{self, Bench, group::Notes, strays, workspace::Rooms},
};

/// After the last step: how long its result may take to be acknowledged. What is not stays spooled.
const FLUSH_WITHIN: Duration = Duration::from_secs(5);
/// How long the mediator may take to hear that the agent stops.
const HEARD_WITHIN: Duration = Duration::from_secs(5);
/// What was claimed just before it heard may still be on its way over the work stream, behind the answer.
const ON_ITS_WAY: Duration = Duration::from_millis(500);
/// How long tasks may take to notice the end, and adverts to say goodbye.
const END_WITHIN: Duration = Duration::from_secs(10);
/// The same where no mediator answers and there is nothing to give back: one try.
const FAREWELL_WITHIN: Duration = Duration::from_millis(500);

/// Why the agent is told to stop, and how urgently. Signals in the program, a channel in tests.
pub trait Stops {
    /// The next order to stop.
    fn next(&mut self) -> impl Future<Output = ()> + Send;
}

/// SIGTERM and SIGINT.
struct Signals {
    term: Signal,
    int: Signal,
}

impl Stops for Signals {
    async fn next(&mut self) {
        tokio::select! {
            _ = self.term.recv() => {}
            _ = self.int.recv() => {}
        }
    }
}

/// Orders from a channel.
#[derive(Debug)]
pub struct StopChannel(pub mpsc::Receiver<()>);

impl Stops for StopChannel {
    async fn next(&mut self) {
        if self.0.recv().await.is_none() {
            std::future::pending().await
        }
    }
}

/// Runs the agent until it is told to stop.
///
/// # Errors
/// It cannot work, or a part of it broke down.
pub async fn run(config: Config) -> anyhow::Result<()> {
    let signals = Signals { term: signal(SignalKind::terminate())?, int: signal(SignalKind::interrupt())? };
    if let Err(e) = strays::adopt() {
        tracing::warn!(error = %e, "a process that leaves its step's group will not be found");
    }
    run_until(config, signals).await
}

/// Runs the agent until `stops` says so.
///
/// # Errors
/// It cannot work, or a part of it broke down.
pub async fn run_until(config: Config, mut stops: impl Stops) -> anyhow::Result<()> {
    let config = Arc::new(config);
    anyhow::ensure!(
        config.state_dir.is_absolute() && config.state_dir.to_str().is_some(),
        "state_dir {} must be an absolute path in UTF-8: programs get it in their environment",
        config.state_dir.display()
    );
    let link = Arc::new(Link::new(&config)?);
    let policy = PolicyFile::start(&config)?;
    let mut parts = Vec::new();
    for id in config.nodes() {
        parts.push(Part::prepare(&config, &id).await.with_context(|| format!("cannot prepare node {id}"))?);
    }
    let agent = AgentState::new(&config.name, parts.iter().map(|part| part.node.clone()).collect());
    let (cancel, tracker) = (CancellationToken::new(), TaskTracker::new());
    let mut heartbeat = Heartbeat::start(&config, &agent, &policy, &link)?;
    let mut tasks = JoinSet::new();
    for part in parts {
        part.start(&config, &agent, &link, &cancel, &tracker, &mut tasks);
    }
    let (socket, on_status) = (config.state_dir.join("enode.sock"), agent.clone());
    let status = tokio::spawn(local::serve(socket, move || on_status.status()));
    notify(&[sd_notify::NotifyState::Ready]);

    let broken = tokio::select! {
        () = stops.next() => None,
        ended = tasks.join_next() => Some(ended),
        () = heartbeat.ended() => Some(None),
    };
    if broken.is_none() {
        notify(&[sd_notify::NotifyState::Stopping]);
        stop(&config, &agent, &mut stops).await;
    } else {
        tracing::error!(?broken, "a part of the agent broke down: it stops");
        agent.enter(Stage::Killing);
        kill(&agent, config.grace);
        drop(tokio::time::timeout(config.grace.std() + END_WITHIN.std(), idle(&agent)).await);
    }
    agent.enter(Stage::Goodbye);
    let within = if agent.is_left_alone(config.mediators()) { FAREWELL_WITHIN } else { END_WITHIN };
    drop(tokio::time::timeout(within.std(), heartbeat.ended()).await);
    end_latecomers(&config, &agent).await;
    cancel.cancel();
    status.abort();
    tasks.abort_all();
    while tasks.join_next().await.is_some() {}
    tracker.close();
    if tokio::time::timeout(END_WITHIN.std(), tracker.wait()).await.is_err() {
        tracing::warn!("some tasks did not end in time");
    }
    match broken {
        None => Ok(()),
        Some(_) => anyhow::bail!("a part of the agent broke down; see the log above"),
    }
}

/// Lets what runs end, within limits, and its results be acknowledged.
async fn stop(config: &Config, agent: &AgentState, stops: &mut impl Stops) {
    tracing::info!(timeout = %config.stop_timeout, "told to stop: what runs may end; a second signal kills it");
    agent.enter(Stage::Stopping);
    let quiet = async {
        unclaimable(config, agent).await;
        idle(agent).await;
    };
    let urgent = tokio::select! {
        biased;
        () = quiet => None,
        () = stops.next() => {
            if agent.nodes().iter().all(|node| node.is_idle()) {
                tracing::warn!("told again: what is not acknowledged stays spooled until the next start");
                return;
            }
            Some(Duration::default())
        }
        () = tokio::time::sleep(config.stop_timeout.std()) => Some(config.grace),
    };
    if let Some(grace) = urgent {
        tracing::warn!("killing what runs");
        agent.enter(Stage::Killing);
        kill(agent, grace);
        tokio::select! {
            () = idle(agent) => {}
            () = tokio::time::sleep(grace.std() + config.start_timeout.std() + END_WITHIN.std()) => {}
        }
    }
    let flushed = async {
        for node in agent.nodes() {
            node.outbox.emptied().await;
        }
    };
    tokio::select! {
        () = flushed => {}
        () = tokio::time::sleep(FLUSH_WITHIN.std()) => tracing::warn!("results stay spooled until the next start"),
        () = stops.next() => {}
    }
}

/// Waits until nothing new can come, within limits: a mediator that is away claims nothing either.
async fn unclaimable(config: &Config, agent: &AgentState) {
    let heard = async {
        for node in agent.nodes() {
            node.unclaimable().await;
        }
    };
    tokio::select! {
        heard = tokio::time::timeout(HEARD_WITHIN.std(), heard) => if heard.is_err() {
            tracing::warn!("the mediator has not acknowledged that the agent stops");
        },
        () = agent.left_alone(config.mediators()) => {
            tracing::info!("no mediator answers, and there is nothing to give back: the agent ends at once");
            return;
        }
    }
    if agent.nodes().iter().any(|node| node.has_lease()) {
        tokio::time::sleep(ON_ITS_WAY.std()).await;
    }
}

/// Whatever came in spite of everything must not outlive the agent. Its result is spooled.
async fn end_latecomers(config: &Config, agent: &AgentState) {
    kill(agent, Duration::default());
    if tokio::time::timeout(config.start_timeout.std() + END_WITHIN.std(), idle(agent)).await.is_err() {
        tracing::error!("a process that was killed does not end; it is swept at the next start");
    }
}

fn kill(agent: &AgentState, grace: Duration) {
    for node in agent.nodes() {
        node.order_stop(Stop { cause: StopCause::Stopped, grace });
    }
}

/// Waits until no node has anything under way.
async fn idle(agent: &AgentState) {
    for node in agent.nodes() {
        node.idle().await;
    }
}

fn notify(state: &[sd_notify::NotifyState<'_>]) {
    if let Err(e) = sd_notify::notify(state) {
        tracing::debug!(error = %e, "the service manager does not listen");
    }
}

/// One node before it starts.
struct Part {
    node: Arc<Node>,
    jobs: mpsc::UnboundedReceiver<Job>,
    spool: Spool,
    rooms: Rooms,
    groups: Notes,
}

impl Part {
    /// Takes up what earlier lives left of a node; their processes are gone afterwards.
    async fn prepare(config: &Config, id: &NodeId) -> anyhow::Result<Self> {
        let state: &PathBuf = &config.state_dir;
        let groups = Notes::open(state, id).context("process groups")?;
        anyhow::ensure!(
            groups.sweep(config.start_timeout).await,
            "a process group that an earlier life left does not go"
        );
        let identity = Identity::load(state, id).context("identity")?;
        let spool = Spool::open(state, id).context("spool")?;
        let rooms = Rooms::open(state, id).context("work folders")?;
        let mut core = NodeCore::default();
        for lease in rooms.found().context("work folders")? {
            core.found(lease);
        }
        let outbox = Outbox::default();
        for record in spool.load().context("spool")? {
            core.found_result(record.key(), record.nonce);
            outbox.push(record, None);
        }
        let note = state.join("quarantine").join(format!("{}.json", folder_name(id)));
        let quarantine = Quarantine::open(note, config.quarantine, clock::now());
        let (node, jobs) = Node::new(id.clone(), identity, core, outbox, quarantine, config.grace);
        Ok(Self { node, jobs, spool, rooms, groups })
    }

    fn start(
        self,
        config: &Arc<Config>,
        agent: &Arc<AgentState>,
        link: &Arc<Link>,
        cancel: &CancellationToken,
        tracker: &TaskTracker,
        tasks: &mut JoinSet<()>,
    ) {
        let caller = Caller { link: link.clone(), node: self.node };
        tasks.spawn(stream::run(caller.clone()));
        tasks.spawn(delivery::run(caller.clone(), self.spool.clone()));
        let bench = Bench {
            config: config.clone(),
            agent: agent.clone(),
            caller,
            spool: self.spool,
            rooms: self.rooms,
            groups: self.groups,
            tracker: tracker.clone(),
            cancel: cancel.clone(),
        };
        tasks.spawn(work::run(bench, self.jobs));
    }
}
