//! Takes a ticket away from whoever has it, on a person's word.

use std::{io, sync::Arc};

use serde::Serialize;
use shared::{
    RunId, Timestamp,
    ticket::{Lane, Queue, Stem, Ticket, question},
};

use super::{
    Folder,
    absent::{self, Absent},
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
        /// The Run was faster, and has ended well: what is left is to say so.
        has_succeeded: bool,
    },
}

/// Why it was not.
#[derive(Debug, thiserror::Error)]
pub enum UnassignError {
    /// There is none.
    #[error(transparent)]
    Absent(#[from] Absent),
    /// Nobody has it.
    #[error("nobody works on {0}: it is {1}")]
    NotAssigned(Stem, &'static str),
    /// Two would work on one ticket.
    #[error(
        "Run {run} works on {stem}, or may in a moment: wait for its end, or give --force, which locks {stem} as a question and cancels it"
    )]
    Alive {
        /// The ticket.
        stem: Stem,
        /// Its Run.
        run: String,
    },
    /// Another file has the name that it needs.
    #[error("{stem} cannot go back: {}", reap::beside(file))]
    Beside {
        /// The ticket.
        stem: Stem,
        /// That file.
        file: String,
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

/// Takes a ticket away. One whose Run is alive, or may be in a moment, only with `force`: then it is locked first, so
/// that no worker takes it while the Run still ends. With `force` a cancel that did not come through is sent again.
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
    let ticket = absent::find(&queue, stem)?.clone();
    let stem = ticket.stem.clone();
    match ticket.lane {
        Lane::InProgress => {}
        Lane::Waiting if ticket.session_id.is_some() => {
            let name = stem.clone();
            let cleared = off(folder, move |folder| back::clear_accident(folder, &name)).await?;
            return if cleared { Ok(Unassigned::Cleared) } else { Err(UnassignError::Moved(stem)) };
        }
        Lane::Waiting if force => return cancel_again(runs, &queue, &ticket).await,
        Lane::Waiting => return Err(UnassignError::NotAssigned(stem, "open")),
        Lane::Done => return Err(UnassignError::NotAssigned(stem, "done")),
    }
    let session = ticket.session_id.clone();
    let Some(run) = session.as_deref().and_then(|session| RunId::new(session).ok()) else {
        return match give_back(folder, &ticket, Return::Plain, now).await? {
            Deed::Reclaimed { .. } => Ok(Unassigned::Returned),
            Deed::Beside { file } => Err(UnassignError::Beside { stem, file }),
            // Its question has no answer yet: that is its lock.
            Deed::Asked { .. } => Ok(Unassigned::Returned),
            Deed::Finished | Deed::Lost => Err(UnassignError::Moved(stem)),
        };
    };
    let state = runs.get(&run).await?;
    let may_live = match state {
        RunNow::Succeeded => {
            return match reap::finish(folder, &ticket, run.to_string()).await? {
                Deed::Finished => Ok(Unassigned::Finished),
                Deed::Reclaimed { .. } | Deed::Asked { .. } | Deed::Beside { .. } | Deed::Lost => {
                    Err(UnassignError::Moved(stem))
                }
            };
        }
        RunNow::Open { .. } => true,
        // Its worker may be about to submit it.
        RunNow::Unknown => reap::is_younger(&ticket, now, reap::grace()),
        RunNow::Failed(_) | RunNow::Stopped(_) => false,
    };
    if may_live && !force {
        return Err(UnassignError::Alive { stem, run: run.to_string() });
    }
    let how = match may_live {
        true => Return::Ask { text: question::taken_from(&run, &stem), origin: None },
        false => Return::Plain,
    };
    match give_back(folder, &ticket, how, now).await? {
        Deed::Asked { awaiting, .. } => {
            let has_succeeded = match cancel(runs, &run).await {
                // Not known, and so nothing to be cancelled. Its worker finds its ticket gone when it has submitted it.
                Err(Trouble::Refused(_)) if state == RunNow::Unknown => false,
                cancelled => cancelled?,
            };
            Ok(Unassigned::Locked { awaiting, has_succeeded })
        }
        Deed::Reclaimed { .. } => Ok(Unassigned::Returned),
        Deed::Beside { file } => Err(UnassignError::Beside { stem, file }),
        Deed::Finished | Deed::Lost => Err(UnassignError::Moved(stem)),
    }
}

async fn give_back(folder: &Arc<Folder>, ticket: &Ticket, how: Return, now: Timestamp) -> Result<Deed, Trouble> {
    let why = "a person has taken it away".to_owned();
    reap::back(folder, ticket, ticket.session_id.clone(), how, why, now).await
}

/// Whether the Run was faster, and has ended well: a cancel of what has ended changes nothing. All is done by then, whatever
/// is answered.
async fn cancel(runs: &impl Runs, run: &RunId) -> Result<bool, Trouble> {
    runs.cancel(run).await?;
    Ok(runs.get(run).await.is_ok_and(|it| it == RunNow::Succeeded))
}

/// A ticket that is locked already, and whose Run may not have heard of it: the mediator did not answer then.
async fn cancel_again(runs: &impl Runs, queue: &Queue, ticket: &Ticket) -> Result<Unassigned, UnassignError> {
    let stem = ticket.stem.clone();
    let asks = ticket.awaiting.clone().filter(|awaiting| queue.unmet(ticket).contains(awaiting));
    let Some((awaiting, run)) = asks.zip(question::taken_from_of_last(ticket.text.body())) else {
        return Err(UnassignError::NotAssigned(stem, "open"));
    };
    match runs.get(&run).await? {
        RunNow::Open { .. } => {
            let has_succeeded = cancel(runs, &run).await?;
            Ok(Unassigned::Locked { awaiting, has_succeeded })
        }
        RunNow::Unknown | RunNow::Succeeded | RunNow::Failed(_) | RunNow::Stopped(_) => {
            Err(UnassignError::NotAssigned(stem, "open"))
        }
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
    fn a_run_that_is_taken_away_by_force_is_not_said_to_have_ended() {
        let table = Table::of(&[("r1", RunNow::Open { asking: Vec::new() })]);
        let fake = Fake::new(&[("a.wip.md", "---\ntitle: t\nsession_id: r1\n---\n")]);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let stem = Stem::new("a").unwrap();
        let done = runtime.block_on(unassign(&fake.folder, &table, &stem, true, Timestamp::default()));
        assert!(matches!(done, Ok(Unassigned::Locked { .. })), "{done:?}");
        let text = fake.text("a.md");
        assert!(text.contains("Run r1") && !text.contains("cancelled") && !text.contains("asked to end"), "{text}");
        assert_eq!(table.count("cancel r1"), 1);
    }

    fn take(fake: &Fake, table: &Table, force: bool, now: Timestamp) -> Result<Unassigned, UnassignError> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(unassign(&fake.folder, table, &Stem::new("a").unwrap(), force, now))
    }

    /// Between the name in the file and the mediator's commit it may be there in a moment.
    #[test]
    fn r35_a_run_that_is_not_known_yet_may_be_alive() {
        let now = crate::clock::now();
        let held = format!("---\ntitle: t\nsession_id: r1\nassigned_at: {now}\n---\n");
        let (fake, table) = (Fake::new(&[("a.wip.md", &held)]), Table::default());
        let done = take(&fake, &table, false, now);
        assert!(matches!(done, Err(UnassignError::Alive { .. })), "{done:?}");
        assert_eq!(fake.text("a.wip.md"), held);
        let late = now + shared::Duration::from_secs(181);
        let done = take(&Fake::new(&[("a.wip.md", &held)]), &table, false, late);
        assert!(matches!(done, Ok(Unassigned::Returned)), "{done:?}");
        // It is not known, so that there is nothing to cancel: no reason to fail.
        let refusing = Table { refuses: Some("cancel"), ..Table::default() };
        for table in [&table, &refusing] {
            let fake = Fake::new(&[("a.wip.md", &held)]);
            let done = take(&fake, table, true, now);
            assert!(matches!(done, Ok(Unassigned::Locked { .. })), "{done:?}");
            assert!(fake.text("a.md").contains("\nawaiting: a-answer-1\n"), "locked, {:?}", fake.files());
        }
        assert_eq!(table.count("cancel r1"), 1);
    }

    #[test]
    fn what_could_not_be_cancelled_is_cancelled_by_the_same_command_again() {
        let fake = Fake::new(&[("a.wip.md", "---\ntitle: t\nsession_id: r1\n---\n")]);
        let open = [("r1", RunNow::Open { asking: Vec::new() })];
        let refusing = Table { refuses: Some("cancel"), ..Table::of(&open) };
        let done = take(&fake, &refusing, true, Timestamp::default());
        assert!(matches!(done, Err(UnassignError::Trouble(_))), "{done:?}");
        let (before, table) = (fake.files(), Table::of(&open));
        let done = take(&fake, &table, false, Timestamp::default());
        assert!(matches!(done, Err(UnassignError::NotAssigned(..))), "only by force: {done:?}");
        let done = take(&fake, &table, true, Timestamp::default());
        assert!(matches!(done, Ok(Unassigned::Locked { .. })), "{done:?}");
        assert_eq!((table.count("cancel r1"), fake.files()), (1, before));
        let done = take(&fake, &Table::of(&[("r1", RunNow::Failed(String::new()))]), true, Timestamp::default());
        assert!(matches!(done, Err(UnassignError::NotAssigned(..))), "it has ended: {done:?}");
        // A step that asks is nobody's that was taken away.
        let asks =
            "---\ntitle: t\ndeps: [q]\nawaiting: q\n---\n## 질문 1\n<!-- asked by run r1 step ok attempt 1 -->\n?\n";
        let table = Table::of(&open);
        let done = take(&Fake::new(&[("a.md", asks)]), &table, true, Timestamp::default());
        assert!(matches!(done, Err(UnassignError::NotAssigned(..))) && table.count("cancel") == 0, "{done:?}");
    }

    /// It ends between the look and the lock: a person would have it done twice, and hear nothing of the first time.
    #[test]
    fn a_run_that_succeeds_before_it_can_be_cancelled_is_told_of() {
        let fake = Fake::new(&[("a.wip.md", "---\ntitle: t\nsession_id: r1\n---\n")]);
        let ends = || Table { ends_at: Some("cancel"), ..Table::of(&[("r1", RunNow::Open { asking: Vec::new() })]) };
        let done = take(&fake, &ends(), true, Timestamp::default());
        assert!(matches!(done, Ok(Unassigned::Locked { has_succeeded: true, .. })), "{done:?}");
        let again = take(&fake, &ends(), true, Timestamp::default());
        assert!(matches!(again, Ok(Unassigned::Locked { has_succeeded: true, .. })), "{again:?}");
    }

    /// R37: in the moment of the cancel nobody can take it any more.
    #[test]
    fn r37_what_is_taken_away_by_force_is_locked_before_its_run_is_cancelled() {
        let fake = Fake::new(&[("a.wip.md", "---\ntitle: t\nsession_id: r1\n---\n")]);
        let (folder, seen) = (fake.folder.clone(), std::sync::Arc::new(std::sync::Mutex::new(None)));
        let sees = seen.clone();
        let looks = move || {
            let queue = folder.read().unwrap();
            let holds: Vec<_> = shared::ticket::line(&queue).into_iter().map(|it| it.hold.is_some()).collect();
            *sees.lock().unwrap() = Some((holds, shared::ticket::order::candidates(&queue).count()));
        };
        let open = [("r1", RunNow::Open { asking: Vec::new() })];
        let table = Table { meanwhile: Some(("cancel", Box::new(looks))), ..Table::of(&open) };
        take(&fake, &table, true, Timestamp::default()).unwrap();
        assert_eq!(*seen.lock().unwrap(), Some((vec![true], 0)));
    }
}
