//! Who a client certificate speaks for.
//!
//! One URI among its subject's alternative names says it: `fleet:ROLE/PRINCIPAL`, or
//! `fleet:ROLE/PRINCIPAL/NODE` for an agent that may speak for one machine or node only. The subject's common
//! name is for people and means nothing here (`docs/adr/0012-who-a-certificate-speaks-for.md`). Whether the
//! certificate is genuine was decided in the handshake.

use shared::{NodeId, Principal, Timestamp};
use x509_parser::prelude::{FromDer, GeneralName, X509Certificate};

use super::{Identity, Role};

const SCHEME: &str = "fleet:";

/// A certificate that a client showed in a handshake that was accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientCertificate {
    /// SHA-256 of the whole certificate, hex.
    pub fingerprint: String,
    /// When it runs out.
    pub not_after: Timestamp,
    /// Who it names.
    pub says: Says,
}

/// Who a certificate names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Says {
    /// It is one of another authority's making: it opens the connection, and a token says who calls.
    Nobody,
    /// This one.
    Identity(Identity),
    /// It names somebody in a way that is not ours. Whoever made it meant something, so it is not passed over.
    Nonsense(String),
}

impl ClientCertificate {
    /// Reads a certificate.
    ///
    /// # Errors
    /// It is no X.509 certificate, or has no end that a clock can show.
    pub fn read(der: &[u8]) -> Result<Self, String> {
        let (_, certificate) = X509Certificate::from_der(der).map_err(|e| format!("it is not X.509: {e}"))?;
        let not_after = certificate.validity().not_after.timestamp().saturating_mul(1_000);
        let fingerprint = shared::sha256_hex(der);
        Ok(Self { fingerprint, not_after: Timestamp::from_millis(not_after), says: says(&certificate) })
    }
}

/// From when until when a certificate is good. `None`: it cannot be read.
#[must_use]
pub fn validity(der: &[u8]) -> Option<(Timestamp, Timestamp)> {
    let (_, certificate) = X509Certificate::from_der(der).ok()?;
    let at = |time: x509_parser::time::ASN1Time| Timestamp::from_millis(time.timestamp().saturating_mul(1_000));
    Some((at(certificate.validity().not_before), at(certificate.validity().not_after)))
}

/// Whether a certificate is one for this public key, given as SubjectPublicKeyInfo or as its bare bits.
#[must_use]
pub fn holds_key(der: &[u8], public_key: &[u8]) -> bool {
    X509Certificate::from_der(der).is_ok_and(|(_, certificate)| {
        let info = certificate.public_key();
        info.raw == public_key || *info.subject_public_key.data == *public_key
    })
}

fn says(certificate: &X509Certificate<'_>) -> Says {
    let names = match certificate.subject_alternative_name() {
        Ok(Some(extension)) => extension.value.general_names.as_slice(),
        Ok(None) => &[],
        Err(e) => return Says::Nonsense(format!("its alternative names cannot be read: {e}")),
    };
    let ours: Vec<&str> = names
        .iter()
        .filter_map(|name| if let GeneralName::URI(uri) = name { Some(*uri) } else { None })
        .filter(|uri| uri.starts_with(SCHEME))
        .collect();
    match ours.as_slice() {
        [] => Says::Nobody,
        [uri] => parse(uri).map_or_else(Says::Nonsense, Says::Identity),
        _ => Says::Nonsense(format!("it has {} {SCHEME} URIs; make one with exactly one", ours.len())),
    }
}

fn parse(uri: &str) -> Result<Identity, String> {
    let wrong = |why: String| format!("{uri:?} is not {SCHEME}ROLE/PRINCIPAL or {SCHEME}node/PRINCIPAL/NODE: {why}");
    let mut parts = uri.strip_prefix(SCHEME).unwrap_or_default().splitn(3, '/');
    let (role, principal, node) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default(), parts.next());
    let role: Role = role.parse().map_err(wrong)?;
    let principal = Principal::new(principal).map_err(|e| wrong(e.to_string()))?;
    let node = node.map(NodeId::new).transpose().map_err(|e| wrong(e.to_string()))?;
    if node.is_some() && role != Role::Node {
        return Err(wrong(format!("role {role} speaks for no node")));
    }
    Ok(Identity { principal, role, node })
}

/// The URI that names this identity.
#[must_use]
pub fn uri(identity: &Identity) -> String {
    let node = identity.node.as_ref().map(|node| format!("/{node}")).unwrap_or_default();
    format!("{SCHEME}{}/{}{node}", identity.role, identity.principal)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::service::sample::id;

    #[test]
    fn the_uri_reads_back_what_it_says() {
        for (role, node) in [(Role::Admin, None), (Role::Node, Some("yard")), (Role::Node, Some("yard/3"))] {
            let identity = Identity { principal: id("ann.b-c_d"), role, node: node.map(id) };
            assert_eq!(parse(&uri(&identity)), Ok(identity));
        }
        for bad in [
            "fleet:",
            "fleet:admin",
            "fleet:admin/",
            "fleet:boss/ann",
            "fleet:Admin/ann",
            "fleet:node/ann/",
            "fleet:node/ann/a/b/c",
            "fleet:admin/ann/yard",
            "fleet:admin/a%6en",
            "fleet:admin/ann?x",
            "fleet://admin/ann",
        ] {
            let why = parse(bad).unwrap_err();
            assert!(why.contains("is not fleet:ROLE/PRINCIPAL"), "{bad}: {why}");
        }
    }

    #[test]
    fn what_is_no_certificate_is_no_panic() {
        for bytes in [&b""[..], b"0", b"0\x82\xff\xff", &[0x30; 4_096]] {
            assert!(ClientCertificate::read(bytes).is_err());
        }
    }
}
