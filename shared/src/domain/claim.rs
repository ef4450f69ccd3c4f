//! Claim: the next step of a node. CLAIMED in the store before it is sent.
//!
//! A step that is claimed already is handed out again to the same instance and to no other; the agent
//! remembers what it has, so a step that is sent twice runs once.

use std::collections::{HashMap, HashSet};

use serde_json::json;

use super::fleet::Speaker;
use super::{
    Attempt, Cx, Decide, EventKind, FailReason, Fleet, Refusal, Run, RunState, Step, StepState, Touches, Wake, course,
    line,
};
use crate::{Nonce, RunId, Seq, StepName, Timestamp, WorkId};

/// A work stream asks for its node's next step.
#[derive(Debug, Clone)]
pub struct Claim {
    /// Whose stream; it knows exactly the stream it is.
    pub who: Speaker,
}

/// One file to lay out in `$IN`: a file, or everything below a folder, of another step's output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InputFile {
    /// The step that gave it.
    pub seq: Seq,
    /// Its attempt.
    pub attempt: u32,
    /// The name in that step's `out`.
    pub name: String,
    /// Where it goes below `$IN`: the name, or `STEP/NAME` where several steps gave the same name.
    pub path: String,
}

/// A step to execute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimedStep {
    /// The Run.
    pub run: RunId,
    /// The step.
    pub seq: Seq,
    /// Its name.
    pub name: StepName,
    /// This execution.
    pub attempt: u32,
    /// Loop pass.
    pub round: u32,
    /// The permit.
    pub nonce: Nonce,
    /// The node's rev.
    pub rev: i64,
    /// Its part of the contract is `contract.steps[seq]`.
    pub contract: std::sync::Arc<crate::contract::Contract>,
    /// What to lay out.
    pub inputs: Vec<InputFile>,
    /// What the Run is about.
    pub work_id: Option<WorkId>,
    /// Nothing of this lease has run on the node before.
    pub first_on_node: bool,
}

impl Decide for Claim {
    type Answer = Option<ClaimedStep>;

    fn touches(&self, fleet: &Fleet, _: Timestamp) -> Touches {
        fleet.lease(&self.who.node).map(|lease| lease.run.clone()).into_iter().collect()
    }

    fn goes_on_without(&self) -> bool {
        true
    }

    fn decide(&self, fleet: &mut Fleet, cx: &mut Cx<'_>) -> Result<Option<ClaimedStep>, Refusal> {
        let node = fleet.speaks(&self.who)?;
        let (id, rev, may_claim) = (node.id.clone(), node.rev, node.may_claim(cx.now));
        let Some(lease) = fleet.lease(&id).filter(|lease| lease.holds(cx.now)) else { return Ok(None) };
        let (run_id, nonce) = (lease.run.clone(), lease.nonce);
        if !fleet.runs.contains_key(&run_id) {
            // It was promoted without being read, and now it cannot be read. Its row is left for a person; the node
            // goes to others.
            fleet.release(&id, Wake::RunSettled, cx);
            line::promotion::scan(fleet, cx);
            return Ok(None);
        }
        let Some(run) = fleet.runs.get(&run_id).filter(|run| run.state == RunState::Running) else { return Ok(None) };
        if let Some(step) = run.claimed_on(&id) {
            let same = step.attempt(step.attempt).is_some_and(|attempt| attempt.instance == self.who.instance);
            return Ok(same.then(|| item(run, step, nonce, rev)).flatten());
        }
        if !may_claim {
            return Ok(None);
        }
        // A Run that was promoted without being read has not begun what the mediator does for it itself.
        if run.ready().any(|step| !step.kind.is_executed()) {
            course::proceed(fleet, cx, &run_id);
            line::promotion::scan(fleet, cx);
        }
        let Some(run) = fleet.runs.get(&run_id).filter(|run| run.state == RunState::Running) else { return Ok(None) };
        let Some(seq) = run.ready().map(|step| step.seq).find(|seq| run.node_of_step(*seq) == Some(&id)) else {
            return Ok(None);
        };
        let missing = inputs(run, seq).err();
        let (starts, timeout) = (run.starts, run.spec(seq).and_then(|spec| spec.timeout));
        let Some(step) = fleet.runs.get_mut(&run_id).and_then(|run| run.step_mut(seq)) else { return Ok(None) };
        cx.changes.steps.insert((run_id.clone(), seq));
        if let Some(message) = missing {
            step.state = StepState::Failed { reason: FailReason::InputMissing, message, at: cx.now };
            fleet.touch_run(&run_id, cx);
            course::proceed(fleet, cx, &run_id);
            line::promotion::scan(fleet, cx);
            return Ok(None);
        }
        step.attempt += 1;
        step.started_at = Some(cx.now);
        step.deadline = timeout.map(|timeout| cx.now + timeout);
        step.produced.clear();
        step.state = StepState::Claimed { node: id.clone(), at: cx.now };
        step.attempts.push(Attempt {
            number: step.attempt,
            starts,
            node: id.clone(),
            instance: self.who.instance.clone(),
            nonce,
            claimed_at: cx.now,
            answer: None,
        });
        cx.changes.attempts.insert((run_id.clone(), seq, step.attempt));
        let data = json!({"step": step.name.as_str(), "attempt": step.attempt});
        cx.changes.event(EventKind::StepClaimed, Some(&run_id), Some(&id), data);
        fleet.touch_run(&run_id, cx);
        let Some(run) = fleet.runs.get(&run_id) else { return Ok(None) };
        Ok(run.step(seq).and_then(|step| item(run, step, nonce, rev)))
    }
}

fn item(run: &Run, step: &Step, nonce: Nonce, rev: i64) -> Option<ClaimedStep> {
    let here = |attempt: &&Attempt| attempt.nonce == nonce;
    let earlier = run.steps.iter().flat_map(|it| &it.attempts).filter(here).count();
    Some(ClaimedStep {
        run: run.id.clone(),
        seq: step.seq,
        name: step.name.clone(),
        attempt: step.attempt,
        round: step.round,
        nonce,
        rev,
        contract: run.contract.clone(),
        inputs: inputs(run, step.seq).ok()?,
        work_id: run.work_id.clone(),
        // The present attempt is among them.
        first_on_node: earlier <= 1,
    })
}

/// Resolves `in.from` against what earlier steps left.
fn inputs(run: &Run, seq: Seq) -> Result<Vec<InputFile>, String> {
    let Some(input) = run.spec(seq).and_then(|spec| spec.input.as_ref()) else { return Ok(Vec::new()) };
    let steps = run.contract.index();
    // Who left what, in the order of the steps. A claim may not cost inputs times outputs.
    let mut left: HashMap<&str, Vec<&Step>> = HashMap::new();
    for step in ancestors(run, seq).into_iter().filter_map(|seq| run.step(seq)) {
        for file in &step.produced {
            left.entry(file).or_default().push(step);
        }
    }
    let mut files = Vec::new();
    for wanted in &input.from {
        // `STEP/FILE` where STEP is one of ours; otherwise the slash is part of the file's own name.
        let of_step = wanted.split_once('/').filter(|(name, _)| steps.contains_key(*name));
        let file = of_step.map_or(wanted.as_str(), |(_, file)| file);
        let mut found = left
            .get(file)
            .into_iter()
            .flatten()
            .filter(|step| of_step.is_none_or(|(name, _)| step.name.as_str() == name))
            .peekable();
        if found.peek().is_none() {
            return Err(format!("input {wanted} was not produced by any step before this one"));
        }
        files.extend(found.map(|step| InputFile {
            seq: step.seq,
            attempt: step.attempt,
            name: file.to_owned(),
            path: file.to_owned(),
        }));
    }
    files.sort_by(|a, b| (&a.name, a.seq).cmp(&(&b.name, b.seq)));
    files.dedup();
    let twice: HashSet<String> =
        files.windows(2).filter(|pair| pair[0].name == pair[1].name).map(|pair| pair[0].name.clone()).collect();
    for file in &mut files {
        if twice.contains(&file.name)
            && let Some(step) = run.step(file.seq)
        {
            file.path = format!("{}/{}", step.name, file.name);
        }
    }
    Ok(files)
}

/// Every step that this one waits for, directly or through others, in order.
fn ancestors(run: &Run, seq: Seq) -> Vec<Seq> {
    let mut found = std::collections::BTreeSet::new();
    let mut todo = vec![seq];
    while let Some(seq) = todo.pop() {
        for need in run.step(seq).map(|step| step.needs.as_slice()).unwrap_or_default() {
            if found.insert(*need) {
                todo.push(*need);
            }
        }
    }
    found.into_iter().collect()
}
