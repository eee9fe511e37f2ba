//! Handshakes that clients have begun but not completed: those that wait to be accepted
//! ([`Incoming`]), and the choice of the handshake that must make room when their number is at its
//! limit.
//!
//! A server limits the number of such handshakes. Because of Retry, spoofed addresses can't
//! take up places. However, hosts with real addresses could still fill all places and lock
//! everyone else out. Therefore, when all places are taken, a client whose prefix holds few
//! places gets the place of the oldest handshake of the prefix that holds the most. A client
//! whose prefix holds as many as any other only gets a place from a handshake that has had
//! enough time. Otherwise, a crowd of honest clients would evict each other, and none would
//! ever complete its handshake.
//!
//! Unread packets of a client may complete its handshake. Such a client keeps its place for a
//! while, and the next handshake of the same prefix is evicted instead.

use core::cmp::Reverse;
use core::net::{IpAddr, SocketAddr};
use std::collections::{BTreeMap, BTreeSet};

use super::ConnectionHandle;
use crate::connection::Received;
use crate::crypto::Keys;
use crate::wire::ConnectionId;
use crate::{Duration, Instant};

/// Age above which a handshake makes room for any client: more than a round trip on the longest
/// usual path.
const HAD_ITS_TIME: Duration = Duration::from_secs(2);

/// How long a handshake with unread packets keeps its place, from the first time that the place
/// is needed. Sending more packets doesn't extend this time.
const KEPT_UNREAD: Duration = Duration::from_secs(2);

/// Maximum number of handshakes with unread packets that are skipped for one new client.
const PASSED_OVER: usize = 16;

/// Lengths of the IPv6 prefixes that count, and the weight of a handshake for each. A host has
/// a /64 to itself, and customers get a /56 or a /48, but a provider may have several customers
/// under one /48.
const IPV6_PREFIXES: [(u8, usize); 3] = [(64, HOST_WEIGHT), (56, 2), (48, 1)];
const HOST_WEIGHT: usize = 4;

/// The prefix to which a place is attributed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Prefix {
    V4(u32),
    V6 { bits: u8, prefix: u128 },
}

/// Returns the prefixes of an address, each with the weight of one handshake.
fn prefixes(address: IpAddr) -> impl Iterator<Item = (Prefix, usize)> {
    let (v4, v6) = match address.to_canonical() {
        IpAddr::V4(v4) => (Some((Prefix::V4(v4.to_bits()), HOST_WEIGHT)), None),
        IpAddr::V6(v6) => (None, Some(v6.to_bits())),
    };
    let of_v6 = v6.into_iter().flat_map(|address| {
        IPV6_PREFIXES.map(|(bits, weight)| {
            let prefix = address & !(u128::MAX >> bits);
            (Prefix::V6 { bits, prefix }, weight)
        })
    });
    v4.into_iter().chain(of_v6)
}

#[derive(Debug)]
struct Place {
    handle: ConnectionHandle,
    address: IpAddr,
    since: Instant,
    /// When the place was first needed but kept because of unread packets.
    kept: Option<Instant>,
}

impl Place {
    /// Returns true if the handshake, which has unread packets, may keep its place.
    fn is_kept(&mut self, now: Instant) -> bool {
        now.saturating_since(*self.kept.get_or_insert(now)) < KEPT_UNREAD
    }
}

#[derive(Debug, Default)]
pub(super) struct HalfOpen {
    /// By serial number, oldest first.
    places: BTreeMap<u64, Place>,
    by_prefix: BTreeMap<Prefix, BTreeSet<u64>>,
    /// Prefixes by rank; the one that holds the most is last.
    ranked: BTreeSet<Rank>,
}

/// Rank of a prefix: its total weight, and then the age of its oldest handshake, by serial
/// number.
type Rank = (usize, Reverse<u64>, Prefix);

fn rank(prefix: Prefix, weight: usize, held: &BTreeSet<u64>) -> Option<Rank> {
    let oldest = held.first()?;
    Some((held.len() * weight, Reverse(*oldest), prefix))
}

impl HalfOpen {
    pub(super) fn count(&self) -> usize {
        self.places.len()
    }

    /// Adds a handshake with this serial number, which must be unused.
    pub(super) fn add(
        &mut self,
        now: Instant,
        serial: u64,
        handle: ConnectionHandle,
        address: IpAddr,
    ) {
        for (prefix, weight) in prefixes(address) {
            self.change(prefix, weight, |held| held.insert(serial));
        }
        let place = Place {
            handle,
            address,
            since: now,
            kept: None,
        };
        self.places.insert(serial, place);
    }

    pub(super) fn remove(&mut self, serial: u64) {
        let Some(place) = self.places.remove(&serial) else {
            return;
        };
        for (prefix, weight) in prefixes(place.address) {
            self.change(prefix, weight, |held| held.remove(&serial));
        }
    }

    fn change(
        &mut self,
        prefix: Prefix,
        weight: usize,
        change: impl FnOnce(&mut BTreeSet<u64>) -> bool,
    ) {
        let held = self.by_prefix.entry(prefix).or_default();
        if let Some(before) = rank(prefix, weight, held) {
            self.ranked.remove(&before);
        }
        change(held);
        match rank(prefix, weight, held) {
            Some(after) => {
                self.ranked.insert(after);
            }
            None => {
                self.by_prefix.remove(&prefix);
            }
        }
    }

    /// Returns the handshake that must make room for a client at `address`: the oldest handshake of
    /// the prefix that holds the most, skipping those that have `unread` packets.
    pub(super) fn makes_room(
        &mut self,
        now: Instant,
        address: IpAddr,
        unread: impl Fn(ConnectionHandle) -> bool,
    ) -> Option<ConnectionHandle> {
        let (most, _, greediest) = self.ranked.last()?;
        let holds_less = prefixes(address).all(|(prefix, weight)| {
            let held = self.by_prefix.get(&prefix).map_or(0, BTreeSet::len);
            (held + 1) * weight < *most
        });
        for serial in self.by_prefix.get(greediest)?.iter().take(PASSED_OVER) {
            let place = self.places.get_mut(serial)?;
            let had_its_time = now.saturating_since(place.since) >= HAD_ITS_TIME;
            if !holds_less && !had_its_time {
                return None;
            }
            if !unread(place.handle) || !place.is_kept(now) {
                return Some(place.handle);
            }
        }
        None
    }
}

/// Maximum bytes of datagrams held for a client until it is accepted: a ClientHello of several
/// packets, sent twice.
pub(super) const MAX_WAITING_BYTES: usize = 16 * 1024;

/// The facts about a client that its Initial's token proves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Origin {
    /// Destination id of the client's very first Initial.
    pub(super) original_dcid: ConnectionId,
    /// Source id of this server's Retry, if there was one.
    pub(super) retry_scid: Option<ConnectionId>,
    /// Whether the client receives packets sent to its address.
    pub(super) validated: bool,
    /// The token from an earlier connection that proves the address. It must be spent once the
    /// packet is known to be authentic.
    pub(super) token: Option<u64>,
}

/// A client that asks for a connection. You must return it to
/// [`Endpoint::accept`](super::Endpoint::accept), [`refuse`](super::Endpoint::refuse),
/// [`retry`](super::Endpoint::retry) or [`ignore`](super::Endpoint::ignore) within 10 seconds.
/// Until then, it counts as a half-open handshake.
#[derive(Debug)]
#[must_use = "an incoming connection is accepted, refused, retried or ignored"]
pub struct Incoming {
    pub(super) handle: ConnectionHandle,
    pub(super) serial: u64,
    pub(super) received: Received,
    /// Destination id of the Initial.
    pub(super) dcid: ConnectionId,
    /// The client's source id.
    pub(super) scid: ConnectionId,
    pub(super) origin: Origin,
}

impl Incoming {
    /// Returns the client's address, according to its packet.
    pub fn remote_address(&self) -> SocketAddr {
        self.received.remote
    }

    /// Returns the local address at which the packet arrived, if the driver knows it.
    pub fn local_address(&self) -> Option<IpAddr> {
        self.received.local
    }

    /// Returns true if the client has proved its address by presenting a token.
    pub fn is_validated(&self) -> bool {
        self.origin.validated
    }

    /// Returns true if you can still send a Retry, because the client hasn't followed one yet.
    pub fn may_retry(&self) -> bool {
        self.origin.retry_scid.is_none()
    }
}

/// The state held for an [`Incoming`].
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) serial: u64,
    pub(super) expires: Instant,
    pub(super) datagrams: Vec<(Received, Vec<u8>)>,
    /// Keys for its Initial packets, until its connection takes them.
    pub(super) keys: Option<Keys>,
    bytes: usize,
}

impl Waiting {
    pub(super) fn new(serial: u64, expires: Instant, keys: Keys) -> Self {
        Self {
            serial,
            expires,
            datagrams: Vec::new(),
            keys: Some(keys),
            bytes: 0,
        }
    }

    /// Stores a datagram. Returns false if there is no more room.
    pub(super) fn hold(&mut self, received: Received, datagram: &[u8]) -> bool {
        let bytes = self.bytes + datagram.len();
        if bytes > MAX_WAITING_BYTES {
            return false;
        }
        self.bytes = bytes;
        self.datagrams.push((received, datagram.to_vec()));
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Instant = Instant::from_millis(10_000);

    /// Adds handshakes one after the other, with ascending `handle` and serial number.
    fn filled(addresses: impl IntoIterator<Item = String>) -> HalfOpen {
        let mut half_open = HalfOpen::default();
        for (n, text) in addresses.into_iter().enumerate() {
            let address = text.parse().unwrap();
            half_open.add(NOW, n as u64, ConnectionHandle(n), address);
        }
        half_open
    }

    fn room(half_open: &mut HalfOpen, now: Instant, address: &str) -> Option<usize> {
        room_beside(&[], half_open, now, address)
    }

    /// Like `room`, but while packets of the handshakes `unread` are unread.
    fn room_beside(unread: &[usize], held: &mut HalfOpen, at: Instant, by: &str) -> Option<usize> {
        let unread = |handle: ConnectionHandle| unread.contains(&handle.0);
        let evicted = held.makes_room(at, by.parse().unwrap(), unread);
        evicted.map(|handle| handle.0)
    }

    #[test]
    fn the_oldest_of_the_greediest_address_goes() {
        let greedy = (0..4).map(|_| "192.0.2.1".to_owned());
        let others = ["192.0.2.2", "192.0.2.3", "192.0.2.3"].map(str::to_owned);
        let mut half_open = filled(others.into_iter().chain(greedy));
        assert_eq!(room(&mut half_open, NOW, "192.0.2.9"), Some(3));
        assert_eq!(room(&mut half_open, NOW, "::ffff:192.0.2.9"), Some(3));
        // A client that holds one less would be as greedy as the greediest.
        assert_eq!(room(&mut half_open, NOW, "192.0.2.3"), Some(3));
        half_open.remove(3);
        assert_eq!(room(&mut half_open, NOW, "192.0.2.3"), None);
        assert_eq!(room(&mut half_open, NOW, "192.0.2.1"), None);
        let later = NOW + HAD_ITS_TIME;
        assert_eq!(room(&mut half_open, later, "192.0.2.1"), Some(4));
        for serial in 0..10 {
            half_open.remove(serial);
        }
        assert_eq!(half_open.count(), 0);
        assert!(half_open.by_prefix.is_empty() && half_open.ranked.is_empty());
    }

    #[test]
    fn addresses_of_one_customer_count_together() {
        type Address = fn(u32) -> String;
        let addresses: [(&str, Address); 3] = [
            ("64", |n| format!("2001:db8::{n:x}")),
            ("56", |n| format!("2001:db8:0:{n:x}::1")),
            ("48", |n| format!("2001:db8:0:{n:x}00::1")),
        ];
        for (bits, address) in addresses {
            // Each honest address has two.
            let honest = (0..10).map(|n| format!("198.51.100.{}", n / 2));
            let mut half_open = filled(honest.chain((0..20).map(address)));
            assert_eq!(room(&mut half_open, NOW, "203.0.113.1"), Some(10), "{bits}");
        }
    }

    #[test]
    fn customers_of_one_provider_do_not_pay_for_a_greedy_neighbour() {
        let customers = (0..40).map(|n| format!("2001:db8:0:{n:x}00::1"));
        let greedy = (0..20).map(|n| format!("2001:db8:0:ff00::{n:x}"));
        let mut half_open = filled(customers.chain(greedy));
        assert_eq!(room(&mut half_open, NOW, "203.0.113.1"), Some(40));
    }

    #[test]
    fn a_crowd_in_which_each_has_one_place_lets_each_have_its_time() {
        let mut half_open = filled((0..50).map(|n| format!("192.0.2.{n}")));
        assert_eq!(room(&mut half_open, NOW, "203.0.113.1"), None);
        let later = NOW + HAD_ITS_TIME;
        assert_eq!(room(&mut half_open, later, "203.0.113.1"), Some(0));
        assert_eq!(room(&mut HalfOpen::default(), later, "203.0.113.1"), None);
    }

    #[test]
    fn who_has_sent_what_is_not_read_keeps_a_place_for_a_while() {
        let greedy = (0..3).map(|_| "192.0.2.1".to_owned());
        let mut half_open = filled(greedy.chain(["192.0.2.2".to_owned()]));
        let mut room =
            |unread: &[usize], now| room_beside(unread, &mut half_open, now, "192.0.2.9");
        // The next handshake of the same address is evicted instead, but none of another address.
        assert_eq!(room(&[0], NOW), Some(1));
        assert_eq!(room(&[0, 1, 2], NOW), None);
        // Once its packets are read, a handshake no longer keeps its place.
        assert_eq!(room(&[1], NOW), Some(0));
        // From the first time on, regardless of later events.
        let before = NOW + KEPT_UNREAD.saturating_sub(Duration::from_nanos(1));
        assert_eq!(room(&[0, 1, 2], before), None);
        assert_eq!(room(&[0, 1, 2], NOW + KEPT_UNREAD), Some(0));
    }

    #[test]
    fn few_are_asked_for_one_client() {
        let mut half_open = filled((0..100).map(|_| "192.0.2.1".to_owned()));
        let asked = core::cell::Cell::new(0);
        let unread = |_| {
            asked.set(asked.get() + 1);
            true
        };
        let address = "192.0.2.9".parse().unwrap();
        assert_eq!(half_open.makes_room(NOW, address, unread), None);
        assert_eq!(asked.get(), PASSED_OVER);
    }
}
