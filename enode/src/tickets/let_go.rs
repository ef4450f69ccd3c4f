//! A ticket that its worker no longer has. Where a person has taken it away by renaming its file, its Run is to stop.

use std::io;

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
use crate::clock;

impl<R: Runs> Worker<R> {
    /// The ticket is no longer ours. Where a person has moved its name while the Run works, that is to stop.
    pub(super) async fn let_go(&self, stem: &Stem, run: &RunId) -> Result<(), Trouble> {
        let mut pauses = Pauses::new();
        loop {
            let (name, its) = (stem.clone(), run.clone());
            let Some(file) = off(&self.folder, move |folder| renamed(folder, &name, &its)).await? else {
                return Ok(());
            };
            let cancelled = match self.runs.get(run).await {
                Ok(RunNow::Open { .. }) => self.runs.cancel(run).await,
                // It is over, and somebody else has ended its ticket; or nobody can cancel it.
                Ok(RunNow::Unknown | RunNow::Succeeded | RunNow::Failed(_) | RunNow::Stopped(_)) => return Ok(()),
                Err(trouble) => Err(trouble),
            };
            match cancelled {
                Ok(()) => {
                    tracing::warn!(ticket = %stem, %run, file, "somebody has renamed it by hand: its Run is cancelled");
                    return Ok(());
                }
                Err(Trouble::Silent { why, .. }) => {
                    tracing::warn!(ticket = %stem, %run, file, "somebody has renamed it; its Run cannot be cancelled yet: {why}");
                    tokio::time::sleep(pauses.next().std().mul_f64(1.0 + clock::random_fraction())).await;
                }
                Err(trouble) => return Err(trouble),
            }
        }
    }
}

/// The file of a ticket that a person has taken out of its worker's hand by its name, if that is what has happened: programs
/// end a ticket only when its Run has succeeded, and open none that says `session_id`. One that is not there at all may be in
/// a folder that is out of reach, and of two files of one stem nobody knows which one is meant.
pub(super) fn renamed(folder: &Folder, stem: &Stem, run: &RunId) -> io::Result<Option<String>> {
    // Who is in the middle of a move holds it.
    let _lock = QueueLock::acquire(folder)?;
    Ok(renamed_in(&folder.read()?, stem, run))
}

/// The same in a queue as it was read, in the middle of a move perhaps.
pub(super) fn renamed_in(queue: &Queue, stem: &Stem, run: &RunId) -> Option<String> {
    let ticket = queue.find(stem).filter(|it| it.stem == *stem)?;
    let is_renamed = match ticket.lane {
        Lane::Done => true,
        Lane::Waiting => ticket.session_id.as_deref() == Some(run.as_str()),
        Lane::InProgress => false,
    };
    let is_alone = queue.twins().iter().all(|twin| twin.stem != *stem);
    (is_renamed && is_alone).then(|| ticket.file.clone())
}
