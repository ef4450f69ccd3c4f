//! Cancel a Run: an operator's way to free what it holds.

use shared::{
    Principal, RunId,
    domain::{Cancel, Run},
};

use super::Services;
use crate::error::Error;

impl Services {
    /// Ends a queued or running Run; one that has ended is returned as it is.
    ///
    /// # Errors
    /// No such Run; a store that is not available.
    pub async fn cancel(&self, run: RunId, by: Principal) -> Result<Run, Error> {
        self.writer.apply(Cancel { run, by }).await
    }
}
