//! Handshakes that clients have begun and not completed: who holds how many places, and who has to
//! go when there are no more.
//!
//! A server keeps a bounded number of them. Retry sees to it that made-up addresses fill no place;
//! hosts with addresses of their own could still fill them all and keep everybody else out. So when
//! all places are taken, a client that holds few gets the place of the oldest handshake of the
//! prefix that holds the most. A client whose prefix holds as many as any other gets a place only
//! from a handshake that has had its time: else a crowd of honest clients would push out each
//! other, and none would ever get through.
//!
//! A client whose packets have arrived and are not read yet has perhaps completed its handshake
//! with them. It keeps its place for a while, and the next one of the same prefix goes.

use core::cmp::Reverse;
use core::net::IpAddr;
use std::collections::{BTreeMap, BTreeSet};

use super::ConnectionHandle;
use crate::{Duration, Instant};

/// A handshake older than this makes room for anyone: more than a round trip over the longest usual
/// path.
const HAD_ITS_TIME: Duration = Duration::from_secs(2);

/// How long a handshake keeps a place that is wanted because packets of its client are not read
/// yet, from when it is wanted first: a client that sends on and on keeps it no longer.
const KEPT_UNREAD: Duration = Duration::from_secs(2);

/// Handshakes with packets that are not read yet which are passed over for one new client.
const PASSED_OVER: usize = 16;

/// Bits of the IPv6 prefixes that count, and how much a handshake weighs for each: a host has a /64
/// to itself, customers get a /56 or a /48, but a provider may have several of them under one /48.
const IPV6_PREFIXES: [(u8, usize); 3] = [(64, HOST_WEIGHT), (56, 2), (48, 1)];
const HOST_WEIGHT: usize = 4;

/// Whom a place is counted to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Prefix {
    V4(u32),
    V6 { bits: u8, prefix: u128 },
}

/// The prefixes that an address belongs to, each with the weight of one handshake.
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

/// A handshake's place.
#[derive(Debug)]
struct Place {
    handle: ConnectionHandle,
    address: IpAddr,
    since: Instant,
    /// When it was wanted first, and kept because of packets that were not read.
    kept: Option<Instant>,
}

impl Place {
    /// True if the handshake, some of whose packets are not read yet, may keep its place.
    fn is_kept(&mut self, now: Instant) -> bool {
        now.saturating_since(*self.kept.get_or_insert(now)) < KEPT_UNREAD
    }
}

/// The places that are taken.
#[derive(Debug, Default)]
pub(super) struct HalfOpen {
    /// By serial number, the oldest first.
    places: BTreeMap<u64, Place>,
    /// The serial numbers of each prefix.
    by_prefix: BTreeMap<Prefix, BTreeSet<u64>>,
    /// Prefixes by what they hold, the greediest last.
    ranked: BTreeSet<Rank>,
}

/// What a prefix holds: its weight, then how old its oldest handshake is, by serial number.
type Rank = (usize, Reverse<u64>, Prefix);

fn rank(prefix: Prefix, weight: usize, held: &BTreeSet<u64>) -> Option<Rank> {
    let oldest = held.first()?;
    Some((held.len() * weight, Reverse(*oldest), prefix))
}

impl HalfOpen {
    pub(super) fn count(&self) -> usize {
        self.places.len()
    }

    /// Gives a place to the handshake with this serial number, which no other had before.
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

    /// A handshake is complete, or forgotten.
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

    /// Whose place a client at `address` may have: the oldest handshake of the prefix that holds
    /// the most, but for those of which packets that have arrived are `unread`.
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

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Instant = Instant::from_millis(10_000);

    /// Adds one after the other, `handle` and serial number counting up.
    fn filled(addresses: impl IntoIterator<Item = String>) -> HalfOpen {
        let mut half_open = HalfOpen::default();
        for (n, text) in addresses.into_iter().enumerate() {
            let address = text.parse().unwrap();
            half_open.add(NOW, n as u64, ConnectionHandle(n), address);
        }
        half_open
    }

    fn room(half_open: &mut HalfOpen, now: Instant, address: &str) -> Option<usize> {
        room_with_unread(&[], half_open, now, address)
    }

    /// Where packets of these are not read yet.
    fn room_with_unread(
        unread: &[usize],
        half_open: &mut HalfOpen,
        now: Instant,
        address: &str,
    ) -> Option<usize> {
        let unread = |handle: ConnectionHandle| unread.contains(&handle.0);
        half_open
            .makes_room(now, address.parse().unwrap(), unread)
            .map(|handle| handle.0)
    }

    #[test]
    fn the_oldest_of_the_greediest_address_goes() {
        let greedy = (0..4).map(|_| "192.0.2.1".to_owned());
        let others = ["192.0.2.2", "192.0.2.3", "192.0.2.3"].map(str::to_owned);
        let mut half_open = filled(others.into_iter().chain(greedy));
        assert_eq!(room(&mut half_open, NOW, "192.0.2.9"), Some(3));
        assert_eq!(room(&mut half_open, NOW, "::ffff:192.0.2.9"), Some(3));
        // Who holds one less than the greediest would be as greedy itself.
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
        for (bits, address) in [
            (
                "64",
                (0..20)
                    .map(|n| format!("2001:db8::{n:x}"))
                    .collect::<Vec<_>>(),
            ),
            (
                "56",
                (0..20).map(|n| format!("2001:db8:0:{n:x}::1")).collect(),
            ),
            (
                "48",
                (0..20).map(|n| format!("2001:db8:0:{n:x}00::1")).collect(),
            ),
        ] {
            // Each of the honest ones has two, from its one address.
            let honest = (0..10).map(|n| format!("198.51.100.{}", n / 2));
            let mut half_open = filled(honest.chain(address));
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
        let other = "192.0.2.9";
        // The next one of the same address goes instead, and none of another address.
        assert_eq!(room_with_unread(&[0], &mut half_open, NOW, other), Some(1));
        assert_eq!(
            room_with_unread(&[0, 1, 2], &mut half_open, NOW, other),
            None
        );
        // A packet that is read keeps the place no longer.
        assert_eq!(room_with_unread(&[1], &mut half_open, NOW, other), Some(0));
        // From the first time on, whatever comes meanwhile.
        let before = NOW + KEPT_UNREAD.saturating_sub(Duration::from_nanos(1));
        assert_eq!(
            room_with_unread(&[0, 1, 2], &mut half_open, before, other),
            None
        );
        let later = NOW + KEPT_UNREAD;
        assert_eq!(
            room_with_unread(&[0, 1, 2], &mut half_open, later, other),
            Some(0)
        );
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
