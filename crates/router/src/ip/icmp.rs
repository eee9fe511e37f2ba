//! ICMP and ICMPv6: the errors that a router must send (RFC 1812 §4.3, RFC 4443), and echo
//! replies, with the rate at which a router sends its own packets.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use pathmark_cc::{Duration, Instant};
use pathmark_shim::checksum::Sum;
use pathmark_shim::ip::{Fragment, Layout, Version, protocol};

use crate::field::{put, write_v4, write_v6};

/// Longest error messages: RFC 1812 §4.3.2.3 and RFC 4443 §2.4 (c).
const MAX_V4: usize = 576;
const MAX_V6: usize = 1280;

/// The error to report about a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IcmpError {
    /// The TTL or hop limit expired.
    TimeExceeded,
    /// No route covers its destination.
    NoRoute,
    /// It is addressed to this router, which has no listener on its UDP port.
    PortUnreachable,
    /// It exceeds the next link's MTU, given in bytes, and must not be fragmented.
    TooBig(u32),
}

impl IcmpError {
    /// Returns type, code and the four bytes after the checksum.
    fn v4(self) -> (u8, u8, u32) {
        match self {
            Self::TimeExceeded => (11, 0, 0),
            Self::NoRoute => (3, 0, 0),
            Self::PortUnreachable => (3, 3, 0),
            // RFC 1191 §4: the MTU in the lower half.
            Self::TooBig(mtu) => (3, 4, mtu.min(0xFFFF)),
        }
    }

    fn v6(self) -> (u8, u8, u32) {
        match self {
            Self::TimeExceeded => (3, 0, 0),
            Self::NoRoute => (1, 0, 0),
            Self::PortUnreachable => (1, 4, 0),
            Self::TooBig(mtu) => (2, 0, mtu),
        }
    }
}

/// Writes the error message about `packet` to the front of `out`, from the router's address
/// `source`, and returns its length. It quotes as much as the RFCs and the room in `out` allow.
/// Returns `None` if no error may be sent: about an ICMP error, a later fragment, or a packet
/// from or to an address that is not a single host's (RFC 1812 §4.3.2.7, RFC 4443 §2.4 (e)); or
/// if `source` has the other IP version.
#[must_use]
pub fn error(
    what: IcmpError,
    packet: &[u8],
    layout: &Layout,
    source: IpAddr,
    out: &mut [u8],
) -> Option<usize> {
    let packet = packet.get(..layout.len())?;
    if layout.fragment() == Fragment::Later || is_icmp_error(packet, layout) {
        return None;
    }
    match (layout.source(packet)?, layout.destination(packet)?, source) {
        (IpAddr::V4(to), IpAddr::V4(destination), IpAddr::V4(from)) => {
            if !is_host_v4(to) || !is_host_v4(destination) {
                return None;
            }
            let (kind, code, rest) = what.v4();
            let room = out.len().min(MAX_V4).checked_sub(28)?;
            let quoted = packet.get(..packet.len().min(room))?;
            let body = message(kind, code, rest, quoted, out.get_mut(20..)?)?;
            let sum = Sum::new().bytes(out.get(20..20 + body)?).finish();
            put(out, 22, sum);
            header_v4(out, body, from, to)
        }
        (IpAddr::V6(to), IpAddr::V6(destination), IpAddr::V6(from)) => {
            // Packet Too Big must also be sent if the destination is a multicast address (RFC
            // 4443 §2.4 (e.3)).
            let multicast = destination.is_multicast() && !matches!(what, IcmpError::TooBig(_));
            if to.is_multicast() || to.is_unspecified() || to.is_loopback() || multicast {
                return None;
            }
            let (kind, code, rest) = what.v6();
            let room = out.len().min(MAX_V6).checked_sub(48)?;
            let quoted = packet.get(..packet.len().min(room))?;
            let body = message(kind, code, rest, quoted, out.get_mut(40..)?)?;
            header_v6(out, body, from, to)
        }
        _ => None,
    }
}

/// Writes the reply to an echo request to the front of `out` and returns its length, or `None`
/// if `packet` is not an echo request.
#[must_use]
pub fn echo_reply(packet: &[u8], layout: &Layout, out: &mut [u8]) -> Option<usize> {
    const REQUEST_V4: u8 = 8;
    const REQUEST_V6: u8 = 128;
    const REPLY_V6: u8 = 129;
    if layout.fragment() != Fragment::Whole {
        return None;
    }
    let request = layout.upper(packet);
    let (&kind, rest) = request.split_first()?;
    if request.len() < 8 {
        return None;
    }
    match (layout.source(packet)?, layout.destination(packet)?) {
        (IpAddr::V4(to), IpAddr::V4(from))
            if layout.protocol() == protocol::ICMP && kind == REQUEST_V4 && is_host_v4(to) =>
        {
            let reply = out.get_mut(20..20 + request.len())?;
            let (first, tail) = reply.split_first_mut()?;
            *first = 0;
            tail.copy_from_slice(rest);
            put(reply, 2, 0);
            let sum = Sum::new().bytes(reply).finish();
            put(out, 22, sum);
            header_v4(out, request.len(), from, to)
        }
        (IpAddr::V6(to), IpAddr::V6(from))
            if layout.protocol() == protocol::ICMPV6
                && kind == REQUEST_V6
                && !to.is_multicast() =>
        {
            let reply = out.get_mut(40..40 + request.len())?;
            let (first, tail) = reply.split_first_mut()?;
            *first = REPLY_V6;
            tail.copy_from_slice(rest);
            header_v6(out, request.len(), from, to)
        }
        _ => None,
    }
}

/// Returns true if the checksum of an ICMP message is correct, and false if the message is too
/// short to have one.
pub fn checksum_holds(packet: &[u8], layout: &Layout) -> bool {
    let message = layout.upper(packet);
    let sum = match layout.version() {
        Version::V4 => Sum::new(),
        Version::V6 => {
            let length = u32::try_from(message.len()).unwrap_or(0);
            layout.pseudo_header(packet, length)
        }
    };
    message.len() >= 8 && sum.bytes(message).finish() == 0
}

fn message(kind: u8, code: u8, rest: u32, quoted: &[u8], out: &mut [u8]) -> Option<usize> {
    let len = 8 + quoted.len();
    let (header, body) = out.get_mut(..len)?.split_first_chunk_mut::<8>()?;
    let [r0, r1, r2, r3] = rest.to_be_bytes();
    *header = [kind, code, 0, 0, r0, r1, r2, r3];
    body.copy_from_slice(quoted);
    Some(len)
}

fn header_v4(out: &mut [u8], body: usize, from: Ipv4Addr, to: Ipv4Addr) -> Option<usize> {
    /// Internetwork control (RFC 1812 §4.3.2.5).
    const SERVICE: u8 = 0xC0;
    let total = 20 + body;
    let len = u16::try_from(total).ok()?;
    write_v4(out, len, protocol::ICMP, SERVICE, from, to)?;
    Some(total)
}

fn header_v6(out: &mut [u8], body: usize, from: Ipv6Addr, to: Ipv6Addr) -> Option<usize> {
    let length = u16::try_from(body).ok()?;
    write_v6(out, length, protocol::ICMPV6, from, to)?;
    put(out, 42, 0);
    let sum = Sum::new()
        .bytes(out.get(8..40)?)
        .number(u32::from(length))
        .number(u32::from(protocol::ICMPV6))
        .bytes(out.get(40..40 + body)?)
        .finish();
    put(out, 42, sum);
    Some(40 + body)
}

fn is_icmp_error(packet: &[u8], layout: &Layout) -> bool {
    let kind = layout.upper(packet).first().copied();
    match layout.version() {
        // All types except queries and their replies.
        Version::V4 => {
            layout.protocol() == protocol::ICMP
                && !matches!(kind, Some(0 | 8 | 9 | 10 | 13..=18 | 42 | 43))
        }
        Version::V6 => layout.protocol() == protocol::ICMPV6 && kind.is_none_or(|kind| kind < 128),
    }
}

fn is_host_v4(address: Ipv4Addr) -> bool {
    !(address.is_unspecified()
        || address.is_multicast()
        || address.is_broadcast()
        || address.is_loopback()
        || address.octets().first() == Some(&0)
        || address.octets().first().is_some_and(|o| *o >= 240))
}

/// Allows one event per `interval` on average, and up to `burst` at once after a pause.
/// Packets that the router itself sends are limited so (RFC 1812 §4.3.2.8, RFC 4443 §2.4 (f)).
#[derive(Clone, Debug)]
pub struct TokenBucket {
    interval: Duration,
    burst: u32,
    /// The time at which the bucket was or will be full.
    full_at: Instant,
}

impl TokenBucket {
    /// Creates a bucket of `per_second` events on average, and up to `burst` at once. A rate of
    /// 0 allows none.
    pub fn new(per_second: u32, burst: u32) -> Self {
        Self {
            interval: 1_000_000_000u64
                .checked_div(u64::from(per_second))
                .map_or(Duration::MAX, Duration::from_nanos),
            burst,
            full_at: Instant::ZERO,
        }
    }

    /// Takes a token. Returns true if the event may happen now.
    pub fn take(&mut self, now: Instant) -> bool {
        if self.interval == Duration::MAX {
            return false;
        }
        let full_at = self.full_at.max(now) + self.interval;
        if full_at - now > self.interval * self.burst {
            return false;
        }
        self.full_at = full_at;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_and_then_the_rate() {
        let mut bucket = TokenBucket::new(100, 5);
        let at = |ms: u64| Instant::from_millis(1_000 + ms);
        let passed = (0..20).filter(|_| bucket.take(at(0))).count();
        assert_eq!(passed, 5);
        assert!(!bucket.take(at(9)));
        assert!(bucket.take(at(10)));
        assert!(!bucket.take(at(11)));
        let passed = (0..10_000).filter(|ms| bucket.take(at(1_000 + ms))).count();
        assert!((1000..=1006).contains(&passed), "{passed}");
        assert!(!TokenBucket::new(0, 5).take(at(0)));
    }
}
