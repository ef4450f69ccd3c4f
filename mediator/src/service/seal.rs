//! The sealer: writes the Record of every Run that has ended.
//!
//! The store is the outbox: a Run that has ended and is not marked sealed is sealed, whoever was interrupted
//! where. So a crash between commit and seal is repaired at the next start.

use std::{collections::BTreeMap, sync::Arc};

use shared::RunId;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::Services;
use crate::{
    error::Error,
    fail,
    record::{Answer, Artifact, RecordError, SealInput, Turn},
    store::{AnswerRow, ArtifactRow, WholeRun},
};

/// Records sealed together.
const GROUP: usize = 64;
/// How long the sealer waits for the turn of another mediator, or of a backup, to end.
const AFTER_OTHERS: std::time::Duration = std::time::Duration::from_millis(50);
/// Each mediator seals what it closed; this often it looks for what one that is gone has left.
const FOR_OTHERS: std::time::Duration = std::time::Duration::from_secs(5);
/// How long the sealer rests after a failure, before it looks again.
const AFTER_FAILURE: std::time::Duration = std::time::Duration::from_secs(5);

/// Seals until told to stop.
pub async fn run(services: Services, wake: Arc<Notify>, stop: CancellationToken) {
    let mut troubles = Troubles::default();
    loop {
        let went = match services.seal_all(&mut troubles).await {
            Ok(went) => went,
            Err(error) => {
                tracing::warn!("cannot look for runs to seal");
                error.log();
                Went::Badly
            }
        };
        let again = match went {
            Went::Badly => Some(AFTER_FAILURE),
            Went::Elsewhere => Some(AFTER_OTHERS),
            Went::Well => services.records.is_shared().then_some(FOR_OTHERS),
        };
        tokio::select! {
            () = stop.cancelled() => return,
            () = wake.notified() => {}
            () = tokio::time::sleep(again.unwrap_or_default()), if again.is_some() => {}
        }
    }
}

/// Runs that cannot be sealed, and why: each is tried again and again, and told only when that changes.
#[derive(Debug, Default)]
struct Troubles(BTreeMap<RunId, String>);

impl Troubles {
    fn tell(&mut self, id: &RunId, error: &Error) -> Went {
        let why = error.to_string();
        if self.0.get(id) != Some(&why) {
            tracing::error!(run_id = %id, "cannot seal a record; it is tried again and again");
            error.log();
            self.0.insert(id.clone(), why);
        }
        Went::Badly
    }
}

/// How a round of sealing went; the worst counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Went {
    Well,
    /// Another mediator is sealing, or a backup is taken.
    Elsewhere,
    Badly,
}

impl Services {
    /// Seals everything there is to seal, a group at a time: a group costs hardly more syncs than one Record.
    /// A stop waits for the present group only; the next start seals the others. Returns how it
    /// went.
    async fn seal_all(&self, troubles: &mut Troubles) -> Result<Went, Error> {
        // Before the store is asked, and until it has been told: a Run that somebody else seals meanwhile could be
        // removed, too, and would be sealed here once more, without its files.
        let Some(turn) = self.records.turn_to_seal().await? else { return Ok(Went::Elsewhere) };
        let mut went = Went::Well;
        let unsealed = self.store.unsealed().await?;
        for group in unsealed.chunks(GROUP) {
            if self.stop.is_cancelled() {
                break;
            }
            went = went.max(self.seal_group(&turn, group, troubles).await?);
        }
        if went == Went::Well {
            troubles.0.clear();
        }
        Ok(went)
    }

    async fn seal_group(&self, turn: &Turn, group: &[RunId], troubles: &mut Troubles) -> Result<Went, Error> {
        let (mut inputs, mut went) = (Vec::new(), Went::Well);
        let group = group.iter().cloned().collect();
        let runs = self.store.read().await?.whole_runs(&group).await?;
        for (id, run) in runs {
            match run.map_err(Error::from).and_then(gather) {
                Ok(input) => inputs.push(input),
                Err(error) => went = went.max(troubles.tell(&id, &error)),
            }
        }
        let (mut whole, mut truncated) = (Vec::new(), Vec::new());
        for (id, sealed) in self.records.seal_all(turn, inputs).await? {
            match sealed {
                Ok(sealed) if sealed.truncated => truncated.push(id),
                Ok(_) => whole.push(id),
                Err(error) => went = went.max(troubles.tell(&id, &Error::from(error))),
            }
        }
        for (runs, truncated) in [(whole, false), (truncated, true)] {
            if !runs.is_empty() {
                fail::commit(fail::Side::Before, "seal");
                self.store.mark_sealed(&runs, truncated).await?;
                fail::commit(fail::Side::After, "seal");
            }
        }
        Ok(went)
    }
}

/// What a Run's Record is made of.
fn gather(whole: WholeRun) -> Result<SealInput, Error> {
    let WholeRun { run, artifacts, answers } = whole;
    let artifacts = artifacts.into_iter().map(artifact).collect::<Result<_, _>>()?;
    let answered = run.steps.iter().flat_map(|step| {
        step.attempts.iter().filter_map(|it| Some(((step.seq, it.number), it.answer.as_ref()?.log_bytes)))
    });
    let log_bytes = answered.collect();
    let answer = |AnswerRow { seq, attempt, by, at, .. }| Answer { seq, attempt, by, at };
    let answers = answers.into_iter().map(answer).collect();
    Ok(SealInput { run, artifacts, answers, log_bytes })
}

fn artifact(row: ArtifactRow) -> Result<Artifact, RecordError> {
    let ArtifactRow { seq, attempt, name, sha256, size } = row;
    Ok(Artifact { seq, attempt, name, sha256: sha256.parse()?, size })
}
