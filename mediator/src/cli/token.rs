//! `token create`, `token list` and `token revoke`, on the mediator's database.

use serde::Serialize;
use shared::{NodeId, Principal, Timestamp};

use super::{
    admin::{Expect, store},
    age::{between, short},
    args::Token,
    exit::{Exit, Failure, Outcome, causes},
    output::{Format, Io, Look, clean},
    table,
};
use crate::{
    auth::{self, Role},
    clock::Clock,
    store::{Found, Store, TokenRow},
};

/// Letters of a hash that are an id: enough to tell tokens apart, too few to be of use.
const ID: usize = 12;
/// Fewest letters by which one may be named.
const FEWEST: usize = 6;

/// A token as `token create` prints it.
#[derive(Serialize)]
struct Made<'a> {
    id: String,
    token: &'a str,
    role: &'a str,
    principal: &'a Principal,
    #[serde(skip_serializing_if = "Option::is_none")]
    node: Option<&'a NodeId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_at: Option<Timestamp>,
}

/// A token as `token list` prints it. What is stored is a hash, so no secret can be shown.
#[derive(Serialize)]
struct Listed {
    id: String,
    role: String,
    principal: Principal,
    #[serde(skip_serializing_if = "Option::is_none")]
    node: Option<NodeId>,
    created_at: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    revoked_at: Option<Timestamp>,
}

impl From<TokenRow> for Listed {
    fn from(row: TokenRow) -> Self {
        Self {
            id: id(&row.hash),
            role: row.role,
            principal: row.principal,
            node: row.node,
            created_at: row.created_at,
            expires_at: row.expires_at,
            revoked_at: row.revoked_at,
        }
    }
}

/// A certificate's key has a word before its fingerprint.
fn id(hash: &str) -> String {
    let word = hash.find(':').map_or(0, |at| at + 1);
    hash.chars().take(word + ID).collect()
}

pub(crate) async fn token(io: &mut Io, format: Format, command: Token) -> Outcome {
    let clock = Clock::system();
    match command {
        Token::Create { role, principal, node, expires, new_database, settings } => {
            if node.is_some() && role != Role::Node {
                return Err(Failure::refused(format!("--node binds a token of role node, not one of role {role}"))
                    .advise("Leave --node out, or make it --role node."));
            }
            if expires.is_some_and(|span| span.millis() == 0) {
                return Err(Failure::refused("--expires 0s makes a token that is no good from the start")
                    .advise("Write a span such as 12h or 30d, or leave --expires out."));
            }
            let loaded = settings.load()?;
            let store = store(io, &loaded, &clock, Expect::Any { new_database }).await?;
            let made = auth::create_token(&store, &clock, role, principal, node.clone(), expires).await;
            let made = made.map_err(|e| Failure::refused(format!("cannot store the token: {}", causes(&e))))?;
            let shown = Made {
                id: id(&auth::hash(&made.secret)),
                token: &made.secret,
                role: made.role.as_str(),
                principal: &made.principal,
                node: node.as_ref(),
                expires_at: made.expires_at,
            };
            match format {
                Format::Json => io.json(&shown)?,
                Format::Jsonl => io.json_line(&shown)?,
                Format::Table => io.line(&made.secret)?,
            }
            io.note("Keep this token: it is shown once and only its hash is stored.");
        }
        Token::List { settings } => {
            let loaded = settings.load()?;
            let store = store(io, &loaded, &clock, Expect::Used).await?;
            let rows = store.list_tokens().await;
            let rows = rows.map_err(|e| Failure::refused(format!("cannot list the tokens: {}", causes(&e))))?;
            let listed: Vec<Listed> = rows.into_iter().map(Listed::from).collect();
            let now = clock.now();
            io.list(format, &listed, &listed, |look| token_table(now, &listed, look))?;
        }
        Token::Revoke { id, settings } => {
            let loaded = settings.load()?;
            let store = store(io, &loaded, &clock, Expect::Used).await?;
            let row = revoke(&store, &id).await?;
            let listed = Listed::from(row);
            let now = clock.now();
            io.list(format, &listed, std::slice::from_ref(&listed), |look| {
                token_table(now, std::slice::from_ref(&listed), look)
            })?;
        }
    }
    Ok(Exit::Ok)
}

async fn revoke(store: &Store, id: &str) -> Outcome<TokenRow> {
    let failed = |e| Failure::refused(format!("cannot revoke {}: {}", clean(id), causes(&e)));
    let advice = "`mediator token list` shows the ids.";
    if id.len() < FEWEST {
        return Err(Failure::refused(format!(
            "{} is too short to name a token; write at least {FEWEST} letters",
            clean(id)
        ))
        .advise(advice));
    }
    let row = match store.token_by_prefix(id).await.map_err(failed)? {
        Found::One(row) => row,
        Found::None => {
            return Err(Failure::refused(format!("no token has an id that begins with {}", clean(id))).advise(advice));
        }
        Found::Many(count) => {
            return Err(Failure::refused(format!(
                "{count} tokens have an id that begins with {}; write more of it",
                clean(id)
            ))
            .advise(advice));
        }
    };
    if let Some(at) = row.revoked_at {
        return Err(Failure::refused(format!("{} was revoked already, at {at}", clean(id))));
    }
    store.revoke_token(&row.hash).await.map_err(failed)?;
    let stored = store.token_by_hash(&row.hash).await.map_err(failed)?;
    stored.map(|(row, _)| row).ok_or_else(|| Failure::refused(format!("{} is gone from the database", clean(id))))
}

fn token_table(now: Timestamp, tokens: &[Listed], look: Look) -> comfy_table::Table {
    let mut table = table::new(&["ID", "ROLE", "PRINCIPAL", "NODE", "AGE", "EXPIRES", "REVOKED"], look);
    let ago = |at: Timestamp| format!("{} ago", short(between(at.millis(), now.millis())));
    for token in tokens {
        let expires = token.expires_at.map_or("-".into(), |at| {
            if at > now { format!("in {}", short(between(now.millis(), at.millis()))) } else { ago(at) }
        });
        table.add_row([
            clean(&token.id),
            clean(&token.role),
            token.principal.to_string(),
            token.node.as_ref().map_or("-".into(), ToString::to_string),
            short(between(token.created_at.millis(), now.millis())),
            expires,
            token.revoked_at.map_or("-".into(), ago),
        ]);
    }
    table
}
