//! The one message of a call must come in good time: a caller that sends it byte by byte holds its place, and
//! nothing else would ever take that away.

use std::{
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use http_body::Frame;
use tokio::time::Sleep;
use tonic::{Status, body::Body};

use crate::error::Error;

/// The same body, which fails when it is not whole by then.
pub(super) fn body(body: Body, within: Duration) -> Body {
    Body::new(Prompt { body: Box::pin(body), within, timer: None })
}

struct Prompt {
    body: Pin<Box<Body>>,
    within: Duration,
    /// Most bodies are there with their request and need none.
    timer: Option<Pin<Box<Sleep>>>,
}

impl http_body::Body for Prompt {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let polled = self.body.as_mut().poll_frame(cx);
        if polled.is_ready() {
            return polled;
        }
        let within = self.within;
        let timer = self.timer.get_or_insert_with(|| Box::pin(tokio::time::sleep(within)));
        if timer.as_mut().poll(cx).is_pending() {
            return Poll::Pending;
        }
        let within = shared::Duration::from_millis(u64::try_from(within.as_millis()).unwrap_or(u64::MAX));
        let error = Error::TooSlow(format!("the message was not whole within {within}; send it again"));
        Poll::Ready(Some(Err(error.into())))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> http_body::SizeHint {
        self.body.size_hint()
    }
}
