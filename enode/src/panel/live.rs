//! Notices changes: at once where the file system tells, else within five seconds. A page that is open hears of it.

use std::{convert::Infallible, sync::Arc, time::Duration};

use axum::{
    extract::State,
    http::HeaderMap,
    response::{
        IntoResponse, Response,
        sse::{Event, KeepAlive, Sse},
    },
};
use futures::{StreamExt, stream};
use tokio::sync::{Notify, watch as version};

use super::{Panel, Shared, node::Node, sight::Sight};
use crate::{clock, tickets::Folder, watch};

/// Where nothing tells of changes.
const PERIOD: Duration = Duration::from_secs(5);
/// Whoever saves makes several events.
const DEBOUNCE: Duration = Duration::from_millis(50);
const DAY: i64 = 24 * 60 * 60 * 1_000;

/// The number of changes so far.
pub(super) struct Live {
    version: version::Sender<u64>,
    bell: Arc<Notify>,
    _watcher: Option<notify::RecommendedWatcher>,
}

/// What a page would show.
struct Picture {
    sight: Arc<Sight>,
    node: String,
    /// Badges count days.
    day: i64,
}

impl Live {
    pub(super) fn new(folder: &Folder) -> Self {
        let bell = Arc::new(Notify::new());
        let hear = bell.clone();
        let watcher = watch::of_queue(folder.path(), move |_| hear.notify_one());
        if let Err(error) = &watcher {
            tracing::warn!(%error, "no events from {}; looking every 5 s", folder.path().display());
        }
        // No two processes count alike: a page from before a restart is an old one.
        let first = clock::now().millis().unsigned_abs();
        Self { version: version::Sender::new(first), bell, _watcher: watcher.ok() }
    }

    pub(super) fn version(&self) -> u64 {
        *self.version.borrow()
    }
}

/// Looks for as long as it is polled.
pub(super) async fn follow(panel: &Arc<Panel>) {
    let mut before: Option<Picture> = None;
    loop {
        if let Ok(sight) = panel.look().await {
            let now = Picture::new(sight, &Node::look(panel).await);
            // Before the first look a page may have been drawn of something else.
            if before.as_ref().is_none_or(|before| *before != now) {
                panel.live.version.send_modify(|version| *version += 1);
            }
            before = Some(now);
        }
        if tokio::time::timeout(PERIOD, panel.live.bell.notified()).await.is_ok() {
            tokio::time::sleep(DEBOUNCE).await;
        }
    }
}

impl Picture {
    fn new(sight: Arc<Sight>, node: &Node) -> Self {
        Self { sight, node: node.picture(), day: clock::now().millis() / DAY }
    }
}

impl PartialEq for Picture {
    fn eq(&self, other: &Self) -> bool {
        // A file that was only touched is read again and changes nothing.
        let tickets = |it: &Self| it.sight.queue.tickets().iter().chain(it.sight.queue.twins()).cloned().collect();
        let (ours, theirs): (Vec<_>, Vec<_>) = (tickets(self), tickets(other));
        let is_same = Arc::ptr_eq(&self.sight, &other.sight)
            || ours == theirs && self.sight.queue.unread() == other.sight.queue.unread();
        is_same && self.node == other.node && self.day == other.day
    }
}

/// Says the number of changes, now and whenever it grows.
pub(super) async fn events(State(panel): State<Shared>, headers: HeaderMap) -> Response {
    let (changes, asked) = (panel.live.version.subscribe(), (panel.clone(), headers));
    let told = stream::unfold((changes, asked, true), |(mut changes, (panel, headers), is_first)| async move {
        if !is_first && changes.changed().await.is_err() {
            return None;
        }
        let version = *changes.borrow_and_update();
        // A new token shuts out whoever came in with the old one.
        if !is_first && !panel.door.visit(&headers, version).await.is_ok_and(|it| it.is_some()) {
            return None;
        }
        Some((version, (changes, (panel, headers), false)))
    });
    let told = told.take_until(panel.stopping.clone().cancelled_owned());
    let told = told.map(|version| Ok::<_, Infallible>(Event::default().event("changed").data(version.to_string())));
    Sse::new(told).keep_alive(KeepAlive::default()).into_response()
}
