//! Whether the mediator can do its work now: the store and the room for files can be written.
//!
//! Looking writes, so whoever asks more often than every [`FRESH`] gets the last answer again.

use std::{sync::Arc, time::Duration};

use shared::domain::Reap;
use tokio::sync::Mutex;

use super::Services;
use crate::{clock::Stopwatch, error::Error, store::StoreError};

/// How long an answer is good.
const FRESH: Duration = Duration::from_secs(1);
/// The longest that looking may take; a disk that hangs is not one that can be written.
const LONGEST: Duration = Duration::from_secs(5);

/// An answer and its age.
type Answered = (Stopwatch, Result<(), String>);

/// Answers the question for everybody. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Readiness(Arc<Mutex<Option<Answered>>>);

impl Readiness {
    /// Why the mediator is not ready, if it is not.
    ///
    /// # Errors
    /// A sentence for a person; the details are in the log.
    pub async fn ask(&self, services: &Services) -> Result<(), String> {
        if services.stop.is_cancelled() {
            return Err("stopping".to_owned());
        }
        // Held while one looks: the others want the same answer.
        let mut last = self.0.lock().await;
        if let Some((since, answer)) = &*last
            && since.elapsed() < FRESH
        {
            return answer.clone();
        }
        let answer = tokio::time::timeout(LONGEST, look(services)).await;
        let answer = answer.unwrap_or_else(|_| Err("the store or the state directory does not answer".to_owned()));
        *last = Some((Stopwatch::start(), answer.clone()));
        answer
    }
}

async fn look(services: &Services) -> Result<(), String> {
    // What the reaper does every second anyway. A smaller write would find room in a log file that is there already,
    // on a disk that has none for anything else.
    if let Err(error) = services.writer.apply(Reap).await {
        let why = match &error {
            Error::Store(error) => match &**error {
                StoreError::Unavailable { outage, .. } => outage.to_string(),
                _ => "see the log".to_owned(),
            },
            _ => "see the log".to_owned(),
        };
        error.log();
        return Err(format!("the store cannot be written: {why}"));
    }
    if let Err(error) = services.records.can_write().await {
        let full = matches!(error, crate::record::RecordError::NoSpace { .. });
        Error::from(error).log();
        let why = if full { "no space is left on its disk" } else { "see the log" };
        return Err(format!("the state directory cannot be written: {why}"));
    }
    Ok(())
}
