//! What interfaces carry, remembered for a moment: to ask the system takes five system calls for
//! each connection.

use std::net::{IpAddr, SocketAddr};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustc_hash::FxHashMap;

use super::socket::Socket;
#[cfg(target_os = "linux")]
use super::sys;
#[cfg(target_os = "linux")]
use pathmark_transport::path::ETHERNET_MTU;
use pathmark_transport::{Duration, Instant};

/// How long an answer of the system is believed. Connections that begin later see what has changed.
/// Where an interface carries less than it did, the kernel refuses a probe (EMSGSIZE), and what is
/// remembered costs nothing but that.
const LIFETIME: Duration = Duration::from_secs(1);
/// Answers remembered at most, of as many peers.
const REMEMBERED: usize = 64;

/// Bytes of headers in front of a UDP payload: 20 or 40 of IP, and 8 of UDP.
#[cfg(target_os = "linux")]
const IPV4_AND_UDP: u32 = 28;
#[cfg(target_os = "linux")]
const IPV6_AND_UDP: u32 = 48;

/// What an endpoint knows of the interfaces to its peers.
#[derive(Debug, Default)]
pub(super) struct Interfaces {
    known: Mutex<FxHashMap<Way, Answer>>,
    /// Called before the system is asked.
    #[cfg(test)]
    on_ask: Mutex<Option<fn()>>,
}

/// To a peer, whose port does not matter and is 0, from an address of this host if that is known.
type Way = (SocketAddr, Option<IpAddr>);

#[derive(Clone, Copy, Debug)]
struct Answer {
    /// When the system was asked.
    at: Instant,
    mtu: Option<u16>,
}

impl Interfaces {
    /// What [`interface_mtu`] returns for the way to a peer of `socket`, or returned within the
    /// last second. `None` also for a socket of the application's own: no interface is its way.
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
        // Only the task that asks waits for the system.
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

    /// Discards the answers: the system is asked again from here on.
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

/// The local address, if it is one and not any.
pub(super) fn bound(local: SocketAddr) -> Option<IpAddr> {
    Some(local.ip()).filter(|ip| !ip.is_unspecified())
}

/// The largest datagram that the interface to `to` carries, bytes of UDP payload, from the address
/// `from` if that is known. `None`: the system has no value, or none above Ethernet's.
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
        // The socket may be of another network namespace: what is narrower there is found by
        // probes.
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
        // The interface has changed. Another port of the peer is the same way.
        let port = SocketAddr::new(peer(1).ip(), 9);
        assert_eq!(recall(later(999), port, None, None), Some(8972));
        assert_eq!(asked.get(), 1);
        assert_eq!(recall(later(1000), peer(1), None, None), None);
        // No answer is one, too.
        assert_eq!(recall(later(1999), peer(1), None, Some(3000)), None);
        assert_eq!(recall(later(2000), peer(1), None, Some(3000)), Some(3000));
        assert_eq!(asked.get(), 3);
        // Another peer, and another address of this host, may be behind another interface.
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
        // The last are among them.
        let now = Instant::from_millis(1999);
        let known = interfaces.recall(now, peer(9_999), None, || None);
        assert_eq!(known, Some(9_999));
    }
}
