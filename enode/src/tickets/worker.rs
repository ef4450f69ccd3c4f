//! One worker: takes the next ticket, has a Run made for it, follows that, and begins again.
//!
//! Every step can be the last one. What is left then is mended by the next worker: names by `repair`, Runs by `reap`.
//! A Run is never submitted beside another one of the same ticket: `session_id` is in the file before it exists, the same
//! id is sent again for as long as the mediator may have it, and whoever claims a ticket looks for a Run that is
//! still open before it draws a new id.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use shared::{
    Duration, RunId,
    ticket::{
        Lane, Queue, Stem, Ticket,
        question::{self, Origin},
    },
};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::{
    Folder,
    aside::Aside,
    ask::{self, Passed},
    back::{Return, held},
    claim::{self, ClaimError, Claimed},
    fail,
    file_work::off,
    reap::{self, Deed},
    runs::{self, End, RunNow, RunOf, Runs, Trouble},
    template::{self, TemplateError, Templates, Usable},
};
use crate::{
    clock::{self, BootTime},
    watch,
};

/// How long a worker may wait for a ticket to come: the shortest, which does not keep a core busy, and the longest, after
/// which it looks after others' tickets in any case.
pub const PACES: (Duration, Duration) = (Duration::from_millis(10), Duration::from_secs(5));
/// How often a worker that follows a Run looks after the queue.
const ROUND: Duration = if cfg!(test) { Duration::from_millis(50) } else { PACES.1 };
/// After silence: the first one, and the longest.
const PAUSES: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(10));
/// Between two looks at a ticket that is being saved.
const SAVE_RETRY: Duration = Duration::from_millis(100);
/// Why a ticket goes back that has no Run yet.
const STOPPED: &str = "the worker was told to end";
/// In every so many rounds it asks once what its Run waits for.
const ROUNDS_OF_WAITING: u32 = 12;
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
    pub(super) looked: Mutex<Option<BootTime>>,
    /// It has seen once all that is in progress.
    has_begun: AtomicBool,
    /// What it has left in the line.
    aside: Aside,
    /// Tickets that it has said to leave alone, with what it has said.
    warned_of: Mutex<BTreeSet<(Stem, String)>>,
}

/// What is wrong with templates or files, and the tickets that are left alone for it.
pub(super) type Left = BTreeMap<String, Vec<Stem>>;

/// What a worker ends with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// It was told to.
    Stopped,
    /// With `once`: there is nothing to take any more.
    Empty,
}

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
}

impl<R: Runs> Worker<R> {
    /// One that has not begun. Its fields say what is what.
    pub fn new(folder: Arc<Folder>, runs: R, templates: Templates, owner: String, pace: Duration) -> Self {
        let (looked, has_begun) = (Mutex::default(), AtomicBool::default());
        let (aside, warned_of) = (Aside::default(), Mutex::default());
        Self { folder, runs, templates, owner, pace, looked, has_begun, aside, warned_of }
    }

    /// Works until it is told to stop; with `once`, until nothing is left that can be taken.
    ///
    /// # Errors
    /// [`Trouble`] that no waiting mends: credentials, and a folder that cannot be written; with `once` also silence.
    pub async fn run(&self, once: bool, stop: &CancellationToken) -> Result<Ended, Trouble> {
        let (mut pauses, mut has_changed) = (Pauses::new(), false);
        // What changes during a turn is remembered: it is the next one's.
        let bell = Arc::new(Notify::new());
        let _watcher = if once { None } else { self.watch(&bell) };
        while !stop.is_cancelled() {
            let worked = self.turn(has_changed, once, stop).await;
            has_changed = false;
            let wait = match worked {
                Ok(true) => {
                    pauses = Pauses::new();
                    continue;
                }
                Ok(false) if once => return Ok(Ended::Empty),
                Ok(false) => {
                    tokio::select! {
                        () = stop.cancelled() => return Ok(Ended::Stopped),
                        () = tokio::time::sleep(self.between_looks().std()) => continue,
                        () = bell.notified() => has_changed = true,
                    }
                    TOGETHER
                }
                Err(trouble @ Trouble::Silent { .. }) if once => return Err(trouble),
                Err(Trouble::Silent { why, .. }) => {
                    tracing::warn!("{why}; nothing is taken and nothing is given back until it does");
                    pauses.next()
                }
                Err(trouble @ (Trouble::Denied(_) | Trouble::Refused(_) | Trouble::Folder(_))) => return Err(trouble),
            };
            tokio::select! {
                () = stop.cancelled() => return Ok(Ended::Stopped),
                () = tokio::time::sleep(wait.std()) => {}
            }
        }
        Ok(Ended::Stopped)
    }

    /// Between two looks at a queue in which nothing is to be done: others' tickets do not wait for a slow pace.
    fn between_looks(&self) -> Duration {
        self.pace.min(ROUND)
    }

    /// Rings for every change of a ticket's file. Without it the pace is all there is.
    fn watch(&self, bell: &Arc<Notify>) -> Option<notify::RecommendedWatcher> {
        let bell = bell.clone();
        let watched = watch::of_queue(self.folder.path(), move |_| bell.notify_one());
        let path = self.folder.path().display();
        let pace = self.between_looks();
        watched.inspect_err(|error| tracing::info!(%error, "no events from {path}; it is read every {pace}")).ok()
    }

    /// Looks after the queue, then works on one ticket. `false`: there was none. Where a file `has_changed`, by
    /// that alone the tickets of others need no look.
    ///
    /// To stop is not to be dropped anywhere: between a claim and the submission a ticket would be left for dead.
    async fn turn(&self, has_changed: bool, once: bool, stop: &CancellationToken) -> Result<bool, Trouble> {
        // Between two of many tickets that is not done each time: it costs a question for each one in progress.
        let looked = *self.looked.lock().unwrap_or_else(PoisonError::into_inner);
        let is_due = looked.is_none_or(|at| at.until(clock::boot_time()) >= ROUND);
        let prepare = async {
            // At its beginning it looks in any case.
            if self.has_begun.load(Ordering::Relaxed) {
                if is_due {
                    self.take_turn_in_looking().await?;
                }
                self.aside.look_after(&self.runs).await?;
            } else {
                self.look_after().await?;
                let queue = off(&self.folder, |folder| folder.read()).await?;
                self.aside.begin(&self.runs, &queue).await?;
                self.has_begun.store(true, Ordering::Relaxed);
            }
            self.runs.reach().await
        };
        let Some(prepared) = stop.run_until_cancelled(prepare).await else { return Ok(true) };
        prepared?;
        if stop.is_cancelled() {
            return Ok(true);
        }
        let mut claimed = self.claim().await?;
        if claimed.is_none() && !is_due && !has_changed {
            // With `once` it ends now.
            let look = async { if once { self.look_after().await } else { self.take_turn_in_looking().await } };
            let Some(looked) = stop.run_until_cancelled(look).await else { return Ok(true) };
            looked?;
            claimed = self.claim().await?;
        }
        let Some(claimed) = claimed else { return Ok(false) };
        tracing::info!(ticket = %claimed.ticket.stem, title = claimed.ticket.title, "claimed");
        match self.work(&claimed, stop).await {
            // The next ticket is another matter.
            Err(Trouble::Refused(why)) => {
                tracing::warn!(ticket = %claimed.ticket.stem, "it is left as it is: {why}");
                Ok(true)
            }
            worked => worked.map(|()| true),
        }
    }

    async fn claim(&self) -> Result<Option<Claimed>, Trouble> {
        let (templates, aside) = (self.templates.clone(), self.aside.clone());
        let (claimed, left) = off(&self.folder, move |folder| {
            let (mut usable, mut left, mut stuck) = (Usable::new(&templates), Left::new(), Left::new());
            let takes = |ticket: &Arc<Ticket>| match usable.of(&ticket.kind) {
                Ok(()) => match aside.holds(ticket, &templates) {
                    None => true,
                    Some(run) => {
                        let why = format!(
                            "no machine lends what Run {run} of the same kind needs (`mediator explain {run}`)"
                        );
                        left.entry(why).or_default().push(ticket.stem.clone());
                        false
                    }
                },
                Err(why) => {
                    left.entry(why.to_string()).or_default().push(ticket.stem.clone());
                    false
                }
            };
            let claimed = claim::next(folder, takes, |ticket, error| {
                let why =
                    format!("{} cannot be moved ({error}): look whose it is, and what attributes it has", ticket.file);
                stuck.entry(why).or_default().push(ticket.stem.clone());
            })?;
            left.append(&mut stuck);
            Ok((claimed, left))
        })
        .await?;
        for (why, stems) in self.not_warned_of(left) {
            tracing::warn!("{why}; this worker leaves alone: {}", template::listed(&stems));
        }
        Ok(claimed)
    }

    /// Those of these tickets of which this was not said yet.
    pub(super) fn not_warned_of(&self, mut left: Left) -> Left {
        let mut warned_of = self.warned_of.lock().unwrap_or_else(PoisonError::into_inner);
        left.retain(|why, stems| {
            stems.retain(|stem| warned_of.insert((stem.clone(), why.clone())));
            !stems.is_empty()
        });
        left
    }

    async fn work(&self, claimed: &Claimed, stop: &CancellationToken) -> Result<(), Trouble> {
        let ticket = &claimed.ticket;
        let found = match stop.run_until_cancelled(self.find(claimed)).await {
            None => return self.back(ticket, None, Return::Plain, STOPPED.to_owned()).await,
            Some(Ok(found)) => found,
            // As with a submission: asked again it would say the same.
            Some(Err(Trouble::Refused(why))) => {
                return self.back(ticket, None, Return::Attempt(why.clone()), why).await;
            }
            Some(Err(trouble)) => {
                self.back(ticket, None, Return::Plain, "the mediator does not answer".to_owned()).await?;
                return Err(trouble);
            }
        };
        match found {
            Some(run) => {
                if !self.assign(ticket, &run).await? {
                    return Ok(());
                }
                let queue = off(&self.folder, |folder| folder.read()).await?;
                // The ticket says so: whoever comes next finds it.
                stop.run_until_cancelled(self.resume(&queue, ticket, &run)).await.unwrap_or(Ok(()))
            }
            None => self.begin(claimed, stop).await,
        }
    }

    /// The Run of this ticket that goes on with it: one that has not ended, or that has succeeded since it asked.
    pub(super) async fn find(&self, claimed: &Claimed) -> Result<Option<RunId>, Trouble> {
        let ticket = &claimed.ticket;
        // Only those of this work: the text of a ticket may be a copy of another one's.
        let runs = self.runs.runs_of(&ticket.stem.work()).await?;
        let asked = Origin::of_last(ticket.text.body());
        let has_asked = |it: &&RunOf| asked.as_ref().is_some_and(|asked| asked.run == it.run.as_str());
        // The one that asked is named in the text, also where the queue's tag is lost.
        let ours = || runs.iter().filter(|it| runs::is_of(&claimed.tag, &it.run) || has_asked(it));
        if let Some(open) = ours().find(|it| it.end.is_none()) {
            return Ok(Some(open.run.clone()));
        }
        // It may have been answered elsewhere, and have ended while nobody looked. Whoever asks is nobody's: what says an
        // owner was taken up after that, and a person has opened it again.
        let over = ours().filter(|_| !ticket.is_owned).find(has_asked);
        Ok(over.filter(|it| it.end == Some(End::Succeeded)).map(|it| it.run.clone()))
    }

    /// Writes the Run into the ticket. `false`: somebody has taken it away.
    async fn assign(&self, ticket: &Arc<Ticket>, run: &RunId) -> Result<bool, Trouble> {
        let owner = self.owner_of(run);
        for is_last in tries() {
            let (held, run, owner) = (ticket.clone(), run.clone(), owner.clone());
            let assigned =
                off(&self.folder, move |folder| match claim::assign(folder, &held, &run, &owner, clock::now()) {
                    Ok(()) => Ok(None),
                    Err(ClaimError::Io(error)) => Err(error),
                    Err(other) => Ok(Some(other)),
                });
            let assigned = assigned.await;
            if assigned.is_err() {
                let claimed = ticket.clone();
                let undone = off(&self.folder, move |folder| claim::undo(folder, &claimed)).await;
                tracing::debug!(ticket = %ticket.stem, ?undone, "nothing can be written");
            }
            match assigned? {
                None => {
                    fail::at("work", "assigned");
                    return Ok(true);
                }
                Some(error) if is_last => tracing::warn!(ticket = %ticket.stem, "{error}"),
                Some(_) => tokio::time::sleep(SAVE_RETRY.std()).await,
            }
        }
        Ok(false)
    }

    /// Who works on a ticket, for people.
    pub(super) fn owner_of(&self, run: &RunId) -> String {
        // The end of a Run's id is random, its beginning the queue's tag.
        let end = run.as_str().get(run.as_str().len().saturating_sub(8)..).unwrap_or_default();
        format!("{}-{end}", self.owner)
    }

    /// Answers what a Run that is still open has asked, and follows it.
    async fn resume(&self, queue: &Queue, ticket: &Arc<Ticket>, run: &RunId) -> Result<(), Trouble> {
        tracing::info!(ticket = %ticket.stem, %run, "goes on with the Run that is open");
        let mut pauses = Pauses::new();
        loop {
            match ask::pass_on(&self.folder, &self.runs, queue, ticket, run).await {
                Ok(Passed::Nothing | Passed::Over | Passed::On) => break,
                Ok(Passed::Back(how, why)) => return self.back(ticket, Some(run), how, why).await,
                Err(trouble) => self.pause(&mut pauses, &trouble, ticket, run).await?,
            }
        }
        fail::at("work", "answered");
        self.follow(ticket, run).await
    }

    /// A new Run.
    async fn begin(&self, claimed: &Claimed, stop: &CancellationToken) -> Result<(), Trouble> {
        let run = runs::fresh_run(&claimed.tag).map_err(|error| Trouble::Refused(error.to_string()))?;
        let queue = off(&self.folder, |folder| folder.read()).await?;
        // As it was saved last, perhaps at the very moment of the claim.
        let ticket = &held(&queue, &claimed.ticket.stem, None).unwrap_or_else(|| claimed.ticket.clone());
        let contract = match self.templates.make(&queue, ticket, &run) {
            Ok(contract) => contract,
            // Broken at this very moment: its tickets are left alone until it is mended.
            Err(why @ (TemplateError::Missing(_) | TemplateError::Bad(..))) => {
                return self.back(ticket, None, Return::Plain, why.to_string()).await;
            }
            Err(why @ TemplateError::Text(_)) => {
                // Another attempt would find the same.
                let text = format!("No Run can be made of it: {why}\n\n{}", question::way_on(&ticket.stem));
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
        let (mut may_be_known, mut pauses) = (false, Pauses::new());
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
                Err(trouble @ Trouble::Folder(_)) => return Err(trouble),
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
                    self.pause(&mut pauses, &trouble, ticket, run).await?;
                    if !self.is_ours(&ticket.stem, run).await? {
                        return self.let_go(&ticket.stem, run).await;
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
        let (mut handed, mut rounds, mut pauses) = (BTreeSet::new(), 0u32, Pauses::new());
        let since = clock::now();
        loop {
            let now = {
                // One stream for as long as nothing changes, however often the queue is looked after meanwhile.
                let mut changed = std::pin::pin!(self.runs.changed(run, &seen));
                loop {
                    tokio::select! {
                        now = &mut changed => break now,
                        _ = round.tick() => {}
                    }
                    let Some((queue, _)) = self.ours(&ticket.stem, run).await? else {
                        return self.let_go(&ticket.stem, run).await;
                    };
                    rounds = rounds.saturating_add(1);
                    // Not at once: most wait for a moment only. And now and then: a machine may go meanwhile.
                    if rounds % ROUNDS_OF_WAITING == 2 && self.aside.takes(&self.runs, ticket, run, since).await {
                        return Ok(());
                    }
                    if let Err(trouble) = self.hand_answers_on(&queue, &mut handed).await {
                        tracing::warn!("cannot hand answers on: {trouble}");
                    }
                    // Others' tickets must not wait for the end of this Run.
                    match self.take_turn_in_looking().await {
                        Ok(()) => {}
                        Err(trouble @ Trouble::Folder(_)) => return Err(trouble),
                        Err(trouble) => tracing::warn!("cannot look after the queue: {trouble}"),
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

    /// Waits after silence; anything else is no reason to wait.
    async fn pause(&self, pauses: &mut Pauses, trouble: &Trouble, ticket: &Ticket, run: &RunId) -> Result<(), Trouble> {
        match trouble {
            Trouble::Silent { why, .. } => {
                tracing::warn!(ticket = %ticket.stem, %run, "{why}; it stays claimed, and the same is asked again");
                tokio::time::sleep(pauses.next().std().mul_f64(1.0 + clock::random_fraction())).await;
                Ok(())
            }
            Trouble::Denied(_) | Trouble::Refused(_) | Trouble::Folder(_) => Err(trouble.clone()),
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
            tokio::time::sleep(SAVE_RETRY.std()).await;
        }
        Ok(None)
    }

    pub(super) async fn back(
        &self,
        ticket: &Ticket,
        run: Option<&RunId>,
        how: Return,
        why: String,
    ) -> Result<(), Trouble> {
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

pub(super) fn said(deed: &Deed) -> String {
    match deed {
        Deed::Finished => "done".to_owned(),
        Deed::Reclaimed { attempts: 0, why } => format!("given back: {why}"),
        Deed::Reclaimed { attempts, why } => format!("given back, attempt {attempts}: {why}"),
        Deed::Asked { awaiting, why } => format!("waits for the answer {awaiting}: {why}"),
        Deed::Beside { file } => reap::beside(file),
        Deed::Lost => "somebody else was faster; nothing was changed".to_owned(),
    }
}

#[cfg(test)]
#[path = "worker_tests.rs"]
mod tests;
