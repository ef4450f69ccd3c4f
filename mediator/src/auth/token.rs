//! Making tokens: the secret is returned once, its hash is stored.
//!
//! A fresh installation gets one admin token in `STATE/admin.token`, which the command line on the same host
//! picks up by itself.

use std::{
    fs,
    io::Write,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use shared::{Duration, NodeId, Principal, Timestamp};

use super::Role;
use crate::{
    clock::{self, Clock},
    file,
    store::{Store, StoreError, TokenRow},
};

/// A token that was just made.
pub struct NewToken {
    /// What its owner must keep. Shown once.
    pub secret: String,
    /// What it is for.
    pub role: Role,
    /// Whose it is.
    pub principal: Principal,
    /// From when on it is no good any more.
    pub expires_at: Option<Timestamp>,
}

/// SHA-256 of a secret in hex. Secrets have 256 random bits, so a slow hash would add nothing.
#[must_use]
pub fn hash(secret: &str) -> String {
    shared::sha256_hex(secret.as_bytes())
}

/// Stores a fresh token, good for so long or for ever, and returns its secret.
///
/// # Errors
/// [`StoreError`].
pub async fn create_token(
    store: &Store,
    clock: &Clock,
    role: Role,
    principal: Principal,
    node: Option<NodeId>,
    lifetime: Option<Duration>,
) -> Result<NewToken, StoreError> {
    let secret = clock::random_secret();
    let created_at = clock.now();
    let expires_at = lifetime.map(|lifetime| created_at + lifetime);
    let role_word = role.as_str().to_owned();
    let row = TokenRow {
        hash: hash(&secret),
        role: role_word,
        principal: principal.clone(),
        node,
        created_at,
        expires_at,
        revoked_at: None,
    };
    store.put_token(&row).await?;
    Ok(NewToken { secret, role, principal, expires_at })
}

/// Why the admin token could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum AdminTokenError {
    /// The file.
    #[error("cannot use {}: {source}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// It is there and holds no token.
    #[error("{} holds no token; delete it and start again to get a fresh one", .0.display())]
    Empty(PathBuf),
    /// It is there and was revoked.
    #[error(
        "the token in {} was revoked; delete the file and start again to get a fresh one", .0.display()
    )]
    Revoked(PathBuf),
    /// The name of its principal is fixed, so this is a fault of ours.
    #[error("the admin principal is not a valid name")]
    Name(#[from] shared::BadId),
    /// The database.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Sees to it that `STATE/admin.token` exists and that the database knows it.
///
/// An existing file is never changed: when the database does not know it (a fresh database under an old
/// state directory), its hash is stored.
///
/// # Errors
/// [`AdminTokenError`].
pub async fn admin_token(store: &Store, clock: &Clock, state_dir: &Path) -> Result<PathBuf, AdminTokenError> {
    let path = state_dir.join("admin.token");
    let file_error = |source| AdminTokenError::File { path: path.clone(), source };
    let fresh = clock::random_secret();
    // Written beside and given its name when it is whole: a crash leaves no token file without a token.
    let mut file = tempfile::NamedTempFile::new_in(state_dir).map_err(file_error)?;
    file.write_all(format!("{fresh}\n").as_bytes()).and_then(|()| file.as_file().sync_all()).map_err(file_error)?;
    let secret = match file.persist_noclobber(&path) {
        Ok(_) => fresh,
        Err(e) if e.error.kind() == std::io::ErrorKind::AlreadyExists => existing(&path).map_err(file_error)?,
        Err(e) => return Err(file_error(e.error)),
    };
    if secret.len() < 32 {
        return Err(AdminTokenError::Empty(path));
    }
    let hash = hash(&secret);
    match store.token_by_hash(&hash).await? {
        // A file that gives nobody anything would be found out by the first command that uses it.
        Some((row, _)) if row.revoked_at.is_some() => return Err(AdminTokenError::Revoked(path)),
        Some(_) => {}
        None => {
            let role = Role::Admin.as_str().to_owned();
            let principal = Principal::new("admin")?;
            let row = TokenRow {
                hash,
                role,
                principal,
                node: None,
                created_at: clock.now(),
                expires_at: None,
                revoked_at: None,
            };
            store.put_token(&row).await?;
        }
    }
    Ok(path)
}

fn existing(path: &Path) -> std::io::Result<String> {
    let secret = file::read_text(path, file::SMALL)?.trim().to_owned();
    if fs::metadata(path)?.permissions().mode() & 0o077 != 0 {
        tracing::warn!("{} can be read by others; make it private with `chmod 600`", path.display());
    }
    Ok(secret)
}
