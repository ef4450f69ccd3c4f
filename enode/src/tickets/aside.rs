//! One Run that no machine can take does not keep a worker from everything else. The worker leaves it in the line, where the
//! reaper finds its end, and goes on. Of the same kind, which makes the same demands, it takes nothing meanwhile: a queue
//! without machines would otherwise become a line of Runs, in which nobody can change anything any more. A template that was
//! changed since may make other demands, so that its kind is tried again.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use shared::{
    RunId, Timestamp,
    ticket::{Lane, Queue, Ticket, question::Origin},
};

use super::{
    runs::{Queued, Runs, Trouble},
    template::Templates,
};
use crate::clock;

/// The Run that was left of each kind.
#[derive(Debug, Clone, Default)]
pub(super) struct Aside(Arc<Mutex<BTreeMap<String, Left>>>);

#[derive(Debug, Clone)]
struct Left {
    run: RunId,
    /// Its template was read before that.
    since: Timestamp,
}

impl Aside {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Left>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The Run of its kind until which a ticket waits, because that has no machine. One whose own Run is there already does not
    /// wait.
    pub(super) fn holds(&self, ticket: &Ticket, templates: &Templates) -> Option<RunId> {
        let mut all = self.lock();
        let Left { run, since } = all.get(&ticket.kind).filter(|_| Origin::of_last(ticket.text.body()).is_none())?;
        if templates.changed_at(&ticket.kind).is_some_and(|at| at > *since) {
            tracing::info!(kind = ticket.kind, "its template was changed: its kind is worked on again");
            all.remove(&ticket.kind);
            return None;
        }
        Some(run.clone())
    }

    /// Says what a Run waits for that has no node yet, and whether its worker goes on without it.
    pub(super) async fn takes(&self, runs: &impl Runs, ticket: &Ticket, run: &RunId, since: Timestamp) -> bool {
        match runs.queued(run).await {
            Ok(None) => false,
            Ok(Some(Queued { why, is_unserved: false })) => {
                tracing::info!(ticket = %ticket.stem, "its Run is QUEUED: {why}; `mediator explain {run}` has more");
                false
            }
            Ok(Some(Queued { why, is_unserved: true })) => {
                tracing::warn!(
                    ticket = %ticket.stem,
                    "its Run is QUEUED, and no machine lends what it needs: {why}; `mediator explain {run}` has more. It \
                     stays in the line; this worker goes on with tickets of other kinds than {:?}",
                    ticket.kind
                );
                self.lock().insert(ticket.kind.clone(), Left { run: run.clone(), since });
                true
            }
            Err(trouble) => {
                tracing::warn!(ticket = %ticket.stem, %run, "cannot ask what it waits for: {trouble}");
                false
            }
        }
    }

    /// What others have left, or this one in an earlier life: of a kind that no machine serves one Run in line is enough.
    pub(super) async fn begin(&self, runs: &impl Runs, queue: &Queue) -> Result<(), Trouble> {
        for ticket in queue.tickets().iter().filter(|it| it.lane == Lane::InProgress) {
            let Some(run) = ticket.session_id.as_deref().and_then(|run| RunId::new(run).ok()) else { continue };
            if self.lock().contains_key(&ticket.kind) {
                continue;
            }
            match runs.queued(&run).await {
                Ok(Some(Queued { is_unserved: true, .. })) => {
                    let since = ticket.assigned_at.unwrap_or_else(clock::now);
                    self.lock().insert(ticket.kind.clone(), Left { run, since });
                }
                Ok(Some(Queued { is_unserved: false, .. }) | None) | Err(Trouble::Refused(_)) => {}
                Err(trouble) => return Err(trouble),
            }
        }
        Ok(())
    }

    /// Kinds whose Run has a machine by now, or is over, are worked on again.
    pub(super) async fn look_after(&self, runs: &impl Runs) -> Result<(), Trouble> {
        let all = self.lock().clone();
        for (kind, Left { run, .. }) in all {
            let queued = match runs.queued(&run).await {
                // It costs this worker one kind, and no other.
                Err(Trouble::Refused(why)) => {
                    tracing::warn!(kind, %run, "cannot ask what it waits for: {why}");
                    continue;
                }
                queued => queued?,
            };
            if queued.is_none_or(|it| !it.is_unserved) {
                tracing::info!(kind, %run, "a machine is there for its Run, or it is over: its kind is worked on again");
                self.lock().remove(&kind);
            }
        }
        Ok(())
    }
}
