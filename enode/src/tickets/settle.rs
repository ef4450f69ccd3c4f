//! What people have ended elsewhere: questions that need no answer any more and keep a ticket in its lock, and Runs whose
//! ticket somebody has renamed by hand, which keep their nodes.

use std::{io, sync::Arc};

use serde::Serialize;
use shared::{
    RunId,
    ticket::{Queue, Stem, name::of_work, order, question::Origin},
};

use super::{
    Folder, ask,
    file_work::off,
    let_go,
    queue_lock::QueueLock,
    repair::repair,
    runs::{self, Answered, Ask, OpenRun, RunNow, Runs, Trouble},
};

/// What was done about both.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Settled {
    /// Names of answers that were written, because nobody needs one any more.
    pub settled: Vec<String>,
    /// Runs that were cancelled, because a person has ended or renamed their ticket.
    pub cancelled: Vec<RunId>,
}

/// Unlocks tickets whose question needs no answer any more, and ends Runs whose ticket is in nobody's hand.
pub(super) async fn settle(folder: &Arc<Folder>, runs: &impl Runs, done: &mut Settled) -> Result<(), Trouble> {
    let asks = match runs.asks().await {
        // Said by this mediator of all of them: it knows none.
        Err(Trouble::Refused(why)) => {
            tracing::warn!("cannot look after questions: {why}");
            return Ok(());
        }
        asks => asks?,
    };
    let tag = off(folder, |folder| QueueLock::acquire(folder)?.tag()).await?;
    let open = match runs.open_runs(&tag).await {
        Err(Trouble::Refused(why)) => {
            tracing::warn!("cannot look after Runs whose ticket was renamed: {why}");
            Vec::new()
        }
        open => open?,
    };
    // Read after that: what is asked or open now has a ticket that says so, or one that a person has renamed.
    let queue = off(folder, |folder| folder.read()).await?;
    needless_questions(folder, runs, &queue, &asks, done).await?;
    // Another queue may have a ticket with the same stem.
    for OpenRun { run, work } in open.iter().filter(|it| runs::is_of(&tag, &it.run)) {
        // By what the Run is for, not by the text of a ticket: that may be a copy of another one's. One that asks keeps its
        // nodes, and nobody will hand it an answer.
        let asks = asks.iter().any(|ask| ask.origin.run == run.as_str());
        let stem = work.as_deref().and_then(of_work);
        let Some(stem) = stem.filter(|stem| let_go::renamed(&queue, stem, run, asks).is_some()) else { continue };
        if let_go::stop_renamed(folder, runs, &stem, run, asks).await?.is_some() {
            done.cancelled.push(run.clone());
        }
    }
    Ok(())
}

/// The step was answered elsewhere, or its Run has ended. The answer file says so.
async fn needless_questions(
    folder: &Arc<Folder>,
    runs: &impl Runs,
    queue: &Queue,
    asks: &[Ask],
    done: &mut Settled,
) -> Result<(), Trouble> {
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

#[cfg(test)]
#[path = "settle_tests.rs"]
mod tests;
