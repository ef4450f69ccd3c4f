//! A copy of an embedded database while it is in use, and what must be done to one that was restored.

use std::path::Path;

use super::{
    Engine, Store,
    error::StoreError,
    sql::{Query, Value},
};

const COPY: Query = Query::both("backup.copy", "VACUUM INTO $1");
const SERVING: Query = Query::each(
    "recover.serving",
    // An embedded database has the lock of its state directory for this.
    "SELECT 0 AS n",
    "SELECT count(*) AS n FROM pg_catalog.pg_stat_activity WHERE datname = current_database() \
     AND application_name = 'mediator serving'",
);
/// Never again: not even the rule for a mediator that was away revives a lease that had run out before. Where a Run
/// waits for a person it keeps its nodes, as a new lease: an agent must not take its steps for those that it did
/// after the copy was made.
const END_LEASES: Query = Query::each(
    "recover.leases",
    // Each engine has its own source of 32 random hex digits. Those that were ended before stay as they are.
    "UPDATE leases SET not_after = 0, nonce = lower(hex(randomblob(16))) WHERE not_after > 0",
    "UPDATE leases SET not_after = 0, nonce = replace(CAST(gen_random_uuid() AS TEXT), '-', '') \
     WHERE not_after > 0",
);
/// What is claimed was claimed under the lease that its Run holds (I9), also until the reaper comes.
const CLAIMED: Query = Query::both(
    "recover.claimed",
    "UPDATE attempts SET nonce = (SELECT l.nonce FROM leases l WHERE l.node_id = attempts.node_id) \
     WHERE EXISTS (SELECT 1 FROM leases l JOIN steps s ON s.run_id = l.run_id \
     WHERE l.node_id = attempts.node_id AND l.run_id = attempts.run_id \
     AND s.seq = attempts.seq AND s.attempt = attempts.attempt AND s.state = 'CLAIMED')",
);
/// Whoever has cached a node or a lease must read it again.
const RAISE: Query = Query::both("recover.rev", "UPDATE fleet SET rev = rev + 1");
const RAISE_NODES: Query =
    Query::both("recover.nodes", "UPDATE nodes SET rev = (SELECT rev FROM fleet WHERE one = 1), expires_at = 0");
const COMMIT: Query = Query::both("recover.commit", "COMMIT");

impl Store {
    /// Writes a copy of an embedded database, as of one moment, to a file that is not there yet. False: it is not an
    /// embedded one.
    ///
    /// # Errors
    /// [`StoreError`]
    pub async fn copy_to(&self, file: &Path) -> Result<bool, StoreError> {
        if !matches!(*self.engine, Engine::Sqlite(_)) {
            return Ok(false);
        }
        let mut conn = self.engine.writer(COPY.name).await?;
        conn.execute_long(&COPY, &[Value::text(file.display().to_string())]).await?;
        conn.give_back();
        super::sqlite::keep_private(file)?;
        Ok(true)
    }

    /// How many mediators serve on this database, as far as it can tell.
    ///
    /// # Errors
    /// [`StoreError`]
    pub async fn serving(&self) -> Result<i64, StoreError> {
        let row = self.engine.read(SERVING.name).await?.one(&SERVING, &[]).await?;
        row.map_or(Ok(0), |row| row.int("n").map_err(|bad| bad.of("fleet", 1)))
    }

    /// Ends every lease and every advert, so that what agents did since the copy was made counts for nothing. The
    /// reaper deals with the Runs. Returns how many leases there were.
    ///
    /// # Errors
    /// [`StoreError`]: all of it was done, or nothing.
    pub async fn end_leases(&self) -> Result<u64, StoreError> {
        let mut tx = self.engine.begin_fleet().await?;
        tx.execute(&RAISE, &[]).await?;
        tx.execute(&RAISE_NODES, &[]).await?;
        let ended = tx.execute(&END_LEASES, &[]).await?;
        tx.execute(&CLAIMED, &[]).await?;
        tx.commit(&COMMIT).await?;
        Ok(ended)
    }
}
