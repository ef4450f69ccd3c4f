//! From what a caller shows to who it is.
//!
//! What the store says of a credential is remembered for [`REMEMBERED`], so that a busy caller costs one look
//! a second; that is also how long a revocation may take to be felt by a new call. What is not found is not
//! remembered: a token that is made while the server runs works at once.

use std::{
    borrow::Cow,
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use shared::{Duration, Timestamp};
use subtle::ConstantTimeEq;

use super::{ClientCertificate, Identity, Says, hash};
use crate::{
    clock::Clock,
    error::Error,
    store::{Store, TokenRow},
};

/// How long a credential is remembered before the store is asked again.
const REMEMBERED: Duration = Duration::from_secs(1);
/// Most credentials remembered.
const MOST: usize = 10_000;

/// Credentials by key, with the moment of the look; none: nothing is held against this certificate.
type Known = HashMap<String, (Option<Identity>, Timestamp)>;

/// Knows credentials. Cheap to clone.
#[derive(Clone)]
pub struct Auth {
    store: Store,
    clock: Clock,
    known: Arc<Mutex<Known>>,
}

/// Who was let in, and by what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    /// Who it is.
    pub identity: Identity,
    /// What it showed, each by the key under which the store tells that it is good no longer.
    pub keys: Vec<String>,
    /// When its certificate runs out. A token's end is the store's to tell.
    pub ends_at: Option<Timestamp>,
}

fn refused(why: impl Into<Cow<'static, str>>) -> Error {
    Error::Unauthenticated(why.into())
}

impl Auth {
    /// Looks credentials up in this store.
    #[must_use]
    pub fn new(store: Store, clock: Clock) -> Self {
        Self { store, clock, known: Arc::default() }
    }

    /// Who sent this `authorization` header over a connection that showed this certificate.
    ///
    /// # Errors
    /// [`Error::Unauthenticated`] says what is wrong with what was shown; [`Error::Store`].
    pub async fn identify(
        &self,
        authorization: Option<&[u8]>,
        certificate: Option<&ClientCertificate>,
    ) -> Result<Caller, Error> {
        let mut keys = Vec::new();
        let by_certificate = match certificate {
            None => None,
            Some(certificate) => {
                keys.push(TokenRow::certificate_key(&certificate.fingerprint));
                self.certified(certificate).await?
            }
        };
        let ends_at = certificate.map(|it| it.not_after);
        let Some(header) = authorization else {
            let identity = by_certificate.ok_or_else(|| match certificate {
                None => refused(
                    "no token: send `authorization: Bearer TOKEN`, or show a client certificate; \
                     `mediator token create` makes a token",
                ),
                Some(_) => refused(
                    "no token, and the client certificate names nobody (it has no `fleet:ROLE/PRINCIPAL` URI); \
                     `mediator pki issue` makes one that does, `mediator token create` makes a token",
                ),
            })?;
            return Ok(Caller { identity, keys, ends_at });
        };
        let secret = bearer(header)
            .ok_or_else(|| refused("the authorization header is not `Bearer TOKEN` with a token of ours"))?;
        let key = hash(secret);
        let by_token = self.owner(&key).await?;
        keys.push(key);
        let identity = match by_certificate {
            None => by_token,
            Some(by_certificate) => agreed(by_certificate, by_token)?,
        };
        Ok(Caller { identity, keys, ends_at })
    }

    /// Tells every key that is good no longer, by the store's time.
    ///
    /// # Errors
    /// [`Error::Store`].
    pub async fn dead(&self, tell: impl FnMut(&str)) -> Result<(), Error> {
        Ok(self.store.dead_tokens(tell).await?)
    }

    /// Now, as certificates are judged.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Whose token this is the hash of.
    async fn owner(&self, key: &str) -> Result<Identity, Error> {
        if let Some(Some(identity)) = self.remembered(key) {
            return Ok(identity);
        }
        let found = self.store.token_by_hash(key).await?;
        let ours = |row: &TokenRow| bool::from(row.hash.as_bytes().ct_eq(key.as_bytes()));
        let Some((row, now)) = found.filter(|(row, _)| ours(row)) else {
            return Err(refused("this token is not known here; `mediator token create` makes one for this mediator"));
        };
        if let Some(at) = row.revoked_at {
            return Err(refused(format!("this token was revoked at {at}; `mediator token create` makes another one")));
        }
        if let Some(at) = row.expires_at.filter(|at| *at <= now) {
            return Err(refused(format!("this token expired at {at}; `mediator token create` makes another one")));
        }
        let role = row.role.parse().map_err(|e| Error::Internal(format!("a stored token has a bad role: {e}")))?;
        let identity = Identity { principal: row.principal, role, node: row.node };
        self.remember(key.to_owned(), Some(identity.clone()));
        Ok(identity)
    }

    /// Who the certificate names, if it names anybody and is still good.
    async fn certified(&self, certificate: &ClientCertificate) -> Result<Option<Identity>, Error> {
        // The handshake has looked at this, but a connection may outlive its certificate.
        if certificate.not_after <= self.clock.now() {
            let at = certificate.not_after;
            return Err(refused(format!(
                "this client certificate expired at {at}; `mediator pki issue` makes another one"
            )));
        }
        let key = TokenRow::certificate_key(&certificate.fingerprint);
        if self.remembered(&key).is_none() {
            if let Some((row, _)) = self.store.token_by_hash(&key).await? {
                let at = row.revoked_at.unwrap_or(row.created_at);
                return Err(refused(format!(
                    "this client certificate was revoked at {at}; `mediator pki issue` makes another one"
                )));
            }
            self.remember(key, None);
        }
        match &certificate.says {
            Says::Nobody => Ok(None),
            Says::Identity(identity) => Ok(Some(identity.clone())),
            Says::Nonsense(why) => Err(refused(format!("this client certificate cannot be understood: {why}"))),
        }
    }

    fn remembered(&self, key: &str) -> Option<Option<Identity>> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let (identity, until) = known.get(key)?;
        (*until > self.clock.now()).then(|| identity.clone())
    }

    fn remember(&self, key: String, identity: Option<Identity>) {
        let now = self.clock.now();
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= MOST {
            known.retain(|_, (_, until)| *until > now);
        }
        if known.len() < MOST {
            known.insert(key, (identity, now + REMEMBERED));
        }
    }
}

/// With a certificate and a token both must say the same: otherwise one of them was sent by mistake, and it is
/// not for us to choose which. A node that only one of them is bound to binds.
fn agreed(certificate: Identity, token: Identity) -> Result<Identity, Error> {
    let nodes_agree = certificate.node.is_none() || token.node.is_none() || certificate.node == token.node;
    // Principals are in no answer, also not in this one: the caller knows its own.
    let differ = if certificate.role != token.role {
        format!("the role: {} and {}", certificate.role, token.role)
    } else if certificate.principal != token.principal {
        "the principal".to_owned()
    } else if nodes_agree {
        return Ok(Identity { node: certificate.node.or(token.node), ..token });
    } else {
        "the node".to_owned()
    };
    Err(refused(format!("client certificate and token differ in {differ}; send one of them, or two that agree")))
}

/// The secret of `Bearer SECRET`; the scheme's case does not matter.
pub(super) fn bearer(header: &[u8]) -> Option<&str> {
    let text = std::str::from_utf8(header).ok()?;
    let (scheme, secret) = text.split_once(' ')?;
    let secret = secret.trim();
    (scheme.eq_ignore_ascii_case("bearer") && (1..=512).contains(&secret.len())).then_some(secret)
}
