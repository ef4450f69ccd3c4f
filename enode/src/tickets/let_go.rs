//! A ticket that a person has taken out of its worker's hand by renaming its file: its Run is to stop.

use std::{io, sync::Arc};

use shared::{
    RunId,
    ticket::{Lane, Queue, Stem},
};

use super::{
    Folder,
    file_work::off,
    follow::Pauses,
    queue_lock::QueueLock,
    runs::{RunNow, Runs, Trouble},
    worker::Worker,
};

impl<R: Runs> Worker<R> {
    /// The ticket is no longer ours. Where a person has moved its name while the Run works, that is to stop.
    pub(super) async fn let_go(&self, stem: &Stem, run: &RunId) -> Result<(), Trouble> {
        let mut pauses = Pauses::new();
        loop {
            match stop_renamed(&self.folder, &self.runs, stem, run, false).await {
                Ok(None) => return Ok(()),
                Ok(Some(file)) => {
                    tracing::warn!(ticket = %stem, %run, file, "somebody has renamed it by hand: its Run is cancelled");
                    return Ok(());
                }
                Err(Trouble::Silent { why, .. }) => {
                    tracing::warn!(ticket = %stem, %run, "it is no longer ours; what becomes of its Run is asked again: {why}");
                    pauses.pass().await;
                }
                Err(trouble) => return Err(trouble),
            }
        }
    }
}

/// Cancels a Run that works for a ticket which a person has renamed, and gives back the ticket's file. `None`: nobody has
/// renamed it, or the Run is over, or it is not ours to cancel, which the log says.
pub(super) async fn stop_renamed(
    folder: &Arc<Folder>,
    runs: &impl Runs,
    stem: &Stem,
    run: &RunId,
    asks: bool,
) -> Result<Option<String>, Trouble> {
    let (name, its) = (stem.clone(), run.clone());
    let renamed = off(folder, move |folder| -> io::Result<_> {
        // Who is in the middle of a move holds it.
        let _lock = QueueLock::acquire(folder)?;
        Ok(renamed(&folder.read()?, &name, &its, asks))
    });
    let Some(file) = renamed.await? else { return Ok(None) };
    let cancelled = match runs.get(run).await {
        Ok(RunNow::Open { .. }) => runs.cancel(run).await,
        // It is over, and somebody else has ended its ticket; or nobody can cancel it.
        Ok(RunNow::Unknown | RunNow::Succeeded | RunNow::Failed(_) | RunNow::Stopped(_)) => return Ok(None),
        Err(trouble) => Err(trouble),
    };
    match cancelled {
        Ok(()) => Ok(Some(file)),
        // Another one's Run, perhaps. Others are looked after all the same.
        Err(Trouble::Refused(why) | Trouble::Denied(why)) => {
            tracing::warn!(ticket = %stem, %run, file, "somebody has renamed it; its Run is not cancelled: {why}");
            Ok(None)
        }
        Err(trouble) => Err(trouble),
    }
}

/// The file of a ticket that a person has taken out of this Run's hand by its name, if that is what has happened, in a queue
/// as it was read, in the middle of a move perhaps. Programs end a ticket only when its Run has succeeded, and open none that
/// says `session_id`; one that asks says none. A ticket that is not there at all may be in a folder that is out of reach,
/// and of two files of one stem nobody knows which one is meant.
pub(super) fn renamed(queue: &Queue, stem: &Stem, run: &RunId, asks: bool) -> Option<String> {
    let ticket = queue.find(stem).filter(|it| it.stem == *stem)?;
    let names_it = ticket.session_id.as_deref() == Some(run.as_str());
    let is_renamed = match ticket.lane {
        Lane::Done => names_it || asks,
        Lane::Waiting => names_it,
        Lane::InProgress => false,
    };
    let is_alone = queue.twins().iter().all(|twin| twin.stem != *stem) && queue.find_unread(stem).is_none();
    (is_renamed && is_alone).then(|| ticket.file.clone())
}
