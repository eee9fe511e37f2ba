//! What a port counts of IP packets. Each segment of a super-packet is one packet, at every place.
//!
//! Two sums hold for each port at any time:
//!
//! - in: `received = forwarded + refused`;
//! - out: `offered = drops of the link + too_big + held + written + write_errors`.
//!
//! One holds over all ports, as long as none is replaced: `forwarded + generated = offered`.

/// Why a packet that came in is not forwarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Refused {
    /// Not an IP packet, or one that contradicts itself.
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
    /// For the router itself: delivered, not lost.
    Local,
    /// TTL or hop limit ran out.
    TtlExceeded,
    /// No route to its destination.
    NoRoute,
    /// Larger than the next link's MTU, and not to be fragmented.
    TooBig,
    /// Waited in the interface while the router did not run.
    Stale,
}

impl Refused {
    /// Every reason, in the order of [`Tally::refused`].
    pub const ALL: [Self; 12] = [
        Self::Malformed,
        Self::BadChecksum,
        Self::BadOffload,
        Self::NotForwardable,
        Self::Jumbogram,
        Self::SpoofedOwn,
        Self::SourceCheck,
        Self::Local,
        Self::TtlExceeded,
        Self::NoRoute,
        Self::TooBig,
        Self::Stale,
    ];

    /// Its name in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Malformed => "malformed",
            Self::BadChecksum => "bad_checksum",
            Self::BadOffload => "bad_offload",
            Self::NotForwardable => "not_forwardable",
            Self::Jumbogram => "jumbogram",
            Self::SpoofedOwn => "spoofed_own",
            Self::SourceCheck => "source_check",
            Self::Local => "local",
            Self::TtlExceeded => "ttl_exceeded",
            Self::NoRoute => "no_route",
            Self::TooBig => "too_big",
            Self::Stale => "stale",
        }
    }
}

/// IP packets of one port since it came up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Read from the interface.
    pub received: u64,
    /// Of these, handed to an output port, which may be this one.
    pub forwarded: u64,
    refused: [u64; Refused::ALL.len()],
    /// Made by the router for this output port: ICMP messages, messages about clouds, and every
    /// fragment of a packet but the first.
    pub generated: u64,
    /// Handed to this output port, whether it had room for them or not.
    pub offered: u64,
    /// Larger than this output port's MTU, and not to be cut.
    pub too_big: u64,
    /// Written to the interface.
    pub written: u64,
    /// Refused by the interface, or without an interface to be written to.
    pub write_errors: u64,
    /// Left the wire: handed over to be written, or removed.
    pub(super) off_wire: u64,
}

impl Tally {
    /// Packets that came in here and were not forwarded for this reason.
    #[must_use]
    pub fn refused(&self, why: Refused) -> u64 {
        self.refused.get(why as usize).copied().unwrap_or(0)
    }

    /// Counts packets that were read and go no further.
    pub(super) fn refuse(&mut self, why: Refused, packets: u64) {
        self.received += packets;
        if let Some(count) = self.refused.get_mut(why as usize) {
            *count += packets;
        }
    }
}

/// Shims of a tunnel's packets at one port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TunnelTally {
    /// Shims that were copied in front of packets that left.
    pub copied: u64,
    /// Copies that came in and were merged into the shim inside.
    pub merged: u64,
    /// Shims that were not copied, as the MTU has no room, and copies that were not merged, as they
    /// were not sound, or none of the shim inside.
    pub refused: u64,
}
