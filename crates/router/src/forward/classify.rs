//! Finds the packets that carry feedback, and writes answers into them.

use std::net::IpAddr;

use pathmark_cc::{Answer, Arrival, Carried};
use pathmark_protocols::packet::{Row, Target};
use pathmark_protocols::shim::{Carrier, Identity};
use pathmark_protocols::{ecn, packet, shim};
use pathmark_shim::ip::Layout;
use pathmark_shim::udp::{ChecksumState, Datagram};

use super::pool::Frame;
use crate::ip::Prefix;
use crate::offload::Super;

/// Selects packets whose ECN field carries VCP's code. The ECN field of any other packet is only
/// read and written by queues that mark.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EcnRule {
    /// The required DSCP, if any.
    pub dscp: Option<u8>,
    /// The required UDP source or destination port, if any.
    pub port: Option<u16>,
    /// A prefix that must contain the source or the destination, if any.
    pub prefix: Option<Prefix>,
}

impl EcnRule {
    fn matches(&self, bytes: &[u8], layout: &Layout) -> bool {
        let dscp = self
            .dscp
            .is_none_or(|dscp| layout.dscp(bytes) == Some(dscp));
        let port = || {
            self.port.is_none_or(|port| {
                Datagram::locate(bytes, layout)
                    .and_then(|udp| udp.ports(bytes))
                    .is_some_and(|(from, to)| from == port || to == port)
            })
        };
        let prefix = || {
            self.prefix.as_ref().is_none_or(|prefix| {
                let (from, to) = (layout.source(bytes), layout.destination(bytes));
                from.is_some_and(|a| prefix.contains(a)) || to.is_some_and(|a| prefix.contains(a))
            })
        };
        dscp && port() && prefix()
    }
}

/// A packet whose TTL this router has decremented, and perhaps its host's kernel before.
struct Forwarded<'a> {
    bytes: &'a [u8],
    layout: &'a Layout,
    seed: u64,
    /// Hops that the kernel subtracted from the TTL before the router read the packet.
    before: u8,
}

impl shim::Outer for Forwarded<'_> {
    fn source_hash(&self) -> u32 {
        self.layout.source_hash(self.bytes, self.seed)
    }

    fn source(&self) -> Option<IpAddr> {
        self.layout.source(self.bytes)
    }

    fn ttl(&self) -> Option<u8> {
        let ttl = self.layout.ttl(self.bytes)?;
        Some(ttl.saturating_add(self.before))
    }
}

/// Distinguishes packets with feedback from foreign ones.
#[derive(Clone, Debug, Default)]
pub struct Classifier {
    /// Whether to look for shims in every UDP datagram. Operators who classify otherwise can
    /// switch this off.
    pub shims: bool,
    /// Packets with VCP in their ECN field.
    pub ecn: Vec<EcnRule>,
    /// Seed of flow hashes.
    pub seed: u64,
}

impl Classifier {
    /// Returns the fields of a packet that a port needs, and the place of its feedback. `before`
    /// counts the hops that the host's kernel subtracted from the TTL before the router read the
    /// packet.
    pub fn classify(&self, bytes: &[u8], layout: &Layout, before: u8) -> (Arrival, Carrier) {
        self.classify_first(bytes, layout, layout.len(), before)
    }

    /// Returns the fields of a packet whose shim is not trusted, as if it had none.
    #[cold]
    pub fn plain(arrival: Arrival) -> (Arrival, Carrier) {
        let arrival = Arrival {
            carried: Carried::Foreign,
            ..arrival
        };
        (arrival, Carrier::None)
    }

    /// Returns the fields of a packet for ports that never look into packets.
    pub fn unread(layout: &Layout) -> (Arrival, Carrier) {
        let arrival = Arrival {
            bytes: u32::try_from(layout.len()).unwrap_or(u32::MAX),
            flow_hash: 0,
            carried: Carried::Foreign,
        };
        (arrival, Carrier::None)
    }

    /// Classifies the first segment of a super-packet like [`classify`](Self::classify). Cut
    /// out, this segment is an IP packet of `packet` bytes.
    pub fn classify_first(
        &self,
        bytes: &[u8],
        layout: &Layout,
        packet: usize,
        before: u8,
    ) -> (Arrival, Carrier) {
        let (carried, carrier) = self.carried(bytes, layout, packet, before);
        let arrival = Arrival {
            bytes: u32::try_from(layout.len()).unwrap_or(u32::MAX),
            flow_hash: layout.flow_hash(bytes, self.seed),
            carried,
        };
        (arrival, carrier)
    }

    fn carried(
        &self,
        bytes: &[u8],
        layout: &Layout,
        packet: usize,
        before: u8,
    ) -> (Carried, Carrier) {
        if self.shims
            && let Some(udp) = Datagram::locate(bytes, layout)
        {
            let packet = u32::try_from(packet).unwrap_or(u32::MAX);
            let ip = Forwarded {
                bytes,
                layout,
                seed: self.seed,
                before,
            };
            let (carried, carrier) = shim::find(bytes, &udp, packet, &ip);
            if carried != Carried::Foreign {
                return (carried, carrier);
            }
        }
        if self.ecn.iter().any(|rule| rule.matches(bytes, layout)) {
            let carried = ecn::read_packet(bytes, layout);
            if carried != Carried::Foreign {
                return (carried, Carrier::Ecn);
            }
        }
        (Carried::Foreign, Carrier::None)
    }
}

/// Writes a port's answer into a packet, or into segment `index` of a super-packet. A segment
/// without a valid shim stays unchanged. `row` keeps state from one segment to the next.
pub fn write_answer(
    frame: &mut Frame,
    index: u32,
    answer: &Answer,
    router: &Identity,
    row: &mut Row,
) {
    let target = Target {
        carrier: frame.carrier,
        segment: frame.offload.gso.map(|gso| usize::from(gso.size)),
        // If offload left only the pseudo-header's sum, the checksum does not cover the payload.
        checksum: match frame.offload.checksum {
            Some(_) => ChecksumState::Partial,
            None => ChecksumState::Complete,
        },
    };
    packet::write_answer(frame.bytes_mut(), &target, index, answer, router, row);
}

/// Whether all packets of a super-packet carry the same request to a port: either none has a
/// shim, or all have one of the same kind, and for XCP an identical one. Packets that a sender
/// sent together usually do, unless only some of them have a shim or are already stamped.
pub(super) fn tell_alike(bytes: &[u8], whole: &Super) -> bool {
    if !whole.is_udp() {
        return true;
    }
    let first = whole.segment_payload(bytes, 0);
    (1..whole.segments()).all(|index| shim::alike(first, whole.segment_payload(bytes, index)))
}
