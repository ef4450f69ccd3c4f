//! Brings a fleet in memory to what the database says, reading as little as possible.
//!
//! `fleet.rev` is raised by every transaction that decides anything. If memory has the same one, everything in
//! memory is exact but for the times of plain renewals by other mediators; otherwise rows with a higher rev are
//! what changed.

use std::collections::BTreeSet;

use shared::{
    NodeId, RunId, Timestamp,
    domain::{Fleet, Reservation},
};

use super::{
    conn::Conn,
    error::StoreError,
    lease, load, node, quarantine, queue,
    row::Row,
    sql::{Query, Value},
};

/// A renewal that was under way while we looked is seen by looking again for this long. Whatever has been
/// expired for longer cannot have been renewed: a renewal needs an advert that has not run out.
const SLACK: shared::Duration = shared::Duration::from_secs(60);

const LEASES_SINCE: Query = Query::both(
    "leases.since",
    "SELECT l.node_id, l.run_id, l.not_after, l.nonce, l.granted_at FROM leases l \
     JOIN nodes n ON n.node_id = l.node_id WHERE n.rev > $1 ORDER BY l.node_id",
);

/// Runs that move only by an answer or by a node that comes free. They are in memory always: no other row would
/// lead to them. The index is partial.
const WAITING: Query = Query::both(
    "steps.waiting",
    "SELECT DISTINCT s.run_id FROM steps s JOIN runs r ON r.run_id = s.run_id \
     WHERE s.state IN ('WAITING', 'ASKED') AND r.rev > $1",
);

/// The fleet's row as it was under the lock.
#[derive(Debug, Clone)]
pub(super) struct FleetRow {
    pub(super) rev: i64,
    pub(super) forgotten_rev: i64,
    pub(super) next_place: i64,
    pub(super) reaped_at: Option<Timestamp>,
    pub(super) reservation: Option<Reservation>,
    pub(super) last_event: i64,
}

/// When this transaction is, and when the one before it was.
#[derive(Debug, Clone, Copy)]
pub(super) struct Times {
    pub(super) now: Timestamp,
    pub(super) synced_at: Timestamp,
}

pub(super) async fn sync(conn: &mut Conn, row: &FleetRow, times: Times, fleet: &mut Fleet) -> Result<(), StoreError> {
    if fleet.rev > row.rev {
        // Memory knows of a transaction that the database does not: it was not committed, or another
        // database was put in place.
        tracing::warn!(memory = fleet.rev, database = row.rev, "the fleet in memory is ahead; reading it anew");
        *fleet = Fleet::default();
    }
    if fleet.rev < row.forgotten_rev {
        // Rows that are gone lead nowhere: only the whole says what is left.
        *fleet = Fleet::default();
    }
    if fleet.rev == 0 {
        *fleet = Fleet::default();
        load_all(conn, fleet).await?;
    } else if fleet.rev < row.rev {
        changed(conn, fleet).await?;
    }
    mended(conn, times.now, fleet).await?;
    (fleet.rev, fleet.next_place, fleet.reaped_at) = (row.rev, row.next_place, row.reaped_at);
    fleet.reservation.clone_from(&row.reservation);
    if conn.is_postgres() {
        renewed(conn, times, fleet).await?;
    }
    Ok(())
}

/// Nodes, leases and the line into an empty fleet.
pub(super) async fn load_all(conn: &mut Conn, fleet: &mut Fleet) -> Result<(), StoreError> {
    load_nodes(conn, fleet).await?;
    let mut unknown = queue::Unknown::default();
    conn.each(&queue::ALL, &[], |row| {
        keep(queue::read(&row), |waiting| unknown.add(fleet, waiting));
    })
    .await?;
    unknown.resolve(conn, fleet).await?;
    load_waiting(conn, fleet, -1).await
}

/// Runs with an open question or an acquire in line, of those that changed.
async fn load_waiting(conn: &mut Conn, fleet: &mut Fleet, since: i64) -> Result<(), StoreError> {
    let mut waiting: BTreeSet<RunId> = BTreeSet::new();
    conn.each(&WAITING, &[Value::int(since)], |row| {
        keep(row.parse("run_id").map_err(|bad| bad.of("steps", "?")), |id| waiting.extend([id]));
    })
    .await?;
    waiting.retain(|id| !fleet.runs.contains_key(id));
    for (run, _) in load::runs(conn, &waiting).await?.runs.into_values() {
        fleet.load_run(run);
    }
    Ok(())
}

/// Nodes and leases into an empty fleet.
pub(super) async fn load_nodes(conn: &mut Conn, fleet: &mut Fleet) -> Result<(), StoreError> {
    conn.each(&node::ALL, &[], |row| drop(load_node(&row, fleet))).await?;
    conn.each(&lease::ALL, &[], |row| {
        keep(lease::read(&row), |lease| fleet.load_lease(&lease.node.clone(), Some(lease)));
    })
    .await
}

/// Rows with a rev that memory has not seen.
async fn changed(conn: &mut Conn, fleet: &mut Fleet) -> Result<(), StoreError> {
    let since = [Value::int(fleet.rev)];
    let mut nodes: Vec<NodeId> = Vec::new();
    conn.each(&node::SINCE, &since, |row| nodes.extend(load_node(&row, fleet))).await?;
    // A lease comes and goes with a new rev of its node: what is not there now is gone.
    for id in &nodes {
        fleet.load_lease(id, None);
    }
    if !nodes.is_empty() {
        conn.each(&LEASES_SINCE, &since, |row| {
            keep(lease::read(&row), |lease| fleet.load_lease(&lease.node.clone(), Some(lease)));
        })
        .await?;
    }
    let mut unknown = queue::Unknown::default();
    conn.each(&queue::SINCE, &since, |row| {
        keep(queue::read(&row), |waiting| {
            // Loaded afresh when a command needs it.
            fleet.unload_run(&waiting.run);
            if waiting.queued {
                unknown.add(fleet, waiting);
            } else if fleet.queue.get(waiting.place).is_some_and(|it| it.run == waiting.run) {
                fleet.queue.remove(waiting.place);
            }
        });
    })
    .await?;
    unknown.resolve(conn, fleet).await?;
    load_waiting(conn, fleet, fleet.rev).await
}

/// Rows that could not be read may have been mended by hand, which raises no rev. A mended node counts as silent until
/// its next advert, which opens it to the line like any other that comes back.
async fn mended(conn: &mut Conn, now: Timestamp, fleet: &mut Fleet) -> Result<(), StoreError> {
    let bad: Vec<NodeId> = fleet.unreadable().cloned().collect();
    if bad.is_empty() {
        return Ok(());
    }
    let mut gone: BTreeSet<&NodeId> = bad.iter().collect();
    conn.each(&node::OF_LIST, &[node::ids(&bad)], |row| {
        gone.retain(|id| row.text("node_id").ok() != Some(id.as_str()));
        // What is still bad was told when it was found.
        if let Ok(mut node) = node::read(&row) {
            tracing::info!(node = %node.id, "a stored row can be read again");
            node.expires_at = node.expires_at.min(now);
            fleet.load_node(node);
        }
    })
    .await?;
    for id in gone {
        fleet.forget_unreadable(id);
    }
    Ok(())
}

/// What these nodes said last, where another mediator may have heard it.
pub(super) async fn catch_up(conn: &mut Conn, nodes: &[NodeId], fleet: &mut Fleet) -> Result<(), StoreError> {
    if nodes.is_empty() || !conn.is_postgres() {
        return Ok(());
    }
    conn.each(&node::OF_LIST, &[node::ids(nodes)], |row| drop(load_node(&row, fleet))).await
}

/// What looks expired is read again: another mediator may have renewed it without raising any rev.
async fn renewed(conn: &mut Conn, times: Times, fleet: &mut Fleet) -> Result<(), StoreError> {
    let (now, since) = (times.now, times.synced_at - SLACK);
    let recently = |at: Timestamp| at <= now && at > since;
    let nodes: Vec<NodeId> =
        fleet.nodes().filter(|node| recently(node.expires_at)).map(|node| node.id.clone()).collect();
    if !nodes.is_empty() {
        let values = [node::ids(&nodes), Value::at(now)];
        conn.each(&node::RENEWED, &values, |row| drop(load_node(&row, fleet))).await?;
    }
    let leases: Vec<NodeId> =
        fleet.leases().filter(|lease| lease.not_after <= now).map(|lease| lease.node.clone()).collect();
    if !leases.is_empty() {
        conn.each(&lease::OF_NODES, &[node::ids(&leases)], |row| {
            keep(lease::read(&row), |lease| fleet.load_lease(&lease.node.clone(), Some(lease)));
        })
        .await?;
    }
    Ok(())
}

/// Takes a node into memory, and says which. One that cannot be read keeps its place: otherwise the next advert
/// under its id would be a new node's, and whoever sent it would become its owner.
fn load_node(row: &Row, fleet: &mut Fleet) -> Option<NodeId> {
    match node::read(row) {
        Ok(node) => {
            let id = node.id.clone();
            fleet.load_node(node);
            Some(id)
        }
        Err(error) => {
            quarantine(&error);
            let id: NodeId = row.parse("node_id").ok()?;
            fleet.load_unreadable(id.clone());
            Some(id)
        }
    }
}

/// A row that cannot be read is counted and left out; it never blocks the others.
pub(super) fn keep<T>(row: Result<T, StoreError>, take: impl FnOnce(T)) {
    match row {
        Ok(row) => take(row),
        Err(error) => quarantine(&error),
    }
}
