//! `nodes` and `leases`.

use proto::v1::{LeaseRow, ListLeasesRequest, ListNodesRequest, NodeView, attr_value::Kind};

use shared::Duration;

use super::{
    age::{between, short},
    client::Client,
    exit::{Exit, Outcome},
    output::{Format, Io, Look, clean},
    table::{self, or_dash},
};

/// A node that was silent for longer is not on its way back.
const LONG_GONE: Duration = Duration::from_secs(7 * 86_400);

pub(crate) async fn nodes(client: &Client, io: &mut Io, format: Format, all: bool) -> Outcome {
    let mut page = client.call("cannot list the nodes", client.fleet().list_nodes(ListNodesRequest {})).await?;
    let there = page.nodes.len();
    let now = page.observed_at;
    page.nodes.retain(|node| all || !has_left(now, node));
    let hidden = there - page.nodes.len();
    io.list(format, &page, &page.nodes, |look| node_table(page.observed_at, &page.nodes, look))?;
    match hidden {
        0 => {}
        1 => io.note("1 node that has left is not shown; --all shows it."),
        _ => io.note(format_args!("{hidden} nodes that have left are not shown; --all shows them.")),
    }
    if there == 0 {
        io.note("No node has reported yet. `enode run` on a machine adds one.");
    }
    Ok(Exit::Ok)
}

/// It said goodbye, or it has been silent for long; and no Run holds it.
fn has_left(now: i64, node: &NodeView) -> bool {
    // A goodbye ends the advert at once.
    let said_goodbye = node.expires_at <= node.seen_at;
    let silent = between(node.seen_at, now) > LONG_GONE;
    node.lease.is_none() && node.expires_at <= now && (said_goodbye || silent)
}

/// Liveness and schedulability are two columns: a node may be silent and drained at once.
fn node_table(now: i64, nodes: &[NodeView], look: Look) -> comfy_table::Table {
    let broken = nodes.iter().any(|node| node.policy_error.is_some());
    let mut heads = vec!["NODE", "LABEL", "LAST SEEN", "STATE", "RUN", "CAPABILITIES", "REASON"];
    if broken {
        heads.push("POLICY ERROR");
    }
    let mut table = table::new(&heads, look);
    for node in nodes {
        let mut row: Vec<comfy_table::Cell> = vec![
            clean(&node.node_id).into(),
            or_dash(look.cut(&node.label, 24)).into(),
            format!("{} ago", short(between(node.seen_at, now))).into(),
            table::state(node_state(now, node)),
            node.lease.as_ref().map_or("-".into(), |lease| clean(&lease.run_id)).into(),
            or_dash(look.cut(&capabilities(node), 60)).into(),
            or_dash(look.cut(node.drain_reason.as_deref().unwrap_or_default(), 40)).into(),
        ];
        if broken {
            row.push(or_dash(look.cut(node.policy_error.as_deref().unwrap_or_default(), 60)).into());
        }
        table.add_row(row);
    }
    table
}

/// "lendable", "leased", "draining graceful", "draining at-boundary (leased)", "stopping", "expired, …".
pub(crate) fn node_state(now: i64, node: &NodeView) -> String {
    let mut words = Vec::new();
    if node.expires_at <= now {
        words.push("expired".to_owned());
    }
    if node.stopping {
        words.push("stopping".to_owned());
    }
    if let Some(drain) = &node.draining {
        words.push(format!("draining {}", clean(drain)));
    }
    match (words.is_empty(), node.lease.is_some()) {
        (true, true) => "leased".into(),
        (true, false) => "lendable".into(),
        (false, true) => format!("{} (leased)", words.join(", ")),
        (false, false) => words.join(", "),
    }
}

/// "build(os=linux, cores=8) gpu"
fn capabilities(node: &NodeView) -> String {
    let one = |capability: &proto::v1::Capability| {
        let attrs: Vec<_> = capability
            .attrs
            .iter()
            .map(|(name, value)| match &value.kind {
                Some(Kind::Text(text)) => format!("{name}={text}"),
                Some(Kind::Number(number)) => format!("{name}={number}"),
                Some(Kind::Flag(flag)) => format!("{name}={flag}"),
                None => name.clone(),
            })
            .collect();
        if attrs.is_empty() { capability.name.clone() } else { format!("{}({})", capability.name, attrs.join(" ")) }
    };
    node.capabilities.iter().map(one).collect::<Vec<_>>().join(", ")
}

pub(crate) async fn leases(client: &Client, io: &mut Io, format: Format) -> Outcome {
    let page = client.call("cannot list the leases", client.fleet().list_leases(ListLeasesRequest {})).await?;
    io.list(format, &page, &page.leases, |look| lease_table(page.observed_at, &page.leases, look))?;
    if page.leases.is_empty() {
        io.note("No node is leased.");
    }
    Ok(Exit::Ok)
}

fn lease_table(now: i64, leases: &[LeaseRow], look: Look) -> comfy_table::Table {
    let mut table = table::new(&["NODE", "RUN", "HELD FOR", "UNLESS RENEWED, ENDS IN"], look);
    for lease in leases {
        let left = if lease.not_after <= now { "expired".into() } else { short(between(now, lease.not_after)) };
        table.add_row(vec![clean(&lease.node_id), clean(&lease.run_id), short(between(lease.granted_at, now)), left]);
    }
    table
}
