//! The contract: what a Run needs and does, as its submitter wrote it.
//!
//! [`parse()`] turns YAML or JSON into a validated [`Contract`]; there is no other way to one from outside:
//! `tree` reads values that know where they stand, `decode` makes the types of them, `validate` holds the rules
//! that types cannot say. Nothing written is ever ignored: what is not known is refused with its position.

use std::collections::{BTreeMap, HashMap};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{RoleName, RunId, StepName, WorkId};

mod decode;
mod expand;
pub mod form;
mod parse;
mod problem;
mod role_ref;
mod schema;
mod step;
mod tree;
mod validate;

pub use expand::{AGENT_NAMES, ExpandError, HARNESS_NAMES, MAX_EXPANDED, expand, is_env_name, resolve};
pub use parse::{SchemaFault, canonical_json, contract_hash, parse, parse_with};
pub use problem::{ContractError, Problem};
pub use role_ref::RoleRef;
pub use schema::{example, schema};
pub use step::{ANSWER_FILE, Acquire, Agent, Ask, Dispatch, Input, Loop, OUTCOME, Step, StepKind, Targets, Until};

/// Largest contract accepted, in bytes.
pub const MAX_BYTES: usize = 1 << 20;
/// Most steps in one contract.
pub const MAX_STEPS: usize = 1_000;
/// Most roles in one contract.
pub const MAX_ROLES: usize = 64;
/// Most nodes of one role.
pub const MAX_COUNT: u32 = 1_000;
/// Most names in one `out` or `in.from`.
pub const MAX_FILES: usize = 1_000;

/// Keys of the document.
const CONTRACT_KEYS: &[&str] =
    &["run_id", "work", "env", "requires", "steps", "success_when", "on_lost", "on_drain", "when_unmatched"];
/// A contract that was parsed and validated.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Contract {
    /// The Run's id; the client draws one when it is absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<RunId>,
    /// What the Run is about, across Runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub work: Option<Work>,
    /// Environment of every step.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// The roles that nodes are leased for.
    pub requires: Vec<Require>,
    /// The graph of steps, in an order in which needs point back.
    pub steps: Vec<Step>,
    /// What must hold at the end. None: every step that ran ended with exit code 0.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub success_when: Vec<Condition>,
    /// What a lost node means.
    #[serde(default, skip_serializing_if = "OnLost::is_default")]
    pub on_lost: OnLost,
    /// What a drain at a boundary means.
    #[serde(default, skip_serializing_if = "OnDrain::is_default")]
    pub on_drain: OnDrain,
    /// What happens when no live node could ever run it.
    #[serde(default, skip_serializing_if = "WhenUnmatched::is_default")]
    pub when_unmatched: WhenUnmatched,
}

/// `system` and `change_id` make the work id `SYSTEM:CHANGE`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Work {
    /// The system that knows the change.
    pub system: String,
    /// Its id there.
    pub change_id: String,
}

/// One role: `count` distinct nodes with a capability.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Require {
    /// The role's name in this contract.
    #[serde(rename = "as")]
    pub role: RoleName,
    /// A word from the open vocabulary that adverts make.
    pub capability: String,
    /// How many distinct nodes.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub count: u32,
    /// What the capability's attributes must be.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub attrs: BTreeMap<String, AttrMatch>,
    /// Shares no node with another role.
    #[serde(default, skip_serializing_if = "is_false")]
    pub apart: bool,
}

pub(crate) const fn one() -> u32 {
    1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature is serde's")]
pub(crate) const fn is_one(count: &u32) -> bool {
    *count == 1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature is serde's")]
pub(crate) const fn is_false(flag: &bool) -> bool {
    !*flag
}

/// A value of a node's attribute.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum AttrValue {
    /// true or false.
    Flag(bool),
    /// A whole number.
    Number(i64),
    /// Text.
    Text(String),
}

impl std::fmt::Display for AttrValue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Flag(flag) => flag.fmt(f),
            Self::Number(number) => number.fmt(f),
            Self::Text(text) => text.fmt(f),
        }
    }
}

/// What an attribute must be.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum AttrMatch {
    /// A number of at least this.
    Min(AtLeast),
    /// One of these.
    Any(AnyOf),
    /// Exactly this.
    Equals(AttrValue),
}

/// `{min: n}`
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AtLeast {
    /// The least number that will do.
    pub min: i64,
}

/// `{any: […]}`
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AnyOf {
    /// The values that will do.
    pub any: Vec<AttrValue>,
}

/// One mechanical condition on one step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Condition {
    /// The step it looks at.
    pub step: StepName,
    /// It ended with this exit code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// It left these files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub produced: Option<Vec<String>>,
    /// It needed at most this many rounds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub within_attempts: Option<u32>,
    /// A SKIPPED step is a failure, too.
    #[serde(default, skip_serializing_if = "is_false")]
    pub required: bool,
}

/// `on_lost: {retry: n}`
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OnLost {
    /// How many times the Run starts over.
    #[serde(default)]
    pub retry: u32,
}

impl OnLost {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// `on_drain`
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum OnDrain {
    /// The Run is closed.
    #[default]
    Close,
    /// The Run starts over from the queue.
    Requeue,
}

impl OnDrain {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// `when_unmatched`
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum WhenUnmatched {
    /// Refused at submit.
    #[default]
    Reject,
    /// Waits for a node to appear.
    Queue,
}

impl WhenUnmatched {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

impl Contract {
    /// The work id, if the contract names its work.
    #[must_use]
    pub fn work_id(&self) -> Option<WorkId> {
        let work = self.work.as_ref()?;
        WorkId::new(&format!("{}:{}", work.system, work.change_id)).ok()
    }

    /// How many nodes it leases at most.
    #[must_use]
    pub fn width(&self) -> u32 {
        self.requires.iter().fold(0, |sum, role| sum.saturating_add(role.count))
    }

    /// The positions of the steps in the range of a loop, first and last included: `back_to` to the step that
    /// carries the loop.
    #[must_use]
    pub fn loop_range(&self, last: crate::Seq) -> Option<std::ops::RangeInclusive<crate::Seq>> {
        let repeat = self.steps.get(last as usize)?.repeat.as_ref()?;
        let (first, _) = self.step(&repeat.back_to)?;
        (first <= last).then_some(first..=last)
    }

    /// The step with this name and its position.
    #[must_use]
    pub fn step(&self, name: &StepName) -> Option<(crate::Seq, &Step)> {
        let at = self.steps.iter().position(|step| step.id == *name)?;
        Some((crate::Seq::try_from(at).ok()?, &self.steps[at]))
    }

    /// Every step's position by its name. For more than one look-up.
    #[must_use]
    pub fn index(&self) -> HashMap<&str, crate::Seq> {
        self.steps.iter().map(|step| step.id.as_str()).zip(0..).collect()
    }

    /// For each step the positions of the steps it needs, defaults filled in. Names that are not there are left out.
    #[must_use]
    pub fn needs(&self) -> Vec<Vec<crate::Seq>> {
        let index = self.index();
        // The first fork that leads to a step; validation has seen to it that there is no second.
        let mut forked_by: HashMap<&StepName, crate::Seq> = HashMap::new();
        for (step, at) in self.steps.iter().zip(0..) {
            for target in step.dispatch.iter().flat_map(|fork| fork.to.steps()) {
                forked_by.entry(target).or_insert(at);
            }
        }
        self.steps
            .iter()
            .zip(0u32..)
            .map(|(step, at)| match &step.needs {
                Some(names) => names.iter().filter_map(|name| index.get(name.as_str()).copied()).collect(),
                None => forked_by.get(&step.id).copied().or_else(|| at.checked_sub(1)).into_iter().collect(),
            })
            .collect()
    }
}
