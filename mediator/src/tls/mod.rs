//! Connections: accepted, and with TLS shaken hands with, before anybody else sees them.
//!
//! Handshakes run side by side and each has a time limit, so that a client that says nothing holds back only
//! itself. Must not know: tonic, axum.

mod pki;

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use futures::{Stream, StreamExt, future::BoxFuture, stream, stream::FuturesUnordered};
use rustls::{
    ServerConfig,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::{TlsAcceptor, server::TlsStream};
use tokio_util::either::Either;

pub use pki::{Pki, PkiError, init};

/// One connection, plain or encrypted.
pub type Connection = Either<TcpStream, Box<TlsStream<TcpStream>>>;

/// A client that has not finished its handshake by then is dropped.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// Most handshakes under way. Until one ends, further clients wait in the kernel's queue.
const HANDSHAKES: usize = 1_024;

/// Why the certificate or its key could not be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// The certificate file.
    #[error("tls.cert {}: {source}; give the PEM file of the server's certificate chain", path.display())]
    Certificate {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: rustls::pki_types::pem::Error,
    },
    /// There is none in it.
    #[error("tls.cert {} holds no certificate; give a PEM file with BEGIN CERTIFICATE in it", .0.display())]
    NoCertificate(PathBuf),
    /// The key file.
    #[error("tls.key {}: {source}; give the PEM file of the server's private key", path.display())]
    Key {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: rustls::pki_types::pem::Error,
    },
    /// They do not fit.
    #[error("the certificate and the key cannot be used together: {0}")]
    Pair(#[from] rustls::Error),
}

/// The TLS side of a server: HTTP/2 and HTTP/1.1, no client certificates.
///
/// # Errors
/// [`TlsError`] names the file.
pub fn server_config(cert: &Path, key: &Path) -> Result<Arc<ServerConfig>, TlsError> {
    let bad_cert = |source| TlsError::Certificate { path: cert.to_owned(), source };
    let chain =
        CertificateDer::pem_file_iter(cert).map_err(bad_cert)?.collect::<Result<Vec<_>, _>>().map_err(bad_cert)?;
    if chain.is_empty() {
        return Err(TlsError::NoCertificate(cert.to_owned()));
    }
    let key = PrivateKeyDer::from_pem_file(key).map_err(|source| TlsError::Key { path: key.to_owned(), source })?;
    // The provider is named here, so that no other crate's choice of a default one matters.
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(chain, key)?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

type Handshake = BoxFuture<'static, Option<TlsStream<TcpStream>>>;

struct Accepting {
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
    handshakes: FuturesUnordered<Handshake>,
}

/// Every connection that is ready to be served. Never ends; a client that misbehaves is dropped.
pub fn incoming(listener: TcpListener, tls: Option<Arc<ServerConfig>>) -> impl Stream<Item = Connection> + Send {
    let accepting = Accepting { listener, tls: tls.map(TlsAcceptor::from), handshakes: FuturesUnordered::new() };
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
                    if let Some(stream) = done {
                        return Either::Right(Box::new(stream));
                    }
                }
                accepted = self.listener.accept(), if self.handshakes.len() < HANDSHAKES => {
                    if let Some(connection) = self.take(accepted).await {
                        return connection;
                    }
                }
            }
        }
    }

    async fn take(&mut self, accepted: std::io::Result<(TcpStream, std::net::SocketAddr)>) -> Option<Connection> {
        let (socket, peer) = match accepted {
            Ok(accepted) => accepted,
            Err(e) => {
                // Out of file descriptors, most likely: trying again at once would spin.
                tracing::warn!("cannot accept a connection: {e}");
                tokio::time::sleep(Duration::from_millis(50)).await;
                return None;
            }
        };
        if let Err(e) = socket.set_nodelay(true) {
            tracing::debug!(%peer, "nodelay: {e}");
        }
        let Some(tls) = &self.tls else { return Some(Either::Left(socket)) };
        let handshake = tls.accept(socket);
        self.handshakes.push(Box::pin(async move {
            match tokio::time::timeout(HANDSHAKE, handshake).await {
                Ok(Ok(stream)) => Some(stream),
                Ok(Err(e)) => {
                    tracing::debug!(%peer, "handshake refused: {e}");
                    None
                }
                Err(_) => {
                    tracing::debug!(%peer, "handshake took too long");
                    None
                }
            }
        }));
        None
    }
}

#[cfg(test)]
mod tests;
