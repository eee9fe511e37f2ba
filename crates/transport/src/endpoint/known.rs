//! Path rates measured by earlier connections, by the peer's address.
//!
//! A later connection with the same address requests this rate from routers even before its
//! handshake is complete, but uses it only if they grant it.

use core::net::IpAddr;
use std::collections::HashMap;

use pathmark_cc::KnownPath;
use rustc_hash::FxSeededState;

use crate::crypto::Random;
use crate::{Duration, Instant};

/// Bits of an IPv6 address that distinguish hosts: a host has a /64.
const HOST_BITS: u32 = 64;

#[derive(Clone, Copy, Debug)]
struct Entry {
    path: KnownPath,
    at: Instant,
}

/// A bounded table, in which a new entry replaces the oldest.
#[derive(Debug)]
pub(super) struct KnownPaths {
    /// The hash is seeded because peers choose their addresses.
    paths: HashMap<IpAddr, Entry, FxSeededState>,
    most: usize,
    lifetime: Duration,
}

fn host(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) => {
            let bits = v6.to_bits() & !(u128::MAX >> HOST_BITS);
            IpAddr::V6(bits.into())
        }
        v4 => v4,
    }
}

impl KnownPaths {
    /// Creates a table of at most `most` entries, each of which is valid for `lifetime`.
    pub(super) fn new(most: usize, lifetime: Duration, random: &mut Random) -> Self {
        let seed = usize::try_from(random.next_u64() & u64::from(u32::MAX)).unwrap_or(0);
        Self {
            paths: HashMap::with_hasher(FxSeededState::with_seed(seed)),
            most,
            lifetime,
        }
    }

    pub(super) fn get(&self, now: Instant, peer: IpAddr) -> Option<KnownPath> {
        let entry = self.paths.get(&host(peer))?;
        (now.saturating_since(entry.at) <= self.lifetime).then_some(entry.path)
    }

    /// Removes all entries, because paths have changed.
    pub(super) fn clear(&mut self) {
        self.paths.clear();
    }

    /// Records the rate that a connection to `peer` measured. If the connection had `asked` for
    /// the known rate, the measurement replaces that rate, or removes it if there is none.
    /// Otherwise, the larger rate is kept.
    pub(super) fn learn(
        &mut self,
        now: Instant,
        peer: IpAddr,
        shown: Option<KnownPath>,
        asked: bool,
    ) {
        let before = self.get(now, peer);
        let peer = host(peer);
        let path = match (shown, before) {
            (Some(shown), Some(before)) if !asked && before.rate > shown.rate => return,
            (Some(shown), _) => shown,
            (None, _) => {
                if asked {
                    self.paths.remove(&peer);
                }
                return;
            }
        };
        if self.paths.len() >= self.most && !self.paths.contains_key(&peer) {
            let oldest = self.paths.iter().min_by_key(|(_, entry)| entry.at);
            let Some(oldest) = oldest.map(|(peer, _)| *peer) else {
                return;
            };
            self.paths.remove(&oldest);
        }
        self.paths.insert(peer, Entry { path, at: now });
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.paths.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    fn at(secs: u64) -> Instant {
        Instant::from_millis(secs * 1000)
    }

    fn path(rate: u64) -> Option<KnownPath> {
        Some(KnownPath { rate, rtt: None })
    }

    fn address(n: u32) -> IpAddr {
        std::net::Ipv4Addr::from_bits(n).into()
    }

    fn table(most: usize) -> KnownPaths {
        KnownPaths::new(most, HOUR, &mut Random::from_u64(1))
    }

    #[test]
    fn a_path_is_known_for_an_hour_and_by_its_host() {
        let mut known = table(10);
        known.learn(at(0), address(1), path(5), false);
        assert_eq!(known.get(at(3600), address(1)), path(5));
        assert_eq!(known.get(at(3601), address(1)), None);
        assert_eq!(known.get(at(0), address(2)), None);
        let of = |text: &str| text.parse::<IpAddr>().unwrap();
        assert_eq!(known.get(at(0), of("::ffff:0.0.0.1")), path(5));
        known.learn(at(0), of("2001:db8:1:2:3::4"), path(6), false);
        assert_eq!(known.get(at(0), of("2001:db8:1:2:5::6")), path(6));
        assert_eq!(known.get(at(0), of("2001:db8:1:3::4")), None);
    }

    #[test]
    fn what_was_asked_for_and_not_used_is_known_no_more() {
        let mut known = table(10);
        let mut learn = |secs, shown: Option<u64>, asked| {
            known.learn(at(secs), address(1), shown.and_then(path), asked);
            known.get(at(secs), address(1))
        };
        assert_eq!(learn(0, None, false), None);
        assert_eq!(learn(0, Some(5), false), path(5));
        // A short connection at the same time doesn't measure the path.
        assert_eq!(learn(1, Some(3), false), path(5));
        assert_eq!(learn(1, None, false), path(5));
        assert_eq!(learn(2, Some(7), false), path(7));
        assert_eq!(learn(3, Some(4), true), path(4));
        assert_eq!(learn(4, None, true), None);
        // An expired rate has no effect.
        assert_eq!(learn(5, Some(9), false), path(9));
        assert_eq!(learn(3700, Some(1), false), path(1));
    }

    /// Many peers that connect once don't displace a peer that returns.
    #[test]
    fn a_full_table_forgets_the_oldest() {
        let mut known = table(100);
        for round in 0..20 {
            known.learn(at(round), address(7), path(5), true);
            for peer in 0..90 {
                let other = address(1000 + 90 * round as u32 + peer);
                known.learn(at(round), other, path(9), false);
            }
            assert_eq!(known.get(at(round), address(7)), path(5));
            assert!(known.len() <= 100);
        }
        let mut none = table(0);
        none.learn(at(0), address(1), path(5), false);
        assert_eq!((none.len(), none.get(at(0), address(1))), (0, None));
    }
}
