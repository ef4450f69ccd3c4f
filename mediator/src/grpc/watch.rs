//! The two streams that follow the fleet: one Run until it has ended, and the audit log.

use proto::v1;
use shared::RunId;

use super::{
    convert::to_wire,
    stream::{Outgoing, pulled},
};
use crate::{
    error::Error,
    service::{
        Services,
        follow::{EventFeed, RunNews},
        observe::RunDetail,
    },
};

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

/// The audit log as a stream.
pub(super) fn fleet(feed: EventFeed) -> Outgoing<v1::Event> {
    pulled(feed, |mut feed: EventFeed| async move {
        let event = feed.next().await?;
        Ok(Some((to_wire::event(&event), feed)))
    })
}
