//! The server's side of TLS, and how it follows its files while it serves.
//!
//! The files are looked at every [`LOOK`]. New ones hold for connections that are made from then on; those that
//! are open stay as they are. Files that cannot be used change nothing: what was in force stays, and the log and
//! the metrics say so until they are mended.

use std::{
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use rustls::{
    RootCertStore, ServerConfig,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    server::WebPkiClientVerifier,
};
use tokio_util::sync::CancellationToken;

use crate::{
    auth::ClientCertificate,
    config::{ClientAuth, TlsFiles},
    metrics,
};

/// How often the files are looked at.
const LOOK: Duration = Duration::from_secs(2);

/// Why the certificate or its key could not be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file of certificates.
    #[error("{key} {}: {source}; give a PEM file of certificates", path.display())]
    Certificate {
        /// The configuration's key.
        key: &'static str,
        /// Which file.
        path: PathBuf,
        /// Why.
        source: rustls::pki_types::pem::Error,
    },
    /// There is none in it.
    #[error("{key} {} holds no certificate; give a PEM file with BEGIN CERTIFICATE in it", path.display())]
    NoCertificate {
        /// The configuration's key.
        key: &'static str,
        /// Which file.
        path: PathBuf,
    },
    /// The key file.
    #[error("tls.key {}: {source}; give the PEM file of the server's private key", path.display())]
    Key {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: rustls::pki_types::pem::Error,
    },
    /// The authority of clients.
    #[error("tls.client_ca {}: {why}; give the ca.crt that `mediator pki init` wrote", path.display())]
    ClientCa {
        /// Which file.
        path: PathBuf,
        /// Why.
        why: String,
    },
    /// They do not fit.
    #[error("the certificate and the key cannot be used together: {0}")]
    Pair(#[from] rustls::Error),
}

/// What new connections are greeted with.
struct Current {
    config: Arc<ServerConfig>,
}

/// The server's side of TLS. Cheap to clone; all clones follow the same files.
#[derive(Clone)]
pub struct ServerTls {
    files: Arc<TlsFiles>,
    current: Arc<Mutex<Current>>,
}

impl ServerTls {
    /// Reads the files.
    ///
    /// # Errors
    /// [`TlsError`] names the file.
    pub fn new(files: TlsFiles) -> Result<Self, TlsError> {
        let (config, not_after) = load(&files)?;
        metrics::certificate(true, not_after);
        Ok(Self { files: Arc::new(files), current: Arc::new(Mutex::new(Current { config })) })
    }

    /// What holds now.
    #[must_use]
    pub fn config(&self) -> Arc<ServerConfig> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner).config.clone()
    }

    /// Follows the files until `stop`.
    pub async fn follow(self, stop: CancellationToken) {
        let mut seen = self.stamps();
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(LOOK) => {}
            }
            let now = self.stamps();
            if now != seen {
                // Noted before they are read: what is written meanwhile is seen the next time.
                seen = now;
                self.reload();
            }
        }
    }

    /// Reads the files again. True: they are in force.
    fn reload(&self) -> bool {
        match load(&self.files) {
            Ok((config, not_after)) => {
                self.current.lock().unwrap_or_else(PoisonError::into_inner).config = config;
                metrics::certificate(true, not_after);
                tracing::info!(cert = %self.files.cert.display(), "new TLS files are in force for new connections");
                true
            }
            Err(error) => {
                metrics::certificate(false, None);
                tracing::error!("the TLS files have changed and cannot be used; the old ones stay in force: {error}");
                false
            }
        }
    }

    fn stamps(&self) -> Vec<Option<(u64, i64, i64, u64)>> {
        let stamp = |path: &Path| {
            let it = std::fs::metadata(path).ok()?;
            Some((it.ino(), it.mtime(), it.mtime_nsec(), it.len()))
        };
        let files = &self.files;
        [Some(&files.cert), Some(&files.key), files.client_ca.as_ref()]
            .into_iter()
            .flatten()
            .map(|it| stamp(it))
            .collect()
    }
}

/// HTTP/2 and HTTP/1.1; client certificates as the configuration says. And when the server's own runs out.
fn load(files: &TlsFiles) -> Result<(Arc<ServerConfig>, Option<shared::Timestamp>), TlsError> {
    let chain = certificates("tls.cert", &files.cert)?;
    let not_after = chain.first().and_then(|it| ClientCertificate::read(it).ok()).map(|it| it.not_after);
    let key =
        PrivateKeyDer::from_pem_file(&files.key).map_err(|source| TlsError::Key { path: files.key.clone(), source })?;
    // The provider is named here, so that no other crate's choice of a default one matters.
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ServerConfig::builder_with_provider(provider.clone()).with_safe_default_protocol_versions()?;
    let builder = match (&files.client_ca, files.client_auth) {
        (None, _) | (_, ClientAuth::None) => builder.with_no_client_auth(),
        (Some(path), auth @ (ClientAuth::Optional | ClientAuth::Required)) => {
            let bad = |why: String| TlsError::ClientCa { path: path.clone(), why };
            let mut roots = RootCertStore::empty();
            for certificate in certificates("tls.client_ca", path)? {
                roots.add(certificate).map_err(|e| bad(e.to_string()))?;
            }
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
            let verifier = if auth == ClientAuth::Optional { verifier.allow_unauthenticated() } else { verifier };
            builder.with_client_cert_verifier(verifier.build().map_err(|e| bad(e.to_string()))?)
        }
    };
    let mut config = builder.with_single_cert(chain, key)?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok((Arc::new(config), not_after))
}

fn certificates(key: &'static str, path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let bad = |source| TlsError::Certificate { key, path: path.to_owned(), source };
    let chain = CertificateDer::pem_file_iter(path).map_err(bad)?.collect::<Result<Vec<_>, _>>().map_err(bad)?;
    if chain.is_empty() {
        return Err(TlsError::NoCertificate { key, path: path.to_owned() });
    }
    Ok(chain)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{clock::Clock, tls::init};

    fn files(pki: &crate::tls::Pki) -> TlsFiles {
        let (cert, key) = (pki.server_cert.clone(), pki.server_key.clone());
        TlsFiles { cert, key, client_ca: None, client_auth: ClientAuth::None }
    }

    #[tokio::test]
    async fn new_files_are_taken_and_broken_ones_change_nothing() {
        let (dir, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let now = Clock::system().now();
        let pki = init(dir.path(), &["yard.example".to_owned()], now).unwrap();
        let fresh = init(other.path(), &["yard.example".to_owned()], now).unwrap();
        let tls = ServerTls::new(files(&pki)).unwrap();
        let first = tls.config();
        // The certificate comes before its key, as copying two files does.
        std::fs::copy(&fresh.server_cert, &pki.server_cert).unwrap();
        assert!(!tls.reload());
        assert!(Arc::ptr_eq(&first, &tls.config()), "half of a pair changes nothing");
        std::fs::copy(&fresh.server_key, &pki.server_key).unwrap();
        let stop = CancellationToken::new();
        let before = tls.stamps();
        std::fs::write(&pki.server_cert, std::fs::read(&fresh.server_cert).unwrap()).unwrap();
        assert_ne!(before, tls.stamps());
        assert!(tls.reload());
        assert!(!Arc::ptr_eq(&first, &tls.config()));
        stop.cancel();
        tls.follow(stop).await;
    }

    #[test]
    fn a_wrong_file_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let pki = init(dir.path(), &["yard".to_owned()], Clock::system().now()).unwrap();
        let error = |change: &dyn Fn(&mut TlsFiles)| {
            let mut files = files(&pki);
            change(&mut files);
            load(&files).map(drop).unwrap_err().to_string()
        };
        let none = dir.path().join("none");
        for (change, says) in [
            (&(|it: &mut TlsFiles| it.cert = it.key.clone()) as &dyn Fn(&mut TlsFiles), "holds no certificate"),
            (&|it| it.cert = none.clone(), "tls.cert "),
            (&|it| it.key = pki.ca_key.clone(), "cannot be used together"),
            (&|it| (it.client_ca, it.client_auth) = (Some(none.clone()), ClientAuth::Required), "tls.client_ca "),
            (&|it| (it.client_ca, it.client_auth) = (Some(it.key.clone()), ClientAuth::Optional), "tls.client_ca "),
        ] {
            let error = error(change);
            assert!(error.contains(says), "{error}");
        }
    }
}
