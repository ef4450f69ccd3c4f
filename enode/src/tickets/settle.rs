//! Questions that nobody will answer, or needs to. The first keep a Run's nodes for ever, the second a ticket in its lock.

use std::{io, sync::Arc};

use shared::{
    RunId,
    ticket::{Lane, Queue, Stem, Ticket, order, question::Origin},
};

use super::{
    Folder, ask,
    file_work::off,
    queue_lock::QueueLock,
    repair::repair,
    runs::{self, RunNow, Runs, Trouble},
};

/// Unlocks tickets whose question nobody needs an answer to any more: the step was answered elsewhere, or its Run has
/// ended. The answer file says so. Gives back the names of the files.
pub(super) async fn needless_questions(folder: &Arc<Folder>, runs: &impl Runs) -> Result<Vec<String>, Trouble> {
    let queue = off(folder, |folder| folder.read()).await?;
    let mut settled = Vec::new();
    for (ticket, awaiting) in order::asking(&queue) {
        // A person's file is there, and not done or not mended.
        if queue.has(&awaiting) {
            continue;
        }
        let Some(origin) = Origin::of_last(ticket.text.body()) else { continue };
        let Ok(run) = RunId::new(&origin.run) else { continue };
        let answered = "The step was answered elsewhere, perhaps with `mediator answer`";
        let why = match runs.get(&run).await? {
            RunNow::Open { asking } if asking.iter().any(|it| it.origin == origin) => continue,
            RunNow::Open { .. } => format!("{answered}. Run {run} goes on."),
            RunNow::Succeeded => format!("{answered}. Run {run} has SUCCEEDED."),
            RunNow::Failed(why) | RunNow::Stopped(why) => format!("The Run that asked has ended: {why}"),
            // This may be another fleet's mediator. A person's answer unlocks it as ever.
            RunNow::Unknown => continue,
        };
        let stem = ticket.stem.clone();
        match off(folder, move |folder| settle(folder, &stem, &awaiting, &why)).await {
            Ok(file) => settled.extend(file),
            Err(trouble) => tracing::warn!(ticket = %ticket.stem, "its question could not be settled: {trouble}"),
        }
    }
    Ok(settled)
}

/// Writes the answer to this question of a ticket. `None`: by now it has one, or the ticket asks the next.
fn settle(folder: &Folder, stem: &Stem, awaiting: &Stem, why: &str) -> io::Result<Option<String>> {
    let _lock = QueueLock::acquire(folder)?;
    let queue = repair(folder)?;
    let asking = order::asking(&queue).find(|(ticket, asked)| ticket.stem == *stem && asked == awaiting);
    let Some((ticket, _)) = asking.filter(|_| !queue.has(awaiting)) else { return Ok(None) };
    Ok(ask::publish(folder, &ticket, awaiting, why)?.ok())
}

/// Cancels Runs that ask for a ticket which a person has ended by hand meanwhile: nobody will answer, and they would keep
/// their nodes. Gives these Runs back.
pub(super) async fn questions_of_done(folder: &Arc<Folder>, runs: &impl Runs) -> Result<Vec<RunId>, Trouble> {
    let left = left_unanswered(&off(folder, |folder| folder.read()).await?);
    let mut cancelled = Vec::new();
    if left.is_empty() {
        return Ok(cancelled);
    }
    let tag = off(folder, |folder| QueueLock::acquire(folder)?.tag()).await?;
    for ask in runs.asks().await?.into_iter().filter(|ask| left.contains(&ask.origin)) {
        // Of a copy of another queue's ticket the Run is none of ours.
        let Some(run) = RunId::new(&ask.origin.run).ok().filter(|run| runs::is_of(&tag, run)) else { continue };
        match runs.cancel(&run).await {
            Ok(()) => cancelled.push(run),
            Err(Trouble::Refused(why)) => tracing::warn!(%run, "it asks for a ticket that is done: {why}"),
            Err(trouble) => return Err(trouble),
        }
    }
    Ok(cancelled)
}

/// The steps whose question stands last in a done ticket, without an answer.
fn left_unanswered(queue: &Queue) -> Vec<Origin> {
    let is_open = |it: &&Arc<Ticket>| it.awaiting.as_ref().is_some_and(|answer| !queue.has(answer));
    let done = queue.tickets().iter().filter(|it| it.lane == Lane::Done).filter(is_open);
    done.filter_map(|it| Origin::of_last(it.text.body())).collect()
}

#[cfg(test)]
#[path = "settle_tests.rs"]
mod tests;
