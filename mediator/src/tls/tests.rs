use std::os::unix::fs::PermissionsExt;

use rustls::{ClientConfig, RootCertStore, pki_types::ServerName};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_rustls::TlsConnector;

use super::*;
use crate::service::sample::NOW;

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
    let config = server_config(&pki.server_cert, &pki.server_key).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at = listener.local_addr().unwrap();
    // These never begin their handshake, and come first.
    let mut silent = Vec::new();
    for _ in 0..3 {
        silent.push(TcpStream::connect(at).await.unwrap());
    }
    // This one speaks something else.
    TcpStream::connect(at).await.unwrap().write_all(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
    let mut incoming = Box::pin(incoming(listener, Some(config)));
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
        connection.read_exact(&mut got).await.unwrap();
        assert_eq!(&got, b"hello");
    };
    tokio::time::timeout(HANDSHAKE / 2, async { tokio::join!(talk, serve) }).await.unwrap();
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
fn a_wrong_file_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let pki = init(dir.path(), &["yard".to_owned()], NOW).unwrap();
    let error = server_config(&pki.server_key, &pki.server_key).unwrap_err();
    assert!(matches!(error, TlsError::NoCertificate(_)), "{error}");
    let error = server_config(&dir.path().join("none"), &pki.server_key).unwrap_err();
    assert!(error.to_string().starts_with("tls.cert "), "{error}");
    let error = server_config(&pki.server_cert, &pki.ca_key).unwrap_err();
    assert!(matches!(error, TlsError::Pair(_)), "{error}");
}
