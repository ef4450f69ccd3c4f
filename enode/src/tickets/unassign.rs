//! Takes a ticket away from whoever has it, on a person's word.

use std::{io, sync::Arc};

use serde::Serialize;
use shared::{
    RunId, Timestamp,
    ticket::{Lane, Stem},
};

use super::{
    Folder,
    back::{self, Return},
    file_work::off,
    reap::{self, Deed},
    runs::{RunNow, Runs, Trouble},
};

/// What became of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "done", rename_all = "snake_case")]
pub enum Unassigned {
    /// It was open and said `session_id`; it no longer does, and nothing else was changed.
    Cleared,
    /// It is in line again.
    Returned,
    /// Its Run had succeeded, so that it is done.
    Finished,
    /// It waits for a person, and its Run was asked to end.
    Locked {
        /// The stem of the answer.
        awaiting: Stem,
    },
}

/// Why it was not.
#[derive(Debug, thiserror::Error)]
pub enum UnassignError {
    /// No such ticket.
    #[error("there is no ticket {0}: `enode tickets list` shows them")]
    Missing(Stem),
    /// Nobody has it.
    #[error("nobody works on {0}: it is {1}")]
    NotAssigned(Stem, &'static str),
    /// Two would work on one ticket.
    #[error(
        "Run {run} works on {stem}: wait for its end, or give --force, which locks {stem} as a question and cancels it"
    )]
    Alive {
        /// The ticket.
        stem: Stem,
        /// Its Run.
        run: String,
    },
    /// It was moved or changed at this moment.
    #[error("{0} was moved or changed by somebody else at this moment: look again")]
    Moved(Stem),
    /// The mediator.
    #[error(transparent)]
    Trouble(#[from] Trouble),
    /// The operating system's.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Takes a ticket away. One whose Run is alive only with `force`: then it is locked first, so that no worker takes it
/// while the Run still ends.
///
/// # Errors
/// [`UnassignError`]; nothing was changed then, except where a cancel that was sent after the lock brings [`Trouble`].
pub async fn unassign(
    folder: &Arc<Folder>,
    runs: &impl Runs,
    stem: &Stem,
    force: bool,
    now: Timestamp,
) -> Result<Unassigned, UnassignError> {
    let queue = off(folder, |folder| folder.read()).await?;
    let ticket = queue.find(stem).cloned().ok_or_else(|| UnassignError::Missing(stem.clone()))?;
    let stem = ticket.stem.clone();
    match ticket.lane {
        Lane::InProgress => {}
        Lane::Waiting if ticket.session_id.is_some() => {
            let name = stem.clone();
            let cleared = off(folder, move |folder| back::clear_accident(folder, &name)).await?;
            return if cleared { Ok(Unassigned::Cleared) } else { Err(UnassignError::Moved(stem)) };
        }
        Lane::Waiting => return Err(UnassignError::NotAssigned(stem, "open")),
        Lane::Done => return Err(UnassignError::NotAssigned(stem, "done")),
    }
    let session = ticket.session_id.clone();
    let run = session.as_deref().and_then(|session| RunId::new(session).ok());
    let state = match &run {
        Some(run) => runs.get(run).await?,
        None => RunNow::Unknown,
    };
    let mut ends = None;
    let how = match (state, &run) {
        (RunNow::Succeeded, Some(run)) => {
            return match reap::finish(folder, &ticket, run.to_string()).await? {
                Deed::Finished => Ok(Unassigned::Finished),
                Deed::Reclaimed { .. } | Deed::Asked { .. } | Deed::Lost => Err(UnassignError::Moved(stem)),
            };
        }
        (RunNow::Open { .. }, Some(run)) if force => {
            ends = Some(run);
            let text =
                format!("It was taken away from Run {run}, which was alive and was asked to end. How should it go on?");
            Return::Ask { text, origin: None }
        }
        (RunNow::Open { .. }, Some(run)) => return Err(UnassignError::Alive { stem, run: run.to_string() }),
        (RunNow::Unknown | RunNow::Failed(_), _) | (RunNow::Succeeded | RunNow::Open { .. }, None) => Return::Plain,
    };
    let why = "a person has taken it away".to_owned();
    let deed = reap::back(folder, &ticket, session, how, why, now).await?;
    if let Some(run) = ends.filter(|_| matches!(deed, Deed::Asked { .. })) {
        runs.cancel(run).await?;
    }
    match deed {
        Deed::Asked { awaiting, .. } => Ok(Unassigned::Locked { awaiting }),
        Deed::Reclaimed { .. } => Ok(Unassigned::Returned),
        Deed::Finished | Deed::Lost => Err(UnassignError::Moved(stem)),
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::fake_tests::{Fake, Table},
        *,
    };

    /// The mediator may have to wait for a node: nothing says that the Run has ended before it has.
    #[test]
    fn a_run_that_is_taken_away_by_force_is_said_to_be_asked_to_end() {
        let table = Table::of(&[("r1", RunNow::Open { asking: Vec::new() })]);
        let fake = Fake::new(&[("a.wip.md", "---\ntitle: t\nsession_id: r1\n---\n")]);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let stem = Stem::new("a").unwrap();
        let done = runtime.block_on(unassign(&fake.folder, &table, &stem, true, Timestamp::default()));
        assert!(matches!(done, Ok(Unassigned::Locked { .. })), "{done:?}");
        let text = fake.text("a.md");
        assert!(text.contains("was asked to end") && !text.contains("cancelled"), "{text}");
        assert_eq!(table.heard.lock().unwrap().last().unwrap(), "cancel r1");
    }
}
