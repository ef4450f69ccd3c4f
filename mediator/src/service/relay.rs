//! What other mediators have done, for whoever waits here: work streams and watchers.
//!
//! A notice wakes and says nothing more: the stream claims from the store, the watcher reads events. Of a lease that
//! went elsewhere only the node is told, so its agent is asked to advert, and the answer lists what it still holds.
//! Notices may be lost. So the last event is looked at now and then, whatever was heard; work that a node's stream
//! was not told of is told again after the node's next advert.

use std::time::Duration;

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::{Services, hub::Signal};
use crate::{
    metrics,
    store::{Heard, Listener, Notice},
};

/// How often the last event is looked at, should a notice have been lost.
const LOOK: Duration = Duration::from_secs(2);

/// Passes on what is heard, until told to stop.
pub async fn run(services: Services, mut line: Listener, events: watch::Sender<i64>, stop: CancellationToken) {
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            heard = line.next() => match heard {
                Heard::Notice(notice) => {
                    metrics::notice("heard");
                    pass_on(&services, &events, &notice);
                }
                Heard::Gap => {
                    metrics::notice("gap");
                    tracing::warn!("the line to the other mediators was cut; looking at everything");
                    look(&services, &events).await;
                    pass_on(&services, &events, &Notice { everything: true, ..Notice::default() });
                }
            },
            () = tokio::time::sleep(LOOK) => look(&services, &events).await,
        }
    }
}

fn pass_on(services: &Services, events: &watch::Sender<i64>, notice: &Notice) {
    if notice.everything {
        for node in services.hub.nodes() {
            services.hub.signal(&node, Signal::Work);
            services.hub.signal(&node, Signal::AdvertNow);
        }
    }
    for node in &notice.work {
        services.hub.signal(node, Signal::Work);
    }
    for node in &notice.stop {
        services.hub.signal(node, Signal::AdvertNow);
    }
    raise(events, notice.last_event);
}

async fn look(services: &Services, events: &watch::Sender<i64>) {
    match services.last_event().await {
        Ok(last) => raise(events, last),
        // Whoever needs the store says so; this only looks.
        Err(error) => tracing::debug!(%error, "cannot look at the last event"),
    }
}

/// Never back: what is heard may be older than what was committed here since.
fn raise(events: &watch::Sender<i64>, last: i64) {
    events.send_if_modified(|seen| {
        let news = last > *seen;
        *seen = last.max(*seen);
        news
    });
}
