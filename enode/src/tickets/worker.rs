//! One worker: takes the next ticket, has a Run made for it, follows that, and begins again.
//!
//! Every step can be the last one. What is left then is mended by the next worker: names by `repair`, Runs by `reap`.
//! A Run is never submitted beside another one of the same ticket: `session_id` is in the file before it exists, the same
//! id is sent again for as long as the mediator may have it, and whoever claims a ticket looks for a Run that is
//! still open before it draws a new id.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, PoisonError},
};

use shared::{
    Duration, RunId,
    ticket::{Lane, Queue, Stem, Ticket, question::Origin},
};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::{
    Folder,
    ask::{self, Passed},
    back::{Return, held},
    claim::{self, ClaimError, Claimed},
    fail,
    file_work::off,
    gate,
    reap::{self, Deed},
    runs::{self, RunNow, Runs, Trouble},
    template::Templates,
};
use crate::{
    clock::{self, BootTime},
    watch,
};

/// How often a worker that follows a Run looks after the queue.
const ROUND: Duration = if cfg!(test) { Duration::from_millis(50) } else { Duration::from_secs(5) };
/// One of all workers of a queue looks after it in this time, so that many cost the mediator no more than one.
const LOOKED: Duration = if cfg!(test) { Duration::from_millis(40) } else { Duration::from_secs(4) };
/// After silence, doubled up to the last.
const PAUSES: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(10));
/// Between two looks at a ticket that is being saved.
const SAVED_IN: Duration = Duration::from_millis(100);
/// Why a ticket goes back that has no Run yet.
const STOPPED: &str = "the worker was told to end";
/// Changes that come together are one.
const TOGETHER: Duration = Duration::from_millis(50);

/// How a worker works.
pub struct Worker<R> {
    /// The queue.
    pub folder: Arc<Folder>,
    /// The mediator.
    pub runs: R,
    /// How contracts are made.
    pub templates: Templates,
    /// Who it is, for people.
    pub owner: String,
    /// How long it waits for a ticket to come, where no file tells of a change.
    pub pace: Duration,
    /// When it last looked after the tickets of others.
    pub looked: Mutex<Option<BootTime>>,
    /// Tickets with their kinds for which it has no template, and has said so.
    pub told: Mutex<BTreeSet<(Stem, String)>>,
}

/// What a worker ends with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// It was told to.
    Stopped,
    /// With `once`: there is nothing to take any more.
    Empty,
}

impl<R: Runs> Worker<R> {
    /// Works until it is told to stop; with `once`, until nothing is left that can be taken.
    ///
    /// # Errors
    /// [`Trouble`] that no waiting mends: credentials, and a folder that cannot be written.
    pub async fn run(&self, once: bool, stop: &CancellationToken) -> Result<Ended, Trouble> {
        let (mut pause, mut is_hint) = (PAUSES.0, false);
        // What changes during a turn is remembered: it is the next one's.
        let bell = Arc::new(Notify::new());
        let _watcher = if once { None } else { self.watch(&bell) };
        while !stop.is_cancelled() {
            let worked = self.turn(is_hint, once, stop).await;
            is_hint = false;
            let wait = match worked {
                Ok(true) => {
                    pause = PAUSES.0;
                    continue;
                }
                Ok(false) if once => return Ok(Ended::Empty),
                Ok(false) => {
                    tokio::select! {
                        () = stop.cancelled() => return Ok(Ended::Stopped),
                        () = tokio::time::sleep(self.pace.std()) => continue,
                        () = bell.notified() => is_hint = true,
                    }
                    TOGETHER
                }
                Err(Trouble::Silent { why, .. }) => {
                    tracing::warn!("{why}; nothing is taken and nothing is given back until it does");
                    let now = pause;
                    pause = (pause * 2).min(PAUSES.1);
                    now
                }
                Err(trouble @ (Trouble::Denied(_) | Trouble::Refused(_))) => return Err(trouble),
            };
            tokio::select! {
                () = stop.cancelled() => return Ok(Ended::Stopped),
                () = tokio::time::sleep(wait.std()) => {}
            }
        }
        Ok(Ended::Stopped)
    }

    /// Rings for every change of a ticket's file. Without it the pace is all there is.
    fn watch(&self, bell: &Arc<Notify>) -> Option<notify::RecommendedWatcher> {
        let bell = bell.clone();
        let watched = watch::of_queue(self.folder.path(), move |_| bell.notify_one());
        let path = self.folder.path().display();
        let pace = self.pace;
        watched.inspect_err(|error| tracing::info!(%error, "no events from {path}; it is read every {pace}")).ok()
    }

    /// Looks after the queue, then works on one ticket. `false`: there was none. A hint is that a file has changed: by
    /// that alone the tickets of others need no look.
    ///
    /// To stop is not to be dropped anywhere: between a claim and the submission a ticket would be left for dead.
    async fn turn(&self, is_hint: bool, once: bool, stop: &CancellationToken) -> Result<bool, Trouble> {
        // Between two of many tickets that is not done each time: it costs a question for each one in progress.
        let looked = *self.looked.lock().unwrap_or_else(PoisonError::into_inner);
        let is_due = looked.is_none_or(|at| at.until(clock::boot_time()) >= ROUND);
        let prepare = async {
            // At its beginning it looks in any case.
            match looked {
                None => self.look_after().await?,
                Some(_) if is_due => self.take_turn_in_looking().await?,
                Some(_) => {}
            }
            self.runs.reach().await
        };
        let Some(prepared) = stop.run_until_cancelled(prepare).await else { return Ok(true) };
        prepared?;
        if stop.is_cancelled() {
            return Ok(true);
        }
        let mut claimed = self.claim().await?;
        if claimed.is_none() && !is_due && !is_hint {
            // With `once` it ends now.
            let look = async { if once { self.look_after().await } else { self.take_turn_in_looking().await } };
            let Some(looked) = stop.run_until_cancelled(look).await else { return Ok(true) };
            looked?;
            claimed = self.claim().await?;
        }
        let Some(claimed) = claimed else { return Ok(false) };
        tracing::info!(ticket = %claimed.ticket.stem, title = claimed.ticket.title, "claimed");
        self.work(&claimed, stop).await?;
        Ok(true)
    }

    async fn claim(&self) -> Result<Option<Claimed>, Trouble> {
        let templates = self.templates.clone();
        let (claimed, left) = off(&self.folder, move |folder| {
            let left = Mutex::new(Vec::new());
            let takes = |ticket: &Arc<Ticket>| {
                let knows = templates.knows(ticket);
                if !knows {
                    left.lock().unwrap_or_else(PoisonError::into_inner).push(ticket.clone());
                }
                knows
            };
            let claimed = claim::next(folder, takes)?;
            Ok((claimed, left.into_inner().unwrap_or_else(PoisonError::into_inner)))
        })
        .await?;
        for ticket in self.untold(left) {
            tracing::warn!(ticket = %ticket.stem, "{}; this worker leaves it alone", self.templates.missing(&ticket));
        }
        Ok(claimed)
    }

    /// Those of these tickets of which nothing was said yet.
    fn untold(&self, mut left: Vec<Arc<Ticket>>) -> Vec<Arc<Ticket>> {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        left.retain(|it| told.insert((it.stem.clone(), it.kind.clone())));
        left
    }

    /// Looks after the queue, unless another worker just has.
    async fn take_turn_in_looking(&self) -> Result<(), Trouble> {
        if off(&self.folder, |folder| Ok(gate::is_looked_after(folder, LOOKED))).await? {
            return Ok(());
        }
        self.look_after().await
    }

    /// What other workers have left, and questions that have their answer elsewhere.
    async fn look_after(&self) -> Result<(), Trouble> {
        *self.looked.lock().unwrap_or_else(PoisonError::into_inner) = Some(clock::boot_time());
        for it in reap::reap(&self.folder, &self.runs, clock::now(), fail::grace(reap::GRACE)).await? {
            tracing::info!(ticket = %it.stem, "{}", said(&it.deed));
        }
        for file in ask::settle(&self.folder, &self.runs).await? {
            tracing::info!(file, "its question needs no answer any more");
        }
        // Only now: whoever cannot ask the mediator keeps nobody from it.
        off(&self.folder, |folder| {
            gate::note_look(folder);
            Ok(())
        })
        .await
    }

    async fn work(&self, claimed: &Claimed, stop: &CancellationToken) -> Result<(), Trouble> {
        let ticket = &claimed.ticket;
        let found = match stop.run_until_cancelled(self.find(claimed)).await {
            None => return self.back(ticket, None, Return::Plain, STOPPED.to_owned()).await,
            Some(Ok(found)) => found,
            Some(Err(trouble)) => {
                self.back(ticket, None, Return::Plain, "the mediator does not answer".to_owned()).await?;
                return Err(trouble);
            }
        };
        match found {
            Found::Over => {
                let stem = ticket.stem.clone();
                off(&self.folder, move |folder| super::finish::finish(folder, &stem, None)).await?;
                tracing::info!(ticket = %ticket.stem, "done: the Run that had asked has succeeded");
                Ok(())
            }
            Found::Open(run) => {
                if !self.assign(ticket, &run).await? {
                    return Ok(());
                }
                let queue = off(&self.folder, |folder| folder.read()).await?;
                // The ticket says so: whoever comes next finds it.
                stop.run_until_cancelled(self.resume(&queue, ticket, &run)).await.unwrap_or(Ok(()))
            }
            Found::Nothing => self.begin(claimed, stop).await,
        }
    }

    /// Looks for a Run of this ticket that has not ended.
    async fn find(&self, claimed: &Claimed) -> Result<Found, Trouble> {
        let open = self.runs.open_of(&runs::work_of(&claimed.ticket.stem)).await?;
        if let Some(run) = open.into_iter().find(|run| runs::is_of(&claimed.tag, run)) {
            return Ok(Found::Open(run));
        }
        // The one that asked may have ended while nobody looked.
        let asked = Origin::of_last(claimed.ticket.text.body()).and_then(|origin| RunId::new(&origin.run).ok());
        if let Some(run) = asked.filter(|run| runs::is_of(&claimed.tag, run))
            && self.runs.get(&run).await? == RunNow::Succeeded
        {
            return Ok(Found::Over);
        }
        Ok(Found::Nothing)
    }

    /// Writes the Run into the ticket. `false`: somebody has taken it away.
    async fn assign(&self, ticket: &Arc<Ticket>, run: &RunId) -> Result<bool, Trouble> {
        // The end of a Run's id is random, its beginning the queue's tag.
        let end = run.as_str().get(run.as_str().len().saturating_sub(8)..).unwrap_or_default();
        let owner = format!("{}-{end}", self.owner);
        for is_last in tries() {
            let (held, run, owner) = (ticket.clone(), run.clone(), owner.clone());
            let assigned =
                off(&self.folder, move |folder| match claim::assign(folder, &held, &run, &owner, clock::now()) {
                    Ok(()) => Ok(None),
                    Err(ClaimError::Io(error)) => Err(error),
                    Err(other) => Ok(Some(other)),
                });
            match assigned.await? {
                None => {
                    fail::at("work", "assigned");
                    return Ok(true);
                }
                Some(error) if is_last => tracing::warn!(ticket = %ticket.stem, "{error}"),
                Some(_) => tokio::time::sleep(SAVED_IN.std()).await,
            }
        }
        Ok(false)
    }

    /// Answers what a Run that is still open has asked, and follows it.
    async fn resume(&self, queue: &Queue, ticket: &Arc<Ticket>, run: &RunId) -> Result<(), Trouble> {
        tracing::info!(ticket = %ticket.stem, %run, "goes on with the Run that is open");
        loop {
            match ask::pass_on(&self.folder, &self.runs, queue, ticket, run, clock::now()).await {
                Ok(Passed::Nothing | Passed::On) => break,
                Ok(Passed::Back(how, why)) => return self.back(ticket, Some(run), how, why).await,
                Err(trouble) => self.pause(&trouble, ticket, run).await?,
            }
        }
        fail::at("work", "answered");
        self.follow(ticket, run).await
    }

    /// A new Run.
    async fn begin(&self, claimed: &Claimed, stop: &CancellationToken) -> Result<(), Trouble> {
        let ticket = &claimed.ticket;
        let run = runs::fresh_run(&claimed.tag).map_err(|error| Trouble::Refused(error.to_string()))?;
        let queue = off(&self.folder, |folder| folder.read()).await?;
        let contract = match self.templates.make(&queue, ticket, &run) {
            Ok(contract) => contract,
            Err(why) => {
                // Another attempt would find the same.
                let text = format!("No Run can be made of it: {why}\n\nHow should it go on?");
                return self.back(ticket, None, Return::Ask { text, origin: None }, why.to_string()).await;
            }
        };
        if !self.assign(ticket, &run).await? || !self.is_ours(&ticket.stem, &run).await? {
            return Ok(());
        }
        if stop.is_cancelled() {
            return self.back(ticket, Some(&run), Return::Plain, STOPPED.to_owned()).await;
        }
        // From here on the mediator may have it.
        stop.run_until_cancelled(self.submit(ticket, &run, &contract)).await.unwrap_or(Ok(()))
    }

    /// Submits a Run, for as long as the mediator may have it, and follows it.
    async fn submit(&self, ticket: &Arc<Ticket>, run: &RunId, contract: &[u8]) -> Result<(), Trouble> {
        let mut may_be_known = false;
        loop {
            match self.runs.submit(run, contract).await {
                Ok(()) => break,
                Err(Trouble::Silent { why, unsent: true }) if !may_be_known => {
                    let said = why.clone();
                    self.back(ticket, Some(run), Return::Plain, said).await?;
                    return Err(Trouble::Silent { why, unsent: true });
                }
                // What was sent before may be stored, its answer lost: the reaper asks after it, when it is answered.
                Err(Trouble::Refused(why)) if may_be_known => {
                    tracing::warn!(ticket = %ticket.stem, %run, "{why}; it stays claimed until its Run is known or not");
                    return Ok(());
                }
                Err(trouble @ Trouble::Denied(_)) if may_be_known => return Err(trouble),
                Err(Trouble::Refused(why)) => {
                    return self.back(ticket, Some(run), Return::Attempt(why.clone()), why).await;
                }
                Err(trouble @ Trouble::Denied(_)) => {
                    self.back(ticket, Some(run), Return::Plain, trouble.to_string()).await?;
                    return Err(trouble);
                }
                Err(trouble @ Trouble::Silent { .. }) => {
                    may_be_known = true;
                    self.pause(&trouble, ticket, run).await?;
                    if !self.is_ours(&ticket.stem, run).await? {
                        return Ok(());
                    }
                }
            }
        }
        fail::at("work", "submitted");
        tracing::info!(ticket = %ticket.stem, %run, "submitted");
        // A worker that slept for minutes between claim and submission was taken for dead: its Run is one too many.
        if !self.is_ours(&ticket.stem, run).await? {
            tracing::warn!(ticket = %ticket.stem, %run, "somebody has taken it away meanwhile: the Run is cancelled");
            return self.runs.cancel(run).await;
        }
        self.follow(ticket, run).await
    }

    /// Until the Run has ended, asks, or the ticket is no longer ours.
    async fn follow(&self, ticket: &Arc<Ticket>, run: &RunId) -> Result<(), Trouble> {
        let mut round = tokio::time::interval(ROUND.std());
        // A look that takes longer than its turn must not leave the Run unwatched.
        round.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut seen = RunNow::Open { asking: Vec::new() };
        loop {
            let now = {
                // One stream for as long as nothing changes, however often the queue is looked after meanwhile.
                let mut changed = std::pin::pin!(self.runs.changed(run, &seen));
                loop {
                    tokio::select! {
                        now = &mut changed => break now,
                        _ = round.tick() => {}
                    }
                    if self.ours(&ticket.stem, run).await?.is_none() {
                        return Ok(());
                    }
                    // Others' tickets must not wait for the end of this Run.
                    match self.take_turn_in_looking().await {
                        Ok(()) => {}
                        Err(trouble @ Trouble::Refused(_)) => return Err(trouble),
                        Err(trouble) => tracing::warn!("cannot look after the queue: {trouble}"),
                    }
                }
            };
            let judged = match now {
                Ok(now) => {
                    let Some((queue, held)) = self.ours(&ticket.stem, run).await? else { return Ok(()) };
                    seen = now.clone();
                    let (at, grace) = (clock::now(), fail::grace(reap::GRACE));
                    reap::judge(&self.folder, &self.runs, &queue, &held, now, at, grace).await
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
                    self.pause(&trouble, ticket, run).await?;
                }
            }
        }
    }

    /// Waits after silence; anything else is no reason to wait.
    async fn pause(&self, trouble: &Trouble, ticket: &Ticket, run: &RunId) -> Result<(), Trouble> {
        match trouble {
            Trouble::Silent { why, .. } => {
                tracing::warn!(ticket = %ticket.stem, %run, "{why}; it stays claimed, and the same is asked again");
                tokio::time::sleep(PAUSES.0.std().mul_f64(1.0 + clock::random_fraction())).await;
                Ok(())
            }
            Trouble::Denied(_) | Trouble::Refused(_) => Err(trouble.clone()),
        }
    }

    async fn is_ours(&self, stem: &Stem, run: &RunId) -> Result<bool, Trouble> {
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
            tokio::time::sleep(SAVED_IN.std()).await;
        }
        Ok(None)
    }

    async fn back(&self, ticket: &Ticket, run: Option<&RunId>, how: Return, why: String) -> Result<(), Trouble> {
        let deed = reap::back(&self.folder, ticket, run.map(ToString::to_string), how, why, clock::now()).await?;
        tracing::info!(ticket = %ticket.stem, "{}", said(&deed));
        Ok(())
    }
}

/// How often a ticket is looked at that is gone or cannot be read, and whether that is the last time. Editors save in
/// place, or remove a file before they write it again.
fn tries() -> impl Iterator<Item = bool> {
    (1..=20).map(|time| time == 20)
}

/// What a claimed ticket had before.
enum Found {
    /// A Run that has not ended.
    Open(RunId),
    /// One that has succeeded.
    Over,
    /// None.
    Nothing,
}

fn said(deed: &Deed) -> String {
    match deed {
        Deed::Finished => "done".to_owned(),
        Deed::Reclaimed { attempts: 0, why } => format!("given back: {why}"),
        Deed::Reclaimed { attempts, why } => format!("given back, attempt {attempts}: {why}"),
        Deed::Asked { awaiting, why } => format!("waits for the answer {awaiting}: {why}"),
        Deed::Lost => "somebody else was faster; nothing was changed".to_owned(),
    }
}

#[cfg(test)]
#[path = "worker_tests.rs"]
mod tests;
