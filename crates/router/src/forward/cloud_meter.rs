//! The cloud meter, with its messages, estimates and counters; and the UDP packets in which the
//! router itself sends messages.

use std::net::{IpAddr, SocketAddr};
use std::ops::Range;

use pathmark_cc::{CloudEstimate, Instant, Upstream};
use pathmark_shim::ip::{Layout, protocol};
use xcp_edge::{Measurer, Own};

use crate::field::{put, put_low, write_v4, write_v6};
use crate::ip::TokenBucket;

/// Messages verified per second, and in one burst. Verification must be limited because an
/// authenticator takes a few microseconds to check, and any host can send a wrong one.
const LOOKED_AT: u32 = 10_000;
const LOOKED_AT_ONCE: u32 = 1_000;
/// Maximum number of upstream routers that are probed.
pub(super) const MOST_NAMED: usize = 64;

/// Measures clouds, and answers other routers that measure theirs.
#[derive(Debug)]
pub struct CloudMeter {
    pub(super) own: Own,
    pub(super) port: u16,
    pub(super) measurer: Measurer,
    /// When ports get their next estimates.
    pub(super) next: Instant,
    estimates: Vec<Estimated>,
    /// Reused buffer for the list of upstream routers.
    pub(super) named: Vec<(Upstream, u64)>,
    pub(super) looks: TokenBucket,
    pub(super) counts: MessageCounts,
}

/// Counts messages by outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MessageCounts {
    /// Datagrams to the router's message port.
    pub received: u64,
    /// Datagrams that exceeded the rate limit, and were not examined.
    pub too_many: u64,
    /// Datagrams sent through a port.
    pub sent: u64,
    /// Datagrams without a route, or larger than its MTU.
    pub unsent: u64,
}

/// The last estimate of a cloud.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Estimated {
    /// The router upstream of the cloud.
    pub upstream: IpAddr,
    /// The cloud's unused capacity.
    pub estimate: CloudEstimate,
    /// The time of the estimate.
    pub at: Instant,
}

impl CloudMeter {
    /// Creates a meter whose messages use the UDP port `port` of all routers. `own` has the
    /// addresses by which headers name this router; `measurer` must have been created with the
    /// same ones.
    pub fn new(own: Own, port: u16, measurer: Measurer) -> Self {
        Self {
            own,
            port,
            measurer,
            next: Instant::ZERO,
            estimates: Vec::new(),
            named: Vec::new(),
            looks: TokenBucket::new(LOOKED_AT, LOOKED_AT_ONCE),
            counts: MessageCounts::default(),
        }
    }

    /// Returns the measurer, whose state can be inspected.
    pub const fn measurer(&self) -> &Measurer {
        &self.measurer
    }

    /// Counts of datagrams by outcome.
    pub const fn counts(&self) -> MessageCounts {
        self.counts
    }

    /// Returns the estimates that are still valid at `now`.
    pub fn estimates(&self, now: Instant) -> impl Iterator<Item = &Estimated> {
        let holds = move |known: &&Estimated| now < known.at + known.estimate.valid_for;
        self.estimates.iter().filter(holds)
    }

    pub(super) fn note(&mut self, now: Instant, upstream: IpAddr, estimate: CloudEstimate) {
        let known = Estimated {
            upstream,
            estimate,
            at: now,
        };
        self.estimates
            .retain(|kept| kept.upstream != upstream && now < kept.at + kept.estimate.valid_for);
        self.estimates.push(known);
    }

    /// The time of the next action.
    pub(super) fn deadline(&self) -> Instant {
        let messages = self.measurer.deadline().unwrap_or(Instant::FAR_FUTURE);
        messages.min(self.next)
    }
}

/// Adds bytes that arrived from an upstream router. If the list is full, routers with the most
/// bytes stay in it, so that made-up addresses at one port cannot displace the routers behind
/// another.
pub(super) fn gather(named: &mut Vec<(Upstream, u64)>, upstream: Upstream, bytes: u64) {
    if let Some((_, sum)) = named.iter_mut().find(|(known, _)| *known == upstream) {
        *sum = sum.saturating_add(bytes);
    } else if named.len() < MOST_NAMED {
        named.push((upstream, bytes));
    } else if let Some(least) = named.iter_mut().min_by_key(|(_, sum)| *sum)
        && least.1 < bytes
    {
        *least = (upstream, bytes);
    }
}

/// Length of the IPv6 and UDP headers, which is the most that precedes a payload.
pub const HEADERS: u16 = HEADER_V6 + HEADER_UDP;
const HEADER_V4: u16 = 20;
const HEADER_V6: u16 = 40;
const HEADER_UDP: u16 = 8;

/// Writes IP and UDP headers in front of a payload of `len` bytes, which must start at offset
/// [`HEADERS`]. Returns the range of the packet, or `None` if the ends use different IP
/// versions.
pub(super) fn udp_around(
    out: &mut [u8],
    len: usize,
    from: SocketAddr,
    to: SocketAddr,
) -> Option<Range<usize>> {
    let end = usize::from(HEADERS) + len;
    let udp = usize::from(HEADERS - HEADER_UDP);
    let datagram = usize::from(HEADER_UDP) + len;
    let begin = match (from.ip(), to.ip()) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            let begin = udp - usize::from(HEADER_V4);
            let total = u16::try_from(usize::from(HEADER_V4) + datagram).ok()?;
            let header = out.get_mut(begin..)?;
            write_v4(header, total, protocol::UDP, 0, source, destination)?;
            begin
        }
        (IpAddr::V6(source), IpAddr::V6(destination)) => {
            let len = u16::try_from(datagram).ok()?;
            write_v6(out, len, protocol::UDP, source, destination)?;
            0
        }
        _ => return None,
    };
    let header = out.get_mut(udp..end)?;
    put(header, 0, from.port());
    put(header, 2, to.port());
    put_low(header, 4, datagram);
    put(header, 6, 0);
    let packet = out.get_mut(begin..end)?;
    let layout = Layout::walk(packet).ok()?;
    let sum = layout.pseudo_header(packet, u32::try_from(datagram).ok()?);
    let sum = sum.bytes(packet.get(udp - begin..)?).finish();
    // 0 would mean that there is no checksum (RFC 768; RFC 8200 §8.1 forbids that).
    let sum = if sum == 0 { 0xFFFF } else { sum };
    put(packet, udp - begin + 6, sum);
    Some(begin..end)
}

#[cfg(test)]
mod tests {
    use super::*;

    const V4: &str = "4500002c000040004011b69fc0000216c000020b19fd19fd00180f62";
    const V6: &str = "600000000018114020010db800000000000000000000002220010db80000000000\
                      0000000000001119fd19fd001837df";
    /// Packets assembled by hand, with independently computed checksums (RFC 791, RFC 8200, RFC
    /// 768).
    #[test]
    fn packets_are_as_the_rfcs_have_them() {
        let payload: Vec<u8> = (0..16).collect();
        for (from, to, known) in [
            ("192.0.2.22:6653", "192.0.2.11:6653", V4),
            ("[2001:db8::22]:6653", "[2001:db8::11]:6653", V6),
        ] {
            // Earlier contents of the buffer must not remain in the headers.
            let mut out = vec![0xEE; 100];
            out[48..64].copy_from_slice(&payload);
            let (from, to) = (from.parse().unwrap(), to.parse().unwrap());
            let packet = udp_around(&mut out, 16, from, to).unwrap();
            assert_eq!(packet.end, 64);
            let (headers, rest) = out[packet].split_at(known.len() / 2);
            let written: String = headers.iter().map(|byte| format!("{byte:02x}")).collect();
            assert_eq!(written, known);
            assert_eq!(rest, payload);
        }
    }

    #[test]
    fn what_cannot_be_sent() {
        let v4 = "192.0.2.1:1".parse().unwrap();
        let v6 = "[2001:db8::1]:1".parse().unwrap();
        let mut out = [0; 64];
        for (len, from, to, why) in [
            (16, v4, v6, "one end of each version"),
            (17, v6, v6, "no room"),
            (17, v4, v4, "no room"),
        ] {
            assert_eq!(udp_around(&mut out, len, from, to), None, "{why}");
        }
    }
}
