//! What the tests share: a room in a temporary directory, and a Run that has ended.

mod blob;
mod copy;
mod full_disk;
mod log;
mod many_files;
mod repair;
mod seal;
mod tar;

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    sync::Arc,
};

use serde_json::json;
use shared::{
    InstanceId, NodeId, Nonce, Principal, RunId, Seq, StepName, Timestamp,
    contract::{Contract, StepKind},
    domain::{Answer, Assigned, Attempt, Cause, Finding, Holds, Run, RunState, Step, StepState, Verdict},
};

use super::{Artifact, Digest, Limits, RecordStore, SealInput};

/// What no Record may hold.
pub(super) const NONCE: u128 = 0x5ec2_e75e_c2e7_5ec2_e75e_c2e7_5ec2_e700;
pub(super) const SUBMITTER: &str = "ada-the-submitter";
pub(super) const ENDED_AT: i64 = 1_700_000_000_123;

/// A room for files that goes away with the test.
pub(super) struct Room {
    pub(super) dir: tempfile::TempDir,
    pub(super) store: RecordStore,
    pub(super) run: RunId,
}

impl Room {
    pub(super) fn new() -> Self {
        Self::with(Limits::default())
    }

    pub(super) fn with(limits: Limits) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let store = RecordStore::with_limits(dir.path(), limits).unwrap();
        Self { dir, store, run: RunId::new("build-4711").unwrap() }
    }

    /// As after a restart of the mediator.
    pub(super) fn reopen(&mut self) {
        self.store = RecordStore::with_limits(self.dir.path(), self.store.0.limits).unwrap();
    }

    pub(super) fn record(&self) -> PathBuf {
        self.dir.path().join("records").join(self.run.as_str())
    }

    pub(super) async fn put(&self, bytes: &[u8]) -> Digest {
        put(&self.store, &self.run, bytes).await
    }

    pub(super) async fn log(&self, seq: Seq, attempt: u32) -> Vec<u8> {
        self.store.read_log(&self.run, seq, attempt, 0, usize::MAX).await.unwrap()
    }

    /// Two logs, two files and what belongs to them.
    pub(super) async fn filled(&self) -> SealInput {
        self.store.append_log(&self.run, 0, 1, 0, b"first try\n".to_vec()).await.unwrap();
        self.store.append_log(&self.run, 1, 1, 0, b"judged\n".to_vec()).await.unwrap();
        let report = self.put(b"<report/>").await;
        let verdict = self.put(b"{\"outcome\": \"ship\"}").await;
        let mut input = input(&self.run, &["test", "judge"]);
        input.artifacts = vec![artifact(0, "report.xml", report, 9), artifact(1, "../../etc/passwd", verdict, 19)];
        input.log_bytes = BTreeMap::from([((0, 1), 10), ((1, 1), 7)]);
        input
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        // Anybody but root needs leave to write before a Record can be removed.
        for dir in folders(self.dir.path()) {
            fs::set_permissions(dir, fs::Permissions::from_mode(0o755)).unwrap();
        }
    }
}

pub(super) fn folders(root: &Path) -> Vec<PathBuf> {
    tree(root).into_iter().filter(|path| path.is_dir()).collect()
}

/// Everything below `root`, parents first, sorted.
pub(super) fn tree(root: &Path) -> Vec<PathBuf> {
    let mut found = vec![root.to_owned()];
    let mut names: Vec<PathBuf> = fs::read_dir(root).unwrap().map(|entry| entry.unwrap().path()).collect();
    names.sort();
    for path in names {
        if path.is_dir() { found.extend(tree(&path)) } else { found.push(path) }
    }
    found
}

/// Paths below `root` with mode, time of change and content.
pub(super) fn snapshot(root: &Path) -> BTreeMap<PathBuf, (u32, std::time::SystemTime, Vec<u8>)> {
    let look = |path: PathBuf| {
        let meta = fs::metadata(&path).unwrap();
        let content = if path.is_dir() { Vec::new() } else { fs::read(&path).unwrap() };
        (path, (meta.permissions().mode() & 0o7777, meta.modified().unwrap(), content))
    };
    tree(root).into_iter().map(look).collect()
}

pub(super) async fn put(store: &RecordStore, run: &RunId, bytes: &[u8]) -> Digest {
    let digest = Digest::of(bytes);
    let mut writer = store.blob_writer(run).await.unwrap();
    for chunk in bytes.chunks(64 * 1024) {
        writer.write(chunk.to_vec()).await.unwrap();
    }
    let ready = writer.ready(bytes.len() as u64, &digest).await.unwrap();
    store.publish(run, vec![ready]).await.unwrap();
    digest
}

pub(super) fn artifact(seq: Seq, name: &str, sha256: Digest, size: u64) -> Artifact {
    Artifact { seq, attempt: 1, name: name.to_owned(), sha256, size }
}

/// A Run of these steps that were all done on one node, once each.
pub(super) fn input(run: &RunId, steps: &[&str]) -> SealInput {
    let contract: Contract = serde_json::from_value(json!({
        "requires": [{"as": "builder", "capability": "build"}],
        "steps": steps.iter().map(|id| json!({"id": id, "uses": "builder", "run": ["true"]})).collect::<Vec<_>>(),
    }))
    .unwrap();
    let node = NodeId::new("yard/0").unwrap();
    let at = Timestamp::from_millis(ENDED_AT - 500);
    let step = |(seq, name): (usize, &&str)| Step {
        seq: seq.try_into().unwrap(),
        name: StepName::new(name).unwrap(),
        kind: StepKind::Run,
        state: StepState::Done { exit_code: Some(0), at },
        attempt: 1,
        round: 0,
        tries: 0,
        needs: seq.checked_sub(1).and_then(|need| need.try_into().ok()).into_iter().collect(),
        chosen: false,
        picked: None,
        started_at: Some(at),
        deadline: None,
        produced: Vec::new(),
        attempts: vec![Attempt {
            number: 1,
            starts: 0,
            node: node.clone(),
            instance: InstanceId::new("i1").unwrap(),
            nonce: Nonce::from_bits(NONCE),
            claimed_at: at,
            answer: Some(Answer { state: "DONE".to_owned(), log_bytes: 0 }),
        }],
    };
    let findings = vec![Finding { condition: "test: exit_code = 0 (was 0)".to_owned(), holds: Holds::Held }];
    let run = Run {
        id: run.clone(),
        principal: Principal::new(SUBMITTER).unwrap(),
        contract: Arc::new(contract),
        contract_hash: "c0ffee".into(),
        state: RunState::Succeeded(Verdict { cause: Cause::Judged, findings }),
        place: 1,
        assigned: vec![Assigned { role: "builder".parse().unwrap(), node: node.clone() }],
        reject: None,
        work_id: Some("gerrit:I5c9".parse().unwrap()),
        starts: 0,
        losses: 0,
        created_at: Timestamp::from_millis(ENDED_AT - 2_000),
        ended_at: Some(Timestamp::from_millis(ENDED_AT)),
        steps: steps.iter().enumerate().map(step).collect(),
    };
    SealInput { run, artifacts: Vec::new(), answers: Vec::new(), log_bytes: BTreeMap::new() }
}

/// A Run that never ran.
pub(super) fn cancelled(run: &RunId, steps: &[&str]) -> SealInput {
    let mut input = input(run, steps);
    let cause = Cause::Cancelled(Principal::new("grace-who-cancels").unwrap());
    input.run.state = RunState::Failed(Verdict { cause, findings: Vec::new() });
    input.run.assigned.clear();
    for step in &mut input.run.steps {
        (step.attempt, step.started_at) = (0, None);
        step.attempts.clear();
        step.state = StepState::Skipped { at: Timestamp::from_millis(ENDED_AT) };
    }
    input
}
