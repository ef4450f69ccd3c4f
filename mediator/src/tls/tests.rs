use std::os::unix::fs::PermissionsExt;

use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, ServerName, pem::PemObject},
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_rustls::TlsConnector;

use super::*;
use crate::{
    auth::{Identity, Role, Says},
    config::{ClientAuth, TlsFiles},
    service::sample::{NOW, id},
};

fn now() -> shared::Timestamp {
    // Certificates are judged by the real clock.
    crate::clock::Clock::system().now()
}

fn client(pki: &Pki) -> TlsConnector {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(&pki.ca_cert).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec()];
    TlsConnector::from(Arc::new(config))
}

#[tokio::test]
async fn a_client_that_says_nothing_holds_back_nobody() {
    let dir = tempfile::tempdir().unwrap();
    let pki = init(dir.path(), &["yard.example".to_owned()], now()).unwrap();
    let (cert, key) = (pki.server_cert.clone(), pki.server_key.clone());
    let files = TlsFiles { cert, key, client_ca: None, client_auth: ClientAuth::None };
    let config = ServerTls::new(files).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at = listener.local_addr().unwrap();
    // These never begin their handshake, and come first.
    let mut silent = Vec::new();
    for _ in 0..3 {
        silent.push(TcpStream::connect(at).await.unwrap());
    }
    // This one speaks something else.
    TcpStream::connect(at).await.unwrap().write_all(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
    let mut incoming = Box::pin(incoming(listener, Some(config), Limits::default()));
    let talk = async {
        let name = ServerName::try_from("yard.example").unwrap();
        let mut stream = client(&pki).connect(name, TcpStream::connect(at).await.unwrap()).await.unwrap();
        assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
        stream.write_all(b"hello").await.unwrap();
        stream.flush().await.unwrap();
        stream
    };
    let serve = async {
        let mut connection = incoming.next().await.unwrap();
        let mut got = [0; 5];
        connection.io.read_exact(&mut got).await.unwrap();
        assert_eq!(&got, b"hello");
    };
    tokio::time::timeout(Limits::default().handshake / 2, async { tokio::join!(talk, serve) }).await.unwrap();
}

#[test]
fn keys_are_private_and_nothing_is_overwritten() {
    let dir = tempfile::tempdir().unwrap();
    let pki = init(dir.path(), &["10.0.0.7".to_owned()], NOW).unwrap();
    for key in [&pki.ca_key, &pki.server_key] {
        assert_eq!(std::fs::metadata(key).unwrap().permissions().mode() & 0o777, 0o600);
    }
    let before = std::fs::read(&pki.ca_key).unwrap();
    let error = init(dir.path(), &["10.0.0.7".to_owned()], NOW).unwrap_err();
    assert!(matches!(error, PkiError::Exists(_)), "{error}");
    assert_eq!(std::fs::read(&pki.ca_key).unwrap(), before);
    assert!(pki.advice().contains("cert = "));
}

#[test]
fn a_name_that_cannot_be_in_a_certificate_is_refused_before_anything_is_written() {
    let dir = tempfile::tempdir().unwrap();
    for bad in ["", "yard:7070", "a b", "https://yard"] {
        let error = init(dir.path(), &[bad.to_owned()], NOW).unwrap_err();
        assert!(error.to_string().contains("without a port"), "{error}");
    }
    assert!(matches!(init(dir.path(), &[], NOW), Err(PkiError::NoName)));
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn a_client_certificate_says_who_it_is_for_and_nothing_is_overwritten() {
    let dir = tempfile::tempdir().unwrap();
    let pki = init(dir.path(), &["yard".to_owned()], now()).unwrap();
    let who = Identity { principal: id("ann"), role: Role::Node, node: Some(id("yard/3")) };
    let made = issue(dir.path(), dir.path(), &who, 7, now()).unwrap();
    assert!(made.cert.ends_with("ann.yard.3.crt") && made.key.ends_with("ann.yard.3.key"), "{made:?}");
    assert_eq!(std::fs::metadata(&made.key).unwrap().permissions().mode() & 0o777, 0o600);
    let read = read_certificate(&made.cert).unwrap();
    assert_eq!((&read.fingerprint, read.not_after), (&made.fingerprint, made.expires_at));
    assert_eq!(read.says, Says::Identity(who.clone()));
    let days = made.expires_at.since(now()).millis() / 86_400_000;
    assert!((6..=7).contains(&days), "{days}");
    let error = issue(dir.path(), dir.path(), &who, 7, now()).unwrap_err();
    assert!(matches!(error, PkiError::Exists(_)), "{error}");
    // A server's certificate names nobody, and what is no certificate is said to be none.
    assert_eq!(read_certificate(&pki.server_cert).unwrap().says, Says::Nobody);
    assert!(read_certificate(&pki.ca_key).unwrap_err().to_string().contains("ca.key"));
}

#[test]
fn an_authority_that_cannot_be_used_is_named() {
    let (dir, other, empty) =
        (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let who = Identity { principal: id("ann"), role: Role::Admin, node: None };
    let error = issue(empty.path(), empty.path(), &who, 1, now()).unwrap_err().to_string();
    assert!(error.contains("ca.crt") && error.contains("pki init"), "{error}");
    let pki = init(dir.path(), &["yard".to_owned()], now()).unwrap();
    let strange = init(other.path(), &["yard".to_owned()], now()).unwrap();
    std::fs::copy(&strange.ca_key, &pki.ca_key).unwrap();
    let error = issue(dir.path(), dir.path(), &who, 1, now()).unwrap_err().to_string();
    assert!(error.contains("not the key of ca.crt"), "{error}");
    assert!(!dir.path().join("ann.key").exists(), "nothing was written");
}
