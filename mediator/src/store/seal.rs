//! The outbox of the Record: Runs that have ended and are not sealed.

use shared::RunId;

use super::{
    Store,
    artifact::{self, ArtifactRow, Fence},
    error::StoreError,
    run,
    sql::{Query, Value},
    sync::keep,
};

const UNSEALED: Query = Query::both(
    "runs.unsealed",
    "SELECT run_id FROM runs WHERE ended_at IS NOT NULL AND sealed_at IS NULL ORDER BY ended_at, run_id",
);
const MARK: Query = Query::each(
    "runs.mark_sealed",
    // $3 is now, where the mediator's clock is the authority (SQLite); PostgreSQL asks its own.
    "UPDATE runs SET sealed_at = $3, truncated = $2 WHERE run_id IN (SELECT value FROM json_each($1)) \
     AND ended_at IS NOT NULL AND sealed_at IS NULL",
    "UPDATE runs SET sealed_at = CAST(floor(extract(epoch FROM clock_timestamp()) * 1000) AS BIGINT), truncated = $2 \
     WHERE run_id = ANY($1) AND ended_at IS NOT NULL AND sealed_at IS NULL AND $3::BIGINT IS NOT NULL",
);

impl Store {
    /// Runs that have ended and whose Record is not sealed, in the order of their ends.
    ///
    /// # Errors
    /// [`StoreError`]
    pub async fn unsealed(&self) -> Result<Vec<RunId>, StoreError> {
        let mut runs = Vec::new();
        let mut conn = self.engine.read(UNSEALED.name).await?;
        conn.each(&UNSEALED, &[], |row| {
            keep(row.parse("run_id").map_err(|bad| bad.of("runs", run::key(&row))), |id| runs.push(id));
        })
        .await?;
        Ok(runs)
    }

    /// Notes that Records are sealed, in one statement and one commit. Returns how many were noted: one that
    /// was already, or whose Run has not ended, is not.
    ///
    /// # Errors
    /// [`StoreError`]
    pub async fn mark_sealed(&self, runs: &[RunId], truncated: bool) -> Result<u64, StoreError> {
        let runs = Value::Texts(runs.iter().map(ToString::to_string).collect());
        let values = [runs, Value::flag(truncated), Value::at(self.clock.now())];
        self.engine.write(&MARK, &values).await
    }

    /// Notes artifacts of one attempt, whose names differ, if the fence lets them through: one compare-and-set for
    /// all. False: fenced off, nothing changed.
    ///
    /// # Errors
    /// [`StoreError`]
    pub async fn put_artifacts(&self, fence: &Fence, artifacts: &[ArtifactRow]) -> Result<bool, StoreError> {
        if artifacts.iter().any(|it| it.name.contains('\0')) {
            let why = "the text holds a NUL character, which cannot be stored; leave it out".to_owned();
            let key = format!("{}/{}/{}", fence.run, fence.seq, fence.attempt);
            return Err(StoreError::Corrupt { table: "artifacts", key, column: "name", why });
        }
        let mut values = fence.values(self.clock.now());
        values.push(artifact::list(artifacts));
        Ok(self.engine.write(&artifact::PUT, &values).await? == artifacts.len() as u64)
    }

    /// Whether a node may write for this attempt now.
    ///
    /// # Errors
    /// [`StoreError`]
    pub async fn lease_holds(&self, fence: &Fence) -> Result<bool, StoreError> {
        let values = fence.values(self.clock.now());
        Ok(self.engine.read(artifact::HOLDS.name).await?.one(&artifact::HOLDS, &values).await?.is_some())
    }
}
