//! Rows of `nodes`.

use shared::{
    NodeId,
    domain::{Drain, Node, Policy},
};

use super::{
    batch::{Kind, Rows, Verb, Write},
    error::StoreError,
    row::{Bad, Row},
    sql::{Query, Value},
};

/// The columns, in one place: every statement that reads whole rows reads these.
macro_rules! select {
    ($rest:literal) => {
        concat!(
            "SELECT node_id, rev, label, instance, stream, advert_no, stopping, principal, drain, drain_reason, ",
            "drain_since, policy_error, seen_at, expires_at, agent_version, capabilities FROM nodes ",
            $rest
        )
    };
}

pub(super) const ALL: Query = Query::both("nodes.all", select!("ORDER BY node_id"));
pub(super) const SINCE: Query = Query::both("nodes.since", select!("WHERE rev > $1 ORDER BY node_id"));
/// Those of a list.
pub(super) const OF_LIST: Query = Query::each(
    "nodes.of_list",
    // Lists are JSON on SQLite and arrays on PostgreSQL.
    select!("WHERE node_id IN (SELECT value FROM json_each($1))"),
    select!("WHERE node_id = ANY($1)"),
);
/// Those of a list that have been renewed after all.
pub(super) const RENEWED: Query = Query::each(
    "nodes.renewed",
    // Lists are JSON on SQLite and arrays on PostgreSQL.
    select!("WHERE node_id IN (SELECT value FROM json_each($1)) AND expires_at > $2"),
    select!("WHERE node_id = ANY($1) AND expires_at > $2"),
);

pub(super) static UPSERT: Write = Write {
    name: "nodes.upsert",
    table: "nodes",
    verb: Verb::Upsert,
    keys: 1,
    columns: &[
        ("node_id", Kind::Text),
        ("rev", Kind::Int),
        ("label", Kind::Text),
        ("instance", Kind::Text),
        ("stream", Kind::Text),
        ("advert_no", Kind::Int),
        ("stopping", Kind::Bool),
        ("capabilities_hash", Kind::Text),
        ("principal", Kind::Text),
        ("drain", Kind::Text),
        ("drain_reason", Kind::Text),
        ("drain_since", Kind::Int),
        ("policy_error", Kind::Text),
        ("seen_at", Kind::Int),
        ("expires_at", Kind::Int),
        ("agent_version", Kind::Text),
        ("capabilities", Kind::Text),
    ],
};

/// A lease that comes or goes, and a stream that opens, change these and nothing else.
pub(super) static TOUCH: Write = Write {
    name: "nodes.touch",
    table: "nodes",
    verb: Verb::Update(""),
    keys: 1,
    columns: &[("node_id", Kind::Text), ("rev", Kind::Int), ("stream", Kind::Text)],
};

/// A plain renewal moves these and nothing else.
pub(super) static RENEW: Write = Write {
    name: "nodes.renew",
    table: "nodes",
    verb: Verb::Update(""),
    keys: 1,
    columns: &[("node_id", Kind::Text), ("advert_no", Kind::Int), ("seen_at", Kind::Int), ("expires_at", Kind::Int)],
};

pub(super) fn upsert(rows: &mut Rows, node: &Node) -> Result<(), StoreError> {
    let capabilities = serde_json::json!(node.capabilities).to_string();
    rows.push(vec![
        Value::show(&node.id),
        Value::int(node.rev),
        Value::text(&node.label),
        Value::show(&node.instance),
        Value::maybe(node.stream.as_ref()),
        Value::int(node.advert_no),
        Value::flag(node.stopping),
        Value::text(shared::sha256_hex(capabilities.as_bytes())),
        Value::show(&node.principal),
        Value::text(node.policy.drain.as_str()),
        Value::text(&node.policy.reason),
        Value::maybe_at(node.policy.since),
        Value::text(&node.policy.error),
        Value::at(node.seen_at),
        Value::at(node.expires_at),
        Value::text(&node.agent_version),
        Value::text(capabilities),
    ])
}

pub(super) fn touch(rows: &mut Rows, node: &Node) -> Result<(), StoreError> {
    rows.push(vec![Value::show(&node.id), Value::int(node.rev), Value::maybe(node.stream.as_ref())])
}

pub(super) fn renew(rows: &mut Rows, node: &Node) -> Result<(), StoreError> {
    rows.push(vec![
        Value::show(&node.id),
        Value::int(node.advert_no),
        Value::at(node.seen_at),
        Value::at(node.expires_at),
    ])
}

pub(super) fn read(row: &Row) -> Result<Node, StoreError> {
    let key = key(row);
    decode(row).map_err(|bad| bad.of("nodes", key))
}

fn decode(row: &Row) -> Result<Node, Bad> {
    Ok(Node {
        id: row.parse("node_id")?,
        rev: row.int("rev")?,
        label: row.text("label")?.to_owned(),
        instance: row.parse("instance")?,
        stream: row.maybe_parse("stream")?,
        advert_no: row.int("advert_no")?,
        stopping: row.flag("stopping")?,
        principal: row.parse("principal")?,
        capabilities: row.json("capabilities")?,
        policy: Policy {
            drain: row.parse::<Drain>("drain")?,
            reason: row.text("drain_reason")?.to_owned(),
            since: row.maybe_at("drain_since")?,
            error: row.text("policy_error")?.to_owned(),
        },
        seen_at: row.at("seen_at")?,
        expires_at: row.at("expires_at")?,
        agent_version: row.text("agent_version")?.to_owned(),
    })
}

/// The row's key as text, whatever it is.
pub(super) fn key(row: &Row) -> String {
    row.text("node_id").unwrap_or("?").to_owned()
}

pub(super) fn ids<'a>(ids: impl IntoIterator<Item = &'a NodeId>) -> Value {
    Value::Texts(ids.into_iter().map(ToString::to_string).collect())
}
