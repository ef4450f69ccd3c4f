//! One node, shared by heartbeat, work stream, worker and outbox.
//!
//! Everything that is decided under the one lock is decided by [`NodeCore`]; this type carries the decisions
//! out: it stops the process, tells the worker and the outbox. The lock is never held across an await.

mod orders;
mod status;

use std::{
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use proto::v1;
use rustix::process::{Pid, Signal};
use shared::{
    Duration, InstanceId, NodeId, Nonce, RunId, StepName, StreamId, Timestamp,
    domain::{Drain, Policy},
};
use tokio::sync::{Notify, mpsc, watch};

pub use self::orders::{Job, Stop, StopCause};
use super::{
    core::{LeaseKey, NodeCore, Received, Reply, Speaker, StepKey},
    outbox::Outbox,
    wire::{self, WorkStep},
};
use crate::{
    clock::{self, BootTime},
    identity::Identity,
    policy::{
        Held, Reasons, Source, Standing,
        quarantine::{End, Quarantine},
    },
    work::strays,
};

/// Until the mediator names an interval.
const FIRST_INTERVAL: Duration = Duration::from_secs(5);
/// A mediator cannot make its agents spin, or go silent.
const INTERVALS: std::ops::RangeInclusive<Duration> = Duration::from_millis(20)..=Duration::from_secs(300);

/// Which process life speaks for the node, once the mediator has accepted it.
pub type Life = Option<InstanceId>;

/// What to do about a message that was refused as superseded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Superseded {
    /// It was older than what the agent has said since: send it again.
    Resend,
    /// This node is idle from now on.
    Idle,
}

/// What an advert was built from.
#[derive(Debug, Clone)]
pub struct Mark {
    /// Who spoke.
    pub who: Speaker,
    /// Which rev was known.
    pub rev: Option<i64>,
    /// It said that the agent stops.
    pub stopping: bool,
}

/// The step that the worker is busy with.
#[derive(Debug)]
struct Current {
    key: StepKey,
    step: StepName,
    nonce: Nonce,
    started_at: Timestamp,
    /// Its process group, while its leader is not reaped: until then the number belongs to nobody else.
    group: Option<Pid>,
    /// `$OUT` of its processes, until all of them are gone.
    alive: Option<PathBuf>,
    stop: watch::Sender<Option<Stop>>,
}

#[derive(Debug)]
struct Inner {
    core: NodeCore,
    identity: Identity,
    /// The identity is not on disk, and must not be used before it is.
    unnoted: bool,
    current: Option<Current>,
    /// A process group that was killed and has not gone: the node is not lent until it has.
    stuck: Option<Held>,
    quarantine: Quarantine,
    /// What the last advert rested on, for people.
    standing: Standing,
    last_advert_at: Option<Timestamp>,
    /// Between two adverts, as the mediator last named it.
    interval: Duration,
    policy_error: String,
    /// The mediator knows that the agent stops: nothing new is claimed for this node.
    told_stopping: bool,
}

/// One node.
#[derive(Debug)]
pub struct Node {
    /// Its id.
    pub id: NodeId,
    /// Results on their way.
    pub outbox: Outbox,
    /// Asks the heartbeat for an advert at once.
    pub advert_now: Notify,
    life: watch::Sender<Life>,
    at_rest: Notify,
    jobs: mpsc::UnboundedSender<Job>,
    grace: Duration,
    inner: Mutex<Inner>,
}

impl Node {
    /// A node with what was found of it on disk, and the jobs for its worker.
    #[must_use]
    pub fn new(
        id: NodeId,
        identity: Identity,
        core: NodeCore,
        outbox: Outbox,
        quarantine: Quarantine,
        grace: Duration,
    ) -> (Arc<Self>, mpsc::UnboundedReceiver<Job>) {
        let (jobs, queue) = mpsc::unbounded_channel();
        let inner = Inner {
            core,
            identity,
            unnoted: false,
            current: None,
            stuck: None,
            quarantine,
            standing: Standing::default(),
            last_advert_at: None,
            interval: FIRST_INTERVAL,
            policy_error: String::new(),
            told_stopping: false,
        };
        let node = Self {
            id,
            outbox,
            advert_now: Notify::new(),
            life: watch::Sender::new(None),
            at_rest: Notify::new(),
            jobs,
            grace,
            inner: Mutex::new(inner),
        };
        (Arc::new(node), queue)
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // The core is changed by total functions only, so that a panic elsewhere leaves it sound.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Follows who speaks for the node.
    #[must_use]
    pub fn life(&self) -> watch::Receiver<Life> {
        self.life.subscribe()
    }

    /// Who speaks, as of now.
    #[must_use]
    pub fn speaker(&self) -> Speaker {
        self.speaker_of(&self.lock())
    }

    fn speaker_of(&self, inner: &Inner) -> Speaker {
        Speaker {
            node: self.id.clone(),
            instance: inner.identity.instance.clone(),
            streams: inner.core.streams().to_vec(),
        }
    }

    /// Fills an advert with what this node knows. None: there is no identity yet that could be used.
    pub fn advert(&self, advert: &mut v1::AdvertiseRequest, standing: &Standing) -> Option<Mark> {
        let mut inner = self.lock();
        if inner.unnoted {
            self.redraw(&mut inner);
            if inner.unnoted {
                return None;
            }
        }
        inner.policy_error.clone_from(&standing.owner.error);
        if inner.quarantine.owner_says(standing.quarantine_cleared.as_deref()) {
            tracing::info!(node = %self.id, "its owner has ended the quarantine");
        }
        inner.standing.clone_from(standing);
        let mark = Mark { who: self.speaker_of(&inner), rev: inner.core.known_rev(), stopping: advert.stopping };
        advert.node = Some(wire::speaker(&mark.who));
        advert.advert_no = inner.core.next_advert();
        advert.policy = Some(wire::policy(&inner.policy()));
        advert.replaces = inner.identity.replaces.iter().map(ToString::to_string).collect();
        advert.running = inner.core.running().map(wire::step_ref).collect();
        advert.finished = inner.core.finished().map(wire::step_ref).collect();
        Some(mark)
    }

    fn redraw(&self, inner: &mut Inner) {
        inner.unnoted = false;
        if let Err(e) = inner.identity.redraw() {
            tracing::error!(node = %self.id, error = %e, "the node stays idle until its new identity can be noted");
            inner.unnoted = true;
        }
    }

    /// An advert was accepted.
    pub fn accepted(&self, reply: &Reply, mark: &Mark, sent: BootTime) {
        let mut inner = self.lock();
        if mark.who.instance != inner.identity.instance {
            return;
        }
        if !inner.core.is_accepted() {
            if let Err(e) = inner.identity.acknowledged() {
                tracing::error!(node = %self.id, error = %e, "cannot note that this instance was accepted");
            }
            tracing::info!(node = %self.id, instance = %mark.who.instance, "the mediator knows this node");
        }
        inner.last_advert_at = Some(clock::now());
        inner.interval = reply.interval.clamp(*INTERVALS.start(), *INTERVALS.end());
        inner.told_stopping |= mark.stopping;
        let gone = inner.core.apply(reply, sent, mark.rev);
        self.end(&mut inner, &gone);
        self.life.send_if_modified(|life| {
            let changed = life.as_ref() != Some(&mark.who.instance);
            *life = Some(mark.who.instance.clone());
            changed
        });
        drop(inner);
        self.at_rest.notify_waiters();
    }

    /// A message of this node was refused because another instance or stream speaks for it.
    pub fn superseded(&self, sent: &Speaker, why: &str) -> Superseded {
        let mut inner = self.lock();
        if sent.instance != inner.identity.instance || inner.core.lacks_newest(&sent.streams) {
            return Superseded::Resend;
        }
        tracing::error!(node = %self.id, instance = %sent.instance, why, "another agent speaks for this node: it is idle now; stop one of the two, or give one another name");
        inner.core.supersede(why.to_owned());
        self.redraw(&mut inner);
        if let Some(current) = &inner.current {
            current.order(Stop { cause: StopCause::Superseded, grace: self.grace });
        }
        self.life.send_replace(None);
        drop(inner);
        self.at_rest.notify_waiters();
        Superseded::Idle
    }

    /// Notes the id of the stream that is opened next, before it is used.
    #[must_use]
    pub fn draw_stream(&self) -> Speaker {
        let mut inner = self.lock();
        inner.core.stream_drawn(clock::fresh_stream());
        self.speaker_of(&inner)
    }

    /// The mediator has stored this stream.
    pub fn stream_opened(&self, stream: &StreamId) {
        self.lock().core.stream_acknowledged(stream);
    }

    /// A step arrived.
    pub fn receive(&self, step: WorkStep) {
        let mut inner = self.lock();
        let (run, seq, attempt) = (step.key.run.clone(), step.key.seq, step.key.attempt);
        if inner.core.is_lapsed(clock::boot_time()) {
            tracing::info!(node = %self.id, run_id = %run, seq, attempt, "a step waits until an advert is accepted again");
            // Its answer has the step sent again.
            self.advert_now.notify_one();
            return;
        }
        match inner.core.receive(&step.key, step.nonce, step.rev) {
            Received::Ignore(why) => {
                tracing::info!(node = %self.id, run_id = %run, seq, attempt, why, "a step is not started");
            }
            Received::Start(gone) => {
                self.end(&mut inner, &gone);
                self.tell(Job::Start(step));
            }
        }
    }

    /// The mediator says that a lease is gone.
    pub fn stop_run(&self, lease: &LeaseKey, rev: i64) {
        let mut inner = self.lock();
        if inner.core.stop(lease, rev) {
            self.end(&mut inner, std::slice::from_ref(lease));
        }
    }

    /// The Run of this lease is over, as the answer to a report said.
    pub fn run_over(&self, lease: &LeaseKey) {
        let mut inner = self.lock();
        inner.core.end(lease);
        self.end(&mut inner, std::slice::from_ref(lease));
    }

    /// Leases have ended: what runs is stopped, what is spooled is dropped, what lies about is removed.
    fn end(&self, inner: &mut Inner, gone: &[LeaseKey]) {
        for lease in gone {
            // That its last step was acknowledged has been told.
            tracing::debug!(node = %self.id, run_id = %lease.0, "the lease has ended");
            if let Some(current) = inner.current.as_ref().filter(|it| it.key.run == lease.0 && it.nonce == lease.1) {
                tracing::info!(node = %self.id, run_id = %lease.0, step = %current.step, "the lease has ended, and its step with it");
                current.order(Stop { cause: StopCause::LeaseEnded, grace: self.grace });
            }
            self.outbox.drop_lease(lease);
            self.tell(Job::End(lease.clone()));
        }
        self.at_rest.notify_waiters();
    }

    fn tell(&self, job: Job) {
        // The worker goes away only when the whole agent does.
        if self.jobs.send(job).is_err() {
            tracing::debug!(node = %self.id, "the worker has gone already");
        }
    }

    /// The worker takes up a step. None: its lease has ended while it waited.
    pub fn begin(&self, step: &WorkStep) -> Option<watch::Receiver<Option<Stop>>> {
        let mut inner = self.lock();
        if !inner.core.is_open(&step.key) {
            return None;
        }
        let stop = watch::Sender::new(None);
        let order = stop.subscribe();
        inner.current = Some(Current {
            key: step.key.clone(),
            step: step.step.clone(),
            nonce: step.nonce,
            started_at: clock::now(),
            group: None,
            alive: None,
            stop,
        });
        Some(order)
    }

    /// The step's process group exists; its processes have this `$OUT`.
    pub fn group(&self, group: Pid, out: &Path) {
        if let Some(current) = &mut self.lock().current {
            (current.group, current.alive) = (Some(group), Some(out.to_owned()));
        }
    }

    /// The leader of the group is about to be reaped: the group's number is not ours for much longer.
    pub fn leader_ended(&self) {
        if let Some(current) = &mut self.lock().current {
            current.group = None;
        }
    }

    /// Nothing of the step executes any more.
    pub fn gone(&self) {
        if let Some(current) = &mut self.lock().current {
            current.alive = None;
        }
    }

    /// A process group does not go, as the text says; or, without one, it has gone at last.
    pub fn stuck(&self, text: Option<String>) {
        let held = text.map(|text| Held { drain: Drain::Graceful, text, since: Some(clock::now()) });
        let mut inner = self.lock();
        let changed = inner.stuck.is_some() != held.is_some();
        inner.stuck = held;
        drop(inner);
        if changed {
            self.advert_now.notify_one();
        }
    }

    /// What an attempt that has ended says about this machine.
    pub fn judge(&self, run: &RunId, end: End) {
        let mut inner = self.lock();
        let inner = &mut *inner;
        let cleared = inner.standing.quarantine_cleared.as_deref();
        if inner.quarantine.ended(run, end, cleared, clock::now()) {
            tracing::error!(node = %self.id, run_id = %run, ?end, "one Run after another failed here at once: the node is not lent any more");
            self.advert_now.notify_one();
        }
    }

    /// The worker is done with the step; its result, if any, is spooled from here on. False: nobody wants it.
    pub fn finish(&self, key: &StepKey) -> bool {
        let mut inner = self.lock();
        inner.current = None;
        let wanted = inner.core.finish(key);
        drop(inner);
        self.at_rest.notify_waiters();
        wanted
    }

    /// Waits until nothing is received, executing or about to be.
    pub async fn idle(&self) {
        self.once(Self::is_idle).await;
    }

    /// Waits until nothing new can be claimed for this node: the mediator knows that the agent stops, or another
    /// speaks for the node.
    pub async fn unclaimable(&self) {
        self.once(|node| {
            let inner = node.lock();
            inner.told_stopping || inner.core.superseded().is_some()
        })
        .await;
    }

    async fn once(&self, holds: impl Fn(&Self) -> bool) {
        loop {
            let mut changed = std::pin::pin!(self.at_rest.notified());
            // Registered before the look, so that a change in between is not missed.
            changed.as_mut().enable();
            if holds(self) {
                return;
            }
            changed.await;
        }
    }

    /// The result was acknowledged or refused for good.
    pub fn settled(&self, key: &StepKey) {
        self.lock().core.settled(key);
    }

    /// The step under way must end.
    pub fn order_stop(&self, stop: Stop) {
        if let Some(current) = &self.lock().current {
            current.order(stop);
        }
    }

    /// Nothing is received, executing or about to be.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        let inner = self.lock();
        inner.current.is_none() && inner.core.running().next().is_none()
    }

    /// As far as known here, a Run holds this node.
    #[must_use]
    pub fn has_lease(&self) -> bool {
        self.lock().core.lease().is_some()
    }

    /// Between two adverts.
    #[must_use]
    pub fn interval(&self) -> Duration {
        self.lock().interval
    }

    /// When the leases of this node end, and for how long they were promised, if anything is executing.
    #[must_use]
    pub fn deadline(&self) -> Option<(BootTime, Duration)> {
        let inner = self.lock();
        inner.current.as_ref()?;
        inner.core.deadline()
    }

    /// Kills the process group under way, now and from any thread.
    pub fn kill_now(&self) {
        // Under the lock, so that the worker cannot reap the leader in between.
        let inner = self.lock();
        if let Some(group) = inner.current.as_ref().and_then(|current| current.group)
            && let Err(e) = rustix::process::kill_process_group(group, Signal::KILL)
        {
            tracing::warn!(node = %self.id, error = %e, "cannot kill the process group");
        }
        let out = inner.current.as_ref().and_then(|current| current.alive.clone());
        drop(inner);
        if let Some(out) = out {
            // What has left the group shows when its parent is gone; then the next look of the heartbeat finds it.
            strays::kill_if_free(&out);
        }
    }
}

impl Inner {
    /// Everything that speaks against lending this node, but for the owner's policy.
    fn reasons(&self) -> Reasons {
        let mut reasons = self.standing.reasons.clone();
        if let Some(held) = self.quarantine.held() {
            reasons.hold(Source::Quarantine, held);
        }
        if let Some(held) = &self.stuck {
            reasons.hold(Source::Stuck, held.clone());
        }
        reasons
    }

    /// The strongest of all of it.
    fn policy(&self) -> Policy {
        self.reasons().over(&self.standing.owner)
    }
}

impl Current {
    /// The strongest cause and the shortest grace win.
    fn order(&self, stop: Stop) {
        self.stop.send_if_modified(|now| {
            let next =
                now.map_or(stop, |now| Stop { cause: now.cause.max(stop.cause), grace: now.grace.min(stop.grace) });
            let changed = *now != Some(next);
            *now = Some(next);
            changed
        });
    }
}

#[cfg(test)]
#[path = "node_tests.rs"]
mod tests;
