//! How many there are of what, counted by the database.

use shared::Timestamp;

use super::{
    conn::Conn,
    error::StoreError,
    row::{Bad, Row},
    sql::{Query, Value},
};

/// How many there are of what, in one snapshot. Every node counts once: busy before expired before draining.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Live nodes that could be leased now.
    pub free: u32,
    /// Nodes that are leased.
    pub busy: u32,
    /// Live nodes that are held back and not leased.
    pub draining: u32,
    /// Nodes that are not live.
    pub expired: u32,
    /// Lease rows.
    pub leases: u32,
    /// Runs in line.
    pub queued: u32,
    /// Runs that hold nodes.
    pub running: u32,
    /// Runs that have ended and have no Record yet.
    pub unsealed: u32,
}

const NODES: Query = Query::both(
    "nodes.count",
    "SELECT CASE WHEN l.node_id IS NOT NULL THEN 'busy' WHEN n.expires_at <= $1 THEN 'expired' \
     WHEN n.drain <> '' OR n.stopping THEN 'draining' ELSE 'free' END AS stands, COUNT(*) AS n \
     FROM nodes n LEFT JOIN leases l ON l.node_id = n.node_id GROUP BY 1",
);
const RUNS: Query = Query::both(
    "runs.count",
    // The indexes of open and of unsealed Runs are partial; the condition is repeated so that both engines see that they apply.
    "SELECT (SELECT COUNT(*) FROM leases) AS leases, (SELECT COUNT(DISTINCT run_id) FROM leases) AS running, \
     (SELECT COUNT(*) FROM runs WHERE state IN ('QUEUED', 'RUNNING') AND state = 'QUEUED') AS queued, \
     (SELECT COUNT(*) FROM runs WHERE ended_at IS NOT NULL AND sealed_at IS NULL) AS unsealed",
);

pub(super) async fn count(conn: &mut Conn, now: Timestamp) -> Result<Counts, StoreError> {
    let mut counts = Counts::default();
    for row in conn.all(&NODES, &[Value::at(now)]).await? {
        nodes(&row, &mut counts).map_err(|bad| bad.of("nodes", "count"))?;
    }
    if let Some(row) = conn.one(&RUNS, &[]).await? {
        runs(&row, &mut counts).map_err(|bad| bad.of("runs", "count"))?;
    }
    Ok(counts)
}

fn nodes(row: &Row, counts: &mut Counts) -> Result<(), Bad> {
    *match row.text("stands")? {
        "busy" => &mut counts.busy,
        "expired" => &mut counts.expired,
        "draining" => &mut counts.draining,
        _ => &mut counts.free,
    } = row.number("n")?;
    Ok(())
}

fn runs(row: &Row, counts: &mut Counts) -> Result<(), Bad> {
    counts.leases = row.number("leases")?;
    counts.running = row.number("running")?;
    counts.queued = row.number("queued")?;
    counts.unsealed = row.number("unsealed")?;
    Ok(())
}
