//! From what a caller shows to who it is.
//!
//! What the store says of a credential is remembered ([`super::memory`]), so that a busy caller costs no look. What is
//! not found is not remembered: a token that is made while the server runs works at once. Since everybody can make
//! tokens up, looks for what is not known are few at a time ([`LOOKS`]), and the door says how many may wait for them.
//! Who is known already waits for none of them.

use std::{
    borrow::Cow,
    collections::{HashMap, hash_map::Entry},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use futures::{
    FutureExt,
    future::{BoxFuture, Shared},
};
use shared::Timestamp;
use subtle::ConstantTimeEq;
use tokio::sync::Semaphore;

use super::{
    ClientCertificate, Identity, Says, hash,
    memory::{Memory, Standing},
};
use crate::{
    clock::Clock,
    error::Error,
    store::{Store, StoreError, TokenRow},
    task,
};

/// Most looks at a time for credentials that are not known: fewer than the store has readers, on either engine.
const LOOKS: usize = 2;

/// Knows credentials. Cheap to clone.
#[derive(Clone)]
pub struct Auth {
    store: Store,
    clock: Clock,
    memory: Arc<Mutex<Memory>>,
    looks: Arc<Semaphore>,
    looking: Arc<Mutex<HashMap<String, Look>>>,
}

/// What the store says of a credential, and when.
type Found = Option<(TokenRow, Timestamp)>;
/// A look that is under way, for everybody who shows the same. None: it ended without an answer.
type Look = Shared<BoxFuture<'static, Option<Result<Found, Arc<StoreError>>>>>;

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
        Self { store, clock, memory: Arc::default(), looks: Arc::new(Semaphore::new(LOOKS)), looking: Arc::default() }
    }

    /// Who sent this `authorization` header over a connection that showed this certificate. `may_look` is asked before
    /// the store is asked for a credential that is not known; what it gives is held until that is over.
    ///
    /// # Errors
    /// [`Error::Unauthenticated`] says what is wrong with what was shown; [`Error::Store`]; what `may_look` says.
    pub async fn identify<P: Send + 'static>(
        &self,
        authorization: Option<&[u8]>,
        certificate: Option<&ClientCertificate>,
        may_look: impl Fn() -> Result<P, Error>,
    ) -> Result<Caller, Error> {
        let mut keys = Vec::new();
        let by_certificate = match certificate {
            None => None,
            Some(certificate) => {
                keys.push(TokenRow::certificate_key(&certificate.fingerprint));
                self.certified(certificate, &may_look).await?
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
        let by_token = self.owner(&key, &may_look).await?;
        keys.push(key);
        let identity = match by_certificate {
            None => by_token,
            Some(by_certificate) => agreed(by_certificate, by_token)?,
        };
        Ok(Caller { identity, keys, ends_at })
    }

    /// Tells every key that is good no longer, by the store's time, and forgets it.
    ///
    /// # Errors
    /// [`Error::Store`].
    pub async fn dead(&self, mut tell: impl FnMut(&str)) -> Result<(), Error> {
        // What is read after this moment without being told was good at it.
        let at = self.clock.now();
        let heard = |key: &str| {
            self.memory().forget(key);
            tell(key);
        };
        self.store.dead_tokens(heard).await?;
        self.memory().heard(at);
        Ok(())
    }

    /// Nothing is remembered that could be revoked.
    #[must_use]
    pub fn knows_nobody(&self) -> bool {
        self.memory().is_empty()
    }

    /// Now, as certificates are judged.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Whose token this is the hash of.
    async fn owner<P: Send + 'static>(
        &self,
        key: &str,
        may_look: &impl Fn() -> Result<P, Error>,
    ) -> Result<Identity, Error> {
        let standing = self.memory().standing(key, self.clock.now());
        if let Standing::Good(Some(identity)) = standing {
            return Ok(identity);
        }
        let read_at = self.clock.now();
        let found = self.look(key, standing, may_look).await?;
        let ours = |row: &TokenRow| bool::from(row.hash.as_bytes().ct_eq(key.as_bytes()));
        let Some((row, now)) = found.filter(|(row, _)| ours(row)) else {
            self.memory().forget(key);
            return Err(refused("this token is not known here; `mediator token create` makes one for this mediator"));
        };
        if let Some(at) = row.revoked_at {
            self.memory().forget(key);
            return Err(refused(format!("this token was revoked at {at}; `mediator token create` makes another one")));
        }
        if let Some(at) = row.expires_at.filter(|at| *at <= now) {
            self.memory().forget(key);
            return Err(refused(format!("this token expired at {at}; `mediator token create` makes another one")));
        }
        let role = row.role.parse().map_err(|e| Error::Internal(format!("a stored token has a bad role: {e}")))?;
        let identity = Identity { principal: row.principal, role, node: row.node };
        // The store's clock may be another one than ours: what is left counts from before it was asked.
        let ends_at = row.expires_at.map(|at| read_at + at.since(now));
        self.memory().good(key.to_owned(), Some(identity.clone()), read_at, ends_at);
        Ok(identity)
    }

    /// Asks the store for a credential.
    async fn look<P: Send + 'static>(
        &self,
        key: &str,
        standing: Standing,
        may_look: &impl Fn() -> Result<P, Error>,
    ) -> Result<Found, Error> {
        let look = match self.looking().entry(key.to_owned()) {
            // Whoever shows the same, a fleet that comes back with one token, waits for the same answer.
            Entry::Occupied(look) => look.get().clone(),
            Entry::Vacant(place) => {
                // Who was known does not stand in line with those who were not.
                let permit = if standing == Standing::Unknown { Some(may_look()?) } else { None };
                place.insert(self.begin_look(key, permit)).clone()
            }
        };
        if let Some(found) = look.clone().await {
            return found.map_err(Error::Store);
        }
        let mut looking = self.looking();
        if looking.get(key).is_some_and(|other| other.ptr_eq(&look)) {
            looking.remove(key);
        }
        Err(Error::Internal("looking a credential up ended early".to_owned()))
    }

    /// Asks in a task of its own: whoever hangs up and calls again must not have a second one under way.
    fn begin_look<P: Send + 'static>(&self, key: &str, permit: Option<P>) -> Look {
        let (auth, key) = (self.clone(), key.to_owned());
        let asked = task::seen_through(async move {
            let turn = if permit.is_some() { auth.looks.acquire().await.ok() } else { None };
            let found = auth.store.token_by_hash(&key).await.map_err(Arc::new);
            auth.looking().remove(&key);
            drop((turn, permit));
            found
        });
        asked.map(Result::ok).boxed().shared()
    }

    fn looking(&self) -> MutexGuard<'_, HashMap<String, Look>> {
        self.looking.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Who the certificate names, if it names anybody and is still good.
    async fn certified<P: Send + 'static>(
        &self,
        certificate: &ClientCertificate,
        may_look: &impl Fn() -> Result<P, Error>,
    ) -> Result<Option<Identity>, Error> {
        // The handshake has looked at this, but a connection may outlive its certificate.
        if certificate.not_after <= self.clock.now() {
            let at = certificate.not_after;
            return Err(refused(format!(
                "this client certificate expired at {at}; `mediator pki issue` makes another one"
            )));
        }
        let key = TokenRow::certificate_key(&certificate.fingerprint);
        let read_at = self.clock.now();
        let standing = self.memory().standing(&key, read_at);
        if !matches!(standing, Standing::Good(_)) {
            if let Some((row, _)) = self.look(&key, standing, may_look).await? {
                self.memory().forget(&key);
                let at = row.revoked_at.unwrap_or(row.created_at);
                return Err(refused(format!(
                    "this client certificate was revoked at {at}; `mediator pki issue` makes another one"
                )));
            }
            self.memory().good(key, None, read_at, None);
        }
        match &certificate.says {
            Says::Nobody => Ok(None),
            Says::Identity(identity) => Ok(Some(identity.clone())),
            Says::Nonsense(why) => Err(refused(format!("this client certificate cannot be understood: {why}"))),
        }
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
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
