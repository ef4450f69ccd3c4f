//! `mediator pki init`: a certificate authority of one's own and a server certificate, for a small fleet.

use std::{
    fs,
    io::Write,
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose,
};
use shared::Timestamp;

/// Years that the authority is good for.
const CA_YEARS: i16 = 10;
/// Years that the server's certificate is good for.
const SERVER_YEARS: i16 = 2;
/// Names under which the host itself reaches its mediator. Always in the certificate.
const LOCAL: [&str; 3] = ["localhost", "127.0.0.1", "::1"];

/// What was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pki {
    /// The authority's certificate: every agent and every client needs it.
    pub ca_cert: PathBuf,
    /// The authority's key: needed again only to make further certificates.
    pub ca_key: PathBuf,
    /// The server's certificate.
    pub server_cert: PathBuf,
    /// The server's key.
    pub server_key: PathBuf,
}

impl Pki {
    fn in_dir(dir: &Path) -> Self {
        Self {
            ca_cert: dir.join("ca.crt"),
            ca_key: dir.join("ca.key"),
            server_cert: dir.join("server.crt"),
            server_key: dir.join("server.key"),
        }
    }

    /// What to do with the files, for a person.
    #[must_use]
    pub fn advice(&self) -> String {
        format!(
            "Wrote a certificate authority and a server certificate.\n\
             On this machine, in the mediator's configuration:\n\
             \n  [tls]\n  cert = \"{}\"\n  key = \"{}\"\n\n\
             Copy {} to every machine with an agent or a client: it is what they trust.\n\
             Keep {} off the network: whoever has it can make certificates that your fleet trusts.\n",
            // In a file it would be relative to that file.
            whole(&self.server_cert).display(),
            whole(&self.server_key).display(),
            self.ca_cert.display(),
            self.ca_key.display(),
        )
    }
}

fn whole(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

/// Why there is no certificate.
#[derive(Debug, thiserror::Error)]
pub enum PkiError {
    /// Nothing is overwritten.
    #[error("{} is there already and is not overwritten; give an empty directory, or move the old files away", .0.display())]
    Exists(PathBuf),
    /// The authority's files.
    #[error("{}: {why}; give the folder with the ca.crt and ca.key that `mediator pki init` wrote", path.display())]
    Authority {
        /// Which file.
        path: PathBuf,
        /// Why it cannot be used.
        why: String,
    },
    /// A file that is to hold a certificate.
    #[error("{}: {why}", path.display())]
    Certificate {
        /// Which file.
        path: PathBuf,
        /// Why not.
        why: String,
    },
    /// A certificate is for somebody.
    #[error("name at least one host name or IP address under which agents reach this mediator")]
    NoName,
    /// A name that no certificate can hold.
    #[error("{0:?} cannot be in a certificate; write a host name or an IP address, without a port")]
    BadName(String),
    /// Making keys or certificates.
    #[error("cannot make the certificate: {0}")]
    Crypto(#[from] rcgen::Error),
    /// The clock.
    #[error("the clock shows a time that no certificate can hold")]
    Clock,
    /// Writing.
    #[error("cannot write {}: {source}", path.display())]
    Write {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
}

/// Makes an authority and a server certificate for these names in a directory, which is created if need be.
///
/// # Errors
/// [`PkiError`]; nothing that was there is ever overwritten.
pub fn init(dir: &Path, names: &[String], now: Timestamp) -> Result<Pki, PkiError> {
    let files = Pki::in_dir(dir);
    if names.is_empty() {
        return Err(PkiError::NoName);
    }
    for file in [&files.ca_cert, &files.ca_key, &files.server_cert, &files.server_key] {
        // A dangling link counts as being there, too.
        if file.symlink_metadata().is_ok() {
            return Err(PkiError::Exists(file.clone()));
        }
    }
    let mut all: Vec<String> = names.to_vec();
    for local in LOCAL {
        if !all.iter().any(|name| name == local) {
            all.push(local.to_owned());
        }
    }
    for name in &all {
        let odd = |c: char| !c.is_ascii_alphanumeric() && !matches!(c, '.' | '-' | '*');
        if name.parse::<std::net::IpAddr>().is_err() && (name.is_empty() || name.contains(odd)) {
            return Err(PkiError::BadName(name.clone()));
        }
    }
    let authority = authority(now)?;
    let key = KeyPair::generate()?;
    let mut params = CertificateParams::new(all)?;
    params.distinguished_name.push(DnType::CommonName, names[0].clone());
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.use_authority_key_identifier_extension = true;
    valid(&mut params, now, SERVER_YEARS)?;
    let cert = params.signed_by(&key, &authority)?;

    make_dir(dir)?;
    write(&files.ca_key, &authority.key().serialize_pem(), 0o600)?;
    write(&files.server_key, &key.serialize_pem(), 0o600)?;
    write(&files.ca_cert, &authority.pem(), 0o644)?;
    write(&files.server_cert, &cert.pem(), 0o644)?;
    Ok(files)
}

fn authority(now: Timestamp) -> Result<CertifiedIssuer<'static, KeyPair>, PkiError> {
    let mut params = CertificateParams::new(Vec::<String>::new())?;
    params.distinguished_name.push(DnType::CommonName, "mediator fleet CA");
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    valid(&mut params, now, CA_YEARS)?;
    Ok(CertifiedIssuer::self_signed(params, KeyPair::generate()?)?)
}

pub(super) fn make_dir(dir: &Path) -> Result<(), PkiError> {
    let made = fs::DirBuilder::new().recursive(true).mode(0o755).create(dir);
    made.map_err(|source| PkiError::Write { path: dir.to_owned(), source })
}

/// From the day before `now`, because clocks of other machines may be behind, for some years.
fn valid(params: &mut CertificateParams, now: Timestamp, years: i16) -> Result<(), PkiError> {
    let day =
        jiff::Timestamp::from_millisecond(now.millis().saturating_sub(86_400_000)).map_err(|_| PkiError::Clock)?;
    let day = jiff::tz::Offset::UTC.to_datetime(day).date();
    // The 29th of February does not come every year.
    let (month, date) = (day.month().unsigned_abs(), day.day().unsigned_abs().min(28));
    params.not_before = rcgen::date_time_ymd(day.year().into(), month, date);
    params.not_after = rcgen::date_time_ymd(day.year().saturating_add(years).into(), month, date);
    Ok(())
}

pub(super) fn write(path: &Path, text: &str, mode: u32) -> Result<(), PkiError> {
    let written = fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(mode)
        .open(path)
        .and_then(|mut file| file.write_all(text.as_bytes()).and_then(|()| file.sync_all()));
    written.map_err(|source| PkiError::Write { path: path.to_owned(), source })
}
