//! Rows of `leases`. The nonce is read and written here and shown nowhere.

use shared::{
    NodeId, Nonce,
    domain::{Fleet, Lease},
};

use super::{
    batch::{Kind, Rows, Verb, Write},
    error::StoreError,
    node,
    row::{Bad, Row},
    sql::{Query, Value, listed},
};

macro_rules! select {
    ($rest:literal) => {
        concat!("SELECT node_id, run_id, not_after, nonce, granted_at FROM leases ", $rest)
    };
}

pub(super) const ALL: Query = Query::both("leases.all", select!("ORDER BY node_id"));
pub(super) const OF_NODES: Query = listed!(
    "leases.of_nodes",
    "SELECT node_id, run_id, not_after, nonce, granted_at FROM leases WHERE node_id",
    "ORDER BY node_id"
);

pub(super) static UPSERT: Write = Write {
    name: "leases.upsert",
    table: "leases",
    verb: Verb::Upsert,
    keys: 1,
    columns: &[
        ("node_id", Kind::Text),
        ("run_id", Kind::Text),
        ("not_after", Kind::Int),
        ("nonce", Kind::Text),
        ("granted_at", Kind::Int),
    ],
};

pub(super) static DELETE: Write =
    Write { name: "leases.delete", table: "leases", verb: Verb::Delete, keys: 1, columns: &[("node_id", Kind::Text)] };

/// Sorts the named rows into those that the fleet has and those that it has no longer.
pub(super) fn split<'a>(
    fleet: &Fleet,
    nodes: impl IntoIterator<Item = &'a NodeId>,
) -> Result<(Rows, Rows), StoreError> {
    let (mut held, mut gone) = (Rows::new(&UPSERT), Rows::new(&DELETE));
    for id in nodes {
        match fleet.lease(id) {
            Some(lease) => held.push(vec![
                Value::show(&lease.node),
                Value::show(&lease.run),
                Value::at(lease.not_after),
                Value::text(lease.nonce.reveal()),
                Value::at(lease.granted_at),
            ])?,
            None => gone.push(vec![Value::show(id)])?,
        }
    }
    Ok((held, gone))
}

pub(super) fn read(row: &Row) -> Result<Lease, StoreError> {
    decode(row).map_err(|bad| bad.of("leases", node::key(row)))
}

fn decode(row: &Row) -> Result<Lease, Bad> {
    Ok(Lease {
        node: row.parse("node_id")?,
        run: row.parse("run_id")?,
        nonce: nonce(row)?,
        granted_at: row.at("granted_at")?,
        not_after: row.at("not_after")?,
    })
}

pub(super) fn nonce(row: &Row) -> Result<Nonce, Bad> {
    Nonce::parse(row.text("nonce")?).ok_or_else(|| Bad::new("nonce", "is not 32 hex digits"))
}
