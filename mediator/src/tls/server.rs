//! The server's side of TLS, and how it follows its files while it serves.
//!
//! The files are looked at every [`LOOK`]. New ones hold for connections that are made from then on; those that
//! are open stay as they are. Files that cannot be used change nothing: what was in force stays, and the log and
//! the metrics say so until they are mended. A certificate whose time is over, or has not come, is one of those: every
//! agent would refuse it. Such files are tried again at each look.
//!
//! The disk is looked at on a thread that may block, one look at a time: one that hangs stops nothing else.

use std::{
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use shared::Timestamp;

use rustls::{
    RootCertStore, ServerConfig,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    server::WebPkiClientVerifier,
};
use tokio_util::sync::CancellationToken;

use crate::{
    auth::validity,
    clock::Clock,
    config::{ClientAuth, TlsFiles},
    file, metrics,
};

/// How often the files are looked at.
const LOOK: Duration = Duration::from_secs(2);
/// A look that takes longer than this is told of.
const SLOW: Duration = Duration::from_secs(30);

/// Why the certificate or its key could not be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file that cannot be read at all.
    #[error("{key} {}: {source}; give a PEM file", path.display())]
    Unread {
        /// The configuration's key.
        key: &'static str,
        /// Which file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
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
    /// No client would accept it now.
    #[error("tls.cert {}: this certificate {when}; give one that is good now, and see that the clock is right", path.display())]
    OutOfDate {
        /// Which file.
        path: PathBuf,
        /// Since or until when not.
        when: String,
    },
    /// They do not fit.
    #[error("the certificate and the key cannot be used together: {0}")]
    Pair(#[from] rustls::Error),
}

/// By what a file is known to have been replaced: inode, time of change and size.
type Stamp = Option<(u64, i64, i64, u64)>;

/// What a look has found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Seen {
    stamps: Vec<Stamp>,
    /// Why they are not in force.
    wrong: Option<String>,
}

/// The server's side of TLS. Cheap to clone; all clones follow the same files.
#[derive(Clone)]
pub struct ServerTls {
    files: Arc<TlsFiles>,
    /// What new connections are greeted with.
    current: Arc<Mutex<Arc<ServerConfig>>>,
    at_start: Seen,
}

impl ServerTls {
    /// Reads the files. A certificate that is out of date is used all the same: everything but new connections goes on
    /// without it, and a mediator that does not run cannot take up the next one.
    ///
    /// # Errors
    /// [`TlsError`] names the file.
    pub fn new(files: TlsFiles) -> Result<Self, TlsError> {
        // Noted before they are read: what is written meanwhile is seen the next time.
        let stamps = stamps(&files);
        let loaded = load(&files)?;
        let wrong = loaded.out_of_date(&files).err().map(|error| error.to_string());
        if let Some(wrong) = &wrong {
            tracing::error!("agents and clients will refuse this mediator: {wrong}");
        }
        metrics::certificate(wrong.is_none(), loaded.not_after());
        let current = Arc::new(Mutex::new(loaded.config));
        Ok(Self { files: Arc::new(files), current, at_start: Seen { stamps, wrong } })
    }

    /// What holds now.
    #[must_use]
    pub fn config(&self) -> Arc<ServerConfig> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Follows the files until `stop`.
    pub async fn follow(self, stop: CancellationToken) {
        let mut seen = self.at_start.clone();
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(LOOK) => {}
            }
            let tls = self.clone();
            let mut look = tokio::task::spawn_blocking(move || tls.look(seen));
            let mut told = false;
            seen = loop {
                tokio::select! {
                    () = stop.cancelled() => return,
                    looked = &mut look => match looked {
                        Ok(seen) => break seen,
                        Err(error) => return tracing::error!("looking at the TLS files failed: {error}"),
                    },
                    () = tokio::time::sleep(SLOW), if !told => {
                        told = true;
                        tracing::error!(
                            cert = %self.files.cert.display(),
                            "the disk with the TLS files does not answer; those that were read last stay in force"
                        );
                    }
                }
            };
        }
    }

    /// Looks whether the files have changed, and takes them if so. May block.
    fn look(&self, seen: Seen) -> Seen {
        let stamps = stamps(&self.files);
        if stamps == seen.stamps && seen.wrong.is_none() {
            return seen;
        }
        let wrong = self.reload().err().map(|error| error.to_string());
        match &wrong {
            None => {
                tracing::info!(cert = %self.files.cert.display(), "new TLS files are in force for new connections");
            }
            // Once for each thing that is wrong.
            Some(_) if wrong == seen.wrong => {}
            Some(wrong) => {
                tracing::error!("the TLS files have changed and cannot be used; the old ones stay in force: {wrong}");
            }
        }
        Seen { stamps, wrong }
    }

    /// Reads the files again, and puts them in force.
    fn reload(&self) -> Result<(), TlsError> {
        let loaded = load(&self.files).and_then(|loaded| loaded.out_of_date(&self.files).map(|()| loaded));
        let loaded = loaded.inspect_err(|_| metrics::certificate(false, None))?;
        metrics::certificate(true, loaded.not_after());
        *self.current.lock().unwrap_or_else(PoisonError::into_inner) = loaded.config;
        Ok(())
    }
}

fn stamps(files: &TlsFiles) -> Vec<Stamp> {
    let stamp = |path: &Path| {
        let it = std::fs::metadata(path).ok()?;
        Some((it.ino(), it.mtime(), it.mtime_nsec(), it.len()))
    };
    [Some(&files.cert), Some(&files.key), files.client_ca.as_ref()].into_iter().flatten().map(|it| stamp(it)).collect()
}

/// Files that fit each other.
struct Loaded {
    config: Arc<ServerConfig>,
    /// From when until when the server's certificate is good, if that can be read.
    good: Option<(Timestamp, Timestamp)>,
}

impl Loaded {
    fn not_after(&self) -> Option<Timestamp> {
        self.good.map(|(_, until)| until)
    }

    fn out_of_date(&self, files: &TlsFiles) -> Result<(), TlsError> {
        // The wall clock as it is now, as clients read theirs: our own may have begun at a wrong time.
        let now = Clock::system().now();
        let when = match self.good {
            Some((_, until)) if until <= now => format!("expired at {until}"),
            Some((from, _)) if now < from => format!("is not valid before {from}"),
            Some(_) | None => return Ok(()),
        };
        Err(TlsError::OutOfDate { path: files.cert.clone(), when })
    }
}

/// HTTP/2 and HTTP/1.1; client certificates as the configuration says.
fn load(files: &TlsFiles) -> Result<Loaded, TlsError> {
    let chain = certificates("tls.cert", &files.cert)?;
    let good = chain.first().and_then(|it| validity(it));
    let key = PrivateKeyDer::from_pem_slice(&read("tls.key", &files.key)?)
        .map_err(|source| TlsError::Key { path: files.key.clone(), source })?;
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
    Ok(Loaded { config: Arc::new(config), good })
}

fn certificates(key: &'static str, path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let bad = |source| TlsError::Certificate { key, path: path.to_owned(), source };
    let pem = read(key, path)?;
    let chain = CertificateDer::pem_slice_iter(&pem).collect::<Result<Vec<_>, _>>().map_err(bad)?;
    if chain.is_empty() {
        return Err(TlsError::NoCertificate { key, path: path.to_owned() });
    }
    Ok(chain)
}

fn read(key: &'static str, path: &Path) -> Result<Vec<u8>, TlsError> {
    file::read_small(path, file::SMALL).map_err(|source| TlsError::Unread { key, path: path.to_owned(), source })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tls::init;

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
        let seen = tls.look(tls.at_start.clone());
        assert!(seen.wrong.is_some());
        assert!(Arc::ptr_eq(&first, &tls.config()), "half of a pair changes nothing");
        std::fs::copy(&fresh.server_key, &pki.server_key).unwrap();
        let seen = tls.look(seen);
        assert_eq!(seen.wrong, None);
        let second = tls.config();
        assert!(!Arc::ptr_eq(&first, &second));
        assert_eq!(tls.look(seen.clone()), seen);
        assert!(Arc::ptr_eq(&second, &tls.config()), "what has not changed is not read");
        let stop = CancellationToken::new();
        stop.cancel();
        tls.follow(stop).await;
    }

    #[test]
    fn a_certificate_that_nobody_would_accept_is_not_taken_before_its_time_nor_after() {
        let now = Clock::system().now();
        let years = |years: u64| shared::Duration::from_secs(365 * 86_400 * years);
        let dir = tempfile::tempdir().unwrap();
        let pki = init(dir.path(), &["yard".to_owned()], now).unwrap();
        let tls = ServerTls::new(files(&pki)).unwrap();
        let first = tls.config();
        let mut seen = tls.at_start.clone();
        for (made, says) in [(now - years(5), "expired at"), (now + years(5), "is not valid before")] {
            let other = tempfile::tempdir().unwrap();
            let odd = init(other.path(), &["yard".to_owned()], made).unwrap();
            std::fs::copy(&odd.server_cert, &pki.server_cert).unwrap();
            std::fs::copy(&odd.server_key, &pki.server_key).unwrap();
            seen = tls.look(seen);
            assert!(seen.wrong.as_ref().is_some_and(|it| it.contains(says)), "{seen:?}");
            assert!(Arc::ptr_eq(&first, &tls.config()), "{says}");
            let started = ServerTls::new(files(&pki)).unwrap();
            assert!(started.at_start.wrong.as_ref().is_some_and(|it| it.contains(says)), "it is told at the start");
            assert!(started.look(seen.clone()).wrong.is_some(), "and looked at again");
        }
    }

    #[test]
    fn a_pipe_in_the_place_of_a_file_is_not_waited_for() {
        let now = Clock::system().now();
        for which in ["server.key", "server.crt"] {
            let dir = tempfile::tempdir().unwrap();
            let pki = init(dir.path(), &["yard".to_owned()], now).unwrap();
            let tls = ServerTls::new(files(&pki)).unwrap();
            std::fs::remove_file(dir.path().join(which)).unwrap();
            rustix::fs::mkfifoat(rustix::fs::CWD, dir.path().join(which), rustix::fs::Mode::RWXU).unwrap();
            let seen = tls.look(tls.at_start.clone());
            assert!(seen.wrong.is_some_and(|it| it.contains("a pipe")), "{which}");
            assert!(ServerTls::new(files(&pki)).is_err_and(|it| it.to_string().contains("a pipe")), "{which}");
        }
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
