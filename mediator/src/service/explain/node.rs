//! Why a node is or is not lendable: every reason, not just the first.

use shared::{
    Timestamp,
    domain::{Drain, Fleet, Node},
};

use super::{Explanation, age};

/// Explains one node.
#[must_use]
pub fn explain_node(fleet: &Fleet, node: &Node, now: Timestamp) -> Explanation {
    let reasons = reasons(fleet, node, now);
    let lendable = node.is_lendable(now) && !fleet.is_busy(node);
    let mut summary = match reasons.as_slice() {
        [] => format!("node {} is lendable: it is live, its owner lends it and no run holds it", node.id),
        reasons => format!("node {} is not lendable: {}", node.id, reasons.join("; ")),
    };
    // A node that is lent in spite of a problem with its file: a warning, not a reason.
    if node.policy.drain == Drain::None && !node.policy.error.is_empty() {
        summary.push_str(&format!(" (policy file: {})", node.policy.error));
    }
    Explanation {
        observed_at: now,
        summary,
        roles: Vec::new(),
        place: None,
        wakes: Vec::new(),
        lendable: Some(lendable),
        reasons,
    }
}

fn reasons(fleet: &Fleet, node: &Node, now: Timestamp) -> Vec<String> {
    let mut reasons = Vec::new();
    if let Some(lease) = fleet.lease(&node.id) {
        let held = age(now.since(lease.granted_at));
        reasons.push(if lease.holds(now) {
            format!("leased by run {} for {held}", lease.run)
        } else {
            let over = age(now.since(lease.not_after));
            format!(
                "leased by run {} for {held}; that lease ran out {over} ago and is about to be taken back",
                lease.run
            )
        });
    }
    if node.policy.drain != Drain::None {
        reasons.push(drained(node, now));
    }
    if node.stopping {
        reasons.push("stopping: its agent was told to stop; its next start ends that".to_owned());
    }
    if !node.is_live(now) {
        let (expired, seen) = (age(now.since(node.expires_at)), age(now.since(node.seen_at)));
        // A goodbye expires the advert at once.
        reasons.push(if node.expires_at <= node.seen_at {
            format!("its agent said goodbye {seen} ago")
        } else {
            format!("its advert expired {expired} ago; last seen {seen} ago")
        });
    }
    reasons
}

/// The policy's word, in words. Its reason says whose it is: the owner's, or that of a guard of the node.
fn drained(node: &Node, now: Timestamp) -> String {
    let mut text = format!("draining ({})", node.policy.drain);
    if let Some(since) = node.policy.since {
        text.push_str(&format!(" for {}", age(now.since(since))));
    }
    if !node.policy.reason.is_empty() {
        text.push_str(": ");
        text.push_str(&node.policy.reason);
    }
    if !node.policy.error.is_empty() {
        text.push_str(&format!(" (policy file: {})", node.policy.error));
    }
    text
}

/// Why a node that is not leased is held back, in a few words.
pub(super) fn held_back(node: &Node) -> String {
    match (node.policy.drain, node.stopping) {
        (Drain::None, _) => format!("{} is stopping", node.id),
        (drain, _) if node.policy.reason.is_empty() => format!("{} {drain}", node.id),
        (drain, _) => format!("{} {drain}: {}", node.id, node.policy.reason),
    }
}
