//! How much of the mediator one caller may have at a time.
//!
//! Counted by principal, whatever the connections: calls that are answered once, and streams that last. Who
//! needs no credential is counted by where it comes from. What is above is refused at once with a hint to come
//! back, so that it is the busy caller who waits and not the others behind it.

use std::{
    collections::HashMap,
    net::IpAddr,
    sync::{Arc, Mutex, PoisonError},
};

use shared::Principal;

use crate::{
    auth::{Identity, Role},
    error::Error,
};

/// Most at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quota {
    /// Calls of one principal that are answered once.
    pub calls: usize,
    /// Streams of one principal that is not an agent.
    pub streams: usize,
    /// Streams of one principal's agents: each node has its work stream, and each step uploads its log.
    pub node_streams: usize,
    /// Requests without a credential, from one peer: health, readiness, reflection.
    pub strangers: usize,
    /// Credentials that are not known and are being looked up, of one peer.
    pub looks: usize,
    /// Of all peers.
    pub all_looks: usize,
}

impl Default for Quota {
    fn default() -> Self {
        Self { calls: 512, streams: 1_024, node_streams: 32_768, strangers: 64, looks: 64, all_looks: 512 }
    }
}

/// What is counted together.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Key {
    Calls(Principal),
    Streams(Principal),
    NodeStreams(Principal),
    Stranger(IpAddr),
    Looks(IpAddr),
    AllLooks,
}

/// What is under way. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub(super) struct Quotas {
    quota: Quota,
    taken: Arc<Mutex<HashMap<Key, usize>>>,
}

/// One call or stream under way, until it is dropped.
#[derive(Debug)]
pub(super) struct Permit {
    quotas: Quotas,
    key: Key,
}

impl Quotas {
    pub(super) fn new(quota: Quota) -> Self {
        Self { quota, taken: Arc::default() }
    }

    /// One more call of this caller.
    ///
    /// # Errors
    /// [`Error::Overuse`].
    pub(super) fn call(&self, who: &Identity) -> Result<Permit, Error> {
        self.take(Key::Calls(who.principal.clone()), self.quota.calls, "calls under way", "limits.calls_per_principal")
    }

    /// One more stream of this caller.
    ///
    /// # Errors
    /// [`Error::Overuse`].
    pub(super) fn stream(&self, who: &Identity) -> Result<Permit, Error> {
        let principal = who.principal.clone();
        let open = "streams open";
        if who.role == Role::Node {
            let most = self.quota.node_streams;
            self.take(Key::NodeStreams(principal), most, open, "limits.node_streams_per_principal")
        } else {
            self.take(Key::Streams(principal), self.quota.streams, open, "limits.streams_per_principal")
        }
    }

    /// One more request of somebody who needs no credential.
    ///
    /// # Errors
    /// [`Error::Overuse`].
    pub(super) fn stranger(&self, peer: IpAddr) -> Result<Permit, Error> {
        let peer = crate::tls::places::network(peer);
        let what = "requests without a token under way";
        self.take(Key::Stranger(peer), self.quota.strangers, what, "limits.calls_per_stranger")
    }

    /// One more look whether a credential that this peer shows is one of ours. Anybody can make credentials up.
    ///
    /// # Errors
    /// [`Error::Overuse`].
    pub(super) fn look(&self, peer: IpAddr) -> Result<(Permit, Permit), Error> {
        let peer = crate::tls::places::network(peer);
        let what = "tokens or certificates being looked up that were not seen before";
        let own = self.take(Key::Looks(peer), self.quota.looks, what, "the mediator")?;
        let all =
            self.take(Key::AllLooks, self.quota.all_looks, "(all callers together) such looks", "the mediator")?;
        Ok((own, all))
    }

    fn take(&self, key: Key, most: usize, what: &str, setting: &str) -> Result<Permit, Error> {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let count = taken.entry(key.clone()).or_default();
        if *count >= most {
            return Err(Error::Overuse(format!(
                "you have {count} {what}, and {setting} allows no more; wait for one to end and send it again"
            )));
        }
        *count += 1;
        Ok(Permit { quotas: self.clone(), key })
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut taken = self.quotas.taken.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = taken.get_mut(&self.key) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                taken.remove(&self.key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::service::sample::id;

    #[test]
    fn each_principal_has_its_own_share_and_nothing_is_left_behind() {
        let quotas = Quotas::new(Quota { calls: 2, streams: 1, node_streams: 2, strangers: 1, looks: 2, all_looks: 3 });
        let who = |name: &str, role| Identity { principal: id(name), role, node: None };
        let (ann, bob) = (who("ann", Role::Submitter), who("bob", Role::Node));
        let held = (quotas.call(&ann).unwrap(), quotas.call(&ann).unwrap(), quotas.stream(&ann).unwrap());
        let error = quotas.call(&ann).unwrap_err();
        assert_eq!(error.kind(), crate::error::Kind::Busy);
        assert!(error.to_string().contains("limits.calls_per_principal"), "{error}");
        assert!(quotas.stream(&ann).unwrap_err().to_string().contains("limits.streams_per_principal"));
        let others = (quotas.call(&bob).unwrap(), quotas.stream(&bob).unwrap(), quotas.stream(&bob).unwrap());
        assert!(quotas.stream(&bob).unwrap_err().to_string().contains("limits.node_streams_per_principal"));
        let here = quotas.stranger("::ffff:127.0.0.1".parse().unwrap()).unwrap();
        assert!(quotas.stranger("127.0.0.1".parse().unwrap()).is_err());
        let at = |text: &str| text.parse::<IpAddr>().unwrap();
        let looks = (quotas.look(at("10.0.0.1")).unwrap(), quotas.look(at("10.0.0.1")).unwrap());
        assert!(quotas.look(at("10.0.0.1")).is_err(), "of one peer");
        let last = quotas.look(at("10.0.0.2")).unwrap();
        let error = quotas.look(at("10.0.0.3")).unwrap_err();
        assert_eq!(error.kind(), crate::error::Kind::Busy);
        drop((looks, last));
        drop(held);
        drop(quotas.call(&ann).unwrap());
        drop((others, here));
        assert!(quotas.taken.lock().unwrap().is_empty());
    }
}
