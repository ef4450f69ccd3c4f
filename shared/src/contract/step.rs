//! The steps of a contract: what each kind says, and what all have in common.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{AttrMatch, Require, RoleRef, is_false, is_one, one};
use crate::{Duration, Principal, RoleName, StepName};

/// The file that holds the structured answer of an `agent` step, and that of a person to an `ask`.
pub const ANSWER_FILE: &str = "answer.json";

/// What `dispatch.from` names on an `acquire`, which leaves no file: `acquired`, `unavailable` or `deadlock`.
pub const OUTCOME: &str = "outcome";

/// Keys of a step.
pub(super) const KEYS: &[&str] = &[
    "id",
    "uses",
    "run",
    "agent",
    "acquire",
    "ask",
    "needs",
    "env",
    "in",
    "out",
    "timeout",
    "release",
    "dispatch",
    "loop",
    "max_attempts",
    "keep",
];

/// One step. Exactly one of `run`, `agent`, `acquire`, `ask` is set; [`Step::kind`] tells which.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// Unique name.
    pub id: StepName,
    /// The role whose node executes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uses: Option<RoleRef>,
    /// A program and its arguments; no shell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<Vec<String>>,
    /// A coding agent with a prompt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<Agent>,
    /// One more resource under a new role.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub acquire: Option<Acquire>,
    /// A question to a person.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ask: Option<Ask>,
    /// Steps that must have ended. Absent: the step that dispatches here, else the one before; `[]`: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub needs: Option<Vec<StepName>>,
    /// Environment of this step, over the contract's.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// Files of earlier steps to lay out in `$IN`.
    #[serde(default, rename = "in", skip_serializing_if = "Option::is_none")]
    pub input: Option<Input>,
    /// Files that it leaves in `$OUT`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub out: Vec<String>,
    /// How long it may run, or how long a question stays open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Duration>,
    /// Roles given back when it is done.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub release: Vec<RoleName>,
    /// A fork: which step goes on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dispatch: Option<Dispatch>,
    /// Goes back to an earlier step.
    #[serde(default, rename = "loop", skip_serializing_if = "Option::is_none")]
    pub repeat: Option<Loop>,
    /// Executions of a step that did not complete.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub max_attempts: u32,
    /// Not repeated when the Run starts over.
    #[serde(default, skip_serializing_if = "is_false")]
    pub keep: bool,
}

/// `agent: {harness, prompt, schema?, max_turns?}`: a coding agent that the node's owner has configured.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Agent {
    /// Which of the node's configured harnesses; `default` when absent.
    #[serde(default = "default_harness", skip_serializing_if = "is_default_harness")]
    pub harness: String,
    /// What it is told. `$NAME` is expanded as in `run`.
    pub prompt: String,
    /// JSON Schema of its structured answer, which it leaves as `answer.json`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema: Option<serde_json::Value>,
    /// Most turns it may take; the harness is told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_turns: Option<u32>,
}

fn default_harness() -> String {
    "default".to_owned()
}

fn is_default_harness(name: &String) -> bool {
    name == "default"
}

/// `acquire: {as, capability, count?, attrs?, wait?}`: one more resource, always of nodes that the Run does not
/// hold yet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Acquire {
    /// The new role's name.
    #[serde(rename = "as")]
    pub role: RoleName,
    /// As in `requires`.
    pub capability: String,
    /// How many distinct nodes.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub count: u32,
    /// As in `requires`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub attrs: BTreeMap<String, AttrMatch>,
    /// Stands in line when nothing is free; otherwise that is an outcome.
    #[serde(default = "yes", skip_serializing_if = "is_true")]
    pub wait: bool,
}

impl Acquire {
    /// What is wanted, as a requirement.
    #[must_use]
    pub fn require(&self) -> Require {
        Require {
            role: self.role.clone(),
            capability: self.capability.clone(),
            count: self.count,
            attrs: self.attrs.clone(),
            apart: false,
        }
    }
}

const fn yes() -> bool {
    true
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature is serde's")]
const fn is_true(flag: &bool) -> bool {
    *flag
}

/// `ask: {question, form?, answerers?}`: waits for a person, holding its nodes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Ask {
    /// What the person reads.
    pub question: String,
    /// JSON Schema of the answer, which becomes `answer.json`. Absent: any JSON value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub form: Option<serde_json::Value>,
    /// Principals who may answer. Empty: whoever may submit.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub answerers: BTreeSet<Principal>,
}

/// `loop: {back_to, max, until?}` on the last step of the range.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Loop {
    /// The first step of the range.
    pub back_to: StepName,
    /// Most passes through the range, the first included.
    pub max: u32,
    /// What must hold of this step to go on before `max`. Absent: every pass is taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Until>,
}

/// `until: {exit_code?, produced?}`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Until {
    /// It ended with this exit code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// It left these files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub produced: Option<Vec<String>>,
}

/// What a step does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StepKind {
    /// `run`
    Run,
    /// `agent`
    Agent,
    /// `acquire`
    Acquire,
    /// `ask`
    Ask,
}

impl StepKind {
    /// The key in the contract.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Run => "run",
            Self::Agent => "agent",
            Self::Acquire => "acquire",
            Self::Ask => "ask",
        }
    }

    /// Executed by a node; the others are the mediator's own doing.
    #[must_use]
    pub const fn is_executed(self) -> bool {
        match self {
            Self::Run | Self::Agent => true,
            Self::Acquire | Self::Ask => false,
        }
    }
}

impl Step {
    /// What this step does. Validation has seen to it that exactly one is set.
    #[must_use]
    pub const fn kind(&self) -> StepKind {
        if self.agent.is_some() {
            StepKind::Agent
        } else if self.acquire.is_some() {
            StepKind::Acquire
        } else if self.ask.is_some() {
            StepKind::Ask
        } else {
            StepKind::Run
        }
    }

    /// Every output it can leave: its `out`, and the answer of an agent or a person, which needs no mention.
    pub fn outputs(&self) -> impl Iterator<Item = &str> {
        let answers = match self.kind() {
            StepKind::Agent | StepKind::Ask => !self.out.iter().any(|name| name == ANSWER_FILE),
            StepKind::Run | StepKind::Acquire => false,
        };
        self.out.iter().map(String::as_str).chain(answers.then_some(ANSWER_FILE))
    }
}

/// `in: {from: […]}`: names of files, or `STEP/FILE`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// `FILE` (every needed step before that names it in its `out`), or `STEP/FILE`.
    pub from: Vec<String>,
}

/// `dispatch: {from: FILE#/POINTER, to: …}`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Dispatch {
    /// An output file of this step and a JSON pointer into it; `outcome` on an `acquire`.
    pub from: String,
    /// The steps to choose from, at least two, all later.
    pub to: Targets,
}

/// Where a fork leads.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Targets {
    /// `[ship, repair]`: the value is the step's name.
    Steps(Vec<StepName>),
    /// `{ok: ship, bad: repair}`: the value leads to a step; several may lead to one.
    Values(BTreeMap<String, StepName>),
}

impl Targets {
    /// The steps it leads to, as written.
    pub fn steps(&self) -> impl Iterator<Item = &StepName> {
        let (steps, values) = match self {
            Self::Steps(steps) => (Some(steps.iter()), None),
            Self::Values(values) => (None, Some(values.values())),
        };
        steps.into_iter().flatten().chain(values.into_iter().flatten())
    }

    /// The step that a value chooses.
    #[must_use]
    pub fn chosen_by(&self, value: &str) -> Option<&StepName> {
        match self {
            Self::Steps(steps) => steps.iter().find(|step| step.as_str() == value),
            Self::Values(values) => values.get(value),
        }
    }

    /// The values that choose something, for messages.
    #[must_use]
    pub fn values(&self) -> Vec<&str> {
        match self {
            Self::Steps(steps) => steps.iter().map(StepName::as_str).collect(),
            Self::Values(values) => values.keys().map(String::as_str).collect(),
        }
    }
}

impl Dispatch {
    /// File name and JSON pointer.
    #[must_use]
    pub fn source(&self) -> (&str, &str) {
        self.from.split_once('#').unwrap_or((&self.from, ""))
    }
}
