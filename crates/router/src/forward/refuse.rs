//! Handles packets that are not forwarded by counting them, answering them, or reporting an error;
//! and the addresses between which a router forwards (RFC 1812 §5.3.7, RFC 4291 §2.4).

use std::net::IpAddr;

use pathmark_cc::Instant;
use pathmark_shim::ip::{Fragment, Layout, Version, protocol};

use super::pool::Frame;
use super::port::{Refused, RouterPort};
use super::router::{KernelHops, Router, Target};
use crate::field::{put, renew_v4};
use crate::ip::{IcmpError, checksum_holds, cut_v6, echo_reply, icmp_error};
use crate::offload::{Offload, Super};

/// Why a packet is not forwarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// Not an IP packet.
    Malformed,
    /// IPv4 header checksum wrong.
    BadChecksum,
    /// Its virtio-net header contradicts it.
    BadOffload,
    /// Addresses that no router forwards between.
    NotForwardable,
    /// An IPv6 jumbogram.
    Jumbogram,
    /// From one of the router's own addresses.
    SpoofedOwn,
    /// From a source that does not route back.
    SourceCheck,
    /// For the router itself.
    Local,
    /// Reported to its sender by this ICMP error.
    Icmp(IcmpError),
}

impl Refusal {
    fn counted(self) -> Refused {
        match self {
            // A port unreachable error answers a local packet; examining never returns it.
            Self::Malformed | Self::Icmp(IcmpError::PortUnreachable) => Refused::Malformed,
            Self::BadChecksum => Refused::BadChecksum,
            Self::BadOffload => Refused::BadOffload,
            Self::NotForwardable => Refused::NotForwardable,
            Self::Jumbogram => Refused::Jumbogram,
            Self::SpoofedOwn => Refused::SpoofedOwn,
            Self::SourceCheck => Refused::SourceCheck,
            Self::Local => Refused::Local,
            Self::Icmp(IcmpError::TimeExceeded) => Refused::TtlExceeded,
            Self::Icmp(IcmpError::NoRoute) => Refused::NoRoute,
            Self::Icmp(IcmpError::TooBig(_)) => Refused::TooBig,
        }
    }
}

/// Number of IP packets in a packet as read, and 1 if its headers contradict each other.
fn packets_of(bytes: &[u8], offload: Offload) -> u64 {
    let whole = offload.gso.and_then(|gso| {
        let layout = Layout::walk(bytes).ok()?;
        Super::new(bytes, &layout, gso).ok()
    });
    whole.map_or(1, |whole| whole.segments() as u64)
}

/// Counts packets that the router itself creates for port `port`.
pub(super) fn generated(ports: &mut [RouterPort], port: usize, packets: usize) {
    if let Some(port) = ports.get_mut(port) {
        port.tally.generated += packets as u64;
    }
}

impl Router {
    #[cold]
    pub(super) fn refuse(
        &mut self,
        now: Instant,
        from: usize,
        bytes: &[u8],
        offload: Offload,
        why: Refusal,
    ) {
        self.discard(from, why.counted(), packets_of(bytes, offload));
        match why {
            Refusal::Malformed => self.counters.malformed += 1,
            Refusal::BadChecksum => self.counters.bad_checksum += 1,
            Refusal::BadOffload => self.counters.bad_offload += 1,
            Refusal::NotForwardable => self.counters.not_forwardable += 1,
            Refusal::Jumbogram => self.counters.jumbogram += 1,
            Refusal::SpoofedOwn => self.counters.spoofed_own += 1,
            Refusal::SourceCheck => self.counters.source_check += 1,
            Refusal::Local => {
                self.counters.local += 1;
                match Layout::walk(bytes).map(|layout| layout.fragment()) {
                    Ok(Fragment::Whole) => self.answer_local(now, from, bytes, offload),
                    Ok(_) => {
                        if let Some(whole) = self.reassembly.insert(now, bytes) {
                            self.answer_local(now, from, &whole, Offload::default());
                        }
                    }
                    Err(_) => {}
                }
            }
            Refusal::Icmp(what) => {
                match what {
                    IcmpError::TimeExceeded => self.counters.ttl_exceeded += 1,
                    IcmpError::NoRoute => self.counters.no_route += 1,
                    IcmpError::TooBig(_) => self.counters.too_big += 1,
                    IcmpError::PortUnreachable => {}
                }
                self.complain(now, from, bytes, offload, what);
            }
        }
    }

    /// Counts a packet that waited in the interface of port `from` while the router was stopped.
    pub fn discard_stale(&mut self, from: usize, bytes: &[u8], offload: Offload) {
        self.counters.stale += 1;
        self.discard(from, Refused::Stale, packets_of(bytes, offload));
    }

    fn answer_local(&mut self, now: Instant, from: usize, bytes: &[u8], offload: Offload) {
        let Ok(layout) = Layout::walk(bytes) else {
            return;
        };
        match (layout.version(), layout.protocol()) {
            (_, protocol::UDP) if self.take_message(now, bytes, &layout, offload) => {}
            (_, protocol::UDP) => {
                self.complain(now, from, bytes, offload, IcmpError::PortUnreachable);
            }
            (Version::V4, protocol::ICMP) | (Version::V6, protocol::ICMPV6) => {
                // An echo request should arrive with a complete checksum.
                if offload.checksum.is_none() && !checksum_holds(bytes, &layout) {
                    self.counters.bad_icmp_checksum += 1;
                    return;
                }
                let Some(len) = echo_reply(bytes, &layout, &mut self.scratch) else {
                    return;
                };
                if offload.checksum.is_none() && self.icmp.take(now) {
                    self.originate(now, from, len);
                } else {
                    self.counters.icmp_suppressed += 1;
                }
            }
            // The router handles no other protocols.
            _ => {}
        }
    }

    /// The port by which an answer reaches `destination`, if the packet arrived on `from`.
    fn way_back(&self, from: usize, destination: IpAddr) -> Option<usize> {
        if is_of_one_link(destination) {
            return Some(from);
        }
        match self.routes.lookup(destination)? {
            Target::Port(port) => Some(*port),
            Target::Local => None,
        }
    }

    fn mtu(&self, port: usize) -> Option<usize> {
        Some(self.ports.get(port)?.settings.mtu as usize)
    }

    /// Sends an ICMP error about a packet that arrived on port `from`.
    fn complain(
        &mut self,
        now: Instant,
        from: usize,
        bytes: &[u8],
        offload: Offload,
        what: IcmpError,
    ) {
        // For a super-packet, quote its first segment as it would look on the network.
        let mut first = None;
        if let (Some(gso), Ok(layout)) = (offload.gso, Layout::walk(bytes))
            && let Ok(whole) = Super::new(bytes, &layout, gso)
            && let Some(mut buffer) = self.store.pool.take(whole.largest())
        {
            let len = whole
                .segment(bytes, 0, &mut buffer)
                .map_or(0, |(len, _)| len);
            first = Some(Frame::new(buffer, len, Offload::default()));
        }
        let quoted = first.as_ref().map_or(bytes, |frame| frame.bytes());
        let length = Layout::walk(quoted).ok().and_then(|layout| {
            let to = layout.source(quoted)?;
            let source = self.ports.get(from)?.source_for(to)?;
            let room = self.mtu(self.way_back(from, to)?)?;
            let out = self.scratch.get_mut(..room)?;
            icmp_error(what, quoted, &layout, source, out)
        });
        match length {
            Some(len) if self.icmp.take(now) => self.originate(now, from, len),
            _ => self.counters.icmp_suppressed += 1,
        }
        if let Some(frame) = first {
            self.store.pool.give(frame);
        }
    }

    /// Sends the packet of `len` bytes in `scratch`, fragmented if necessary, in answer to a
    /// packet that arrived on port `from`.
    fn originate(&mut self, now: Instant, from: usize, len: usize) {
        let bytes = self.scratch.get(..len).unwrap_or(&[]);
        let Ok(layout) = Layout::walk(bytes) else {
            return;
        };
        let to = layout.destination(bytes);
        let way = to.and_then(|to| self.way_back(from, to));
        let Some((port, mtu)) = way.and_then(|port| Some((port, self.mtu(port)?))) else {
            // There is no route back.
            self.counters.icmp_suppressed += 1;
            return;
        };
        self.counters.icmp_sent += 1;
        generated(&mut self.ports, port, 1);
        if len > mtu {
            let whole = bytes.to_vec();
            self.originate_in_pieces(now, port, whole, mtu);
            return;
        }
        let (arrival, carrier) = self.classifier.classify(bytes, &layout, 0);
        let frame = self.store.pool.copy(bytes, Offload::default());
        self.enqueue(now, port, frame, arrival, carrier, 1);
    }

    fn originate_in_pieces(&mut self, now: Instant, port: usize, mut whole: Vec<u8>, mtu: usize) {
        self.next_id = self.next_id.wrapping_add(1);
        if whole.first().is_some_and(|first| first >> 4 == 4) {
            // DF must be cleared, and all fragments need a common identification.
            put(&mut whole, 4, self.next_id);
            put(&mut whole, 6, 0);
            renew_v4(&mut whole);
            let (offload, kernel) = (Offload::default(), KernelHops::default());
            self.fragment(now, &whole, offload, port, kernel, true);
            return;
        }
        let mut pieces = Vec::new();
        cut_v6(&whole, mtu, self.next_id.into(), |piece| {
            pieces.push(piece.to_vec());
        });
        // The first fragment counts as the packet itself.
        generated(&mut self.ports, port, pieces.len().saturating_sub(1));
        for piece in pieces {
            let Ok(layout) = Layout::walk(&piece) else {
                continue;
            };
            let (arrival, carrier) = self.classifier.classify(&piece, &layout, 0);
            let frame = self.store.pool.copy(&piece, Offload::default());
            self.enqueue(now, port, frame, arrival, carrier, 1);
        }
    }
}

/// Whether this is a valid source address for a forwarded packet.
pub(super) fn is_source(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(a) => {
            let [first, second, ..] = a.octets();
            !(first == 0 || first == 127 || first >= 224 || (first == 169 && second == 254))
        }
        IpAddr::V6(a) => {
            !(a.is_unspecified()
                || a.is_loopback()
                || a.is_multicast()
                || a.is_unicast_link_local())
        }
    }
}

/// Whether a packet for the router itself may have this source address. It must belong to a
/// single host, possibly on the link on which the packet arrived (RFC 1812 §5.3.7, RFC 4291
/// §2.5.2, §2.5.3, §2.7).
pub(super) fn is_neighbour(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(a) => {
            let first = a.octets()[0];
            !(first == 0 || first == 127 || first >= 224)
        }
        IpAddr::V6(a) => !(a.is_unspecified() || a.is_loopback() || a.is_multicast()),
    }
}

/// Whether this address is only unique on one link. Packets to it must therefore leave by the
/// port on which the address was seen (RFC 3927 §7, RFC 4291 §2.5.6).
fn is_of_one_link(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(a) => a.is_link_local(),
        IpAddr::V6(a) => a.is_unicast_link_local(),
    }
}

/// Whether a packet may be forwarded to this address. Multicast is not routed.
pub(super) fn is_destination(address: IpAddr) -> bool {
    is_source(address)
}
