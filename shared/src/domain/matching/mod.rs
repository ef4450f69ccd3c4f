//! Which nodes a Run gets: a pure function of requirements, live adverts and what is busy.
//!
//! Pass 1 looks at every live node: too few means that this fleet will never do (422). Pass 2 leaves out the
//! busy ones (leased or draining; the matcher does not know which): too few means not now (409). The
//! permanent answer wins over the temporary one, whichever role it is about.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

mod apart;

use super::{Capability, Node};
use crate::{
    NodeId, RoleName,
    contract::{AttrMatch, AttrValue, Require},
};

/// One node given to one role. A role of `count: 2` has two of them, in order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Assigned {
    /// The role.
    #[serde(rename = "as")]
    pub role: RoleName,
    /// The node.
    pub node: NodeId,
}

/// Why a Run was not taken.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reject {
    /// 422: not on this fleet. 409: not now.
    pub code: u16,
    /// The role it is about; none where the whole Run is too wide.
    #[serde(rename = "as", default, skip_serializing_if = "Option::is_none")]
    pub role: Option<RoleName>,
    /// Role, wanted, found and the nearest miss, in words.
    pub reason: String,
}

impl Reject {
    /// Waiting does not cure it.
    #[must_use]
    pub const fn is_permanent(&self) -> bool {
        self.code == NEVER
    }
}

/// Not on this fleet.
pub(in crate::domain) const NEVER: u16 = 422;
/// Not now.
const NOT_NOW: u16 = 409;

/// Matches requirements to nodes. `live` yields live nodes in the order in which they are to be used.
///
/// # Errors
/// [`Reject`] of the first role that cannot be met, permanent before temporary.
pub fn match_roles<'a>(
    requires: &[Require],
    live: impl Iterator<Item = &'a Node> + Clone,
    busy: impl Fn(&Node) -> bool,
) -> Result<Vec<Assigned>, Reject> {
    if let Some(reject) = impossible(requires, live.clone()) {
        return Err(reject);
    }
    let free = live.clone().filter(|node| !busy(node));
    assign(requires, free.clone()).map_err(|Lack { require, .. }| {
        let (live, free) = (count(require, live), count(require, free));
        let reason = format!(
            "role {} wants {} with {}: {live} live, {free} free; the others are leased or draining",
            require.role,
            nodes(require.count),
            wanted(require),
        );
        Reject { code: NOT_NOW, role: Some(require.role.clone()), reason }
    })
}

/// Why these requirements will never be met on this fleet, if so. Looks at no more nodes than it takes to know that they
/// can be: many Runs come in behind thousands of nodes.
pub(in crate::domain) fn impossible<'a>(
    requires: &[Require],
    live: impl Iterator<Item = &'a Node> + Clone,
) -> Option<Reject> {
    for require in requires {
        let wanted = usize::try_from(require.count).unwrap_or(usize::MAX);
        let found = fitting(require, live.clone()).take(wanted).count();
        if found < wanted {
            let reason = shortage(require, u32::try_from(found).unwrap_or(u32::MAX), live.clone());
            return Some(Reject { code: NEVER, role: Some(require.role.clone()), reason });
        }
    }
    // Enough for each role, and yet not for all at once: roles that share no node.
    let apart = requires.iter().any(|require| require.apart);
    let lack = apart.then(|| assign(requires, live).err()).flatten().filter(|lack| lack.is_sure)?;
    let require = lack.require;
    let reason = format!(
        "role {} wants {} with {} apart from the other roles; there are too few for all of them at once",
        require.role,
        nodes(require.count),
        wanted(require),
    );
    Some(Reject { code: NEVER, role: Some(require.role.clone()), reason })
}

/// Who got too few nodes.
#[derive(Debug, Clone, Copy)]
pub(in crate::domain) struct Lack<'r> {
    /// The first role that did.
    pub(in crate::domain) require: &'r Require,
    /// Not only because the search was given up.
    pub(in crate::domain) is_sure: bool,
}

/// Gives each role its nodes from those that are free, or names the first role that lacks some.
pub(in crate::domain) fn assign<'r, 'a>(
    requires: &'r [Require],
    free: impl Iterator<Item = &'a Node> + Clone,
) -> Result<Vec<Assigned>, Lack<'r>> {
    if requires.iter().any(|require| require.apart) {
        return apart::assign(requires, &free.collect::<Vec<_>>());
    }
    let mut assigned = Vec::new();
    for require in requires {
        let wanted = require.count as usize;
        let before = assigned.len();
        assigned.extend(
            free.clone()
                .filter(|node| satisfies(&node.capabilities, require))
                .take(wanted)
                .map(|node| Assigned { role: require.role.clone(), node: node.id.clone() }),
        );
        if assigned.len() - before < wanted {
            return Err(Lack { require, is_sure: true });
        }
    }
    Ok(assigned)
}

fn count<'a>(require: &Require, nodes: impl Iterator<Item = &'a Node>) -> u32 {
    u32::try_from(fitting(require, nodes).count()).unwrap_or(u32::MAX)
}

fn fitting<'a>(require: &Require, nodes: impl Iterator<Item = &'a Node>) -> impl Iterator<Item = &'a Node> {
    nodes.filter(|node| satisfies(&node.capabilities, require))
}

/// Whether a node's capabilities meet a requirement. A node may have more than was asked.
#[must_use]
pub fn satisfies(capabilities: &[Capability], require: &Require) -> bool {
    capabilities
        .iter()
        .filter(|capability| capability.name == require.capability)
        .any(|capability| require.attrs.iter().all(|(name, want)| fits(capability.attrs.get(name), want)))
}

fn fits(have: Option<&AttrValue>, want: &AttrMatch) -> bool {
    match (have, want) {
        (None, _) => false,
        (Some(have), AttrMatch::Equals(value)) => have == value,
        (Some(AttrValue::Number(have)), AttrMatch::Min(least)) => *have >= least.min,
        (Some(AttrValue::Flag(_) | AttrValue::Text(_)), AttrMatch::Min(_)) => false,
        (Some(have), AttrMatch::Any(any)) => any.any.contains(have),
    }
}

/// What live nodes lack, commonest first: `3 of 5 nodes lack board=stm32`.
#[must_use]
pub fn lacking<'a>(require: &Require, live: impl Iterator<Item = &'a Node>) -> Vec<String> {
    let (mut total, mut without, mut misses) = (0u32, 0u32, BTreeMap::<String, u32>::new());
    for node in live {
        total += 1;
        let mut same = node.capabilities.iter().filter(|it| it.name == require.capability).peekable();
        if same.peek().is_none() {
            without += 1;
            continue;
        }
        // Of several capabilities of one name the one that comes nearest speaks for the node.
        let nearest = same
            .map(|it| require.attrs.iter().filter(|(name, want)| !fits(it.attrs.get(*name), want)).collect::<Vec<_>>())
            .min_by_key(Vec::len)
            .unwrap_or_default();
        for (name, want) in nearest {
            *misses.entry(condition(name, want)).or_default() += 1;
        }
    }
    let mut said: Vec<(u32, String)> = misses.into_iter().map(|(what, n)| (n, what)).collect();
    if without > 0 {
        said.push((without, format!("capability {}", require.capability)));
    }
    said.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
    said.into_iter()
        .map(|(n, what)| format!("{n} of {} lack{} {what}", nodes(total), if n == 1 { "s" } else { "" }))
        .collect()
}

fn shortage<'a>(require: &Require, found: u32, live: impl Iterator<Item = &'a Node>) -> String {
    let mut reason =
        format!("role {} wants {} with {}, found {found}", require.role, nodes(require.count), wanted(require));
    let lacking = lacking(require, live);
    if lacking.is_empty() && found == 0 {
        reason.push_str("; no node is live");
    } else if !lacking.is_empty() {
        reason.push_str("; ");
        reason.push_str(&lacking.join(", "));
    }
    reason
}

fn nodes(count: u32) -> String {
    if count == 1 { "1 node".to_owned() } else { format!("{count} nodes") }
}

/// What a requirement asks of each node, in words.
#[must_use]
pub fn wanted(require: &Require) -> String {
    let mut text = format!("capability {}", require.capability);
    for (name, want) in &require.attrs {
        text.push_str(", ");
        text.push_str(&condition(name, want));
    }
    text
}

fn condition(name: &str, want: &AttrMatch) -> String {
    match want {
        AttrMatch::Equals(value) => format!("{name}={value}"),
        AttrMatch::Min(least) => format!("{name}>={}", least.min),
        AttrMatch::Any(any) => {
            let values: Vec<String> = any.any.iter().map(ToString::to_string).collect();
            format!("{name} in [{}]", values.join(", "))
        }
    }
}
