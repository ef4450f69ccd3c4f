//! Streams that are open, and what ends them from outside.
//!
//! A credential may be revoked or run out while a stream that was opened with it goes on, and a client may stop
//! reading for good. Both are looked for every [`LOOK`], for all streams at once: one question to the store, not
//! one per stream. The same question keeps what is remembered of credentials true ([`Auth::dead`]). A stream that is ended lets go at once of whatever it held, and tells its client why when
//! that one reads again.

use std::{
    collections::{HashMap, HashSet},
    pin::Pin,
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::Bytes;
use http_body::Frame;
use shared::Timestamp;
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};
use tonic::{Status, body::Body};

use super::{io::UnderWay, quota::Permit};
use crate::{
    auth::{Auth, Caller},
    clock::Stopwatch,
    error::Error,
};

/// How often streams are looked at.
const LOOK: Duration = Duration::from_millis(500);

/// Why a stream was ended from outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// What it was opened with is good no longer.
    Credential,
    /// Its client does not read.
    Slow(Duration),
}

impl End {
    fn error(self) -> Error {
        match self {
            Self::Credential => Error::Unauthenticated(
                "the token or certificate that this stream was opened with was revoked or has expired; \
                 open it again with another one"
                    .into(),
            ),
            Self::Slow(within) => Error::TooSlow(format!(
                "nothing of this stream was read for {}; open it again and read on, or raise limits.stall_timeout",
                shared::Duration::from_millis(u64::try_from(within.as_millis()).unwrap_or(u64::MAX))
            )),
        }
    }
}

/// Every stream that is open. Cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct Guards(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    stall: Duration,
    next: AtomicU64,
    slots: Mutex<HashMap<u64, Arc<Slot>>>,
}

/// What is known of one stream.
#[derive(Debug)]
struct Slot {
    keys: Vec<String>,
    ends_at: Option<Timestamp>,
    grpc: bool,
    end: OnceLock<End>,
    ended: CancellationToken,
    /// What the stream holds; gone once it was ended.
    held: Mutex<Held>,
}

#[derive(Debug, Default)]
struct Held {
    body: Option<Pin<Box<Body>>>,
    permit: Option<Permit>,
    /// Since something was handed out and nothing more was asked for.
    handed: Option<Stopwatch>,
}

impl Slot {
    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn end(&self, why: End) {
        if self.end.set(why).is_ok() {
            let (body, permit) = {
                let mut held = self.held();
                (held.body.take(), held.permit.take())
            };
            drop((body, permit));
            self.ended.cancel();
        }
    }

    fn is_stalled(&self, within: Duration) -> bool {
        self.held().handed.is_some_and(|since| since.elapsed() >= within)
    }
}

/// One stream, from its request to the end of its answer.
#[derive(Debug)]
pub(super) struct Guarded {
    guards: Guards,
    id: u64,
    slot: Arc<Slot>,
    _under_way: UnderWay,
}

impl Drop for Guarded {
    fn drop(&mut self) {
        self.guards.slots().remove(&self.id);
    }
}

impl Guards {
    pub(super) fn new(stall: Duration) -> Self {
        Self(Arc::new(Inner { stall, next: AtomicU64::new(0), slots: Mutex::default() }))
    }

    fn slots(&self) -> MutexGuard<'_, HashMap<u64, Arc<Slot>>> {
        self.0.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes a stream. `caller` is none for one that needs no credential.
    pub(super) fn open(&self, caller: Option<&Caller>, grpc: bool, permit: Permit, under_way: UnderWay) -> Guarded {
        let slot = Arc::new(Slot {
            keys: caller.map(|it| it.keys.clone()).unwrap_or_default(),
            ends_at: caller.and_then(|it| it.ends_at),
            grpc,
            end: OnceLock::new(),
            ended: CancellationToken::new(),
            held: Mutex::new(Held { permit: Some(permit), ..Held::default() }),
        });
        let id = self.0.next.fetch_add(1, Ordering::Relaxed);
        self.slots().insert(id, slot.clone());
        Guarded { guards: self.clone(), id, slot, _under_way: under_way }
    }

    /// Looks at all streams again and again. Never ends.
    pub(super) async fn look_after(&self, auth: &Auth) {
        loop {
            tokio::time::sleep(LOOK).await;
            self.look(auth).await;
        }
    }

    async fn look(&self, auth: &Auth) {
        let slots: Vec<Arc<Slot>> = self.slots().values().cloned().collect();
        let now = auth.now();
        for slot in &slots {
            if slot.is_stalled(self.0.stall) {
                slot.end(End::Slow(self.0.stall));
            } else if slot.ends_at.is_some_and(|at| at <= now) {
                slot.end(End::Credential);
            }
        }
        let keys: HashSet<&str> = slots.iter().flat_map(|slot| &slot.keys).map(String::as_str).collect();
        if keys.is_empty() && auth.knows_nobody() {
            return;
        }
        let mut dead = HashSet::new();
        let looked = auth
            .dead(|key| {
                if keys.contains(key) {
                    dead.insert(key.to_owned());
                }
            })
            .await;
        // An outage of the store ends no stream: it is asked again soon.
        if looked.is_err() || dead.is_empty() {
            return;
        }
        for slot in slots.iter().filter(|slot| slot.keys.iter().any(|key| dead.contains(key))) {
            slot.end(End::Credential);
        }
    }
}

impl Guarded {
    /// Waits until the stream is ended from outside, and says why.
    pub(super) async fn ended(&self) -> Error {
        self.slot.ended.cancelled().await;
        self.slot
            .end
            .get()
            .map_or_else(|| Error::Internal("a stream ended without a cause".to_owned()), |it| it.error())
    }

    /// The answer's body, which ends when the stream is ended.
    pub(super) fn body(self, body: Body) -> Body {
        self.slot.held().body = Some(Box::pin(body));
        let ended = Box::pin(self.slot.ended.clone().cancelled_owned());
        Body::new(GuardedBody { guarded: self, ended, told: false })
    }
}

struct GuardedBody {
    guarded: Guarded,
    ended: Pin<Box<WaitForCancellationFutureOwned>>,
    told: bool,
}

impl http_body::Body for GuardedBody {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let slot = self.guarded.slot.clone();
        {
            let mut held = slot.held();
            held.handed = None;
            if let Some(body) = &mut held.body {
                let polled = body.as_mut().poll_frame(cx);
                if let Poll::Ready(Some(Ok(frame))) = &polled
                    && frame.is_data()
                {
                    held.handed = Some(Stopwatch::start());
                }
                let over = !matches!(polled, Poll::Ready(Some(Ok(_))) | Poll::Pending);
                if over {
                    held.body = None;
                }
                if polled.is_ready() {
                    drop(held);
                    self.told |= over;
                    return polled;
                }
            }
        }
        if self.told {
            return Poll::Ready(None);
        }
        ready!(self.ended.as_mut().poll(cx));
        self.told = true;
        Poll::Ready(slot.end.get().map(|end| Ok(last(end.error(), slot.grpc))))
    }
}

/// What a stream says last: trailers, or an event of a page.
fn last(error: Error, grpc: bool) -> Frame<Bytes> {
    if !grpc {
        error.note();
        let body = serde_json::json!({"reason": error.kind().reason(), "message": error.public_message()});
        return Frame::data(Bytes::from(format!("event: error\ndata: {body}\n\n")));
    }
    let mut trailers = http::HeaderMap::new();
    if let Err(status) = Status::from(error).add_header(&mut trailers) {
        tracing::error!("a stream's last word cannot be said: {status}");
    }
    Frame::trailers(trailers)
}
