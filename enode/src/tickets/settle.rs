//! Questions that nobody will answer, or needs to. The first keep a Run's nodes for ever, the second a ticket in its lock.

use std::{io, sync::Arc};

use serde::Serialize;
use shared::{
    RunId,
    ticket::{Lane, Queue, Stem, name::of_work, order, question::Origin},
};

use super::{
    Folder, ask,
    file_work::off,
    queue_lock::QueueLock,
    repair::repair,
    runs::{self, Answered, Ask, RunNow, Runs, Trouble},
};

/// What was done about questions.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Settled {
    /// Names of answers that were written, because nobody needs one any more.
    pub settled: Vec<String>,
    /// Runs that were cancelled, because they asked for a ticket that is done.
    pub cancelled: Vec<RunId>,
}

/// Unlocks tickets whose question needs no answer any more, and ends Runs whose question will get none.
pub(super) async fn settle(folder: &Arc<Folder>, runs: &impl Runs, done: &mut Settled) -> Result<(), Trouble> {
    let asks = match runs.asks().await {
        // Said by this mediator of all of them: it knows none.
        Err(Trouble::Refused(why)) => {
            tracing::warn!("cannot look after questions: {why}");
            return Ok(());
        }
        asks => asks?,
    };
    // Read after that: what is asked now has a ticket that says so, or one that a person has ended.
    let queue = off(folder, |folder| folder.read()).await?;
    let look = Look { folder, runs, queue: &queue, asks: &asks };
    look.needless_questions(done).await?;
    look.questions_of_done(done).await
}

/// A queue and the questions of its mediator at one moment.
struct Look<'a, R> {
    folder: &'a Arc<Folder>,
    runs: &'a R,
    queue: &'a Queue,
    asks: &'a [Ask],
}

impl<R: Runs> Look<'_, R> {
    /// The step was answered elsewhere, or its Run has ended. The answer file says so.
    async fn needless_questions(&self, done: &mut Settled) -> Result<(), Trouble> {
        let Self { folder, runs, queue, asks } = *self;
        for (ticket, awaiting) in order::asking(queue) {
            // A person's file is there, and not done or not mended.
            if queue.has(&awaiting) {
                continue;
            }
            let Some(origin) = Origin::of_last(ticket.text.body()) else { continue };
            let Some(run) = RunId::new(&origin.run).ok().filter(|_| asks.iter().all(|ask| ask.origin != origin)) else {
                continue;
            };
            let why = match runs.get(&run).await {
                Ok(RunNow::Open { asking }) if asking.iter().any(|it| it.origin == origin) => continue,
                Ok(RunNow::Open { .. }) => format!("{} Run {run} goes on.", elsewhere(runs, &origin).await?),
                Ok(RunNow::Succeeded) => format!("{} Run {run} has SUCCEEDED.", elsewhere(runs, &origin).await?),
                Ok(RunNow::Failed(why) | RunNow::Stopped(why)) => format!("The Run that asked has ended: {why}"),
                // This may be another fleet's mediator. A person's answer unlocks it as ever.
                Ok(RunNow::Unknown) => continue,
                Err(Trouble::Refused(why)) => {
                    tracing::warn!(ticket = %ticket.stem, "its question is left as it is: {why}");
                    continue;
                }
                Err(trouble) => return Err(trouble),
            };
            let stem = ticket.stem.clone();
            match off(folder, move |folder| write(folder, &stem, &awaiting, &why)).await {
                Ok(file) => done.settled.extend(file),
                Err(trouble) => tracing::warn!(ticket = %ticket.stem, "its question could not be settled: {trouble}"),
            }
        }
        Ok(())
    }

    /// Cancels Runs that ask for a ticket which a person has ended by hand meanwhile: nobody will hand them an answer, and they
    /// would keep their nodes.
    async fn questions_of_done(&self, done: &mut Settled) -> Result<(), Trouble> {
        let Self { folder, runs, queue, asks } = *self;
        // By what the Run is for, not by the text of a ticket: that may be a copy of another one's.
        let is_for_done = |ask: &&Ask| ask.work.as_deref().and_then(of_work).is_some_and(|stem| is_over(queue, &stem));
        let left: Vec<RunId> =
            asks.iter().filter(is_for_done).filter_map(|ask| RunId::new(&ask.origin.run).ok()).collect();
        if left.is_empty() {
            return Ok(());
        }
        let tag = off(folder, |folder| QueueLock::acquire(folder)?.tag()).await?;
        // Another queue may have a ticket with the same stem.
        for run in left.into_iter().filter(|run| runs::is_of(&tag, run)) {
            match runs.cancel(&run).await {
                Ok(()) => done.cancelled.push(run),
                Err(Trouble::Refused(why)) => tracing::warn!(%run, "it asks for a ticket that is done: {why}"),
                Err(trouble) => return Err(trouble),
            }
        }
        Ok(())
    }
}

/// Who has answered a step, past the queue, and where to read what.
async fn elsewhere(runs: &impl Runs, origin: &Origin) -> Result<String, Trouble> {
    match runs.answered(origin).await {
        Ok(Some(Answered { by, at })) => Ok(format!(
            "The step was answered elsewhere, by {by} at {at}. What was said is in the Run's Record, once it has ended: \
             `mediator record {}`.",
            origin.run
        )),
        Ok(None) | Err(Trouble::Refused(_)) => {
            Ok("The step was answered elsewhere, perhaps with `mediator answer`.".to_owned())
        }
        Err(trouble) => Err(trouble),
    }
}

/// Writes the answer to this question of a ticket. `None`: by now it has one, or the ticket asks the next.
fn write(folder: &Folder, stem: &Stem, awaiting: &Stem, why: &str) -> io::Result<Option<String>> {
    let _lock = QueueLock::acquire(folder)?;
    let queue = repair(folder)?;
    let asking = order::asking(&queue).find(|(ticket, asked)| ticket.stem == *stem && asked == awaiting);
    let Some((ticket, _)) = asking.filter(|_| !queue.has(awaiting)) else { return Ok(None) };
    Ok(ask::publish(folder, &ticket, awaiting, why)?.ok())
}

/// It is done, and not only by the name of a file that hides it: an answer perhaps, under the ticket's own name.
fn is_over(queue: &Queue, stem: &Stem) -> bool {
    let is_done = queue.find(stem).is_some_and(|it| it.stem == *stem && it.lane == Lane::Done);
    is_done && queue.twins().iter().all(|twin| twin.stem != *stem)
}

#[cfg(test)]
#[path = "settle_tests.rs"]
mod tests;
