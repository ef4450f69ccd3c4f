//! Connections: accepted, counted, and with TLS shaken hands with, before anybody else sees them.
//!
//! Handshakes run side by side and each has a time limit, so that a client that says nothing holds back only
//! itself. There is room for so many connections, and for so many from one peer: what is above is closed at
//! once, so that whoever opens them all takes nothing from the others. Must not know: tonic, axum.

mod issue;
mod pki;
pub(crate) mod places;
mod server;

use std::{net::SocketAddr, sync::Arc, time::Duration};

use futures::{Stream, StreamExt, future::BoxFuture, stream, stream::FuturesUnordered};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::{TlsAcceptor, server::TlsStream};
use tokio_util::either::Either;

pub use issue::{Issued, issue, read_certificate};
pub use pki::{Pki, PkiError, init};
pub use server::{ServerTls, TlsError};

use crate::{auth::ClientCertificate, metrics};
use places::{Place, Places};

/// One connection, plain or encrypted.
pub struct Connection {
    /// What is read and written.
    pub io: Either<TcpStream, Box<TlsStream<TcpStream>>>,
    /// Who is at the other end.
    pub peer: SocketAddr,
    /// The certificate that it showed.
    pub certificate: Option<Arc<ClientCertificate>>,
    /// Counted until this is dropped.
    _place: Place,
}

/// How many connections, and how patient.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Most connections.
    pub connections: usize,
    /// Most from one peer: an IPv4 address, or the /64 network of an IPv6 one.
    pub per_peer: usize,
    /// A client that has not finished its handshake by then is dropped.
    pub handshake: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self { connections: 20_000, per_peer: 4_096, handshake: Duration::from_secs(10) }
    }
}

type Handshake = BoxFuture<'static, Option<Connection>>;

struct Accepting {
    listener: TcpListener,
    tls: Option<ServerTls>,
    limits: Limits,
    places: Places,
    handshakes: FuturesUnordered<Handshake>,
}

/// Every connection that is ready to be served. Never ends; a client that misbehaves is dropped.
pub fn incoming(
    listener: TcpListener,
    tls: Option<ServerTls>,
    limits: Limits,
) -> impl Stream<Item = Connection> + Send {
    let places = Places::new(limits.connections, limits.per_peer);
    let accepting = Accepting { listener, tls, limits, places, handshakes: FuturesUnordered::new() };
    stream::unfold(accepting, |mut accepting| async move {
        let connection = accepting.next().await;
        Some((connection, accepting))
    })
}

impl Accepting {
    async fn next(&mut self) -> Connection {
        loop {
            tokio::select! {
                Some(done) = self.handshakes.next(), if !self.handshakes.is_empty() => {
                    if let Some(connection) = done {
                        return connection;
                    }
                }
                accepted = self.listener.accept() => {
                    if let Some(connection) = self.take(accepted).await {
                        return connection;
                    }
                }
            }
        }
    }

    async fn take(&mut self, accepted: std::io::Result<(TcpStream, SocketAddr)>) -> Option<Connection> {
        let (socket, peer) = match accepted {
            Ok(accepted) => accepted,
            Err(e) => {
                // Out of file descriptors, most likely: trying again at once would spin.
                tracing::warn!("cannot accept a connection: {e}");
                tokio::time::sleep(Duration::from_millis(50)).await;
                return None;
            }
        };
        let place = match self.places.take(peer.ip()) {
            Ok(place) => place,
            Err(full) => {
                metrics::connection_refused(full.as_str());
                tracing::debug!(%peer, "no room for another connection: {}", full.as_str());
                return None;
            }
        };
        if let Err(e) = socket.set_nodelay(true) {
            tracing::debug!(%peer, "nodelay: {e}");
        }
        let Some(tls) = &self.tls else {
            return Some(Connection { io: Either::Left(socket), peer, certificate: None, _place: place });
        };
        // Taken for each connection: files that were replaced hold from here on.
        let handshake = TlsAcceptor::from(tls.config()).accept(socket);
        let within = self.limits.handshake;
        self.handshakes.push(Box::pin(async move {
            match tokio::time::timeout(within, handshake).await {
                Ok(Ok(stream)) => encrypted(stream, peer, place),
                Ok(Err(e)) => {
                    tracing::debug!(%peer, "handshake refused: {e}");
                    None
                }
                Err(_) => {
                    metrics::connection_refused("handshake");
                    tracing::debug!(%peer, "handshake took too long");
                    None
                }
            }
        }));
        None
    }
}

fn encrypted(stream: TlsStream<TcpStream>, peer: SocketAddr, place: Place) -> Option<Connection> {
    let certificate = match stream.get_ref().1.peer_certificates().and_then(<[_]>::first) {
        None => None,
        Some(der) => match ClientCertificate::read(der) {
            Ok(certificate) => Some(Arc::new(certificate)),
            Err(why) => {
                tracing::warn!(%peer, "a client certificate was accepted and cannot be read: {why}");
                return None;
            }
        },
    };
    Some(Connection { io: Either::Right(Box::new(stream)), peer, certificate, _place: place })
}

#[cfg(test)]
mod tests;
