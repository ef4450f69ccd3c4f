//! Whether the mediator can do its work now: the store and the room for files can be written.
//!
//! Looking writes, so there is one look at a time, whose answer everybody gets who asks within [`FRESH`] of it. A look
//! that was begun is seen through: whoever asks and hangs up, again and again, begins no second one.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use futures::{
    FutureExt,
    future::{BoxFuture, Shared},
};
use shared::domain::Reap;

use super::Services;
use crate::{clock::Stopwatch, error::Error, store::StoreError, task};

/// How long an answer is good.
const FRESH: Duration = Duration::from_secs(1);
/// The longest that looking may take; a disk that hangs is not one that can be written.
const LONGEST: Duration = Duration::from_secs(5);

/// An answer, and since when there is one.
type Answer = (Stopwatch, Result<(), String>);
/// A look, under way or over.
type Look = Shared<BoxFuture<'static, Answer>>;

/// Answers the question for everybody. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Readiness(Arc<Mutex<Option<Look>>>);

impl Readiness {
    /// Why the mediator is not ready, if it is not.
    ///
    /// # Errors
    /// A sentence for a person; the details are in the log.
    pub async fn ask(&self, services: &Services) -> Result<(), String> {
        if services.stop.is_cancelled() {
            return Err("stopping".to_owned());
        }
        loop {
            let (since, answer) = self.last_or_next(services).await;
            // Whoever began it may have hung up long ago, and nobody has asked since.
            if since.elapsed() < FRESH {
                return answer;
            }
        }
    }

    fn last_or_next(&self, services: &Services) -> Look {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(look) = &*last
            && look.peek().is_none_or(|(since, _)| since.elapsed() < FRESH)
        {
            return look.clone();
        }
        last.insert(begin(services.clone())).clone()
    }
}

/// Begins a look when it is first waited for.
fn begin(services: Services) -> Look {
    let looking = task::seen_through(async move {
        let answer = tokio::time::timeout(LONGEST, look(&services)).await;
        let answer = answer.unwrap_or_else(|_| Err("the store or the state directory does not answer".to_owned()));
        (Stopwatch::start(), answer)
    });
    let looked = looking.map(|looked| looked.unwrap_or_else(|_| (Stopwatch::start(), Err("stopping".to_owned()))));
    looked.boxed().shared()
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::service::{bench::Bench, sample::Statements};

    #[tokio::test]
    async fn whoever_asks_and_hangs_up_again_and_again_makes_one_look() {
        let bench = Bench::new().await;
        let statements = Statements::count();
        let begun = Stopwatch::start();
        let ready = Readiness::default();
        for _ in 0..10 {
            let hung_up = tokio::time::timeout(Duration::ZERO, ready.ask(&bench.services)).await;
            drop(hung_up);
            // Whatever was begun comes to its end.
            tokio::time::sleep(Duration::from_millis(30)).await;
        }
        let asked = futures::future::join_all((0..10).map(|_| ready.ask(&bench.services))).await;
        assert!(asked.into_iter().all(|it| it == Ok(())));
        let (looks, most) = (statements.of("fleet.begin"), 1 + begun.elapsed().as_secs());
        assert!((1..=most).contains(&looks), "{looks} looks");
    }
}
