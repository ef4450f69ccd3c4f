//! Answers do not wait until a worker is free: who follows a Run hands them on meanwhile. Otherwise one node and one worker
//! would block each other for ever, because the Run that asks keeps the node for which the followed one waits.

use std::{collections::BTreeSet, sync::Arc};

use shared::ticket::{Hold, Queue, Stem, Ticket, line, question::Origin};

use super::{
    ask::{self, Passed},
    back::{self, Return},
    claim::{self, ClaimError, Claimed},
    file_work::off,
    queue_lock::QueueLock,
    runs::{Runs, Trouble},
    worker::Worker,
};
use crate::clock;

impl<R: Runs> Worker<R> {
    /// Hands every answer on that is there to the step that asks. Its ticket is in progress again then, and its end is
    /// the reaper's. `tried` are the answers with which nothing is left to be done.
    pub(super) async fn hand_answers_on(&self, queue: &Queue, tried: &mut BTreeSet<Stem>) -> Result<(), Trouble> {
        for (ticket, answer, is_free) in answered(queue) {
            if tried.contains(&answer) {
                continue;
            }
            let tag = off(&self.folder, |folder| QueueLock::acquire(folder)?.tag()).await?;
            let claimed = Claimed { ticket, tag };
            let found = self.find(&claimed).await?;
            let ticket = claimed.ticket;
            // Without one, whoever is free next makes a new Run.
            let Some(run) = found else {
                tried.insert(answer);
                continue;
            };
            // The gate of priority 1 counts tickets in progress; the Run is there already, and may go on.
            if is_free && !self.take_up(&ticket, &run).await? {
                continue;
            }
            let passed = ask::pass_on(&self.folder, &self.runs, queue, &ticket, &run).await?;
            tried.insert(answer);
            match passed {
                Passed::On => tracing::info!(ticket = %ticket.stem, %run, "its answer is handed on"),
                Passed::Nothing | Passed::Over => {}
                Passed::Back(how, why) if is_free => self.back(&ticket, Some(&run), how, why).await?,
                Passed::Back(_, why) => tracing::warn!(ticket = %ticket.stem, "{why}"),
            }
        }
        Ok(())
    }

    /// Claims a ticket and writes its Run into it, in one go: a worker that is told to end drops what it waits for.
    async fn take_up(&self, ticket: &Arc<Ticket>, run: &shared::RunId) -> Result<bool, Trouble> {
        let (stem, run, owner) = (ticket.stem.clone(), run.clone(), self.owner_of(run));
        off(&self.folder, move |folder| {
            let mut failed = Ok(false);
            let claimed = claim::next(folder, |it| it.stem == stem, |_, error| failed = Err(error))?;
            let Some(claimed) = claimed else { return failed };
            match claim::assign(folder, &claimed.ticket, &run, &owner, clock::now()) {
                Ok(()) => Ok(true),
                Err(ClaimError::Io(error)) => Err(error),
                // It is being saved at this moment: next time.
                Err(_) => back::give_back(folder, &stem, None, &Return::Plain, clock::now()).map(|_| false),
            }
        })
        .await
    }
}

/// Open tickets whose last question a step has asked, and which have its answer; whether they may be taken.
fn answered(queue: &Queue) -> Vec<(Arc<Ticket>, Stem, bool)> {
    let answered = |ticket: &Ticket| {
        let answer = queue.answer_of(ticket).cloned()?;
        Origin::of_last(ticket.text.body()).map(|_| answer)
    };
    let entries = line(queue).into_iter().filter_map(|entry| match entry.hold {
        None => Some((entry.ticket, true)),
        Some(Hold::LowestWaits { .. }) => Some((entry.ticket, false)),
        Some(Hold::DepsWait { .. } | Hold::AnswerWait { .. }) => None,
    });
    entries.filter_map(|(ticket, is_free)| answered(&ticket).map(|answer| (ticket, answer, is_free))).collect()
}
