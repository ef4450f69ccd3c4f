//! A connection as tonic wants it, with patience that has an end.
//!
//! [`crate::tls`] makes connections and knows nothing of tonic. Here each gets its limits in time, which no
//! layer above can set: a client must send its first request soon (slow headers, half-open HTTP/2), must not
//! stay for ever without one, and must take what is sent to it. HTTP/2 pings tell a client that is alive from
//! one that is gone; these tell one that works from one that only holds its place.

use std::{
    io,
    net::IpAddr,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::Sleep,
};
use tonic::transport::server::Connected;

use crate::{auth::ClientCertificate, metrics, tls::Connection};

/// Limits in time of one connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Patience {
    /// Until the first request is whole.
    pub(super) header: Duration,
    /// Without any request.
    pub(super) idle: Duration,
    /// While the other end takes nothing of what is sent.
    pub(super) stall: Duration,
}

/// What the door knows of a connection, and tells it.
#[derive(Debug, Clone)]
pub(super) struct Peer {
    /// Where it comes from.
    pub(super) ip: IpAddr,
    /// The certificate that it showed.
    pub(super) certificate: Option<Arc<ClientCertificate>>,
    line: Arc<Line>,
}

/// Requests of one connection.
#[derive(Debug, Default)]
struct Line {
    /// Under way.
    open: AtomicUsize,
    /// So far.
    seen: AtomicU64,
}

/// One request under way, until it is dropped.
#[derive(Debug)]
pub(super) struct UnderWay(Arc<Line>);

impl Peer {
    /// Somebody without a certificate.
    #[cfg(test)]
    pub(super) fn at(ip: IpAddr) -> Self {
        Self { ip, certificate: None, line: Arc::default() }
    }

    /// A request of this connection has come in.
    pub(super) fn begin(&self) -> UnderWay {
        self.line.seen.fetch_add(1, Ordering::Relaxed);
        self.line.open.fetch_add(1, Ordering::Relaxed);
        UnderWay(self.line.clone())
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::Relaxed);
    }
}

/// One accepted connection.
pub(super) struct Io {
    connection: Connection,
    patience: Patience,
    line: Arc<Line>,
    /// Runs while no request is under way; begun when this many had been seen.
    quiet: Option<(u64, Pin<Box<Sleep>>)>,
    /// Runs while a write waits.
    stalled: Option<Pin<Box<Sleep>>>,
}

impl Io {
    pub(super) fn new(connection: Connection, patience: Patience) -> Self {
        Self { connection, patience, line: Arc::default(), quiet: None, stalled: None }
    }

    /// Whether this connection has held its place for too long without using it. Wakes the task when it has.
    fn is_overdue(&mut self, cx: &mut Context<'_>) -> bool {
        let seen = self.line.seen.load(Ordering::Relaxed);
        if self.line.open.load(Ordering::Relaxed) > 0 {
            self.quiet = None;
            return false;
        }
        if self.quiet.as_ref().is_none_or(|(begun, _)| *begun != seen) {
            let within = if seen == 0 { self.patience.header } else { self.patience.idle };
            self.quiet = Some((seen, Box::pin(tokio::time::sleep(within))));
        }
        self.quiet.as_mut().is_some_and(|(_, timer)| timer.as_mut().poll(cx).is_ready())
    }

    /// Gives up a write that has waited for too long.
    fn written<T>(&mut self, cx: &mut Context<'_>, written: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.stalled = None;
            return written;
        }
        let within = self.patience.stall;
        let timer = self.stalled.get_or_insert_with(|| Box::pin(tokio::time::sleep(within)));
        if timer.as_mut().poll(cx).is_ready() {
            metrics::connection_refused("stalled");
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the client takes nothing")));
        }
        Poll::Pending
    }
}

impl Connected for Io {
    type ConnectInfo = Peer;
    fn connect_info(&self) -> Peer {
        Peer {
            ip: self.connection.peer.ip(),
            certificate: self.connection.certificate.clone(),
            line: self.line.clone(),
        }
    }
}

impl AsyncRead for Io {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let read = Pin::new(&mut self.connection.io).poll_read(cx, buf);
        if read.is_pending() && self.is_overdue(cx) {
            let why = if self.line.seen.load(Ordering::Relaxed) == 0 { "header" } else { "idle" };
            metrics::connection_refused(why);
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the client sends no request")));
        }
        read
    }
}

impl AsyncWrite for Io {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.connection.io).poll_write(cx, buf);
        self.written(cx, written)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.connection.io).poll_flush(cx);
        self.written(cx, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let shut = Pin::new(&mut self.connection.io).poll_shutdown(cx);
        self.written(cx, shut)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.connection.io).poll_write_vectored(cx, bufs);
        self.written(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.connection.io.is_write_vectored()
    }
}
