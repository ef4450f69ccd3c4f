//! What the mediator writes down about a Run: `manifest.json` and one file per step.
//!
//! Nothing here may hold a nonce or a principal, except who cancelled and who answered a question (I8): every field is named one by one,
//! nothing is taken over wholesale but the contract.

use std::{collections::BTreeMap, fs, path::Path};

use serde::{Deserialize, Serialize};
use shared::{
    NodeId, RunId, Seq, StepName, Timestamp, WorkId,
    contract::Contract,
    domain::{Assigned, Attempt, Cause, Reject, Run, Step, StepState, Verdict},
};

use super::{Answer, Artifact, Digest, RecordError, layout::MANIFEST};

/// Rises when a reader of an older format could misread a Record.
pub(super) const FORMAT: u32 = 1;

/// A file of the Record.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) struct FileEntry {
    /// Below the Record's folder.
    pub(super) path: String,
    pub(super) sha256: Digest,
    pub(super) size: u64,
}

/// What is read back from a manifest.
#[derive(Debug, Deserialize)]
pub(super) struct Manifest {
    pub(super) format: u32,
    pub(super) ended_at: Timestamp,
    pub(super) truncated: bool,
    pub(super) files: Vec<FileEntry>,
}

impl Manifest {
    /// Of a Record in its folder.
    pub(super) fn read(record: &Path) -> Result<Self, RecordError> {
        let path = record.join(MANIFEST);
        let bytes = fs::read(&path).map_err(RecordError::io("read", &path))?;
        let damaged = |why| RecordError::Damaged { path: path.clone(), why };
        let manifest: Self = serde_json::from_slice(&bytes).map_err(|error| damaged(format!("({error})")))?;
        if manifest.format != FORMAT {
            let why = format!("has format {}; this mediator reads format {FORMAT}", manifest.format);
            return Err(damaged(why));
        }
        Ok(manifest)
    }
}

/// `manifest.json`
#[derive(Serialize)]
pub(super) struct ManifestView<'a> {
    format: u32,
    run_id: &'a RunId,
    #[serde(skip_serializing_if = "Option::is_none")]
    work_id: Option<&'a WorkId>,
    state: &'static str,
    verdict: VerdictView<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reject: Option<&'a Reject>,
    assigned: &'a [Assigned],
    created_at: Timestamp,
    ended_at: Timestamp,
    contract_hash: &'a str,
    contract: &'a Contract,
    /// Something that belongs to the Run is not in here.
    truncated: bool,
    /// Files that a step left and the mediator lost.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    missing: &'a [Digest],
    files: &'a [FileEntry],
}

#[derive(Serialize)]
struct VerdictView<'a> {
    cause: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    step: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    node: Option<&'a NodeId>,
    /// Who cancelled.
    #[serde(skip_serializing_if = "Option::is_none")]
    by: Option<&'a str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    findings: Vec<FindingView<'a>>,
}

#[derive(Serialize)]
struct FindingView<'a> {
    condition: &'a str,
    holds: &'static str,
}

impl<'a> ManifestView<'a> {
    /// None while the Run has not ended.
    pub(super) fn new(run: &'a Run, truncated: bool, missing: &'a [Digest], files: &'a [FileEntry]) -> Option<Self> {
        Some(Self {
            format: FORMAT,
            run_id: &run.id,
            work_id: run.work_id.as_ref(),
            state: run.state.as_str(),
            verdict: VerdictView::new(run.state.verdict()?),
            reject: run.reject.as_ref(),
            assigned: &run.assigned,
            created_at: run.created_at,
            ended_at: run.ended_at?,
            contract_hash: &run.contract_hash,
            contract: &run.contract,
            truncated,
            missing,
            files,
        })
    }
}

impl<'a> VerdictView<'a> {
    fn new(verdict: &'a Verdict) -> Self {
        let (mut step, mut node, mut by) = (None, None, None);
        match &verdict.cause {
            Cause::Judged | Cause::Rejected => {}
            Cause::StepFailed(name) => step = Some(name.as_str()),
            Cause::Cancelled(who) => by = Some(who.as_str()),
            Cause::Drain(on) | Cause::LeaseExpired(on) | Cause::NodeRestarted(on) => node = Some(on),
        }
        let findings = verdict
            .findings
            .iter()
            .map(|finding| FindingView { condition: &finding.condition, holds: finding.holds.as_str() })
            .collect();
        Self { cause: verdict.cause.as_str(), step, node, by, findings }
    }
}

/// `steps/NN-NAME.json`
#[derive(Serialize)]
pub(super) struct StepView<'a> {
    seq: Seq,
    id: &'a StepName,
    kind: &'static str,
    state: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    uses: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    node: Option<&'a NodeId>,
    needs: Vec<&'a StepName>,
    chosen: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    picked: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    exit_code: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    started_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ended_at: Option<Timestamp>,
    attempts: Vec<AttemptView<'a>>,
    /// What people said, in the order in which they were asked. A question is no attempt: nothing is executed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    answers: Vec<AnswerView<'a>>,
}

#[derive(Serialize)]
struct AnswerView<'a> {
    attempt: u32,
    answered_by: &'a str,
    answered_at: Timestamp,
    artifacts: BTreeMap<&'a str, &'a Digest>,
}

#[derive(Serialize)]
struct AttemptView<'a> {
    attempt: u32,
    node: &'a NodeId,
    started_at: Timestamp,
    /// Known of the last attempt only.
    #[serde(skip_serializing_if = "Option::is_none")]
    ended_at: Option<Timestamp>,
    /// The state word that its report came to; absent when it never was reported.
    #[serde(skip_serializing_if = "Option::is_none")]
    answer: Option<&'a str>,
    /// Its log is not whole.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    log_truncated: bool,
    artifacts: BTreeMap<&'a str, &'a Digest>,
}

impl<'a> StepView<'a> {
    pub(super) fn new(
        run: &'a Run,
        step: &'a Step,
        artifacts: &'a [Artifact],
        answers: &'a [Answer],
        cut: impl Fn(Seq, u32) -> bool,
    ) -> Self {
        let (mut exit_code, mut reason, mut message) = (None, None, None);
        match &step.state {
            StepState::Done { exit_code: code, .. } => exit_code = *code,
            StepState::Failed { reason: why, message: text, .. } => {
                (reason, message) = (Some(why.as_str()), Some(text.as_str()));
            }
            StepState::Pending
            | StepState::Waiting
            | StepState::Claimed { .. }
            | StepState::Asked { .. }
            | StepState::Skipped { .. } => {}
        }
        let files = |attempt| {
            artifacts
                .iter()
                .filter(move |artifact| (artifact.seq, artifact.attempt) == (step.seq, attempt))
                .map(|artifact| (artifact.name.as_str(), &artifact.sha256))
                .collect()
        };
        let answer = |it: &'a Answer| AnswerView {
            attempt: it.attempt,
            answered_by: &it.by,
            answered_at: it.at,
            artifacts: files(it.attempt),
        };
        let attempt = |it: &'a Attempt| AttemptView {
            attempt: it.number,
            node: &it.node,
            started_at: it.claimed_at,
            ended_at: step.ended_at().filter(|_| it.number == step.attempt),
            answer: it.answer.as_ref().map(|answer| answer.state.as_str()),
            log_truncated: cut(step.seq, it.number),
            artifacts: files(it.number),
        };
        Self {
            seq: step.seq,
            id: &step.name,
            kind: step.kind.as_str(),
            state: step.state.as_str(),
            uses: run.spec(step.seq).and_then(|spec| spec.uses.as_ref()).map(ToString::to_string),
            node: step.attempts.last().map(|it| &it.node).or_else(|| run.node_of_step(step.seq)),
            needs: step.needs.iter().filter_map(|need| run.step(*need)).map(|need| &need.name).collect(),
            chosen: step.chosen,
            picked: step.picked,
            exit_code,
            reason,
            message,
            started_at: step.started_at,
            ended_at: step.ended_at(),
            attempts: step.attempts.iter().map(attempt).collect(),
            answers: answers.iter().filter(|it| it.seq == step.seq).map(answer).collect(),
        }
    }
}
