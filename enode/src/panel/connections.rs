//! Connections, each with limits in time: whoever does not say what he wants, or does not take what he has asked for, holds
//! memory and a descriptor for nobody. `axum::serve` has no such limits.

use std::{
    io,
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use axum::{Router, extract::Request};
use hyper::{
    body::Incoming,
    server::conn::http1,
    service::{Service, service_fn},
};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::{TcpListener, TcpStream},
    task::JoinSet,
    time::Sleep,
};
use tokio_util::sync::CancellationToken;

use super::seats::{Seat, Seats};

/// How many connections, and how patient.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Most connections. One more closes the one that has done nothing for longest.
    pub connections: usize,
    /// Until the head of a request is whole, from when the connection was made or the last answer was sent.
    pub head: Duration,
    /// While the other end takes nothing of an answer.
    pub stall: Duration,
    /// Until what is under way must have ended when the panel stops.
    pub stop: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        // Each may be sending a form of 4 MiB. Longer than a browser pauses between a page and its next request; a stop comes before a supervisor loses patience.
        Self {
            connections: 64,
            head: Duration::from_secs(30),
            stall: Duration::from_secs(30),
            stop: Duration::from_secs(5),
        }
    }
}

/// The largest head of a request, in bytes.
const HEAD: usize = 64 << 10;

/// Serves until `stop`. What is under way then is ended, within [`Limits::stop`].
pub(super) async fn serve(listener: TcpListener, pages: Router, limits: Limits, stop: CancellationToken) {
    let (seats, mut open) = (Seats::new(limits.connections), JoinSet::new());
    loop {
        tokio::select! {
            () = stop.cancelled() => break,
            Some(ended) = open.join_next() => note(ended),
            accepted = listener.accept() => match accepted {
                // Others wait with the kernel meanwhile.
                Ok((socket, _)) => match stop.run_until_cancelled(seats.wait()).await {
                    Some(seat) => drop(open.spawn(one(socket, seat, pages.clone(), limits, stop.clone()))),
                    None => break,
                },
                Err(error) => {
                    // Trying again at once would spin.
                    if is_out_of_room(&error) && seats.free_one() {
                        tracing::debug!(%error, "the connection that was quiet for longest makes room");
                    } else {
                        tracing::warn!(%error, "cannot accept a connection");
                    }
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            },
        }
    }
    drop(listener);
    let rest = async {
        while let Some(ended) = open.join_next().await {
            note(ended);
        }
    };
    if tokio::time::timeout(limits.stop, rest).await.is_err() {
        tracing::warn!("stopped while requests were under way");
    }
}

/// Out of descriptors, of this process or of the machine, or of memory.
fn is_out_of_room(error: &io::Error) -> bool {
    use rustix::io::Errno;
    matches!(Errno::from_io_error(error), Some(Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM))
}

fn note(ended: Result<(), tokio::task::JoinError>) {
    if let Err(error) = ended {
        tracing::error!(%error, "a connection broke down");
    }
}

/// Serves one connection.
async fn one(socket: TcpStream, seat: Arc<Seat>, pages: Router, limits: Limits, stop: CancellationToken) {
    if let Err(error) = socket.set_nodelay(true) {
        tracing::debug!(%error, "nodelay");
    }
    let (pages, of) = (TowerToHyperService::new(pages), seat.clone());
    let service = service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(of.clone());
        pages.call(request)
    });
    let io = TokioIo::new(Io { socket, seat: seat.clone(), stall: limits.stall, stalled: None });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.head)
        .max_buf_size(HEAD)
        .serve_connection(io, service);
    let mut served = pin!(served);
    let mut is_stopping = false;
    loop {
        tokio::select! {
            ended = served.as_mut() => {
                if let Err(error) = ended {
                    tracing::debug!(%error, "a connection ended");
                }
                return;
            }
            () = seat.is_gone() => return,
            () = stop.cancelled(), if !is_stopping => {
                is_stopping = true;
                served.as_mut().graceful_shutdown();
            }
        }
    }
}

/// A socket that does not wait for ever for somebody to read.
struct Io {
    socket: TcpStream,
    seat: Arc<Seat>,
    stall: Duration,
    /// Runs while a write waits.
    stalled: Option<Pin<Box<Sleep>>>,
}

impl Io {
    fn written<T>(&mut self, cx: &mut Context<'_>, written: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.stalled = None;
            return written;
        }
        let (within, seat) = (self.stall, &self.seat);
        let timer = self.stalled.get_or_insert_with(|| {
            seat.keep();
            Box::pin(tokio::time::sleep(within))
        });
        if timer.as_mut().poll(cx).is_ready() {
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the other end takes nothing")));
        }
        Poll::Pending
    }
}

impl AsyncRead for Io {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_read(cx, buf)
    }
}

impl AsyncWrite for Io {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.socket).poll_write(cx, buf);
        self.written(cx, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.socket).poll_write_vectored(cx, bufs);
        self.written(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(cx)
    }
}
