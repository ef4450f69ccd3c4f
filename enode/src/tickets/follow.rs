//! A worker that follows a Run to its end, and looks after everything else meanwhile.

use std::{collections::BTreeSet, sync::Arc};

use shared::{
    Duration, RunId, Timestamp,
    ticket::{Lane, Queue, Stem, Ticket},
};

use super::{
    back::held,
    file_work::off,
    reap,
    runs::{RunNow, Runs, Trouble},
    worker::{ROUND, Worker, said},
};
use crate::clock;

/// After silence: the first one, and the longest.
const PAUSES: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(10));
/// Between two looks at a ticket that is being saved.
pub(super) const SAVE_RETRY: Duration = Duration::from_millis(100);
/// In every so many rounds it asks once what its Run waits for.
const ROUNDS_OF_WAITING: u32 = 12;

/// How long to wait while the mediator is silent: each time twice as long as before.
pub(super) struct Pauses(Duration);

impl Pauses {
    pub(super) const fn new() -> Self {
        Self(PAUSES.0)
    }

    pub(super) fn next(&mut self) -> Duration {
        let now = self.0;
        self.0 = (now * 2).min(PAUSES.1);
        now
    }

    /// Waits for the next one, and up to twice as long, so that many do not come back at once.
    pub(super) async fn pass(&mut self) {
        tokio::time::sleep(self.next().std().mul_f64(1.0 + clock::random_fraction())).await;
    }
}

/// While one Run is followed.
struct Rounds {
    /// Answers with which nothing is left to be done.
    handed: BTreeSet<Stem>,
    count: u32,
    /// When it began.
    since: Timestamp,
}

impl<R: Runs> Worker<R> {
    /// Until the Run has ended, asks, or the ticket is no longer ours.
    pub(super) async fn follow(&self, ticket: &Arc<Ticket>, run: &RunId) -> Result<(), Trouble> {
        let mut round = tokio::time::interval(ROUND.std());
        // A look that takes longer than its turn must not leave the Run unwatched.
        round.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut seen = RunNow::Open { asking: Vec::new() };
        let (mut rounds, mut pauses) =
            (Rounds { handed: BTreeSet::new(), count: 0, since: clock::now() }, Pauses::new());
        loop {
            let now = {
                // One stream for as long as nothing changes, however often the queue is looked after meanwhile.
                let mut changed = std::pin::pin!(self.runs.changed(run, &seen));
                loop {
                    tokio::select! {
                        now = &mut changed => break now,
                        _ = round.tick() => {}
                    }
                    if !self.look_around(ticket, run, &mut rounds).await? {
                        return Ok(());
                    }
                }
            };
            let judged = match now {
                Ok(now) => {
                    let Some((queue, held)) = self.ours(&ticket.stem, run).await? else {
                        return self.let_go(&ticket.stem, run).await;
                    };
                    seen = now.clone();
                    let (at, grace) = (clock::now(), reap::grace());
                    let judged = reap::judge(&self.folder, &self.runs, &queue, &held, now, at, grace).await;
                    judged.inspect(|_| pauses = Pauses::new())
                }
                Err(trouble) => Err(trouble),
            };
            match judged {
                Ok(Some(deed)) => {
                    tracing::info!(ticket = %ticket.stem, %run, "{}", said(&deed));
                    return Ok(());
                }
                // Asked again at once it would say the same.
                Ok(None) if seen == RunNow::Unknown => tokio::time::sleep(ROUND.std()).await,
                Ok(None) => {}
                Err(trouble) => {
                    // What was seen is not judged yet.
                    seen = RunNow::Open { asking: Vec::new() };
                    self.pause(&mut pauses, &trouble, ticket, run).await?;
                }
            }
        }
    }

    /// What is to be done while a Run goes on: the ticket may be somebody else's by now, the Run may wait for what is not
    /// there, and others want their answers and somebody who looks after them. `false`: it is followed no more.
    async fn look_around(&self, ticket: &Arc<Ticket>, run: &RunId, rounds: &mut Rounds) -> Result<bool, Trouble> {
        let Some((queue, _)) = self.ours(&ticket.stem, run).await? else {
            self.let_go(&ticket.stem, run).await?;
            return Ok(false);
        };
        rounds.count = rounds.count.saturating_add(1);
        // Not at once: most wait for a moment only. And now and then: a machine may go meanwhile.
        let asks = rounds.count % ROUNDS_OF_WAITING == 2;
        if asks && self.aside.takes(&self.runs, ticket, run, rounds.since).await {
            return Ok(false);
        }
        if let Err(trouble) = self.hand_answers_on(&queue, &mut rounds.handed).await {
            tracing::warn!("cannot hand answers on: {trouble}");
        }
        // Others' tickets must not wait for the end of this Run.
        match self.take_turn_in_looking().await {
            Ok(()) => {}
            Err(trouble @ Trouble::Folder(_)) => return Err(trouble),
            Err(trouble) => tracing::warn!("cannot look after the queue: {trouble}"),
        }
        Ok(true)
    }

    /// Waits after silence; anything else is no reason to wait.
    pub(super) async fn pause(
        &self,
        pauses: &mut Pauses,
        trouble: &Trouble,
        ticket: &Ticket,
        run: &RunId,
    ) -> Result<(), Trouble> {
        match trouble {
            Trouble::Silent { why, .. } => {
                tracing::warn!(ticket = %ticket.stem, %run, "{why}; it stays claimed, and the same is asked again");
                pauses.pass().await;
                Ok(())
            }
            Trouble::Denied(_) | Trouble::Refused(_) | Trouble::Folder(_) => Err(trouble.clone()),
        }
    }

    pub(super) async fn is_ours(&self, stem: &Stem, run: &RunId) -> Result<bool, Trouble> {
        Ok(self.ours(stem, run).await?.is_some())
    }

    /// The ticket as it is now, and the queue around it, if this Run still has it.
    async fn ours(&self, stem: &Stem, run: &RunId) -> Result<Option<(Queue, Arc<Ticket>)>, Trouble> {
        for is_last in tries() {
            let queue = off(&self.folder, |folder| folder.read()).await?;
            if let Some(ticket) = held(&queue, stem, Some(run.as_str())) {
                return Ok(Some((queue, ticket)));
            }
            if is_last || queue.find(stem).is_some() {
                let now = queue.lane(stem).map_or("gone", Lane::as_str);
                tracing::info!(ticket = %stem, %run, now, "it is no longer ours");
                return Ok(None);
            }
            tokio::time::sleep(SAVE_RETRY.std()).await;
        }
        Ok(None)
    }
}

/// How often a ticket is looked at that is gone or cannot be read, and whether that is the last time. Editors save in
/// place, or remove a file before they write it again.
pub(super) fn tries() -> impl Iterator<Item = bool> {
    (1..=20).map(|time| time == 20)
}
