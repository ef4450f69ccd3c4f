//! A worker looks after the tickets of others, too: of all workers of a queue one in each moment.

use std::sync::PoisonError;

use shared::Duration;

use super::{
    file_work::off,
    queue_lock,
    reap::{self, Deed, Looked},
    runs::{Runs, Trouble},
    template,
    worker::{Left, Worker, said},
};
use crate::clock;

/// One of all workers of a queue looks after it in this time, so that many cost the mediator no more than one.
const LOOK_INTERVAL: Duration = if cfg!(test) { Duration::from_millis(40) } else { Duration::from_secs(4) };

impl<R: Runs> Worker<R> {
    /// Looks after the queue, unless another worker just has.
    pub(super) async fn take_turn_in_looking(&self) -> Result<(), Trouble> {
        if off(&self.folder, |folder| queue_lock::take_look(folder, LOOK_INTERVAL)).await? {
            return self.look_after().await;
        }
        Ok(())
    }

    /// What other workers have left, and questions that have their answer elsewhere.
    pub(super) async fn look_after(&self) -> Result<(), Trouble> {
        *self.looked.lock().unwrap_or_else(PoisonError::into_inner) = Some(clock::boot_time());
        let mut looked = Looked::default();
        let whole = reap::look_after(&self.folder, &self.runs, &mut looked).await;
        let mut beside = Left::new();
        for it in looked.reaped {
            match &it.deed {
                // As long as nobody merges them it is so in each round.
                Deed::Beside { .. } => beside.entry(said(&it.deed)).or_default().push(it.stem),
                deed => tracing::info!(ticket = %it.stem, "{}", said(deed)),
            }
        }
        for (why, stems) in self.not_warned_of(beside) {
            tracing::warn!("{} cannot go back: {why}", template::listed(&stems));
        }
        for file in looked.questions.settled {
            tracing::info!(file, "its question needs no answer any more");
        }
        for run in looked.questions.cancelled {
            tracing::info!(%run, "cancelled: a person has ended or renamed its ticket");
        }
        let note = if whole.is_ok() { queue_lock::note_look } else { queue_lock::give_look_back };
        off(&self.folder, move |folder| {
            note(folder);
            Ok(())
        })
        .await
        .and(whole)
    }
}
