//! How many connections there are, in all and by peer.

use std::{
    collections::HashMap,
    net::IpAddr,
    sync::{Arc, Mutex, PoisonError},
};

/// Counts connections. Cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct Places(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    most: usize,
    per_peer: usize,
    taken: Mutex<Taken>,
}

#[derive(Debug, Default)]
struct Taken {
    all: usize,
    by_peer: HashMap<IpAddr, usize>,
}

/// Why there is no room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Full {
    /// For anybody.
    All,
    /// For this peer.
    Peer,
}

impl Full {
    /// The word for metrics.
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::Peer => "peer",
        }
    }
}

/// One connection's place, until it is dropped.
#[derive(Debug)]
pub(super) struct Place {
    places: Places,
    peer: IpAddr,
}

impl Places {
    pub(super) fn new(most: usize, per_peer: usize) -> Self {
        Self(Arc::new(Inner { most, per_peer, taken: Mutex::default() }))
    }

    pub(super) fn take(&self, peer: IpAddr) -> Result<Place, Full> {
        let peer = network(peer);
        let mut taken = self.0.taken.lock().unwrap_or_else(PoisonError::into_inner);
        if taken.all >= self.0.most {
            return Err(Full::All);
        }
        let of_peer = taken.by_peer.entry(peer).or_default();
        if *of_peer >= self.0.per_peer {
            return Err(Full::Peer);
        }
        *of_peer += 1;
        taken.all += 1;
        Ok(Place { places: self.clone(), peer })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.places.0.taken.lock().unwrap_or_else(PoisonError::into_inner);
        taken.all = taken.all.saturating_sub(1);
        if let Some(of_peer) = taken.by_peer.get_mut(&self.peer) {
            *of_peer = of_peer.saturating_sub(1);
            if *of_peer == 0 {
                taken.by_peer.remove(&self.peer);
            }
        }
    }
}

/// What counts as one peer: whoever has an IPv6 address has a whole network of them.
pub(crate) fn network(peer: IpAddr) -> IpAddr {
    match peer.to_canonical() {
        IpAddr::V4(it) => IpAddr::V4(it),
        IpAddr::V6(it) => IpAddr::V6(std::net::Ipv6Addr::from_bits(it.to_bits() & !u128::from(u64::MAX))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_peer_takes_its_share_and_gives_it_back() {
        let places = Places::new(3, 2);
        let at = |text: &str| text.parse::<IpAddr>().unwrap();
        let first = places.take(at("10.0.0.1")).unwrap();
        let _second = places.take(at("::ffff:10.0.0.1")).unwrap();
        assert_eq!(places.take(at("10.0.0.1")).unwrap_err(), Full::Peer);
        let _other = places.take(at("fd00::1")).unwrap();
        assert_eq!(places.take(at("fd00::2")).unwrap_err(), Full::All);
        drop(first);
        let _again = places.take(at("fd00::2")).unwrap();
        assert_eq!(network(at("fd00:1:2:3:4:5:6:7")), at("fd00:1:2:3::"));
    }
}
