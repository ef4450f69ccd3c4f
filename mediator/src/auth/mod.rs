//! Who calls, and what they may do.
//!
//! A bearer token is looked up by its SHA-256; the secret itself is stored nowhere but with its owner. Every
//! call has a name ([`Call`]) and [`Role::may`] is the one exhaustive table of who may make it. No role can
//! drain a node: there is no call for it. Must not know: tonic, axum.

mod call;
mod token;

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use shared::{Duration, NodeId, Principal, Timestamp};
use subtle::ConstantTimeEq;

use crate::{clock::Clock, error::Error, store::Store};

pub use call::{Access, Call};
pub use token::{NewToken, admin_token, create_token, hash};

/// What a token is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Role {
    /// An agent: speaks for nodes.
    Node,
    /// Submits Runs and cancels its own.
    Submitter,
    /// Reads.
    Observer,
    /// Everything but speaking for a node. It cannot drain one either.
    Admin,
}

impl Role {
    /// Every role.
    pub const ALL: [Self; 4] = [Self::Node, Self::Submitter, Self::Observer, Self::Admin];

    /// The word on the command line and in the store.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Node => "node",
            Self::Submitter => "submitter",
            Self::Observer => "observer",
            Self::Admin => "admin",
        }
    }
}

impl std::fmt::Display for Role {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.as_str())
    }
}

impl std::str::FromStr for Role {
    type Err = String;
    fn from_str(word: &str) -> Result<Self, String> {
        Self::ALL
            .into_iter()
            .find(|role| role.as_str() == word)
            .ok_or_else(|| format!("{word:?} is not a role: write node, submitter, observer or admin"))
    }
}

/// Who calls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// The name the token was made for.
    pub principal: Principal,
    /// What it may do.
    pub role: Role,
    /// For an agent: the only node it may speak for; none means any node of its principal.
    pub node: Option<NodeId>,
}

impl Identity {
    /// Whether this caller may make this call.
    ///
    /// # Errors
    /// [`Error::WrongRole`] says which role could.
    pub fn may(&self, call: Call) -> Result<(), Error> {
        if self.role.may(call) {
            return Ok(());
        }
        let able: Vec<&str> = Role::ALL.into_iter().filter(|role| role.may(call)).map(Role::as_str).collect();
        Err(Error::WrongRole(format!(
            "a token of role {} may not call {}; use one of role {}",
            self.role,
            call.as_str(),
            able.join(" or ")
        )))
    }

    /// Whether this caller may speak for this node. A token made with `--node NAME` speaks for the machine
    /// `NAME`: for the node of that name and for its slots `NAME/0`, `NAME/1` and so on.
    ///
    /// # Errors
    /// [`Error::WrongNode`] when the token is bound to another one.
    pub fn speaks_for(&self, node: &NodeId) -> Result<(), Error> {
        let Some(bound) = &self.node else { return Ok(()) };
        let machine = node.as_str().split('/').next().unwrap_or_default();
        if bound == node || bound.as_str() == machine {
            Ok(())
        } else {
            Err(Error::WrongNode { bound: bound.clone(), node: node.clone() })
        }
    }

    /// Whether this caller may cancel a Run of this submitter.
    ///
    /// # Errors
    /// [`Error::WrongRole`] when it is another one's.
    pub fn may_cancel(&self, submitter: &Principal) -> Result<(), Error> {
        if self.role == Role::Admin || self.principal == *submitter {
            Ok(())
        } else {
            Err(Error::WrongRole(
                "a token of role submitter may cancel the runs of its own principal only; use one of role admin"
                    .to_owned(),
            ))
        }
    }
}

/// How long a token is remembered before the store is asked again.
const REMEMBERED: Duration = Duration::from_secs(5);
/// Most tokens remembered.
const MOST: usize = 10_000;

/// Knows tokens. Cheap to clone.
#[derive(Clone)]
pub struct Auth {
    store: Store,
    clock: Clock,
    known: Arc<Mutex<HashMap<String, (Identity, Timestamp)>>>,
}

impl Auth {
    /// Looks tokens up in this store. What is found is remembered for a few seconds; what is not found is
    /// not, so that a token made while the server runs works at once.
    #[must_use]
    pub fn new(store: Store, clock: Clock) -> Self {
        Self { store, clock, known: Arc::default() }
    }

    /// Who sent this `authorization` header.
    ///
    /// # Errors
    /// [`Error::Unauthenticated`] without a token of ours, [`Error::Store`].
    pub async fn identify(&self, authorization: Option<&[u8]>) -> Result<Identity, Error> {
        let header = authorization.ok_or(Error::Unauthenticated(
            "no token: send `authorization: Bearer TOKEN`; `mediator token create` makes one",
        ))?;
        let secret = bearer(header)
            .ok_or(Error::Unauthenticated("the authorization header is not `Bearer TOKEN` with a token of ours"))?;
        let hash = hash(secret);
        if let Some(identity) = self.remembered(&hash) {
            return Ok(identity);
        }
        let unknown =
            Error::Unauthenticated("this token is not known here; `mediator token create` makes one for this mediator");
        let Some(row) = self.store.token_by_hash(&hash).await? else { return Err(unknown) };
        if !bool::from(row.hash.as_bytes().ct_eq(hash.as_bytes())) {
            return Err(unknown);
        }
        let role = row.role.parse().map_err(|e| Error::Internal(format!("a stored token has a bad role: {e}")))?;
        let identity = Identity { principal: row.principal, role, node: row.node };
        self.remember(hash, identity.clone());
        Ok(identity)
    }

    fn remembered(&self, hash: &str) -> Option<Identity> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let (identity, until) = known.get(hash)?;
        (*until > self.clock.now()).then(|| identity.clone())
    }

    fn remember(&self, hash: String, identity: Identity) {
        let now = self.clock.now();
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= MOST {
            known.retain(|_, (_, until)| *until > now);
        }
        if known.len() < MOST {
            known.insert(hash, (identity, now + REMEMBERED));
        }
    }
}

/// The secret of `Bearer SECRET`; the scheme's case does not matter.
fn bearer(header: &[u8]) -> Option<&str> {
    let text = std::str::from_utf8(header).ok()?;
    let (scheme, secret) = text.split_once(' ')?;
    let secret = secret.trim();
    (scheme.eq_ignore_ascii_case("bearer") && (1..=512).contains(&secret.len())).then_some(secret)
}

#[cfg(test)]
mod tests;
