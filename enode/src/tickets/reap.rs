//! Looks after tickets in progress whose worker may be gone. Their Runs decide, never time alone; and a mediator that
//! does not answer decides nothing.

use std::sync::Arc;

use serde::Serialize;
use shared::{
    Duration, RunId, Timestamp,
    ticket::{Lane, Queue, Stem, Ticket, question::Origin},
};

use super::{
    Folder,
    ask::{self, Passed},
    back::{self, Return, Returned},
    fail,
    file_work::off,
    finish,
    runs::{RunNow, Runs, Trouble},
    settle::{self, Settled},
};
use crate::clock;

/// How long a ticket may say nothing of who has it, and how long its Run may not be known: what lies between a claim
/// and the mediator's answer. From `assigned_at`, which another machine's clock has written: they must go alike.
pub const GRACE: Duration = Duration::from_secs(180);

/// [`GRACE`], or what a test has no time to wait for.
#[must_use]
pub fn grace() -> Duration {
    fail::grace(GRACE)
}

/// What was done with a ticket, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "deed", rename_all = "snake_case")]
pub enum Deed {
    /// Its Run had succeeded.
    Finished,
    /// It is in line again.
    Reclaimed {
        /// Attempts so far.
        attempts: u32,
        /// Why.
        why: String,
    },
    /// It waits for a person.
    Asked {
        /// The stem of the answer.
        awaiting: Stem,
        /// Why.
        why: String,
    },
    /// Another file stands beside it, and has the name that it needs; nothing was changed.
    Beside {
        /// That file.
        file: String,
    },
    /// Somebody else was faster; nothing was changed.
    Lost,
}

/// What a person has to do where two files have one stem.
#[must_use]
pub fn beside(file: &str) -> String {
    format!("{file} stands beside it, with another text: merge them by hand and remove that one")
}

/// One ticket and what was done with it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Reaped {
    /// Which.
    pub stem: Stem,
    /// What and why.
    #[serde(flatten)]
    pub deed: Deed,
}

/// What was done in one look at a queue.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Looked {
    /// Of tickets in progress.
    pub reaped: Vec<Reaped>,
    /// Of what people have ended elsewhere.
    #[serde(flatten)]
    pub questions: Settled,
}

/// What every worker of a queue does from time to time: looks after tickets in progress, then after questions that
/// nobody needs an answer to, or will answer. What was done is in `looked`.
///
/// # Errors
/// [`Trouble`]; what was done before it stays done.
pub async fn look_after(folder: &Arc<Folder>, runs: &impl Runs, looked: &mut Looked) -> Result<(), Trouble> {
    reap(folder, runs, clock::now(), grace(), &mut looked.reaped).await?;
    settle::settle(folder, runs, &mut looked.questions).await
}

/// Looks at every ticket in progress once, `now` being when and [`GRACE`] the grace in earnest.
///
/// # Errors
/// [`Trouble`]; what was done before it stays done.
pub async fn reap(
    folder: &Arc<Folder>,
    runs: &impl Runs,
    now: Timestamp,
    grace: Duration,
    reaped: &mut Vec<Reaped>,
) -> Result<(), Trouble> {
    let queue = off(folder, |folder| folder.read()).await?;
    let held: Vec<Arc<Ticket>> = queue.tickets().iter().filter(|it| it.lane == Lane::InProgress).cloned().collect();
    if held.is_empty() {
        return Ok(());
    }
    // Before anything is judged, also what needs no Run to be judged.
    runs.reach().await?;
    for ticket in held {
        match one(folder, runs, &queue, &ticket, now, grace).await {
            Ok(Some(deed)) => reaped.push(Reaped { stem: ticket.stem.clone(), deed }),
            Ok(None) => {}
            // What is wrong with one ticket keeps nobody from the others.
            Err(Trouble::Refused(why) | Trouble::Folder(why)) => {
                tracing::warn!(ticket = %ticket.stem, "it is left as it is: {why}");
            }
            Err(trouble) => return Err(trouble),
        }
    }
    Ok(())
}

async fn one(
    folder: &Arc<Folder>,
    runs: &impl Runs,
    queue: &Queue,
    ticket: &Ticket,
    now: Timestamp,
    grace: Duration,
) -> Result<Option<Deed>, Trouble> {
    let Some(session) = &ticket.session_id else {
        // A hand claim says something and is left alone.
        if ticket.is_owned {
            return Ok(None);
        }
        let file = ticket.file.clone();
        let Ok(changed) = off(folder, move |folder| folder.changed_at(&file)).await else { return Ok(None) };
        if now.since(changed) < grace {
            return Ok(None);
        }
        let why = format!("nobody has said for {grace} who works on it");
        // An attempt: what kills its worker before it has a Run must not do so for ever.
        return back(folder, ticket, None, Return::Attempt(why.clone()), why, now).await.map(Some);
    };
    let state = match RunId::new(session) {
        Ok(run) => runs.get(&run).await?,
        Err(_) => RunNow::Unknown,
    };
    judge(folder, runs, queue, ticket, state, now, grace).await
}

/// What the state of its Run means for a ticket in progress, for whoever follows the Run and for whoever comes by.
/// `None`: it stays as it is.
pub(super) async fn judge(
    folder: &Arc<Folder>,
    runs: &impl Runs,
    queue: &Queue,
    ticket: &Ticket,
    state: RunNow,
    now: Timestamp,
    grace: Duration,
) -> Result<Option<Deed>, Trouble> {
    let Some(session) = ticket.session_id.clone() else { return Ok(None) };
    match state {
        RunNow::Succeeded => finish(folder, ticket, session).await.map(Some),
        RunNow::Failed(why) => {
            back(folder, ticket, Some(session), Return::Attempt(why.clone()), why, now).await.map(Some)
        }
        // A person's doing, and no fault of the ticket's.
        RunNow::Stopped(why) => back(folder, ticket, Some(session), Return::Plain, why, now).await.map(Some),
        RunNow::Unknown => {
            if is_younger(ticket, now, grace) {
                return Ok(None);
            }
            // It may have been there, and lost: an attempt, so that what nobody remembers does not go on for ever.
            let why = format!("the mediator knows no Run {session}");
            back(folder, ticket, Some(session), Return::Attempt(why.clone()), why, now).await.map(Some)
        }
        RunNow::Open { asking } => {
            let Some(question) = asking.into_iter().next() else { return Ok(None) };
            // Whoever took it up again may have been killed before it passed the answer on.
            if let Ok(run) = RunId::new(&session) {
                match ask::pass_on(folder, runs, queue, ticket, &run).await? {
                    // Since `state` was seen: a look at what it is now comes next.
                    Passed::Over if Origin::of_last(ticket.text.body()) == Some(question.origin.clone()) => {
                        return Ok(None);
                    }
                    Passed::Nothing | Passed::Over => {}
                    Passed::On => return Ok(None),
                    Passed::Back(how, why) => {
                        return back(folder, ticket, Some(session), how, why, now).await.map(Some);
                    }
                }
            }
            let text = ask::text_of(runs, &question).await?;
            let why = format!("step {} of its Run asks", question.origin.step);
            let how = Return::Ask { text, origin: Some(question.origin) };
            back(folder, ticket, Some(session), how, why, now).await.map(Some)
        }
    }
}

/// Whether a Run that is not known may be there in a moment: it was written into its ticket so short a time ago.
pub(super) fn is_younger(ticket: &Ticket, now: Timestamp, grace: Duration) -> bool {
    // Without a time that can be read there is nothing to wait for.
    ticket.assigned_at.is_some_and(|at| now.since(at) < grace)
}

pub(super) async fn finish(folder: &Arc<Folder>, ticket: &Ticket, session: String) -> Result<Deed, Trouble> {
    let stem = ticket.stem.clone();
    let finished = off(folder, move |folder| finish::finish(folder, &stem, Some(&session))).await?;
    Ok(if finished { Deed::Finished } else { Deed::Lost })
}

pub(super) async fn back(
    folder: &Arc<Folder>,
    ticket: &Ticket,
    session: Option<String>,
    how: Return,
    why: String,
    now: Timestamp,
) -> Result<Deed, Trouble> {
    let stem = ticket.stem.clone();
    let returned = off(folder, move |folder| back::give_back(folder, &stem, session.as_deref(), &how, now)).await?;
    Ok(match returned {
        Returned::Open { attempts } => Deed::Reclaimed { attempts, why },
        Returned::Asked { awaiting } => Deed::Asked { awaiting, why },
        Returned::Beside { file } => Deed::Beside { file },
        Returned::Lost => Deed::Lost,
    })
}

#[cfg(test)]
#[path = "reap_tests.rs"]
mod tests;
