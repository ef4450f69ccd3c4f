//! The one way to change what the fleet rests on.
//!
//! One task owns the fleet in memory and applies commands in groups: lock, re-read what others changed, apply
//! up to 64 commands in order as if each were alone, one commit, then answers and notices. So a durable commit
//! costs one sync per group, and no two transactions ever decide about one Run at the same time.
//!
//! What a group has granted is claimed in the same commit for those nodes whose work stream is open here, as if the
//! streams had asked last: so a step costs its Run one commit less before it starts.
//!
//! An advert that says nothing new waits a moment for company: a large fleet sends hundreds of them a second, and
//! nobody is in a hurry for the answer. Anything else that comes takes those that wait along at once.
//!
//! Commands run here, not in the caller's future: a caller that hangs up leaves nothing open. When a commit
//! fails, memory is thrown away and read again from the store, which is the truth. A group that fails because
//! of a row in it is taken apart and its commands are tried one by one, so that only the bad one is refused.
//!
//! Lock order: the store's fleet lock is the only lock held across an await.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use shared::{
    NodeId, RunId, Timestamp,
    domain::{Changes, Claim, ClaimedStep, Cx, Decide, Fleet, Refusal, Settings, Touches, invariant},
};
use tokio::sync::{mpsc, oneshot, watch};

use crate::{
    clock::{Stopwatch, SystemIds},
    error::Error,
    fail, metrics,
    store::{ErrorKind, FleetTx, Store, StoreError},
};

/// Most commands in one commit.
const GROUP: usize = 64;
/// Commands that wait for the next group; more callers wait in line.
const WAITING: usize = 1024;
/// How long commands that may wait do so while nothing else comes.
const COMPANY: std::time::Duration = std::time::Duration::from_millis(20);

/// A handle to the writer. Cheap to clone.
#[derive(Clone)]
pub struct Writer {
    jobs: mpsc::Sender<Box<dyn Job>>,
}

/// What became of the claim of a work stream.
pub type Claimed = Result<Option<ClaimedStep>, Refusal>;

/// What is done with the notices of a commit.
pub trait Notices: Send + 'static {
    /// The claims of those of these nodes that listen here. They are decided last in the commit that gives them work.
    fn claims(&self, work: &BTreeSet<NodeId>) -> Vec<Claim>;

    /// Called after the commit, before [`Notices::committed`], which then does not hear of this node's work.
    fn claimed(&mut self, node: &NodeId, claimed: Claimed);

    /// Called after every commit, in order.
    fn committed(&mut self, changes: Changes, last_event: i64);

    /// Called after a commit of which it is not known whether it lasted: its notices are lost.
    fn uncertain(&mut self);
}

impl Writer {
    /// The writer's handle and its task. The task ends when the last handle is gone.
    pub fn new(
        store: Store,
        settings: watch::Receiver<Settings>,
        notices: impl Notices,
    ) -> (Self, impl Future<Output = ()> + Send + 'static) {
        let (jobs, waiting) = mpsc::channel(WAITING);
        let task = Task { store, settings, notices, fleet: Fleet::default() };
        (Self { jobs }, task.run(waiting))
    }

    /// Applies a command and waits until it is durable.
    ///
    /// # Errors
    /// What the fleet refuses; or that the store is not available, and then the outcome may be unknown: the
    /// same command with the same ids may be sent again.
    pub async fn apply<D>(&self, command: D) -> Result<D::Answer, Error>
    where
        D: Decide + Send + 'static,
        D::Answer: Send + 'static,
    {
        let (reply, answer) = oneshot::channel();
        let job = Pending { command, decided: None, reply };
        self.jobs.send(Box::new(job)).await.map_err(|_| Error::Stopping)?;
        answer.await.map_err(|_| Error::Stopping)?
    }
}

/// A command of whatever type, with the way back to its caller.
trait Job: Send {
    fn touches(&self, fleet: &Fleet, now: Timestamp) -> Touches;
    fn hears(&self) -> Option<&NodeId>;
    fn may_wait(&self, fleet: &Fleet) -> bool;
    fn goes_on_without(&self) -> bool;
    fn decide(&mut self, fleet: &mut Fleet, cx: &mut Cx<'_>);
    /// The command cannot be decided: a Run it is about cannot be read.
    fn refuse(&mut self, error: Error);
    fn answer(self: Box<Self>, committed: Result<(), Arc<StoreError>>);
}

struct Pending<D: Decide> {
    command: D,
    decided: Option<Result<D::Answer, Error>>,
    reply: oneshot::Sender<Result<D::Answer, Error>>,
}

impl<D: Decide + Send> Job for Pending<D>
where
    D::Answer: Send,
{
    fn touches(&self, fleet: &Fleet, now: Timestamp) -> Touches {
        self.command.touches(fleet, now)
    }

    fn hears(&self) -> Option<&NodeId> {
        self.command.hears()
    }

    fn may_wait(&self, fleet: &Fleet) -> bool {
        self.command.may_wait(fleet)
    }

    fn goes_on_without(&self) -> bool {
        self.command.goes_on_without()
    }

    fn decide(&mut self, fleet: &mut Fleet, cx: &mut Cx<'_>) {
        self.decided = Some(fleet.apply(&self.command, cx).map_err(Error::from));
    }

    fn refuse(&mut self, error: Error) {
        self.decided = Some(Err(error));
    }

    fn answer(self: Box<Self>, committed: Result<(), Arc<StoreError>>) {
        let answer = match (committed, self.decided) {
            (Ok(()), Some(decided)) => decided,
            (Ok(()), None) => Err(Error::Stopping),
            (Err(store), _) => Err(Error::Store(store)),
        };
        // A caller that hung up does not want to know.
        drop(self.reply.send(answer));
    }
}

struct Task<N> {
    store: Store,
    settings: watch::Receiver<Settings>,
    notices: N,
    fleet: Fleet,
}

/// Waits for company while all of the group may wait.
async fn gather(fleet: &Fleet, group: &mut Vec<Box<dyn Job>>, waiting: &mut mpsc::Receiver<Box<dyn Job>>) {
    let end = tokio::time::Instant::now() + COMPANY;
    let mut seen = 0;
    while group.len() < GROUP && group.iter().skip(seen).all(|job| job.may_wait(fleet)) {
        seen = group.len();
        let more = tokio::time::timeout_at(end, waiting.recv_many(group, GROUP - seen)).await;
        if more.map_or(true, |more| more == 0) {
            return;
        }
    }
}

impl<N: Notices> Task<N> {
    async fn run(mut self, mut waiting: mpsc::Receiver<Box<dyn Job>>) {
        let mut group = Vec::with_capacity(GROUP);
        while waiting.recv_many(&mut group, GROUP).await > 0 {
            gather(&self.fleet, &mut group, &mut waiting).await;
            self.commit(std::mem::take(&mut group)).await;
        }
    }

    async fn commit(&mut self, mut group: Vec<Box<dyn Job>>) {
        let timer = Stopwatch::start();
        let tx = match self.store.begin_fleet().await {
            Ok(tx) => tx,
            Err(error) => {
                // Another mediator held the lock for too long, or there is no database. Memory is as good as before.
                let error = Arc::new(error);
                return group.into_iter().for_each(|job| job.answer(Err(error.clone())));
            }
        };
        match self.attempt(tx, &mut group).await {
            Ok(Committed { changes, claimed, last_event }) => {
                metrics::group(group.len(), timer.elapsed());
                for (node, claimed) in claimed {
                    self.notices.claimed(&node, claimed);
                }
                self.notices.committed(changes, last_event);
                for job in group {
                    job.answer(Ok(()));
                }
            }
            Err(error) => {
                // Memory may be ahead of the store now.
                self.fleet = Fleet::default();
                self.notices.uncertain();
                if group.len() > 1 && error.kind() != ErrorKind::Unavailable {
                    tracing::warn!(%error, "a group failed; trying its commands one by one");
                    for job in group {
                        Box::pin(self.commit(vec![job])).await;
                    }
                    return;
                }
                let error = Arc::new(error);
                for job in group {
                    job.answer(Err(error.clone()));
                }
            }
        }
    }

    async fn attempt(&mut self, mut tx: FleetTx, group: &mut [Box<dyn Job>]) -> Result<Committed, StoreError> {
        tx.sync(&mut self.fleet).await?;
        tx.catch_up(&mut self.fleet, group.iter().filter_map(|job| job.hears()).collect()).await?;
        let now = tx.now();
        let settings = *self.settings.borrow();
        let mut changes = Changes::default();
        let mut loaded = Loaded::default();
        // One look for the whole group; what an earlier command brings about is looked up as it comes.
        let touches = group.iter().flat_map(|job| job.touches(&self.fleet, now)).collect();
        loaded.load(&mut tx, &mut self.fleet, touches, &changes).await?;
        for job in group {
            let touches = job.touches(&self.fleet, now);
            let unreadable = loaded.load(&mut tx, &mut self.fleet, touches, &changes).await?;
            if let Some(error) = unreadable.filter(|_| !job.goes_on_without()) {
                job.refuse(Error::Store(error));
                continue;
            }
            job.decide(&mut self.fleet, &mut Cx::new(now, &settings, &mut SystemIds, &mut changes));
            debug_assert_eq!(invariant::check(&self.fleet, &settings, now), None);
        }
        let claims = self.notices.claims(&changes.work);
        let mut claimed = Vec::with_capacity(claims.len());
        let touches = claims.iter().flat_map(|claim| claim.touches(&self.fleet, now)).collect();
        loaded.load(&mut tx, &mut self.fleet, touches, &changes).await?;
        for claim in claims {
            changes.work.remove(&claim.who.node);
            // The claim before this one may have ended its Run, and given the node to another.
            let touches = claim.touches(&self.fleet, now);
            loaded.load(&mut tx, &mut self.fleet, touches, &changes).await?;
            let outcome = self.fleet.apply(&claim, &mut Cx::new(now, &settings, &mut SystemIds, &mut changes));
            debug_assert_eq!(invariant::check(&self.fleet, &settings, now), None);
            claimed.push((claim.who.node, outcome));
        }
        tx.write(&self.fleet, &changes).await?;
        fail::group(fail::Side::Before, &changes);
        let last_event = tx.commit().await?;
        fail::group(fail::Side::After, &changes);
        self.fleet.forget_idle_runs();
        Ok(Committed { changes, claimed, last_event })
    }
}

/// What a group has brought about.
struct Committed {
    changes: Changes,
    claimed: Vec<(NodeId, Claimed)>,
    last_event: i64,
}

/// Which Runs were looked up in this transaction, and which of them cannot be read.
#[derive(Default)]
struct Loaded {
    looked_up: Touches,
    unreadable: BTreeMap<RunId, Arc<StoreError>>,
}

impl Loaded {
    /// Loads what was not looked up yet. Returns why one of these Runs cannot be read, if so.
    async fn load(
        &mut self,
        tx: &mut FleetTx,
        fleet: &mut Fleet,
        touches: Touches,
        changes: &Changes,
    ) -> Result<Option<Arc<StoreError>>, StoreError> {
        let fresh: Touches = touches.difference(&self.looked_up).cloned().collect();
        if !fresh.is_empty() {
            for (run, error) in tx.load_runs(fleet, &fresh, changes).await? {
                tracing::error!(run_id = %run, %error, "a run cannot be read; it is left as it is");
                self.unreadable.insert(run, Arc::new(error));
            }
            self.looked_up.extend(fresh);
        }
        Ok(touches.iter().find_map(|run| self.unreadable.get(run)).cloned())
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;
    use shared::domain::{Drain, Policy};

    use super::*;
    use crate::service::sample;

    fn advert(policy: Policy) -> Box<dyn Job> {
        let node = sample::node("n1", "c");
        let number = node.advert_no + 1;
        let command = sample::advert(node, policy, number);
        Box::new(Pending { command, decided: None, reply: oneshot::channel().0 })
    }

    /// Whether such a group waits for company, and how many it is then.
    fn waits(first: Policy, next: Option<Policy>) -> (bool, usize) {
        let mut fleet = Fleet::default();
        fleet.load_node(sample::node("n1", "c"));
        let (jobs, mut waiting) = mpsc::channel(WAITING);
        let mut group = vec![advert(first)];
        if let Some(next) = next {
            jobs.try_send(advert(next)).unwrap();
        }
        let waits = gather(&fleet, &mut group, &mut waiting).now_or_never().is_none();
        (waits, group.len())
    }

    #[tokio::test]
    async fn an_advert_that_says_nothing_new_waits_for_company_and_nothing_else_does() {
        let (same, news) = (Policy::default(), Policy { drain: Drain::Graceful, ..Policy::default() });
        assert_eq!(waits(same.clone(), None), (true, 1));
        assert_eq!(waits(same.clone(), Some(same.clone())), (true, 2));
        assert_eq!(waits(news.clone(), Some(same.clone())), (false, 1));
        assert_eq!(waits(same, Some(news)), (false, 2), "taken along at once");
    }
}
