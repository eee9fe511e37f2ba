//! A cache of interface MTUs, because querying the system takes five system calls per connection.

use std::net::{IpAddr, SocketAddr};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustc_hash::FxHashMap;

use super::socket::Socket;
#[cfg(target_os = "linux")]
use super::sys;
#[cfg(target_os = "linux")]
use pathmark_transport::path::ETHERNET_MTU;
use pathmark_transport::{Duration, Instant};

/// How long an answer is cached. Connections that start later will see a change. If an interface's
/// MTU has become smaller, the kernel refuses a probe (EMSGSIZE), which is the only cost of an
/// outdated answer.
const LIFETIME: Duration = Duration::from_secs(1);
/// Largest number of cached answers, each for a different peer.
const REMEMBERED: usize = 64;

/// Headers in front of a UDP payload, in bytes: 20 or 40 for IP, and 8 for UDP.
#[cfg(target_os = "linux")]
const IPV4_AND_UDP: u32 = 28;
#[cfg(target_os = "linux")]
const IPV6_AND_UDP: u32 = 48;

/// The MTUs that an endpoint knows for the interfaces to its peers.
#[derive(Debug, Default)]
pub(super) struct Interfaces {
    known: Mutex<FxHashMap<Way, Answer>>,
    /// Called before querying the system.
    #[cfg(test)]
    on_ask: Mutex<Option<fn()>>,
}

/// A peer, with port 0 because the port doesn't matter, and the address of this host if known.
type Way = (SocketAddr, Option<IpAddr>);

#[derive(Clone, Copy, Debug)]
struct Answer {
    /// When the system was queried.
    at: Instant,
    mtu: Option<u16>,
}

impl Interfaces {
    /// Returns [`interface_mtu`] for the way from `socket` to a peer, possibly as cached during the
    /// last second. This is always `None` for a socket that the application provides, because its
    /// datagrams don't necessarily use an interface of the system.
    pub(super) fn mtu(
        &self,
        now: Instant,
        socket: &Socket,
        to: SocketAddr,
        from: Option<IpAddr>,
    ) -> Option<u16> {
        if !socket.is_of_system() {
            return None;
        }
        self.recall(now, to, from, || interface_mtu(to, from))
    }

    fn recall(
        &self,
        now: Instant,
        mut to: SocketAddr,
        from: Option<IpAddr>,
        ask: impl FnOnce() -> Option<u16>,
    ) -> Option<u16> {
        to.set_port(0);
        let way = (to, from);
        let known = self.lock().get(&way).copied();
        if let Some(answer) = known.filter(|answer| answer.holds(now)) {
            return answer.mtu;
        }
        #[cfg(test)]
        if let Some(on_ask) = *self.on_ask.lock().unwrap() {
            on_ask();
        }
        // The cache isn't locked here, so only this task waits for the system.
        let mtu = ask();
        let mut known = self.lock();
        if known.len() >= REMEMBERED && !known.contains_key(&way) {
            known.retain(|_, answer| answer.holds(now));
            if known.len() >= REMEMBERED {
                known.clear();
            }
        }
        known.insert(way, Answer { at: now, mtu });
        mtu
    }

    /// Discards the cached answers.
    pub(super) fn forget(&self) {
        self.lock().clear();
    }

    #[cfg(test)]
    pub(super) fn on_ask(&self, call: fn()) {
        *self.on_ask.lock().unwrap() = Some(call);
    }

    fn lock(&self) -> MutexGuard<'_, FxHashMap<Way, Answer>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Answer {
    fn holds(&self, now: Instant) -> bool {
        now.saturating_since(self.at) < LIFETIME
    }
}

/// Returns the local address unless it is the unspecified one.
pub(super) fn bound(local: SocketAddr) -> Option<IpAddr> {
    Some(local.ip()).filter(|ip| !ip.is_unspecified())
}

/// Returns the largest UDP payload in bytes that fits the interface to `to`, from the address
/// `from` if known. Returns `None` if the system knows no value above Ethernet's.
pub(super) fn interface_mtu(to: SocketAddr, from: Option<IpAddr>) -> Option<u16> {
    #[cfg(target_os = "linux")]
    {
        let packet = sys::interface_mtu(to, from).ok()?;
        let headers = if to.ip().to_canonical().is_ipv4() {
            IPV4_AND_UDP
        } else {
            IPV6_AND_UDP
        };
        let payload = packet.checked_sub(headers)?;
        let payload = u16::try_from(payload).unwrap_or(u16::MAX);
        // Lower values are ignored: the socket may belong to another network namespace, and probes
        // will find a narrower path there.
        (payload > ETHERNET_MTU).then_some(payload)
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = (to, from);
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(n: u16) -> SocketAddr {
        let [high, low] = n.to_be_bytes();
        SocketAddr::from(([10, 0, high, low], 4433))
    }

    #[test]
    fn one_answer_serves_a_second_and_then_what_changed_is_seen() {
        let interfaces = Interfaces::default();
        let start = Instant::from_millis(5000);
        let later = |millis| start + Duration::from_millis(millis);
        let asked = std::cell::Cell::new(0);
        let recall = |now, to, from, mtu| {
            interfaces.recall(now, to, from, || {
                asked.set(asked.get() + 1);
                mtu
            })
        };
        assert_eq!(recall(start, peer(1), None, Some(8972)), Some(8972));
        // The interface has changed, but the answer is cached. Another port of the same peer shares
        // it.
        let port = SocketAddr::new(peer(1).ip(), 9);
        assert_eq!(recall(later(999), port, None, None), Some(8972));
        assert_eq!(asked.get(), 1);
        assert_eq!(recall(later(1000), peer(1), None, None), None);
        // Having no answer is cached, too.
        assert_eq!(recall(later(1999), peer(1), None, Some(3000)), None);
        assert_eq!(recall(later(2000), peer(1), None, Some(3000)), Some(3000));
        assert_eq!(asked.get(), 3);
        // Another peer may be behind another interface, and so may another address of this host.
        let local = Some("10.9.9.9".parse().unwrap());
        assert_eq!(recall(later(2000), peer(2), None, None), None);
        assert_eq!(recall(later(2000), peer(1), local, None), None);
        assert_eq!(recall(later(2000), peer(1), None, None), Some(3000));
    }

    #[test]
    fn what_is_remembered_of_many_peers_is_bounded() {
        let interfaces = Interfaces::default();
        for n in 0..10_000 {
            let now = Instant::from_millis(u64::from(n) / 5);
            assert_eq!(interfaces.recall(now, peer(n), None, || Some(n)), Some(n));
            assert!(interfaces.lock().len() <= REMEMBERED);
        }
        // The latest peers are among them.
        let now = Instant::from_millis(1999);
        let known = interfaces.recall(now, peer(9_999), None, || None);
        assert_eq!(known, Some(9_999));
    }
}
