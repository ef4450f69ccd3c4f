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
    Duration,
    ticket::{Stem, Ticket},
};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::{
    Folder,
    aside::Aside,
    claim::{self, Claimed},
    file_work::off,
    follow::Pauses,
    reap::{self, Deed},
    runs::{Runs, Trouble},
    template::{self, Templates, Usable},
};
use crate::{
    clock::{self, BootTime},
    watch,
};

/// How long a worker may wait for a ticket to come: the shortest, which does not keep a core busy, and the longest, after
/// which it looks after others' tickets in any case.
pub const PACES: (Duration, Duration) = (Duration::from_millis(10), Duration::from_secs(5));
/// How often a worker that follows a Run looks after the queue.
pub(super) const ROUND: Duration = if cfg!(test) { Duration::from_millis(50) } else { PACES.1 };
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
    pub(super) aside: Aside,
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
        let Some(prepared) = stop.run_until_cancelled(self.prepare(is_due)).await else { return Ok(true) };
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

    /// Before anything is taken: what others have left, if that `is_due`, and whether the mediator is there at all.
    async fn prepare(&self, is_due: bool) -> Result<(), Trouble> {
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
