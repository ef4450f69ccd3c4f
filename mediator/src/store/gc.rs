//! Removing Runs that are over and sealed: found and deleted in batches, each a short transaction.
//!
//! Under the fleet's lock, so that nobody who reads a Run in several statements sees a part of it. The last event is
//! always kept: the next one's number follows from it.

use std::collections::BTreeMap;

use shared::{RunId, Timestamp};

use super::{
    Store,
    error::StoreError,
    run,
    sql::{Query, Value, listed},
    sync::keep,
};

const OLD: Query = Query::both(
    "gc.old",
    "SELECT run_id FROM runs WHERE ended_at < $1 AND sealed_at IS NOT NULL AND run_id > $2 ORDER BY run_id LIMIT $3",
);
const KNOWN: Query = listed!(
    "gc.known",
    "SELECT run_id, CAST(CASE WHEN sealed_at IS NOT NULL THEN 2 WHEN ended_at IS NOT NULL THEN 1 ELSE 0 END AS BIGINT) \
     AS known FROM runs WHERE run_id",
    ""
);

/// Whatever has been decided since the Run was found: one that is not sealed stays.
macro_rules! of_sealed {
    ($name:literal, $table:literal) => {
        Query::each(
            $name,
            // Lists are JSON on SQLite and arrays on PostgreSQL.
            concat!(
                "DELETE FROM ",
                $table,
                " WHERE run_id IN (SELECT run_id FROM runs WHERE run_id IN (SELECT value FROM json_each($1)) ",
                "AND ended_at < $2 AND sealed_at IS NOT NULL)"
            ),
            concat!(
                "DELETE FROM ",
                $table,
                " WHERE run_id IN (SELECT run_id FROM runs WHERE run_id = ANY($1) ",
                "AND ended_at < $2 AND sealed_at IS NOT NULL)"
            ),
        )
    };
}

/// What points to others goes first.
const DELETE: [Query; 5] = [
    of_sealed!("gc.artifacts", "artifacts"),
    of_sealed!("gc.asks", "asks"),
    of_sealed!("gc.attempts", "attempts"),
    of_sealed!("gc.steps", "steps"),
    of_sealed!("gc.runs", "runs"),
];
const COMMIT: Query = Query::both("gc.commit", "COMMIT");

const FIRST_EVENT: Query =
    Query::both("gc.first_event", "SELECT coalesce(min(seq), 0) AS seq FROM events WHERE seq > $1");
const OLDEST_EVENT: Query =
    Query::both("gc.oldest_event", "SELECT coalesce(min(at), $3) AS at FROM events WHERE seq >= $1 AND seq < $2");
macro_rules! old_events {
    ($verb:literal) => {
        concat!(
            $verb,
            " FROM events WHERE seq >= $1 AND seq < $2 AND at < $3 AND seq < (SELECT max(seq) FROM events) ",
            "AND NOT EXISTS (SELECT 1 FROM runs r WHERE r.run_id = events.run_id AND NOT (r.ended_at < $3 ",
            "AND r.sealed_at IS NOT NULL AND r.ended_at IS NOT NULL))"
        )
    };
}
const COUNT_EVENTS: Query = Query::both("gc.count_events", old_events!("SELECT count(*) AS n"));
const DELETE_EVENTS: Query = Query::both("gc.events", old_events!("DELETE"));

/// Silent for long, and nothing open has anything to do with it: no lease, no step of an open Run, no reservation. What
/// is over names its node by text alone.
macro_rules! gone_nodes {
    ($verb:literal) => {
        concat!(
            $verb,
            " FROM nodes WHERE seen_at < $1 AND expires_at < $1 ",
            "AND NOT EXISTS (SELECT 1 FROM leases l WHERE l.node_id = nodes.node_id) ",
            "AND NOT EXISTS (SELECT 1 FROM steps s JOIN runs r ON r.run_id = s.run_id ",
            "WHERE s.node_id = nodes.node_id AND r.ended_at IS NULL) ",
            "AND NOT EXISTS (SELECT 1 FROM runs r WHERE r.state IN ('QUEUED', 'RUNNING', 'VERIFYING') ",
            "AND r.assigned LIKE '%\"' || nodes.node_id || '\"%') ",
            "AND NOT EXISTS (SELECT 1 FROM fleet WHERE fleet.reservation LIKE '%\"' || nodes.node_id || '\"%')"
        )
    };
}
const COUNT_NODES: Query = Query::both("gc.count_nodes", gone_nodes!("SELECT count(*) AS n"));
const FORGET_NODES: Query = Query::both("gc.nodes", gone_nodes!("DELETE"));
/// What mediators have in memory of these nodes goes as well: whoever sees this reads the fleet anew.
const FORGOTTEN: Query =
    Query::both("gc.forgotten", "UPDATE fleet SET rev = rev + 1, forgotten_rev = rev + 1 WHERE one = 1");

/// Event numbers looked at in one transaction.
const EVENTS: i64 = 5_000;

/// How far a Run is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Known {
    /// It waits or runs.
    Open,
    /// It has ended and its Record is not sealed, as far as noted.
    Ended,
    /// Its Record is sealed.
    Sealed,
}

impl Store {
    /// At most `limit` Runs that ended before `before` and are sealed, by id, behind `after`.
    ///
    /// # Errors
    /// [`StoreError`]
    pub async fn old_runs(&self, before: Timestamp, after: &str, limit: u32) -> Result<Vec<RunId>, StoreError> {
        let mut runs = Vec::new();
        let values = [Value::at(before), Value::text(after), Value::int(limit)];
        let mut conn = self.engine.read(OLD.name).await?;
        conn.each(&OLD, &values, |row| {
            keep(row.parse("run_id").map_err(|bad| bad.of("runs", run::key(&row))), |id| runs.push(id));
        })
        .await?;
        Ok(runs)
    }

    /// Deletes these Runs with all that belongs to them, if they ended before `before` and are sealed. Returns how
    /// many were.
    ///
    /// # Errors
    /// [`StoreError`]: all of them are there, or none; after a lost connection it is not known which.
    pub async fn delete_runs(&self, runs: &[RunId], before: Timestamp) -> Result<u64, StoreError> {
        let values = [texts(runs), Value::at(before)];
        let mut tx = self.engine.begin_fleet().await?;
        let mut deleted = 0;
        for query in &DELETE {
            deleted = tx.execute(query, &values).await?;
        }
        tx.commit(&COMMIT).await?;
        Ok(deleted)
    }

    /// Forgets, or only counts, nodes that were last heard of before `before` and that nothing open needs. Returns how
    /// many.
    ///
    /// # Errors
    /// [`StoreError`]: all of them are there, or none; after a lost connection it is not known which.
    pub async fn forget_nodes(&self, before: Timestamp, forget: bool) -> Result<u64, StoreError> {
        let values = [Value::at(before)];
        if !forget {
            let row = self.engine.read(COUNT_NODES.name).await?.one(&COUNT_NODES, &values).await?;
            let count = row.map_or(Ok(0), |row| row.int("n").map_err(|bad| bad.of("nodes", "count")))?;
            return Ok(u64::try_from(count).unwrap_or(0));
        }
        let mut tx = self.engine.begin_fleet().await?;
        let forgotten = tx.execute(&FORGET_NODES, &values).await?;
        if forgotten > 0 {
            tx.execute(&FORGOTTEN, &[]).await?;
        }
        tx.commit(&COMMIT).await?;
        Ok(forgotten)
    }

    /// Which of these Runs there are, and how far each is.
    ///
    /// # Errors
    /// [`StoreError`]
    pub async fn known_runs(&self, runs: &[RunId]) -> Result<BTreeMap<RunId, Known>, StoreError> {
        let mut known = BTreeMap::new();
        let mut conn = self.engine.read(KNOWN.name).await?;
        conn.each(&KNOWN, &[texts(runs)], |row| {
            let how_far = |word| match word {
                0 => Known::Open,
                1 => Known::Ended,
                _ => Known::Sealed,
            };
            let read = row.parse("run_id").and_then(|id: RunId| Ok((id, how_far(row.int("known")?))));
            keep(read.map_err(|bad| bad.of("runs", run::key(&row))), |(id, far)| _ = known.insert(id, far));
        })
        .await?;
        Ok(known)
    }

    /// Deletes, or only counts, a batch of the events from before `before` that concern no Run that stays, beginning
    /// behind number `after`. Returns how many, and behind which number to go on; none at the end.
    ///
    /// # Errors
    /// [`StoreError`]
    pub async fn old_events(
        &self,
        before: Timestamp,
        after: i64,
        delete: bool,
    ) -> Result<(u64, Option<i64>), StoreError> {
        let number = |row: Option<super::row::Row>, column| {
            row.map_or(Ok(0), |row| row.int(column).map_err(|bad| bad.of("events", "first")))
        };
        let mut conn = self.engine.read(FIRST_EVENT.name).await?;
        let first = number(conn.one(&FIRST_EVENT, &[Value::int(after)]).await?, "seq")?;
        if first == 0 {
            return Ok((0, None));
        }
        let values = [Value::int(first), Value::int(first + EVENTS), Value::at(before)];
        // Numbers and times rise together: behind a batch without an old one there is none.
        if number(conn.one(&OLDEST_EVENT, &values).await?, "at")? >= before.millis() {
            return Ok((0, None));
        }
        let count = if delete {
            drop(conn);
            self.engine.write(&DELETE_EVENTS, &values).await?
        } else {
            u64::try_from(number(conn.one(&COUNT_EVENTS, &values).await?, "n")?).unwrap_or(0)
        };
        Ok((count, Some(first + EVENTS - 1)))
    }
}

fn texts(runs: &[RunId]) -> Value {
    Value::Texts(runs.iter().map(ToString::to_string).collect())
}
