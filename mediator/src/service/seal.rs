//! The sealer: writes the Record of every Run that has ended.
//!
//! The store is the outbox: a Run that has ended and is not marked sealed is sealed, whoever was interrupted
//! where. So a crash between commit and seal is repaired at the next start.

use std::sync::Arc;

use shared::RunId;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::Services;
use crate::{
    error::Error,
    record::{Artifact, RecordError, SealInput},
    store::ArtifactRow,
};

/// How long the sealer rests after a failure, before it looks again.
const AFTER_FAILURE: std::time::Duration = std::time::Duration::from_secs(5);

/// Seals until told to stop.
pub async fn run(services: Services, wake: Arc<Notify>, stop: CancellationToken) {
    loop {
        let failed = match services.seal_all().await {
            Ok(failed) => failed,
            Err(error) => {
                tracing::warn!("cannot look for runs to seal");
                error.log();
                true
            }
        };
        tokio::select! {
            () = stop.cancelled() => return,
            () = wake.notified() => {}
            () = tokio::time::sleep(AFTER_FAILURE), if failed => {}
        }
    }
}

impl Services {
    /// Seals everything there is to seal. Returns whether some Run could not be.
    async fn seal_all(&self) -> Result<bool, Error> {
        let mut failed = false;
        for run in self.store.unsealed().await? {
            if let Err(error) = self.seal(&run).await {
                failed = true;
                tracing::error!(run_id = %run, "cannot seal a record");
                error.log();
            }
        }
        Ok(failed)
    }

    async fn seal(&self, id: &RunId) -> Result<(), Error> {
        let mut read = self.store.read().await?;
        let Some((run, _)) = read.run(id).await? else { return Ok(()) };
        let rows = read.artifacts(id).await?;
        drop(read);
        let artifacts = rows.into_iter().map(artifact).collect::<Result<_, _>>()?;
        let answered = run.steps.iter().flat_map(|step| {
            step.attempts.iter().filter_map(|it| Some(((step.seq, it.number), it.answer.as_ref()?.log_bytes)))
        });
        let log_bytes = answered.collect();
        let sealed = self.records.seal(SealInput { run, artifacts, log_bytes }).await?;
        self.store.mark_sealed(id, sealed.truncated).await?;
        Ok(())
    }
}

fn artifact(row: ArtifactRow) -> Result<Artifact, RecordError> {
    let ArtifactRow { seq, attempt, name, sha256, size } = row;
    Ok(Artifact { seq, attempt, name, sha256: sha256.parse()?, size })
}
