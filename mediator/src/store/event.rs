//! Rows of `events`: an append-only log whose numbers have no gap, because they are given under the fleet's lock.

use serde_json::Value as Json;
use shared::{NodeId, RunId, Timestamp, domain::FleetEvent};

use super::{
    batch::{Kind, Rows, Verb, Write},
    error::StoreError,
    row::{Bad, Row},
    sql::{Query, Value},
};

static INSERT: Write = Write {
    name: "events.insert",
    table: "events",
    verb: Verb::Insert,
    keys: 1,
    columns: &[
        ("seq", Kind::Int),
        ("at", Kind::Int),
        ("kind", Kind::Text),
        ("run_id", Kind::Text),
        ("node_id", Kind::Text),
        ("data", Kind::Text),
    ],
};

pub(super) const AFTER: Query = Query::both(
    "events.after",
    "SELECT seq, at, kind, run_id, node_id, data FROM events WHERE seq > $1 ORDER BY seq LIMIT $2",
);
pub(super) const LAST: Query = Query::both("events.last", "SELECT coalesce(max(seq), 0) AS seq FROM events");

/// One event as stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventRow {
    /// Its number; there is no gap.
    pub seq: i64,
    /// When.
    pub at: Timestamp,
    /// The word of its kind.
    pub kind: String,
    /// About which Run.
    pub run_id: Option<RunId>,
    /// On which node.
    pub node_id: Option<NodeId>,
    /// Details, a JSON object.
    pub data: Json,
}

pub(super) fn rows(events: &[FleetEvent], last: i64, now: Timestamp) -> Result<Rows, StoreError> {
    let mut rows = Rows::new(&INSERT);
    for (seq, event) in (last + 1..).zip(events) {
        rows.push(vec![
            Value::int(seq),
            Value::at(now),
            Value::text(event.kind.as_str()),
            Value::maybe(event.run.as_ref()),
            Value::maybe(event.node.as_ref()),
            Value::text(event.data.to_string()),
        ])?;
    }
    Ok(rows)
}

pub(super) fn read(row: &Row) -> Result<EventRow, StoreError> {
    let decode = || -> Result<EventRow, Bad> {
        Ok(EventRow {
            seq: row.int("seq")?,
            at: row.at("at")?,
            kind: row.text("kind")?.to_owned(),
            run_id: row.maybe_parse("run_id")?,
            node_id: row.maybe_parse("node_id")?,
            data: row.json("data")?,
        })
    };
    decode().map_err(|bad| bad.of("events", row.int("seq").unwrap_or(-1)))
}
