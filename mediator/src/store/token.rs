//! Rows of `tokens`. The token itself is not stored, only its hash.
//!
//! A client certificate proves by itself what it is good for, so it has a row here only once it was revoked,
//! under [`TokenRow::certificate_key`]. Both kinds of credential are looked up and fall out of use the same way.

use shared::{NodeId, Principal, Timestamp};

use super::{
    Store,
    error::StoreError,
    row::{Bad, Row},
    sql::{Query, Value},
    sync::keep,
};

/// A token that was given out, or a certificate that was revoked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenRow {
    /// SHA-256 of the token, hex.
    pub hash: String,
    /// The role's word.
    pub role: String,
    /// Who it speaks for.
    pub principal: Principal,
    /// The only node it may speak for, if it is bound to one.
    pub node: Option<NodeId>,
    /// When it was made.
    pub created_at: Timestamp,
    /// From when on it is no good any more; none: never.
    pub expires_at: Option<Timestamp>,
    /// When it was revoked.
    pub revoked_at: Option<Timestamp>,
}

impl TokenRow {
    /// The key under which a revoked certificate is kept. No hash of a token looks like it.
    #[must_use]
    pub fn certificate_key(fingerprint: &str) -> String {
        format!("cert:{fingerprint}")
    }
}

/// What looking for tokens by the beginning of their hash found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found {
    /// None.
    None,
    /// This one.
    One(Box<TokenRow>),
    /// So many.
    Many(usize),
}

const PUT: Query = Query::both(
    "tokens.put",
    "INSERT INTO tokens (hash, role, principal, node_id, created_at, expires_at, revoked_at) \
     VALUES ($1, $2, $3, $4, $5, $6, $7)",
);
/// With the store's time beside it, by which it is judged. $2 is now where the mediator's clock is the authority
/// (SQLite); PostgreSQL asks its own.
const BY_HASH: Query = Query::each(
    "tokens.by_hash",
    "SELECT hash, role, principal, node_id, created_at, expires_at, revoked_at, $2 AS now FROM tokens WHERE hash = $1",
    "SELECT hash, role, principal, node_id, created_at, expires_at, revoked_at, CASE WHEN $2::BIGINT IS NOT NULL \
     THEN CAST(floor(extract(epoch FROM clock_timestamp()) * 1000) AS BIGINT) END AS now FROM tokens WHERE hash = $1",
);
/// The prefix is compared as text, so that no character of it means anything.
const BY_PREFIX: Query = Query::both(
    "tokens.by_prefix",
    "SELECT hash, role, principal, node_id, created_at, expires_at, revoked_at FROM tokens \
     WHERE substr(hash, 1, length($1)) = $1 ORDER BY hash",
);
const ALL: Query = Query::both(
    "tokens.all",
    "SELECT hash, role, principal, node_id, created_at, expires_at, revoked_at FROM tokens ORDER BY created_at, hash",
);
/// One that was revoked before stays as it is: when it happened is not rewritten.
const REVOKE: Query = Query::each(
    "tokens.revoke",
    "UPDATE tokens SET revoked_at = $2 WHERE hash = $1 AND revoked_at IS NULL",
    "UPDATE tokens SET revoked_at = CASE WHEN $2::BIGINT IS NOT NULL \
     THEN CAST(floor(extract(epoch FROM clock_timestamp()) * 1000) AS BIGINT) END \
     WHERE hash = $1 AND revoked_at IS NULL",
);
const DEAD: Query = Query::each(
    "tokens.dead",
    "SELECT hash FROM tokens WHERE revoked_at IS NOT NULL OR expires_at <= $1",
    "SELECT hash FROM tokens WHERE revoked_at IS NOT NULL OR ($1::BIGINT IS NOT NULL \
     AND expires_at <= CAST(floor(extract(epoch FROM clock_timestamp()) * 1000) AS BIGINT))",
);

impl Store {
    /// Stores a token.
    ///
    /// # Errors
    /// [`StoreError::Conflict`] when the hash is there already.
    pub async fn put_token(&self, token: &TokenRow) -> Result<(), StoreError> {
        let values = [
            Value::text(&token.hash),
            Value::text(&token.role),
            Value::show(&token.principal),
            Value::maybe(token.node.as_ref()),
            Value::at(token.created_at),
            Value::maybe_at(token.expires_at),
            Value::maybe_at(token.revoked_at),
        ];
        self.engine.write(&PUT, &values).await.map(drop)
    }

    /// The token with this hash, good or not, and the store's time.
    ///
    /// # Errors
    /// [`StoreError`]
    pub async fn token_by_hash(&self, hash: &str) -> Result<Option<(TokenRow, Timestamp)>, StoreError> {
        let values = [Value::text(hash), Value::at(self.clock.now())];
        let Some(row) = self.engine.read(BY_HASH.name).await?.one(&BY_HASH, &values).await? else { return Ok(None) };
        let now = row.at("now").map_err(|bad| bad.of("tokens", "?"))?;
        Ok(Some((read(&row)?, now)))
    }

    /// The tokens whose hash begins like this.
    ///
    /// # Errors
    /// [`StoreError`]
    pub async fn token_by_prefix(&self, prefix: &str) -> Result<Found, StoreError> {
        let rows = self.engine.read(BY_PREFIX.name).await?.all(&BY_PREFIX, &[Value::text(prefix)]).await?;
        Ok(match rows.as_slice() {
            [] => Found::None,
            [row] => Found::One(Box::new(read(row)?)),
            rows => Found::Many(rows.len()),
        })
    }

    /// Takes a token out of use; false when it was already, or is not there.
    ///
    /// # Errors
    /// [`StoreError`]
    pub async fn revoke_token(&self, hash: &str) -> Result<bool, StoreError> {
        let values = [Value::text(hash), Value::at(self.clock.now())];
        Ok(self.engine.write(&REVOKE, &values).await? > 0)
    }

    /// Tells the hash of every token that was revoked or has run out, by the store's time.
    ///
    /// # Errors
    /// [`StoreError`]
    pub async fn dead_tokens(&self, mut tell: impl FnMut(&str)) -> Result<(), StoreError> {
        let mut conn = self.engine.read(DEAD.name).await?;
        let take = |row: Row| keep(row.text("hash").map_err(|bad| bad.of("tokens", "?")), &mut tell);
        conn.each(&DEAD, &[Value::at(self.clock.now())], take).await
    }

    /// Every token, oldest first.
    ///
    /// # Errors
    /// [`StoreError`]; a row that cannot be read is left out and counted.
    pub async fn list_tokens(&self) -> Result<Vec<TokenRow>, StoreError> {
        let mut tokens = Vec::new();
        let mut conn = self.engine.read(ALL.name).await?;
        conn.each(&ALL, &[], |row| keep(read(&row), |token| tokens.push(token))).await?;
        Ok(tokens)
    }
}

fn read(row: &Row) -> Result<TokenRow, StoreError> {
    let decode = || -> Result<TokenRow, Bad> {
        Ok(TokenRow {
            hash: row.text("hash")?.to_owned(),
            role: row.text("role")?.to_owned(),
            principal: row.parse("principal")?,
            node: row.maybe_parse("node_id")?,
            created_at: row.at("created_at")?,
            expires_at: row.maybe_at("expires_at")?,
            revoked_at: row.maybe_at("revoked_at")?,
        })
    };
    // The key is the token's hash: its beginning is enough to find it.
    let key: String = row.text("hash").unwrap_or("?").chars().take(8).collect();
    decode().map_err(|bad| bad.of("tokens", key))
}
