//! What a worker does with a ticket that it has claimed: goes on with the Run that is open, or makes one and submits it.

use std::sync::Arc;

use shared::{
    RunId,
    ticket::{
        Queue, Ticket,
        question::{self, Origin},
    },
};
use tokio_util::sync::CancellationToken;

use super::{
    ask::{self, Passed},
    back::{Return, held},
    claim::{self, ClaimError, Claimed},
    fail,
    file_work::off,
    follow::{Pauses, SAVE_RETRY, tries},
    reap,
    runs::{self, End, RunOf, Runs, Trouble},
    template::TemplateError,
    worker::{Worker, said},
};
use crate::clock;

/// Why a ticket goes back that has no Run yet.
const STOPPED: &str = "the worker was told to end";

impl<R: Runs> Worker<R> {
    pub(super) async fn work(&self, claimed: &Claimed, stop: &CancellationToken) -> Result<(), Trouble> {
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

    /// Submits a Run and follows it.
    async fn submit(&self, ticket: &Arc<Ticket>, run: &RunId, contract: &[u8]) -> Result<(), Trouble> {
        if !self.hand_in(ticket, run, contract).await? {
            return Ok(());
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

    /// Submits a Run, for as long as the mediator may have it. `false`: it has none, and what is to be done about that is done.
    async fn hand_in(&self, ticket: &Arc<Ticket>, run: &RunId, contract: &[u8]) -> Result<bool, Trouble> {
        let (mut may_be_known, mut pauses) = (false, Pauses::new());
        loop {
            match self.runs.submit(run, contract).await {
                Ok(()) => return Ok(true),
                Err(Trouble::Silent { why, unsent: true }) if !may_be_known => {
                    let said = why.clone();
                    self.back(ticket, Some(run), Return::Plain, said).await?;
                    return Err(Trouble::Silent { why, unsent: true });
                }
                // What was sent before may be stored, its answer lost: the reaper asks after it, when it is answered.
                Err(Trouble::Refused(why)) if may_be_known => {
                    tracing::warn!(ticket = %ticket.stem, %run, "{why}; it stays claimed until its Run is known or not");
                    return Ok(false);
                }
                Err(trouble @ Trouble::Folder(_)) => return Err(trouble),
                Err(trouble @ Trouble::Denied(_)) if may_be_known => return Err(trouble),
                Err(Trouble::Refused(why)) => {
                    self.back(ticket, Some(run), Return::Attempt(why.clone()), why).await?;
                    return Ok(false);
                }
                Err(trouble @ Trouble::Denied(_)) => {
                    self.back(ticket, Some(run), Return::Plain, trouble.to_string()).await?;
                    return Err(trouble);
                }
                Err(trouble @ Trouble::Silent { .. }) => {
                    may_be_known = true;
                    self.pause(&mut pauses, &trouble, ticket, run).await?;
                    if !self.is_ours(&ticket.stem, run).await? {
                        self.let_go(&ticket.stem, run).await?;
                        return Ok(false);
                    }
                }
            }
        }
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
