//! Rows of `tokens`. The token itself is not stored, only its hash.

use shared::{NodeId, Principal, Timestamp};

use super::{
    Store,
    error::StoreError,
    row::{Bad, Row},
    sql::{Query, Value},
    sync::keep,
};

/// A token that was given out.
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
}

const PUT: Query = Query::both(
    "tokens.put",
    "INSERT INTO tokens (hash, role, principal, node_id, created_at) VALUES ($1, $2, $3, $4, $5)",
);
/// One that was revoked or has run out is as good as none.
const BY_HASH: Query = Query::each(
    "tokens.by_hash",
    // $2 is now, where the mediator's clock is the authority (SQLite); PostgreSQL asks its own.
    "SELECT hash, role, principal, node_id, created_at FROM tokens \
     WHERE hash = $1 AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > $2)",
    "SELECT hash, role, principal, node_id, created_at FROM tokens \
     WHERE hash = $1 AND revoked_at IS NULL AND $2::BIGINT IS NOT NULL AND (expires_at IS NULL \
     OR expires_at > CAST(floor(extract(epoch FROM clock_timestamp()) * 1000) AS BIGINT))",
);
const ALL: Query = Query::both(
    "tokens.all",
    "SELECT hash, role, principal, node_id, created_at FROM tokens WHERE revoked_at IS NULL ORDER BY created_at, hash",
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
        ];
        self.engine.write(&PUT, &values).await.map(drop)
    }

    /// The valid token with this hash.
    ///
    /// # Errors
    /// [`StoreError`]
    pub async fn token_by_hash(&self, hash: &str) -> Result<Option<TokenRow>, StoreError> {
        let values = [Value::text(hash), Value::at(self.clock.now())];
        let row = self.engine.read(BY_HASH.name).await?.one(&BY_HASH, &values).await?;
        row.as_ref().map(read).transpose()
    }

    /// Every token that was not revoked, oldest first.
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
        })
    };
    // The key is the token's hash: its beginning is enough to find it.
    let key: String = row.text("hash").unwrap_or("?").chars().take(8).collect();
    decode().map_err(|bad| bad.of("tokens", key))
}
