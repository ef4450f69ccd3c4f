//! Adverts of all nodes, on a thread and a connection of their own, so that no work can delay a renewal.
//!
//! It also watches the time that leases were promised for, counted on the boot clock from the sending of the
//! last accepted advert: process groups are gone when it ends. After a pause of the whole machine it kills
//! first and talks afterwards.

use std::{cell::RefCell, io, rc::Rc, sync::Arc, thread};

use proto::v1;
use shared::Duration;
use tokio::{sync::oneshot, task::JoinSet};

use crate::{
    clock::{self, BootTime},
    config::Config,
    policy::{PolicyFile, Standing},
    session::{
        link::{Link, LinkError},
        node::{Node, Stop, StopCause, Superseded},
        retry::{Backoff, CallError, Kind},
        wire,
    },
    state::{AgentState, Stage},
};

/// An advert that is not answered by then is sent again.
const ANSWER_WITHIN: std::time::Duration = std::time::Duration::from_secs(5);
/// The last advert is worth a few tries, not a wait.
const GOODBYE_WITHIN: std::time::Duration = std::time::Duration::from_secs(3);
/// The boot clock is looked at this often while something runs: timers stand still while the machine sleeps.
const WATCH_EVERY: Duration = Duration::from_millis(500);
/// Groups must be gone this long before the leases end.
const MARGIN: Duration = Duration::from_millis(500);
/// Reading the policy file takes microseconds, unless its file system hangs.
const SLOW_POLICY: Duration = Duration::from_millis(500);
/// So long the answer of a hanging file system is good for all nodes.
const SLOW_POLICY_HOLDS: Duration = Duration::from_secs(5);

/// The running thread.
#[derive(Debug)]
pub struct Heartbeat {
    ended: oneshot::Receiver<()>,
}

impl Heartbeat {
    /// Starts the thread. It ends by itself after the goodbyes.
    ///
    /// # Errors
    /// No thread, or a configuration that cannot work.
    pub fn start(
        config: &Arc<Config>,
        agent: &Arc<AgentState>,
        policy: &PolicyFile,
        link: &Link,
    ) -> Result<Self, HeartbeatError> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let link = {
            let _entered = runtime.enter();
            Arc::new(link.beside(config)?)
        };
        let (config, agent, policy) = (config.clone(), agent.clone(), policy.clone());
        let (on_end, ended) = oneshot::channel();
        thread::Builder::new().name("heartbeat".to_owned()).spawn(move || {
            let beat = Beat { config, agent, policy, slow: Rc::default(), link };
            tokio::task::LocalSet::new().block_on(&runtime, beat.run());
            drop(on_end);
        })?;
        Ok(Self { ended })
    }

    /// Waits for the end of the thread.
    pub async fn ended(&mut self) {
        // It is never sent: the end of the sender is the message.
        drop((&mut self.ended).await);
    }
}

/// Why there is no heartbeat.
#[derive(Debug, thiserror::Error)]
pub enum HeartbeatError {
    /// The operating system.
    #[error("cannot start the heartbeat")]
    Io(#[from] io::Error),
    /// The configuration.
    #[error(transparent)]
    Link(#[from] LinkError),
}

#[derive(Clone)]
struct Beat {
    config: Arc<Config>,
    agent: Arc<AgentState>,
    policy: PolicyFile,
    /// A policy that took long to read, and until when it is not read again.
    slow: Rc<RefCell<Option<(BootTime, Standing)>>>,
    link: Arc<Link>,
}

impl Beat {
    async fn run(self) {
        let mut nodes = JoinSet::new();
        for node in self.agent.nodes().iter().cloned() {
            nodes.spawn_local(self.clone().node(node));
        }
        let watch = async {
            loop {
                let pause = self.agent.nodes().iter().map(|node| self.watch(node)).min().unwrap_or(WATCH_EVERY);
                tokio::time::sleep(pause.std()).await;
            }
        };
        tokio::select! {
            () = async { while nodes.join_next().await.is_some() {} } => {}
            () = watch => {}
        }
    }

    /// Adverts one node until its goodbye.
    async fn node(self, node: Arc<Node>) {
        let mut backoff = Backoff::new();
        // Told once a cause: a refused token after an outage is news.
        let mut told = None;
        loop {
            let stage = self.agent.stage();
            if stage == Stage::Goodbye {
                drop(tokio::time::timeout(GOODBYE_WITHIN, self.goodbye(&node)).await);
                return;
            }
            let pause = match self.advert(&node, stage).await {
                Ok(()) => {
                    backoff.reset();
                    told = None;
                    node.interval()
                }
                Err(Failure::Resend) => Duration::default(),
                Err(Failure::Idle) => node.interval(),
                Err(Failure::Call(e)) => {
                    if told.replace(e.kind) != Some(e.kind) {
                        self.tell(&node, &e);
                    }
                    match e.kind {
                        Kind::Retry => backoff.next_pause(node.interval()),
                        // No sense in haste: somebody has to change something first.
                        Kind::Superseded | Kind::Stale | Kind::Checksum | Kind::Denied | Kind::Refused => {
                            node.interval()
                        }
                    }
                }
            };
            tokio::select! {
                () = tokio::time::sleep(pause.std()) => {}
                () = self.policy.changed() => {}
                () = node.advert_now.notified() => {}
            }
        }
    }

    /// What a person has to mend is an error; what passes by itself is a warning.
    fn tell(&self, node: &Node, e: &CallError) {
        let (node, mediator) = (&node.id, self.link.mediator());
        match e.kind {
            Kind::Denied => {
                tracing::error!(%node, mediator, error = %e, "the mediator refuses this agent's token: nothing is lent, and what runs is killed when its lease ends; give it another one (token_file) and start it again");
            }
            Kind::Refused | Kind::Superseded | Kind::Stale | Kind::Checksum => {
                tracing::error!(%node, mediator, error = %e, "the mediator refuses the advert; trying again");
            }
            Kind::Retry => {
                let what = if e.is_silence() { "the mediator gives no answer" } else { "the advert was not accepted" };
                tracing::warn!(%node, mediator, error = %e, "{what}; trying again");
            }
        }
    }

    /// Sends one advert and learns from its answer.
    async fn advert(&self, node: &Node, stage: Stage) -> Result<(), Failure> {
        // A machine that was frozen kills first and talks afterwards.
        self.watch(node);
        let mut advert = v1::AdvertiseRequest {
            label: self.config.label.clone(),
            capabilities: self.config.capabilities.iter().map(wire::capability).collect(),
            stopping: stage > Stage::Working,
            goodbye: stage == Stage::Goodbye,
            agent_version: env!("CARGO_PKG_VERSION").to_owned(),
            ..v1::AdvertiseRequest::default()
        };
        let standing = self.read_policy().await;
        let sent = clock::boot_time();
        let Some(mark) = node.advert(&mut advert, &standing) else { return Err(Failure::Idle) };
        // As it is asked: without an answer the next one is another's.
        let asked = self.link.mediator().to_owned();
        let answer = self.link.advertise(advert, ANSWER_WITHIN).await;
        self.agent.silence(&asked, answer.as_ref().is_err_and(CallError::is_silence));
        self.agent.heard(self.link.mediator(), is_answer(&answer));
        match answer {
            Ok(answer) => {
                let reply = wire::reply(&answer).map_err(|e| Failure::Call(CallError::refused(e.to_string())))?;
                node.accepted(&reply, &mark, sent);
                Ok(())
            }
            Err(e) if e.kind == Kind::Superseded => match node.superseded(&mark.who, &e.message) {
                Superseded::Resend => Err(Failure::Resend),
                Superseded::Idle => Err(Failure::Idle),
            },
            Err(e) => Err(Failure::Call(e)),
        }
    }

    /// The owner's word of now. A file system that hangs must not hold up every renewal: what it cost one advert
    /// its time is told in the next ones as well.
    async fn read_policy(&self) -> Standing {
        let asked = clock::boot_time();
        if let Some((_, standing)) = self.slow.borrow().as_ref().filter(|(until, _)| *until > asked) {
            return standing.clone();
        }
        // Not blocking: the watch over the leases shares this thread.
        let standing = self.policy.look().await;
        let answered = clock::boot_time();
        let hung = asked.until(answered) >= SLOW_POLICY;
        *self.slow.borrow_mut() = hung.then(|| (answered.plus(SLOW_POLICY_HOLDS), standing.clone()));
        standing
    }

    async fn goodbye(&self, node: &Node) {
        let mut backoff = Backoff::new();
        while let Err(Failure::Resend | Failure::Call(_)) = self.advert(node, Stage::Goodbye).await {
            if self.agent.is_left_alone(self.config.mediators()) {
                return;
            }
            backoff.pause(node.interval()).await;
        }
    }

    /// Ends what runs on a node when its leases are about to. Returns when to look again.
    fn watch(&self, node: &Node) -> Duration {
        let Some((end, ttl)) = node.deadline() else { return WATCH_EVERY };
        let now = clock::boot_time();
        let plan = Plan::new(ttl, self.config.grace);
        if now >= end.minus(plan.kill) {
            node.order_stop(Stop { cause: StopCause::TimeToLive, grace: Duration::default() });
            // From here, too: the worker's threads may be as stuck as the network.
            node.kill_now();
            return WATCH_EVERY;
        }
        if now >= end.minus(plan.term) {
            let grace = now.until(end.minus(plan.kill));
            node.order_stop(Stop { cause: StopCause::TimeToLive, grace });
            return grace.min(WATCH_EVERY);
        }
        now.until(end.minus(plan.term)).clamp(Duration::from_millis(1), WATCH_EVERY)
    }
}

/// How long before the end of the leases a step is told to end, and killed.
#[derive(Debug, PartialEq, Eq)]
struct Plan {
    term: Duration,
    kill: Duration,
}

impl Plan {
    /// A grace that would eat most of the time to live is cut: work must be possible at all.
    fn new(ttl: Duration, grace: Duration) -> Self {
        let kill = MARGIN.min(Duration::from_millis(ttl.millis() / 8));
        let grace = grace.min(Duration::from_millis(ttl.millis() / 4));
        Self { term: Duration::from_millis(kill.millis() + grace.millis()), kill }
    }
}

/// Whether a mediator answered, be it with a refusal.
fn is_answer<T>(answer: &Result<T, CallError>) -> bool {
    !answer.as_ref().is_err_and(|e| e.kind == Kind::Retry)
}

enum Failure {
    /// Its refusal said nothing: send another at once.
    Resend,
    /// Another speaks for the node.
    Idle,
    /// Anything else.
    Call(CallError),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn killing_is_over_before_the_leases_are() {
        let plan = Plan::new(Duration::from_secs(60), Duration::from_secs(10));
        assert_eq!(plan, Plan { term: Duration::from_millis(10_500), kill: MARGIN });
        let plan = Plan::new(Duration::from_secs(4), Duration::from_secs(10));
        assert_eq!(plan, Plan { term: Duration::from_millis(1_500), kill: MARGIN });
    }
}
