//! Sealing: a Run that has ended becomes a Record.
//!
//! The Run's folder is renamed into a sibling of the place where the Record will be; from then on it takes
//! nothing more. There it gets its final names, the step files and the manifest, is made read-only and
//! synced, and is published by a second rename. A crash between any two stages leaves either the open Run,
//! or the sibling, or the Record; sealing again goes on from whichever it finds.

use std::{collections::BTreeMap, fs::File, sync::Arc};

use shared::{RunId, Seq, Timestamp, domain::Run};

use super::{
    Digest, Inner, RecordError, RecordStore,
    draft::{Draft, Sync},
    gate::{Gate, lock},
    manifest::Manifest,
    sync::{sync_entries, sync_file_system},
};
use crate::fail;

/// A file that a step left.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Artifact {
    /// Of which step.
    pub seq: Seq,
    /// Of which attempt.
    pub attempt: u32,
    /// Its name below `$OUT`; data only, never a path here.
    pub name: String,
    /// Its content.
    pub sha256: Digest,
    /// Its size in bytes.
    pub size: u64,
}

/// What a Record is made of, beside the files that are here already.
#[derive(Debug, Clone)]
pub struct SealInput {
    /// The Run, which has ended.
    pub run: Run,
    /// Every file that its attempts left.
    pub artifacts: Vec<Artifact>,
    /// Who answered its questions.
    pub answers: Vec<Answer>,
    /// By step and attempt, how many bytes of output there were, as far as the attempt's report said.
    pub log_bytes: BTreeMap<(Seq, u32), u64>,
}

/// An answer to a question of the Run; the artifacts of the same step and attempt say what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// Of which step.
    pub seq: Seq,
    /// Of which asking.
    pub attempt: u32,
    /// Who answered.
    pub by: String,
    /// When.
    pub at: Timestamp,
}

/// A Record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sealed {
    /// Some log or file is not whole.
    pub truncated: bool,
}

/// What a crash may come between; tests stop after each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    Claimed,
    Logs,
    Blobs,
    Steps,
    Manifest,
    ReadOnly,
    Synced,
    Published,
}

impl Stage {
    const fn word(self) -> &'static str {
        match self {
            Self::Claimed => "claimed",
            Self::Logs => "logs",
            Self::Blobs => "blobs",
            Self::Steps => "steps",
            Self::Manifest => "manifest",
            Self::ReadOnly => "read_only",
            Self::Synced => "synced",
            Self::Published => "published",
        }
    }
}

/// Called after each stage; an error stops there.
pub(super) type After<'a> = &'a mut dyn FnMut(Stage) -> Result<(), RecordError>;

/// Up to this many files are synced one by one. Beyond, one sync of the whole file system is cheaper, even
/// though it waits for strangers' data, too.
const SYNC_EACH: usize = 16;

/// While it is held nobody else seals: not another mediator, and not this one while a backup is taken.
#[derive(Debug, Clone)]
pub struct Turn(#[expect(dead_code, reason = "held, not read")] Arc<File>);

impl RecordStore {
    /// The turn to seal. None: somebody else has it.
    ///
    /// # Errors
    /// [`RecordError::Io`]
    pub async fn turn_to_seal(&self) -> Result<Option<Turn>, RecordError> {
        self.blocking(|inner| Ok(inner.layout.seal_lock()?.map(|lock| Turn(Arc::new(lock))))).await
    }

    /// Seals a Run. Sealing one that is sealed changes nothing.
    ///
    /// # Errors
    /// [`RecordError::NotEnded`], [`RecordError::NoSpace`], [`RecordError::Io`]; sealing again goes on.
    pub async fn seal(&self, input: SealInput) -> Result<Sealed, RecordError> {
        let run = input.run.id.clone();
        let Some(turn) = self.turn_to_seal().await? else { return Err(RecordError::NoTurnToSeal(run)) };
        let mut sealed = self.seal_all(&turn, vec![input]).await?;
        sealed.remove(&run).unwrap_or(Err(RecordError::NotSealed(run)))
    }

    /// Seals several Runs at once, which costs a few disk syncs in all. One that fails does not touch the
    /// others.
    ///
    /// # Errors
    /// [`RecordError::Interrupted`]; everything else is said of each Run.
    pub async fn seal_all(
        &self,
        turn: &Turn,
        inputs: Vec<SealInput>,
    ) -> Result<BTreeMap<RunId, Result<Sealed, RecordError>>, RecordError> {
        let turn = turn.clone();
        self.blocking(move |inner| {
            // Until the work is done, even where nobody waits for it any more.
            let _turn = turn;
            Ok(seal_group(inner, &inputs, &mut |stage| {
                fail::at("seal", stage.word());
                Ok(())
            }))
        })
        .await
    }
}

/// In the caller's turn: prepares every Record, makes all of them last, publishes all of them, makes that last.
pub(super) fn seal_group(
    inner: &Inner,
    inputs: &[SealInput],
    after: After<'_>,
) -> BTreeMap<RunId, Result<Sealed, RecordError>> {
    // Sorted and each once: two groups cannot wait for each other.
    let inputs: BTreeMap<&RunId, &SealInput> = inputs.iter().map(|input| (&input.run.id, input)).collect();
    let gates: Vec<Arc<Gate>> = inputs.keys().map(|run| inner.gate(run)).collect();
    let _sealing: Vec<_> = gates.iter().map(|gate| lock(&gate.sealing)).collect();
    let files = inputs.values().map(|input| input.run.steps.len() + 1 + input.log_bytes.len()).sum::<usize>();
    let sync = if files <= SYNC_EACH { Sync::Each } else { Sync::Together };

    let mut answers = BTreeMap::new();
    let mut ready = Vec::new();
    for ((run, input), gate) in inputs.into_iter().zip(&gates) {
        match prepare(inner, gate, input, sync, after) {
            Ok(Prepared::Draft(draft)) => ready.push(draft),
            Ok(Prepared::Sealed(sealed)) => _ = answers.insert(run.clone(), Ok(sealed)),
            Err(error) => _ = answers.insert(run.clone(), Err(error)),
        }
    }
    let records = &inner.layout.records;
    let synced = match sync {
        Sync::Together if !ready.is_empty() => sync_file_system(records),
        Sync::Together | Sync::Each => Ok(()),
    };
    for draft in ready {
        let published = synced.map_err(|error| RecordError::io("sync", records)(error.into()));
        let published = published.and_then(|()| publish(&draft, after));
        answers.insert(draft.run.id.clone(), published);
    }
    // Those found sealed, too: the mediator may have ended between their publishing and this.
    if let Err(error) = sync_entries(records) {
        for answer in answers.values_mut().filter(|answer| answer.is_ok()) {
            *answer = Err(RecordError::io("sync", records)(error.into()));
        }
    }
    for (run, _) in answers.iter().filter(|(_, answer)| answer.is_ok()) {
        inner.gates.forget(run);
    }
    answers
}

enum Prepared<'a> {
    Sealed(Sealed),
    Draft(Draft<'a>),
}

fn prepare<'a>(
    inner: &Inner,
    gate: &Gate,
    input: &'a SealInput,
    sync: Sync,
    after: After<'_>,
) -> Result<Prepared<'a>, RecordError> {
    let run = &input.run;
    let place = inner.layout.sealed(&run.id);
    if place.exists() {
        return Ok(Prepared::Sealed(Sealed { truncated: Manifest::read(&place)?.truncated }));
    }
    if !run.state.is_terminal() || run.ended_at.is_none() {
        return Err(RecordError::NotEnded(run.id.clone()));
    }
    gate.close();
    inner.logs.release(&run.id);
    let mut draft = Draft::new(run, &inner.layout, sync, inner.shared);
    let has_files = draft.claim(&inner.layout.open(&run.id))?;
    after(Stage::Claimed)?;
    draft.finish_logs(has_files, &input.log_bytes)?;
    after(Stage::Logs)?;
    draft.finish_blobs(has_files, &input.artifacts)?;
    after(Stage::Blobs)?;
    draft.write_steps(&input.artifacts, &input.answers)?;
    after(Stage::Steps)?;
    draft.write_manifest()?;
    after(Stage::Manifest)?;
    draft.make_read_only(has_files)?;
    after(Stage::ReadOnly)?;
    Ok(Prepared::Draft(draft))
}

fn publish(draft: &Draft<'_>, after: After<'_>) -> Result<Sealed, RecordError> {
    after(Stage::Synced)?;
    draft.publish()?;
    after(Stage::Published)?;
    Ok(Sealed { truncated: draft.truncated() })
}
