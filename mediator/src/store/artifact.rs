//! Rows of `artifacts`, and the fence that every write of a node passes.

use shared::{InstanceId, NodeId, Nonce, RunId, Seq, domain::Artifact};

use super::{
    batch::{Kind, Rows, Verb, Write},
    error::StoreError,
    row::{Bad, Row},
    sql::{Query, Value, listed},
};

/// What a node says it writes for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fence {
    /// The Run.
    pub run: RunId,
    /// The step.
    pub seq: Seq,
    /// The execution.
    pub attempt: u32,
    /// The node.
    pub node: NodeId,
    /// Its process life: the one that claimed the attempt, or took it over from a spool.
    pub instance: InstanceId,
    /// The permit.
    pub nonce: Nonce,
}

/// One file that a step left.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArtifactRow {
    /// Of which step.
    pub seq: Seq,
    /// Of which execution.
    pub attempt: u32,
    /// Its name.
    pub name: String,
    /// SHA-256 of its bytes, hex.
    pub sha256: String,
    /// Their number.
    pub size: u64,
}

pub(super) const OF_RUN: Query = Query::both(
    "artifacts.of_run",
    "SELECT seq, attempt, name, sha256, size FROM artifacts WHERE run_id = $1 ORDER BY seq, attempt, name",
);

pub(super) const OF_RUNS: Query = listed!(
    "artifacts.of_runs",
    "SELECT run_id, seq, attempt, name, sha256, size FROM artifacts WHERE run_id",
    "ORDER BY run_id, seq, attempt, name"
);

/// The present lease has this nonce and holds, and this very attempt was claimed under it by this instance. $1 to
/// $6 are the fence, `$now` the authority's clock.
macro_rules! fenced {
    ($now:literal) => {
        concat!(
            "EXISTS (SELECT 1 FROM leases l WHERE l.node_id = $4 AND l.run_id = $1 AND l.nonce = $5 ",
            "AND l.not_after > ",
            $now,
            ") AND EXISTS (SELECT 1 FROM attempts a WHERE a.run_id = $1 AND a.seq = $2 AND a.attempt = $3 ",
            "AND a.node_id = $4 AND a.nonce = $5 AND a.instance = $6"
        )
    };
}

/// $7 is now, where the mediator's clock is the authority (SQLite); PostgreSQL asks its own.
pub(super) const HOLDS: Query = Query::each(
    "leases.holds",
    concat!("SELECT 1 AS n WHERE ", fenced!("$7"), ")"),
    concat!(
        "SELECT 1 AS n WHERE $7::BIGINT IS NOT NULL AND ",
        fenced!("CAST(floor(extract(epoch FROM clock_timestamp()) * 1000) AS BIGINT)"),
        ")"
    ),
);

/// All of $8, a JSON array of `[name, sha256, size]`, or none. What was reported is not changed any more; the
/// same files may be sent again.
macro_rules! put {
    ($before:literal, $files:literal, $now:literal) => {
        concat!(
            "INSERT INTO artifacts (run_id, seq, attempt, name, sha256, size) ",
            "SELECT $1, $2, $3, new.name, new.sha256, new.size FROM ",
            $files,
            " AS new WHERE ",
            $before,
            fenced!($now),
            " AND (a.answer IS NULL OR NOT EXISTS (SELECT 1 FROM ",
            $files,
            " AS n WHERE NOT EXISTS (SELECT 1 FROM artifacts f WHERE f.run_id = $1 AND f.seq = $2 ",
            "AND f.attempt = $3 AND f.name = n.name AND f.sha256 = n.sha256)))) ",
            "ON CONFLICT (run_id, seq, attempt, name) DO UPDATE SET sha256 = excluded.sha256, size = excluded.size"
        )
    };
}
pub(super) const PUT: Query = Query::each(
    "artifacts.put",
    put!("", "(SELECT value ->> 0 AS name, value ->> 1 AS sha256, value ->> 2 AS size FROM json_each($8))", "$7"),
    put!(
        "$7::BIGINT IS NOT NULL AND ",
        "(SELECT value ->> 0 AS name, value ->> 1 AS sha256, CAST(value ->> 2 AS BIGINT) AS size \
         FROM json_array_elements(CAST($8::TEXT AS json)))",
        "CAST(floor(extract(epoch FROM clock_timestamp()) * 1000) AS BIGINT)"
    ),
);

/// $8 of [`PUT`].
pub(super) fn list(files: &[ArtifactRow]) -> Value {
    let size = |file: &ArtifactRow| i64::try_from(file.size).unwrap_or(i64::MAX);
    let files: Vec<_> = files.iter().map(|it| serde_json::json!([it.name, it.sha256, size(it)])).collect();
    Value::text(serde_json::Value::from(files).to_string())
}

impl Fence {
    /// $1 to $7.
    pub(super) fn values(&self, now: shared::Timestamp) -> Vec<Value> {
        vec![
            Value::show(&self.run),
            Value::int(self.seq),
            Value::int(self.attempt),
            Value::show(&self.node),
            Value::text(self.nonce.reveal()),
            Value::show(&self.instance),
            Value::at(now),
        ]
    }
}

/// A file of the mediator's own: an answer, written with the step that it ends.
pub(super) static UPSERT: Write = Write {
    name: "artifacts.upsert",
    table: "artifacts",
    verb: Verb::Upsert,
    keys: 4,
    columns: &[
        ("run_id", Kind::Text),
        ("seq", Kind::Int),
        ("attempt", Kind::Int),
        ("name", Kind::Text),
        ("sha256", Kind::Text),
        ("size", Kind::Int),
    ],
};

pub(super) fn upsert(rows: &mut Rows, file: &Artifact) -> Result<(), StoreError> {
    rows.push(vec![
        Value::show(&file.run),
        Value::int(file.seq),
        Value::int(file.attempt),
        Value::text(&file.name),
        Value::text(&file.sha256),
        Value::int(i64::try_from(file.size).unwrap_or(i64::MAX)),
    ])
}

pub(super) fn read(row: &Row, of: &RunId) -> Result<ArtifactRow, StoreError> {
    let decode = || -> Result<ArtifactRow, Bad> {
        Ok(ArtifactRow {
            seq: row.number("seq")?,
            attempt: row.number("attempt")?,
            name: row.text("name")?.to_owned(),
            sha256: row.text("sha256")?.to_owned(),
            size: row.number("size")?,
        })
    };
    decode().map_err(|bad| bad.of("artifacts", of))
}
