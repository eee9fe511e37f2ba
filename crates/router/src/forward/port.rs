//! A port of the complete router: a link, with the settings and counters that IP needs; and the
//! router's own counters. Counters of IP packets at a port count each segment of a super-packet as
//! one packet.
//!
//! Two sums always hold for each port:
//!
//! - in: `received = forwarded + refused`;
//! - out: `offered = drops of the link + too_big + held + written + write_errors`.
//!
//! Over all ports, `forwarded + generated = offered`, as long as no port is replaced.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use pathmark_cc::{Arrival, Instant};
use pathmark_link::{DropCause, Link, Owner};
use pathmark_protocols::shim::Carrier;

use super::classify::Classifier;
use super::pool::{Account, Frame};
use crate::encapsulation::Encapsulation;
use crate::ip::Prefix;

/// Maximum time, in microseconds, that a super-packet may take on the link and still pass uncut.
/// It should stay below the time scale on which shaping promises smooth traffic.
const WHOLE_MICROS: u64 = 250;

/// Settings of a [`RouterPort`].
#[derive(Debug, Default)]
pub struct PortSettings {
    /// Its name.
    pub name: String,
    /// Largest IP packet in bytes.
    pub mtu: u32,
    /// The router's own addresses on this port.
    pub addresses: Vec<IpAddr>,
    /// True if packets are impaired individually (loss, jitter), so that super-packets must
    /// always be cut.
    pub per_packet: bool,
    /// Bytes of packet buffers that the port can always use. Beyond them, it shares the rest of
    /// the pool with other ports.
    pub reserve: usize,
    /// Sources whose shims the port trusts.
    pub shims: Trust,
    /// Requires that the source of each arriving packet routes back to this port (RFC 3704
    /// §2.2).
    pub source_check: bool,
    /// The tunnel in front of which the port is, if any.
    pub tunnel: Option<Encapsulation>,
    /// True if the host's kernel forwards between this port's interface and network cards, and
    /// therefore decrements the TTL of each packet there.
    pub kernel_forwards: bool,
    /// True if the control law needs estimates of the clouds upstream.
    pub measures: bool,
}

/// Selects the shims that a port reads and writes. The port treats all other packets as foreign.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Trust {
    /// The shims of all packets.
    #[default]
    All,
    /// No shims.
    None,
    /// Shims of packets from these sources or ports.
    From {
        /// Prefixes that contain the source.
        prefixes: Vec<Prefix>,
        /// Input ports, by index.
        ports: Vec<usize>,
    },
}

impl Trust {
    /// Returns true if shims from `source` that arrive on port `from` are trusted.
    pub fn covers(&self, from: usize, source: IpAddr) -> bool {
        match self {
            Self::All => true,
            Self::None => false,
            Self::From { prefixes, ports } => {
                ports.contains(&from) || prefixes.iter().any(|prefix| prefix.contains(source))
            }
        }
    }
}

/// An output port.
#[derive(Debug)]
pub struct RouterPort {
    /// Settings.
    pub settings: PortSettings,
    /// The link behind it.
    pub link: Link<Frame>,
    /// The account for its packets' buffers, once it belongs to a router.
    pub(super) account: Account,
    pub(super) not_believed: u64,
    pub(super) tally: Tally,
    pub(super) tunnel: TunnelTally,
}

impl RouterPort {
    /// Creates a port that does not belong to a router yet.
    pub fn new(settings: PortSettings, link: Link<Frame>) -> Self {
        Self {
            settings,
            link,
            account: Account::NONE,
            not_believed: 0,
            tally: Tally::default(),
            tunnel: TunnelTally::default(),
        }
    }

    /// Passes `packets` packets on to the port, with their shims if these are trusted. Otherwise
    /// removes the feedback and counts the packets.
    pub(super) fn heed(
        &mut self,
        believed: bool,
        (arrival, carrier): (Arrival, Carrier),
        packets: u32,
    ) -> (Arrival, Carrier) {
        if believed || !carrier.is_shim() {
            return (arrival, carrier);
        }
        self.not_believed += u64::from(packets);
        Classifier::plain(arrival)
    }

    /// Number of packets whose shim was not trusted.
    pub fn not_believed(&self) -> u64 {
        self.not_believed
    }

    /// Counts of IP packets that arrived and left here.
    pub fn tally(&self) -> &Tally {
        &self.tally
    }

    /// Counts of shims in a tunnel's packets; `None` for a port without a tunnel.
    pub fn tunnel(&self) -> Option<TunnelTally> {
        self.settings.tunnel.map(|_| self.tunnel)
    }

    /// Number of IP packets in the queue and on the wire.
    pub fn held_packets(&self) -> u64 {
        self.link.port().depth().packets + self.wire_packets()
    }

    fn wire_packets(&self) -> u64 {
        let stats = self.link.port().stats();
        let lost = |cause| stats.drops().of(cause);
        let wire_lost = lost(DropCause::RandomLoss) + lost(DropCause::WireFull);
        let left = self.tally.off_wire + wire_lost;
        stats.sent_packets().saturating_sub(left)
    }

    /// Drops all packets in the queue and on the wire.
    pub(super) fn clear(&mut self, now: Instant, owner: &mut dyn Owner<Frame>) {
        self.tally.off_wire += self.wire_packets();
        self.link.clear(now, owner);
    }

    /// Counts packets that were dropped for want of a buffer.
    pub(super) fn no_buffer(&mut self, packets: u32) {
        self.tally.offered += u64::from(packets);
        self.link.port_mut().refuse(DropCause::NoBuffer, packets);
    }

    /// Returns true if a super-packet of `bytes` in total may pass uncut.
    pub fn passes_whole(&self, bytes: usize) -> bool {
        let fast = self.link.port().rate().is_none_or(|rate| {
            (bytes as u64).saturating_mul(1_000_000) <= rate.saturating_mul(WHOLE_MICROS)
        });
        fast && !self.settings.per_packet
    }

    /// Returns the source address for ICMP messages from this port to a host of the same IP
    /// version as `like`. Without an IPv4 address, the port uses the dummy address of RFC 7600;
    /// without an IPv6 address, it sends none.
    pub fn source_for(&self, like: IpAddr) -> Option<IpAddr> {
        const DUMMY: Ipv4Addr = Ipv4Addr::new(192, 0, 0, 8);
        let own = self.settings.addresses.iter().copied();
        match like {
            IpAddr::V4(_) => Some(
                own.into_iter()
                    .find(IpAddr::is_ipv4)
                    .unwrap_or(IpAddr::V4(DUMMY)),
            ),
            IpAddr::V6(to) => {
                let link_local = |a: &Ipv6Addr| a.is_unicast_link_local();
                own.into_iter()
                    .find(|a| matches!(a, IpAddr::V6(v6) if link_local(v6) == link_local(&to)))
            }
        }
    }
}

macro_rules! reasons {
    ($($(#[$doc:meta])* $reason:ident = $name:literal,)*) => {
        /// The reason why an arriving packet is not forwarded.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(usize)]
        pub enum Refused {
            $($(#[$doc])* $reason,)*
        }

        impl Refused {
            /// All reasons, in the order of [`Tally::refused`].
            pub const ALL: [Self; [$($name),*].len()] = [$(Self::$reason),*];

            /// Returns the name used in reports.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$reason => $name,)*
                }
            }
        }
    };
}

reasons! {
    /// Not an IP packet, or one that contradicts itself.
    Malformed = "malformed",
    /// IPv4 header checksum wrong.
    BadChecksum = "bad_checksum",
    /// A virtio-net header that contradicts its packet.
    BadOffload = "bad_offload",
    /// Addresses that no router forwards between.
    NotForwardable = "not_forwardable",
    /// An IPv6 jumbogram.
    Jumbogram = "jumbogram",
    /// From one of the router's own addresses.
    SpoofedOwn = "spoofed_own",
    /// From a source that does not route back.
    SourceCheck = "source_check",
    /// For the router itself, so it is delivered and not lost.
    Local = "local",
    /// TTL or hop limit expired.
    TtlExceeded = "ttl_exceeded",
    /// No route to its destination.
    NoRoute = "no_route",
    /// Larger than the next link's MTU, and fragmenting is not allowed.
    TooBig = "too_big",
    /// Waited in the interface while the router was stopped.
    Stale = "stale",
}

/// Counts IP packets of one port since it was created.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Read from the interface.
    pub received: u64,
    /// Read from the interface and handed to an output port, which may be this one.
    pub forwarded: u64,
    refused: [u64; Refused::ALL.len()],
    /// Created by the router for this output port: ICMP messages, messages about clouds, and
    /// every fragment of a packet except the first.
    pub generated: u64,
    /// Handed to this output port, regardless of whether it had room for them.
    pub offered: u64,
    /// Larger than this output port's MTU, and fragmenting is not allowed.
    pub too_big: u64,
    /// Written to the interface.
    pub written: u64,
    /// Refused by the interface, or not written because there is no interface.
    pub write_errors: u64,
    /// Removed from the wire, either to be written or dropped.
    pub(super) off_wire: u64,
}

impl Tally {
    /// Number of arriving packets that were not forwarded for this reason.
    pub fn refused(&self, why: Refused) -> u64 {
        self.refused.get(why as usize).copied().unwrap_or(0)
    }

    /// Counts packets that were read and are not forwarded.
    pub(super) fn refuse(&mut self, why: Refused, packets: u64) {
        self.received += packets;
        if let Some(count) = self.refused.get_mut(why as usize) {
            *count += packets;
        }
    }
}

/// Counts shims in a tunnel's packets at one port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TunnelTally {
    /// Shims that were copied in front of departing packets.
    pub copied: u64,
    /// Copies in arriving packets that were merged into the inner shim.
    pub merged: u64,
    /// Shims that were not copied because the MTU leaves no room, and copies that were not
    /// merged because they were invalid or not of the inner shim.
    pub refused: u64,
}

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Packets by outcome, since the router started.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Counters {
            $($(#[$doc])* pub $name: u64,)*
        }

        impl Counters {
            /// Names and values, for reports.
            pub fn entries(&self) -> Vec<(&'static str, u64)> {
                vec![$((stringify!($name), self.$name),)*]
            }
        }
    };
}

counters! {
    /// Read from interfaces; a super-packet counts as one.
    received,
    /// Routed to a port, segments counted.
    forwarded,
    /// Forwarded by the port on which they arrived, and therefore through the shaper of the
    /// other direction. Usually no route covers their destination.
    hairpin,
    /// Written to interfaces; a super-packet counts as one.
    written,
    /// Not an IP packet, or one that contradicts itself.
    malformed,
    /// IPv4 header checksum wrong.
    bad_checksum,
    /// A virtio-net header that contradicts its packet.
    bad_offload,
    /// Multicast, broadcast, link-local, loopback or unspecified addresses, which routers must
    /// not forward.
    not_forwardable,
    /// IPv6 jumbograms, whose length does not fit the usual length fields.
    jumbogram,
    /// From one of the router's own addresses, which no other host should use.
    spoofed_own,
    /// From a source that does not route back to the port of arrival, if that is checked.
    source_check,
    /// ICMP messages for the router with a wrong checksum.
    bad_icmp_checksum,
    /// No route to their destination.
    no_route,
    /// TTL or hop limit expired.
    ttl_exceeded,
    /// Larger than the next link's MTU, and fragmenting is not allowed.
    too_big,
    /// Fragmented on the way.
    fragmented,
    /// For the router itself.
    local,
    /// ICMP messages sent.
    icmp_sent,
    /// ICMP messages that were suppressed by the rate limit, or because they had no source
    /// address.
    icmp_suppressed,
    /// Dropped because the buffer pool was exhausted.
    no_buffer,
    /// Waited in an interface for seconds while the router was stopped.
    stale,
    /// Refused by the interface that they were written to.
    write_errors,
}
