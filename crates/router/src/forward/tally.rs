//! Counters of the router, and counters of IP packets at a port. The latter count each segment of
//! a super-packet as one packet.
//!
//! Two sums always hold for each port:
//!
//! - in: `received = forwarded + refused`;
//! - out: `offered = drops of the link + too_big + held + written + write_errors`.
//!
//! Over all ports, `forwarded + generated = offered`, as long as no port is replaced.

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
