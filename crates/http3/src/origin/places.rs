//! Places for requests: as many as all connections have together, of which no single host has all.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The part of all places that a host leaves to others: one in this number.
const LEFT: usize = 8;
/// Bits of an IPv6 address that a host chooses itself.
const OWN_BITS: u32 = 64;

/// All places of an origin.
#[derive(Debug)]
pub(super) struct Places {
    all: Arc<Semaphore>,
    /// Places of a host at most.
    each: usize,
    hosts: Mutex<BTreeMap<IpAddr, Weak<Semaphore>>>,
}

/// The places of a host, for one of its connections.
#[derive(Clone, Debug)]
pub(super) struct Share {
    all: Arc<Semaphore>,
    own: Arc<Semaphore>,
}

/// The place of one request. It is free once this is dropped.
#[derive(Debug)]
pub(super) struct Held {
    _own: OwnedSemaphorePermit,
    _all: OwnedSemaphorePermit,
}

impl Places {
    pub(super) fn new(number: usize) -> Self {
        let number = number.clamp(1, Semaphore::MAX_PERMITS);
        Self {
            all: Arc::new(Semaphore::new(number)),
            each: number - number / LEFT,
            hosts: Mutex::default(),
        }
    }

    /// Those of a host. Connections of the same host share them.
    pub(super) fn of(&self, host: IpAddr) -> Share {
        let mut hosts = self.hosts.lock().unwrap_or_else(PoisonError::into_inner);
        let host = network(host);
        let known = hosts.get(&host).and_then(Weak::upgrade);
        let own = known.unwrap_or_else(|| {
            hosts.retain(|_, share| share.strong_count() > 0);
            let own = Arc::new(Semaphore::new(self.each));
            hosts.insert(host, Arc::downgrade(&own));
            own
        });
        let all = Arc::clone(&self.all);
        Share { all, own }
    }
}

impl Share {
    /// Waits for a place; none once the origin has gone.
    pub(super) async fn take(&self) -> Option<Held> {
        let own = Arc::clone(&self.own).acquire_owned().await.ok()?;
        let all = Arc::clone(&self.all).acquire_owned().await.ok()?;
        Some(Held {
            _own: own,
            _all: all,
        })
    }
}

/// The part of an address that its host does not choose.
fn network(host: IpAddr) -> IpAddr {
    match host.to_canonical() {
        IpAddr::V6(host) => Ipv6Addr::from_bits(host.to_bits() >> OWN_BITS << OWN_BITS).into(),
        host => host,
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[test]
    fn no_host_has_all_places() {
        let places = Places::new(8);
        let address = |text: &str| places.of(text.parse().unwrap());
        let (one, other) = (address("2001:db8::1"), address("2001:db8:0:1::1"));
        let take = |share: &Share| share.take().now_or_never().flatten();
        let mut held: Vec<_> = (0..7).map(|_| take(&one).unwrap()).collect();
        assert!(take(&one).is_none());
        assert!(take(&address("2001:db8::2")).is_none(), "the same network");
        held.push(take(&other).unwrap());
        assert!(take(&other).is_none(), "no place is left");
        assert!(held.pop().is_some() && take(&other).is_some());
        drop((held, one));
        assert!(take(&address("::ffff:192.0.2.1")).is_some());
        let single = Places::new(1).of("192.0.2.1".parse().unwrap());
        assert!(take(&single).is_some());
    }
}
