//! Limits concurrent use by places, so that no host can exclude others.
//!
//! If all places are taken, the next free place goes to the host that has the fewest, or among
//! equals, to the host that got a place least recently. For some kinds of places, a host with fewer
//! places doesn't wait: instead, a request of the host with the most is ended.

use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::sync::{Notify, oneshot};

use crate::lock;
use crate::pace::instant;

/// Bits of an IPv6 address that a site assigns itself (RFC 6177: a site can have a /48).
const OWN_BITS: u32 = 80;
/// Age from which a request's mean rate is meaningful.
const YOUNG: Duration = Duration::from_secs(1);

/// All places of one kind.
#[derive(Clone, Debug)]
pub struct Places(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    most: usize,
    /// Maximum per host.
    each: usize,
    /// Whether a host with fewer ends a request of the host with the most, instead of waiting.
    displaces: bool,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    taken: usize,
    /// The number of the next place. Numbers also give the order in which places were taken.
    next: u64,
    /// Those that wait, of all hosts.
    waiting: usize,
    hosts: BTreeMap<IpAddr, Host>,
}

#[derive(Debug, Default)]
struct Host {
    held: BTreeMap<u64, Arc<Slot>>,
    /// Places that were told to end but haven't yet.
    ending: usize,
    waiting: VecDeque<oneshot::Sender<Held>>,
    /// The number of the place taken last.
    latest: u64,
}

/// The use of a place.
#[derive(Debug)]
struct Slot {
    began: Instant,
    bytes: AtomicU64,
    displaced: Notify,
}

/// The places of one host.
#[derive(Clone, Debug)]
pub struct Share {
    places: Places,
    host: IpAddr,
}

/// One place, which is freed by dropping this value.
#[derive(Debug)]
pub struct Held {
    places: Places,
    host: IpAddr,
    number: u64,
    slot: Arc<Slot>,
    /// Whether the place was already given back.
    ended: bool,
}

impl Places {
    /// Creates places of which one host can have `each`, and for which others have to wait.
    pub fn new(most: usize, each: usize) -> Self {
        Self::with(most, each, false)
    }

    /// Creates places that displace: if there are too few, the slowest request of the host with
    /// the most is ended.
    pub fn displacing(most: usize) -> Self {
        Self::with(most, most, true)
    }

    fn with(most: usize, each: usize, displaces: bool) -> Self {
        Self(Arc::new(Inner {
            most: most.max(1),
            each: each.max(1),
            displaces,
            state: Mutex::default(),
        }))
    }

    /// Returns the share of a host. All hosts of the same site use the same share.
    pub fn of(&self, host: IpAddr) -> Share {
        Share {
            places: self.clone(),
            host: site(host),
        }
    }

    /// Gives the host a place. The caller must check that it may have one.
    fn give(&self, state: &mut State, host: IpAddr) -> Held {
        let number = state.next;
        state.next += 1;
        state.taken += 1;
        let slot = Arc::new(Slot {
            began: instant(),
            bytes: AtomicU64::new(0),
            displaced: Notify::new(),
        });
        let entry = state.hosts.entry(host).or_default();
        entry.held.insert(number, Arc::clone(&slot));
        entry.latest = number;
        Held {
            places: self.clone(),
            host,
            number,
            slot,
            ended: false,
        }
    }

    /// Gives free places to waiting hosts.
    fn serve(&self, state: &mut State) {
        // Without this, each end of a connection would look at all hosts.
        while state.waiting > 0 && state.taken < self.0.most {
            let may = |host: &Host| !host.waiting.is_empty() && host.count() < self.0.each;
            let hosts = state.hosts.iter().filter(|(_, host)| may(host));
            let next = hosts.min_by_key(|(_, host)| (host.held.len(), host.latest));
            let Some(address) = next.map(|(address, _)| *address) else {
                return;
            };
            let waiting = state.hosts.get_mut(&address);
            let waiting = waiting.and_then(|host| host.waiting.pop_front());
            state.waiting -= usize::from(waiting.is_some());
            // Skip waiters that have given up, because giving back their place would need this
            // lock.
            if let Some(waiting) = waiting.filter(|waiting| !waiting.is_closed()) {
                let held = self.give(state, address);
                if let Err(mut held) = waiting.send(held) {
                    held.ended = true;
                    state.forget(held.host, held.number);
                }
            }
            state.tidy(address);
        }
    }
}

impl Host {
    fn count(&self) -> usize {
        self.held.len() + self.ending
    }

    /// Returns the place with the lowest rate, preferring those old enough to have a meaningful
    /// rate.
    fn slowest(&self, now: Instant) -> Option<u64> {
        let rate = |slot: &Slot| {
            let age = now.saturating_duration_since(slot.began);
            let bytes = slot.bytes.load(Ordering::Relaxed);
            (
                age < YOUNG,
                bytes.saturating_mul(1000) / (age.as_millis() as u64).max(1),
            )
        };
        let slowest = self.held.iter().min_by_key(|(_, slot)| rate(slot));
        slowest.map(|(number, _)| *number)
    }
}

impl State {
    /// Displaces the slowest request of the host with the most, if that host has at least `least`.
    fn displace(&mut self, least: usize) -> bool {
        let most = self.hosts.values_mut().max_by_key(|host| host.held.len());
        let Some(host) = most.filter(|host| host.held.len() >= least) else {
            return false;
        };
        let slot = host
            .slowest(instant())
            .and_then(|slowest| host.held.remove(&slowest));
        if let Some(slot) = &slot {
            host.ending += 1;
            slot.displaced.notify_one();
        }
        slot.is_some()
    }

    /// Frees a place.
    fn forget(&mut self, host: IpAddr, number: u64) {
        self.taken = self.taken.saturating_sub(1);
        let Some(entry) = self.hosts.get_mut(&host) else {
            return;
        };
        if entry.held.remove(&number).is_none() {
            entry.ending = entry.ending.saturating_sub(1);
        }
        self.tidy(host);
    }

    /// Removes a host that neither has places nor waits.
    fn tidy(&mut self, host: IpAddr) {
        let is_unused = |host: &Host| host.count() == 0 && host.waiting.is_empty();
        if self.hosts.get(&host).is_some_and(is_unused) {
            self.hosts.remove(&host);
        }
    }
}

impl Share {
    /// Waits for a place.
    pub async fn take(&self) -> Option<Held> {
        let Inner {
            most,
            each,
            displaces,
            ..
        } = *self.places.0;
        let waiting = {
            let mut state = lock(&self.places.0.state);
            let state = &mut *state;
            let host = state.hosts.entry(self.host).or_default();
            while host.waiting.front().is_some_and(oneshot::Sender::is_closed) {
                host.waiting.pop_front();
                state.waiting -= 1;
            }
            let (own, waits) = (host.held.len(), !host.waiting.is_empty());
            if !waits && host.count() < each && state.taken < most {
                return Some(self.places.give(state, self.host));
            }
            if displaces {
                // With a difference below two, both hosts would only exchange roles.
                state.displace(own + 2);
            }
            let (tell, waiting) = oneshot::channel();
            let host = state.hosts.entry(self.host).or_default();
            host.waiting.push_back(tell);
            state.waiting += 1;
            waiting
        };
        waiting.await.ok()
    }

    /// Takes a place immediately, or returns `None` if the host has reached its limit.
    pub fn take_now(&self) -> Option<Held> {
        let mut state = lock(&self.places.0.state);
        let own = state.hosts.get(&self.host).map_or(0, Host::count);
        if own >= self.places.0.each && !self.places.0.displaces {
            return None;
        }
        if state.taken >= self.places.0.most {
            let displaced = self.places.0.displaces && state.displace(1);
            if !displaced {
                return None;
            }
        }
        Some(self.places.give(&mut state, self.host))
    }
}

impl Held {
    /// Counts bytes transferred using this place.
    pub fn passed(&self, bytes: usize) {
        self.slot.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Completes once another host needs the place.
    pub fn displaced(&self) -> impl Future<Output = ()> + Send + use<> {
        let slot = Arc::clone(&self.slot);
        async move { slot.displaced.notified().await }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if self.ended {
            return;
        }
        let mut state = lock(&self.places.0.state);
        state.forget(self.host, self.number);
        self.places.serve(&mut state);
    }
}

/// Returns the part of an address that identifies its site.
fn site(host: IpAddr) -> IpAddr {
    match host.to_canonical() {
        IpAddr::V6(host) => Ipv6Addr::from_bits(host.to_bits() >> OWN_BITS << OWN_BITS).into(),
        host => host,
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    fn share(places: &Places, host: &str) -> Share {
        places.of(host.parse().unwrap())
    }

    fn take(share: &Share) -> Option<Held> {
        share.take().now_or_never().flatten()
    }

    /// Which of these places have to be left.
    fn displaced(held: &[Held]) -> Vec<usize> {
        let ended = |at: &usize| held[*at].displaced().now_or_never().is_some();
        (0..held.len()).filter(ended).collect()
    }

    #[test]
    fn a_site_is_one_host() {
        let places = Places::new(8, 2);
        let one = share(&places, "2001:db8::1");
        let _held = [take(&one).unwrap(), take(&one).unwrap()];
        assert!(take(&share(&places, "2001:db8:0:ffff::2")).is_none());
        assert!(take(&share(&places, "2001:db8:1::1")).is_some());
        assert!(take(&share(&places, "::ffff:192.0.2.1")).is_some());
        assert!(one.take_now().is_none());
    }

    /// Two hosts have all places with slow requests. Each further host immediately gets one from
    /// the host with the most, whose slowest request ends.
    #[test]
    fn the_slowest_of_the_host_with_the_most_ends() {
        let places = Places::displacing(9);
        let of = |host, count| -> Vec<_> {
            let places = (0..count).map(|_| take(&share(&places, host)).unwrap());
            places.collect()
        };
        let (mut many, few) = (of("192.0.2.1", 6), of("192.0.2.2", 3));
        for held in many.iter().chain(&few).filter(|held| held.number != 4) {
            held.passed(1000);
        }
        let honest = share(&places, "192.0.2.3");
        let mut waiting = Box::pin(honest.take());
        assert!(waiting.as_mut().now_or_never().is_none());
        assert_eq!(displaced(&many), [4]);
        assert_eq!(displaced(&few), [0; 0]);
        // The host with the most has to wait behind the others.
        let busy = share(&places, "192.0.2.1");
        let mut own = Box::pin(busy.take());
        assert!(own.as_mut().now_or_never().is_none());
        drop(many.remove(4));
        let held = waiting.now_or_never().unwrap().unwrap();
        assert!(own.as_mut().now_or_never().is_none());
        drop(held);
        assert!(own.now_or_never().unwrap().is_some());
    }

    /// A free place goes to the host that has the fewest, even if many requests of others have
    /// waited longer.
    #[test]
    fn hosts_take_turns() {
        let places = Places::new(2, 2);
        let (one, other) = (share(&places, "192.0.2.1"), share(&places, "192.0.2.2"));
        let mut held = vec![take(&one).unwrap(), take(&one).unwrap()];
        let mut queued: Vec<_> = (0..100).map(|_| Box::pin(one.take())).collect();
        for waiting in &mut queued {
            assert!(waiting.as_mut().now_or_never().is_none());
        }
        let mut waiting = Box::pin(other.take());
        assert!(waiting.as_mut().now_or_never().is_none());
        held.pop();
        let got = waiting.now_or_never().unwrap().unwrap();
        assert!(queued[0].as_mut().now_or_never().is_none());
        // A waiter that has given up gets no place.
        drop(queued.remove(0));
        drop(got);
        assert!(queued.remove(0).now_or_never().unwrap().is_some());
        drop((queued, held));
        assert_eq!(lock(&places.0.state).taken, 0);
        let state = lock(&places.0.state);
        assert!(state.hosts.is_empty() && state.waiting == 0);
    }

    #[test]
    fn a_place_at_once_takes_that_of_the_host_with_the_most() {
        let places = Places::displacing(4);
        let (one, other) = (share(&places, "192.0.2.1"), share(&places, "192.0.2.2"));
        let held: Vec<_> = (0..4).map(|_| one.take_now().unwrap()).collect();
        let _other = [other.take_now().unwrap(), other.take_now().unwrap()];
        assert_eq!(displaced(&held), [0, 1]);
        let taken = lock(&places.0.state).taken;
        assert_eq!(taken, 6, "those that end count until they have");
        drop(held);
        assert_eq!(lock(&places.0.state).taken, 2);
    }
}
