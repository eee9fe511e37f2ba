//! Handshakes that clients have begun and not completed, all together and by address.
//!
//! A server keeps a bounded number of them. Retry sees to it that made-up addresses fill no place; one host with an address of its own
//! could still fill them all and keep everybody else out. So once half of the places are taken, an address that has an
//! eighth of them gets no more.

use core::net::IpAddr;

use rustc_hash::FxHashMap;

/// An address may have this part of all places, once [`SCARCE`] of them is taken.
const SHARE: usize = 8;
const SCARCE: usize = 2;

/// Whom a place is counted to: an IPv4 address, or the /64 prefix of an IPv6 one, of which a host has all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Host(u128);

impl Host {
    pub(super) fn of(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V4(v4) => Self(v4.to_bits().into()),
            IpAddr::V6(v6) => Self(v6.to_bits() >> 64 << 64),
        }
    }
}

/// The count, at most what [`admits`](Self::admits) is told.
#[derive(Debug, Default)]
pub(super) struct HalfOpen {
    count: usize,
    by_host: FxHashMap<Host, usize>,
}

impl HalfOpen {
    pub(super) const fn count(&self) -> usize {
        self.count
    }

    /// True if `host` may begin another handshake where `most` are kept.
    pub(super) fn admits(&self, host: Host, most: usize) -> bool {
        let of_host = || self.by_host.get(&host).copied().unwrap_or(0);
        self.count < most && (self.count < most / SCARCE || of_host() < (most / SHARE).max(1))
    }

    pub(super) fn add(&mut self, host: Host) {
        self.count += 1;
        *self.by_host.entry(host).or_insert(0) += 1;
    }

    /// A handshake is complete, or forgotten.
    pub(super) fn remove(&mut self, host: Host) {
        self.count = self.count.saturating_sub(1);
        if let Some(held) = self.by_host.get_mut(&host) {
            *held -= 1;
            if *held == 0 {
                self.by_host.remove(&host);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(text: &str) -> Host {
        Host::of(text.parse().unwrap())
    }

    #[test]
    fn one_host_leaves_places_to_others() {
        let mut half_open = HalfOpen::default();
        let (greedy, other) = (host("192.0.2.1"), host("192.0.2.2"));
        let mut begun = 0;
        while half_open.admits(greedy, 64) {
            half_open.add(greedy);
            begun += 1;
        }
        assert_eq!(begun, 32);
        for _ in 0..8 {
            assert!(half_open.admits(other, 64));
            half_open.add(other);
        }
        assert!(!half_open.admits(other, 64));
        for n in 0..24 {
            let third = host(&format!("198.51.100.{n}"));
            assert!(half_open.admits(third, 64));
            half_open.add(third);
        }
        assert!(!half_open.admits(host("203.0.113.1"), 64), "all are taken");
        for _ in 0..begun {
            half_open.remove(greedy);
        }
        assert_eq!((half_open.count(), half_open.by_host.len()), (32, 25));
    }

    #[test]
    fn hosts_are_told_apart_by_what_they_own() {
        assert_eq!(host("192.0.2.1"), host("::ffff:192.0.2.1"));
        assert_eq!(host("2001:db8::1"), host("2001:db8::2:3:4:5"));
        assert_ne!(host("2001:db8::1"), host("2001:db8:0:1::1"));
    }

    #[test]
    fn a_single_place_can_be_had() {
        let mut half_open = HalfOpen::default();
        let only = host("192.0.2.1");
        assert!(half_open.admits(only, 1));
        half_open.add(only);
        assert!(!half_open.admits(only, 1));
        half_open.remove(only);
        assert!(half_open.admits(only, 1) && half_open.by_host.is_empty());
    }
}
