//! One role against the fleet: who could serve it, who of those cannot now, and why.

use shared::{
    Timestamp,
    contract::Require,
    domain::{Fleet, Node, lacking, satisfies},
};

use super::{RoleExplanation, age, node::held_back, some};

pub(super) fn role(fleet: &Fleet, require: &Require, now: Timestamp) -> RoleExplanation {
    let mut it = RoleExplanation {
        role: require.role.clone(),
        wanted: require.count,
        live: 0,
        busy: 0,
        busy_draining: 0,
        draining: 0,
        free: 0,
        lacking: lacking(require, fleet.live(now)),
        holders: Vec::new(),
        held: Vec::new(),
    };
    for node in fleet.live(now).filter(|node| satisfies(&node.capabilities, require)) {
        it.live += 1;
        if let Some(lease) = fleet.lease(&node.id) {
            it.busy += 1;
            it.busy_draining += u32::from(node.is_draining());
            it.holders.push((node.id.clone(), lease.run.clone()));
        } else if node.is_draining() {
            it.draining += 1;
            it.held.push(held_back(node));
        } else {
            it.free += 1;
        }
    }
    it
}

impl RoleExplanation {
    pub(super) fn is_short(&self) -> bool {
        self.free < self.wanted
    }

    /// Even with every holder gone there would be too few: what its owner holds back, or what is not here at
    /// all, must come by an advert first.
    pub(super) fn needs_advert(&self, fleet: &Fleet) -> bool {
        let held = u32::try_from(self.held_holders(fleet).count()).unwrap_or(u32::MAX);
        self.free + self.busy.saturating_sub(held) < self.wanted
    }

    /// Nodes that are leased and held back as well: the end of the lease alone does not free them.
    pub(super) fn held_holders<'a>(&'a self, fleet: &'a Fleet) -> impl Iterator<Item = &'a Node> {
        self.holders.iter().filter_map(|(node, _)| fleet.node(node)).filter(|node| node.is_draining())
    }
}

pub(super) fn shortage(fleet: &Fleet, require: &Require, role: &RoleExplanation, now: Timestamp) -> String {
    if role.live == 0 {
        return nobody(fleet, require, role, now);
    }
    let mut parts = Vec::new();
    if role.live >= role.wanted && role.wanted > 1 {
        parts.push(format!("{} wanted", role.wanted));
    }
    if role.live < role.wanted {
        let misses = if role.lacking.is_empty() { String::new() } else { format!(" ({})", role.lacking.join(", ")) };
        parts.push(format!("{} wanted, only {} live {}{misses}", role.wanted, role.live, fit(role.live)));
    }
    if role.busy > 0 {
        let holders: Vec<String> = role.holders.iter().map(|(node, run)| format!("run {run} on {node}")).collect();
        let verb = if role.busy == 1 { "is" } else { "are" };
        parts.push(format!(
            "{} of {} matching {} {verb} leased ({})",
            role.busy,
            role.live,
            if role.live == 1 { "node" } else { "nodes" },
            some(&holders)
        ));
        let held: Vec<String> = role.held_holders(fleet).map(held_back).collect();
        if !held.is_empty() {
            let verb = if held.len() == 1 { "is" } else { "are" };
            parts.push(format!(
                "{} of these {verb} also held back by the owner or the agent ({})",
                held.len(),
                some(&held)
            ));
        }
    }
    if role.draining > 0 {
        let verb = if role.draining == 1 { "is" } else { "are" };
        parts.push(format!("{} {verb} held back by the owner or the agent ({})", role.draining, some(&role.held)));
    }
    if role.free > 0 {
        parts.push(format!("{} free", role.free));
    }
    parts.join(", ")
}

const fn fit(live: u32) -> &'static str {
    if live == 1 { "node fits" } else { "nodes fit" }
}

/// No live node can serve the role: say whether one could, and when it was seen last.
fn nobody(fleet: &Fleet, require: &Require, role: &RoleExplanation, now: Timestamp) -> String {
    let gone = fleet
        .nodes()
        .filter(|node| !node.is_live(now) && satisfies(&node.capabilities, require))
        .max_by_key(|node| node.seen_at);
    let offered = fleet.live(now).any(|node| node.capabilities.iter().any(|it| it.name == require.capability));
    let mut text = if offered {
        format!("no live node offers capability {} as wanted ({})", require.capability, role.lacking.join(", "))
    } else {
        format!("no live node offers capability {}", require.capability)
    };
    text.push_str(&match gone {
        Some(node) => format!("; last seen {} ago on {}", age(now.since(node.seen_at)), node.id),
        None => "; no node that was here before could serve it".to_owned(),
    });
    text
}
