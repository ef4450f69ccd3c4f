//! `pki init`, `pki issue` and `pki revoke`.

use std::path::{Path, PathBuf};

use serde::Serialize;
use shared::{Principal, Timestamp};

use super::{
    admin::{Expect, store},
    args::Pki,
    exit::{Exit, Failure, Outcome, causes},
    output::{Format, Io, clean, clean_lines},
};
use crate::{
    auth::{Identity, Role, Says},
    clock::Clock,
    store::TokenRow,
    tls,
};

/// The files as `pki init` prints them.
#[derive(Serialize)]
struct Files {
    ca_cert: PathBuf,
    ca_key: PathBuf,
    server_cert: PathBuf,
    server_key: PathBuf,
}

/// What `pki issue` prints.
#[derive(Serialize)]
struct Issued {
    cert: PathBuf,
    key: PathBuf,
    fingerprint: String,
    expires_at: Timestamp,
}

/// What `pki revoke` prints.
#[derive(Serialize)]
struct Revoked {
    fingerprint: String,
    revoked_at: Timestamp,
}

pub(crate) async fn pki(io: &mut Io, format: Format, command: Pki) -> Outcome {
    let clock = Clock::system();
    let failed = |e: tls::PkiError| Failure::refused(causes(&e));
    match command {
        Pki::Init { out, host } => {
            let made = tls::init(&out, &host, clock.now()).map_err(failed)?;
            let advice = made.advice();
            let (ca_cert, ca_key) = (made.ca_cert, made.ca_key);
            let files = Files { ca_cert, ca_key, server_cert: made.server_cert, server_key: made.server_key };
            let paths = [&files.ca_cert, &files.ca_key, &files.server_cert, &files.server_key];
            print(io, format, &files, &paths.map(|path| path.display().to_string()))?;
            io.note(clean_lines(&advice));
        }
        Pki::Issue { dir, out, role, principal, node, days } => {
            if node.is_some() && role != Role::Node {
                return Err(Failure::refused(format!(
                    "--node binds a certificate of role node, not one of role {role}"
                ))
                .advise("Leave --node out, or make it --role node."));
            }
            let out = out.unwrap_or_else(|| dir.clone());
            let made =
                tls::issue(&dir, &out, &Identity { principal, role, node }, days, clock.now()).map_err(failed)?;
            let issued =
                Issued { cert: made.cert, key: made.key, fingerprint: made.fingerprint, expires_at: made.expires_at };
            let paths = [&issued.cert, &issued.key].map(|path| path.display().to_string());
            print(io, format, &issued, &paths)?;
            io.note(format_args!(
                "Good until {}. Its fingerprint, to revoke it without the file: {}",
                issued.expires_at, issued.fingerprint
            ));
        }
        Pki::Revoke { certificate, settings } => {
            let row = row(&certificate, clock.now())?;
            let loaded = settings.load()?;
            let store = store(io, &loaded, &clock, Expect::Used).await?;
            let failed = |e| Failure::refused(format!("cannot revoke the certificate: {}", causes(&e)));
            if let Some((known, _)) = store.token_by_hash(&row.hash).await.map_err(failed)? {
                let at = known.revoked_at.unwrap_or(known.created_at);
                return Err(Failure::refused(format!("this certificate was revoked already, at {at}")));
            }
            store.put_token(&row).await.map_err(failed)?;
            // By the store's clock, as everything else that was revoked.
            store.revoke_token(&row.hash).await.map_err(failed)?;
            let stored = store.token_by_hash(&row.hash).await.map_err(failed)?;
            let revoked_at = stored.and_then(|(row, _)| row.revoked_at).unwrap_or(row.created_at);
            let fingerprint = row.hash.trim_start_matches("cert:").to_owned();
            let shown = Revoked { fingerprint, revoked_at };
            print(io, format, &shown, std::slice::from_ref(&shown.fingerprint))?;
        }
    }
    Ok(Exit::Ok)
}

fn print(io: &mut Io, format: Format, all: &impl Serialize, lines: &[String]) -> Outcome<()> {
    match format {
        Format::Json => io.json(all),
        Format::Jsonl => io.json_line(all),
        Format::Table => lines.iter().try_for_each(|line| io.line(clean(line))),
    }
}

/// What is stored of a certificate that is revoked, which is named by its file or by its fingerprint.
fn row(certificate: &str, now: Timestamp) -> Outcome<TokenRow> {
    let hex = certificate.replace(':', "").to_ascii_lowercase();
    let path = Path::new(certificate);
    // Its file is not needed: whoever lost the file has the more reason to revoke it.
    let (fingerprint, says) = if hex.len() == 64 && hex.bytes().all(|b| b.is_ascii_hexdigit()) && !path.exists() {
        (hex, Says::Nobody)
    } else {
        let read = tls::read_certificate(path).map_err(|e| {
            Failure::refused(causes(&e)).advise(
                "Give the certificate's file as `pki issue` wrote it, or its fingerprint: 64 hexadecimal digits.",
            )
        })?;
        (read.fingerprint, read.says)
    };
    let (role, principal, node) = match says {
        Says::Identity(it) => (it.role.to_string(), it.principal, it.node),
        Says::Nobody | Says::Nonsense(_) => {
            let unknown = Principal::new("unknown").map_err(|e| Failure::refused(e.to_string()))?;
            ("unknown".to_owned(), unknown, None)
        }
    };
    let hash = TokenRow::certificate_key(&fingerprint);
    Ok(TokenRow { hash, role, principal, node, created_at: now, expires_at: None, revoked_at: None })
}
