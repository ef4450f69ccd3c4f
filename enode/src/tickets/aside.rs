//! One Run that no machine can take does not keep a worker from everything else. The worker leaves it in the line, where the
//! reaper finds its end, and goes on. Of the same kind, which makes the same demands, it takes nothing meanwhile: a queue
//! without machines would otherwise become a line of Runs, in which nobody can change anything any more.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use shared::{
    RunId,
    ticket::{Lane, Queue, Ticket, question::Origin},
};

use super::runs::{Queued, Runs, Trouble};

/// The Run that was left of each kind.
#[derive(Debug, Clone, Default)]
pub(super) struct Aside(Arc<Mutex<BTreeMap<String, RunId>>>);

impl Aside {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, RunId>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a ticket waits until the Run of its kind has a machine. One whose Run is there already does not.
    pub(super) fn holds(&self, ticket: &Ticket) -> bool {
        self.lock().contains_key(&ticket.kind) && Origin::of_last(ticket.text.body()).is_none()
    }

    /// Says what a Run waits for that has no node yet, and whether its worker goes on without it.
    pub(super) async fn takes(&self, runs: &impl Runs, ticket: &Ticket, run: &RunId) -> bool {
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
                self.lock().insert(ticket.kind.clone(), run.clone());
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
                Ok(Some(Queued { is_unserved: true, .. })) => drop(self.lock().insert(ticket.kind.clone(), run)),
                Ok(Some(Queued { is_unserved: false, .. }) | None) | Err(Trouble::Refused(_)) => {}
                Err(trouble) => return Err(trouble),
            }
        }
        Ok(())
    }

    /// Kinds whose Run has a machine by now, or is over, are worked on again.
    pub(super) async fn look_after(&self, runs: &impl Runs) -> Result<(), Trouble> {
        let all = self.lock().clone();
        for (kind, run) in all {
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
