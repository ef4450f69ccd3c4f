//! Which fleet the database is of.
//!
//! Logs and Records lie beside the database, in a directory that carries the same word: neither is used with that of
//! another fleet.

use super::{
    Store,
    error::StoreError,
    row::Bad,
    sql::{Query, Value},
};

const BIND: Query = Query::both("fleet.bind_id", "UPDATE fleet SET fleet_id = $1 WHERE one = 1 AND fleet_id = ''");
const READ: Query = Query::both("fleet.id", "SELECT fleet_id FROM fleet WHERE one = 1");

impl Store {
    /// The word; none yet for a new database.
    ///
    /// # Errors
    /// [`StoreError`]
    pub async fn fleet_id(&self) -> Result<Option<String>, StoreError> {
        let row = self.engine.read(READ.name).await?.one(&READ, &[]).await?;
        let row = row.ok_or_else(|| Bad::new("one", "the row is missing").of("fleet", 1))?;
        let id = row.text("fleet_id").map_err(|bad| bad.of("fleet", 1))?;
        Ok(Some(id.to_owned()).filter(|id| !id.is_empty()))
    }

    /// Gives the database its word, unless it has one. Returns the one it has.
    ///
    /// # Errors
    /// [`StoreError`]
    pub async fn bind_fleet_id(&self, id: &str) -> Result<String, StoreError> {
        self.engine.write(&BIND, &[Value::text(id)]).await?;
        Ok(self.fleet_id().await?.unwrap_or_default())
    }
}
