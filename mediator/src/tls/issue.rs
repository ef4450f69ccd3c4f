//! `mediator pki issue`: client certificates from the fleet's own authority.
//!
//! Who a certificate speaks for stands in one URI (`auth::uri`); the common name repeats it for people.

use std::path::{Path, PathBuf};

use rcgen::{CertificateParams, DnType, ExtendedKeyUsagePurpose, Issuer, KeyPair, KeyUsagePurpose, SanType, string};
use rustls::pki_types::{CertificateDer, pem::PemObject};
use shared::{Duration, Timestamp};

use super::pki::{PkiError, make_dir, write};
use crate::{
    auth::{ClientCertificate, Identity, holds_key, uri},
    file,
};

const DAY: Duration = Duration::from_secs(86_400);

/// What was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Issued {
    /// The client's certificate.
    pub cert: PathBuf,
    /// Its key, readable by its owner only.
    pub key: PathBuf,
    /// SHA-256 of the certificate, by which it can be revoked.
    pub fingerprint: String,
    /// When it runs out.
    pub expires_at: Timestamp,
}

/// Makes a certificate for somebody, good for so many days, and writes it to a directory.
///
/// # Errors
/// [`PkiError`]; nothing that was there is ever overwritten.
pub fn issue(ca: &Path, out: &Path, who: &Identity, days: u32, now: Timestamp) -> Result<Issued, PkiError> {
    let node = who.node.as_ref().map(|node| format!(".{}", node.as_str().replace('/', "."))).unwrap_or_default();
    let name = format!("{}{node}", who.principal);
    let (cert_path, key_path) = (out.join(format!("{name}.crt")), out.join(format!("{name}.key")));
    for file in [&cert_path, &key_path] {
        if file.symlink_metadata().is_ok() {
            return Err(PkiError::Exists(file.clone()));
        }
    }
    let authority = authority(ca)?;
    let key = KeyPair::generate()?;
    let mut params = CertificateParams::new(Vec::<String>::new())?;
    params.subject_alt_names.push(SanType::URI(string::Ia5String::try_from(uri(who))?));
    params.distinguished_name.push(DnType::CommonName, name);
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.use_authority_key_identifier_extension = true;
    // From the day before, because clocks of other machines may be behind.
    let epoch = rcgen::date_time_ymd(1970, 1, 1);
    let start = u64::try_from((now - DAY).millis()).map_err(|_| PkiError::Clock)?;
    let end = u64::try_from((now + DAY * days).millis()).map_err(|_| PkiError::Clock)?;
    params.not_before = epoch + std::time::Duration::from_secs(start / 1_000);
    params.not_after = epoch + std::time::Duration::from_secs(end / 1_000);
    let cert = params.signed_by(&key, &authority)?;
    let read =
        ClientCertificate::read(cert.der()).map_err(|why| PkiError::Certificate { path: cert_path.clone(), why })?;
    make_dir(out)?;
    write(&key_path, &key.serialize_pem(), 0o600)?;
    write(&cert_path, &cert.pem(), 0o644)?;
    Ok(Issued { cert: cert_path, key: key_path, fingerprint: read.fingerprint, expires_at: read.not_after })
}

/// The authority of a directory. Its key must be that of its certificate: what it signs would be refused by
/// everybody otherwise, and far away from the mistake.
fn authority(dir: &Path) -> Result<Issuer<'static, KeyPair>, PkiError> {
    let (cert_path, key_path) = (dir.join("ca.crt"), dir.join("ca.key"));
    let read = |path: &Path| {
        let why = |e: std::io::Error| PkiError::Authority { path: path.to_owned(), why: e.to_string() };
        file::read_text(path, file::SMALL).map_err(why)
    };
    let bad = |path: &Path, why: String| PkiError::Authority { path: path.to_owned(), why };
    let (cert, key) = (read(&cert_path)?, read(&key_path)?);
    let key = KeyPair::from_pem(&key).map_err(|e| bad(&key_path, e.to_string()))?;
    let der = CertificateDer::from_pem_slice(cert.as_bytes()).map_err(|e| bad(&cert_path, e.to_string()))?;
    if !holds_key(&der, rcgen::PublicKeyData::der_bytes(&key)) {
        return Err(bad(&key_path, "it is not the key of ca.crt".to_owned()));
    }
    Issuer::from_ca_cert_der(&der, key).map_err(|e| bad(&cert_path, e.to_string()))
}

/// The certificate in a PEM file.
///
/// # Errors
/// [`PkiError::Certificate`].
pub fn read_certificate(path: &Path) -> Result<ClientCertificate, PkiError> {
    let bad = |why: String| PkiError::Certificate { path: path.to_owned(), why };
    let pem = file::read_given(path, file::SMALL).map_err(|e| bad(e.to_string()))?;
    let der = CertificateDer::from_pem_slice(&pem).map_err(|e| bad(e.to_string()))?;
    ClientCertificate::read(&der).map_err(bad)
}
