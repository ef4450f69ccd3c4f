//! The two streams that follow the fleet: one Run until it has ended, and the audit log.

use std::collections::VecDeque;

use proto::v1;
use shared::RunId;
use tokio::sync::watch;

use super::{
    convert::to_wire,
    stream::{Outgoing, changed, pulled},
};
use crate::{
    error::Error,
    service::{Services, observe::RunDetail},
    store::EventRow,
};

/// Events read at once.
const BATCH: u32 = 500;

/// Tells when something has happened to one Run.
pub(super) struct RunNews {
    services: Services,
    id: RunId,
    events: watch::Receiver<i64>,
    /// Events up to here have been looked at.
    seen: i64,
}

impl RunNews {
    /// What happens from now on. Made before the Run is read, so that nothing falls in between.
    pub(super) fn new(services: &Services, id: &RunId) -> Self {
        let mut events = services.events.clone();
        let seen = *events.borrow_and_update();
        Self { services: services.clone(), id: id.clone(), events, seen }
    }

    /// Waits until there was an event about this Run. May be dropped at any time without missing one.
    ///
    /// # Errors
    /// [`Error::Stopping`], [`Error::Store`].
    pub(super) async fn wait(&mut self) -> Result<(), Error> {
        loop {
            let mark = *self.events.borrow_and_update();
            let concerned = self.concerned(mark).await?;
            self.seen = mark;
            if concerned {
                return Ok(());
            }
            changed(&mut self.events, &self.services.stop).await?;
        }
    }

    /// Whether one of the events after `seen` is about this Run. Cheaper than reading the Run at each event
    /// of the fleet; when there are too many to look at, it may as well be.
    async fn concerned(&self, mark: i64) -> Result<bool, Error> {
        if mark <= self.seen {
            return Ok(false);
        }
        if mark - self.seen > i64::from(BATCH) {
            return Ok(true);
        }
        let events = self.services.events_after(self.seen, BATCH).await?;
        Ok(events.iter().any(|event| event.run_id.as_ref() == Some(&self.id)))
    }
}

/// A Run as it is now, then again after every change, until it has ended.
///
/// # Errors
/// [`Error::NotFound`], [`Error::Store`], both before the stream begins.
pub(super) async fn run(services: Services, id: RunId) -> Result<Outgoing<v1::RunDetail>, Error> {
    let news = RunNews::new(&services, &id);
    let first = Some(services.run(&id).await?);
    let state = RunWatch { services, id, news, first, over: false };
    Ok(pulled(state, |mut state: RunWatch| async move {
        let Some(detail) = state.next().await? else { return Ok(None) };
        state.over = detail.run.ended_at.is_some();
        Ok(Some((to_wire::detail(&detail), state)))
    }))
}

struct RunWatch {
    services: Services,
    id: RunId,
    news: RunNews,
    first: Option<RunDetail>,
    over: bool,
}

impl RunWatch {
    async fn next(&mut self) -> Result<Option<RunDetail>, Error> {
        if self.over {
            return Ok(None);
        }
        if let Some(first) = self.first.take() {
            return Ok(Some(first));
        }
        self.news.wait().await?;
        self.services.run(&self.id).await.map(Some)
    }
}

/// Every event after `after`, none twice and none left out: the log's numbers are given under the fleet
/// lock, so a later event never has a smaller one.
pub(crate) struct EventFeed {
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
    pub(crate) async fn open(services: Services, after: Option<i64>) -> Result<Self, Error> {
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
    pub(crate) async fn next(&mut self) -> Result<EventRow, Error> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                self.after = event.seq;
                return Ok(event);
            }
            self.events.mark_unchanged();
            self.ready.extend(self.services.events_after(self.after, BATCH).await?);
            if self.ready.is_empty() {
                changed(&mut self.events, &self.services.stop).await?;
            } else if self.services.stop.is_cancelled() {
                return Err(Error::Stopping);
            }
        }
    }
}

/// The audit log as a stream.
pub(super) fn fleet(feed: EventFeed) -> Outgoing<v1::Event> {
    pulled(feed, |mut feed: EventFeed| async move {
        let event = feed.next().await?;
        Ok(Some((to_wire::event(&event), feed)))
    })
}
