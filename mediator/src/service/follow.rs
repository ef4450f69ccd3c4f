//! Following the fleet: what happens to one Run, and the audit log.
//!
//! Both rest on the numbers of events, which are given under the fleet lock: a later event never has a
//! smaller one, so whoever has seen a number has seen all before it. The watched number only wakes; what
//! happened is read from the store each time.

use std::collections::VecDeque;

use shared::RunId;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::{Services, observe::EventRow};
use crate::error::Error;

/// Events read at once.
const BATCH: u32 = 500;

/// Waits until the watched value has changed. A stop comes first: whoever follows then knows that this is
/// not the end of what there is.
async fn changed(watched: &mut watch::Receiver<i64>, stop: &CancellationToken) -> Result<(), Error> {
    tokio::select! {
        biased;
        () = stop.cancelled() => Err(Error::Stopping),
        changed = watched.changed() => changed.map_err(|_| Error::Stopping),
    }
}

/// Tells when something has happened to one Run.
pub struct RunNews {
    services: Services,
    id: RunId,
    events: watch::Receiver<i64>,
    /// Events up to here have been looked at.
    seen: i64,
}

impl RunNews {
    /// What happens from now on. Made before the Run is read, so that nothing falls in between.
    pub fn new(services: &Services, id: &RunId) -> Self {
        let mut events = services.events.clone();
        let seen = *events.borrow_and_update();
        Self { services: services.clone(), id: id.clone(), events, seen }
    }

    /// Waits until there was an event about this Run. May be dropped at any time without missing one.
    ///
    /// # Errors
    /// [`Error::Stopping`], [`Error::Store`].
    pub async fn wait(&mut self) -> Result<(), Error> {
        loop {
            let mark = *self.events.borrow_and_update();
            let (concerned, seen) = self.look(mark).await?;
            self.seen = seen;
            if concerned {
                return Ok(());
            }
            changed(&mut self.events, &self.services.stop).await?;
        }
    }

    /// Whether one of the events after `seen` is about this Run, and up to where that is now known. Cheaper
    /// than reading the Run at each event of the fleet; when there are too many to look at, it may as well be.
    async fn look(&self, mark: i64) -> Result<(bool, i64), Error> {
        if mark == self.seen {
            return Ok((false, mark));
        }
        // The log went back: the store was replaced by an older copy of itself. Whatever was seen counts no more.
        if mark < self.seen {
            return Ok((true, mark));
        }
        if mark - self.seen > i64::from(BATCH) {
            return Ok((true, mark));
        }
        let events = self.services.events_after(self.seen, BATCH).await?;
        // What was committed after the mark was taken may be among them; it is not told a second time.
        let seen = events.last().map_or(mark, |event| event.seq.max(mark));
        Ok((events.iter().any(|event| event.run_id.as_ref() == Some(&self.id)), seen))
    }
}

/// Every event after `after`, none twice and none left out: the log's numbers are given under the fleet
/// lock, so a later event never has a smaller one.
pub struct EventFeed {
    services: Services,
    events: watch::Receiver<i64>,
    after: i64,
    ready: VecDeque<EventRow>,
}

impl EventFeed {
    /// Events with a number above `after`; `None` starts with the next one.
    ///
    /// # Errors
    /// [`Error::Store`].
    pub async fn open(services: Services, after: Option<i64>) -> Result<Self, Error> {
        let after = match after {
            Some(after) => after,
            None => services.last_event().await?,
        };
        Ok(Self { events: services.events.clone(), services, after, ready: VecDeque::new() })
    }

    /// The next event; waits for it.
    ///
    /// # Errors
    /// [`Error::Store`], [`Error::Stopping`].
    pub async fn next(&mut self) -> Result<EventRow, Error> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                self.after = event.seq;
                return Ok(event);
            }
            // In a store that was replaced by an older copy of itself the log goes on from where the copy ends.
            // The watched number alone does not say so: it is told after the commit, and what it will tell of may have
            // been read already.
            if *self.events.borrow_and_update() < self.after {
                self.after = self.after.min(self.services.last_event().await?);
            }
            self.ready.extend(self.services.events_after(self.after, BATCH).await?);
            if self.ready.is_empty() {
                changed(&mut self.events, &self.services.stop).await?;
            } else if self.services.stop.is_cancelled() {
                return Err(Error::Stopping);
            }
        }
    }
}
