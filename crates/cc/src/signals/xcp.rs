//! Fields of XCP packets, regardless of their encoding: request, header at a router, and router's
//! answer.

use core::net::{IpAddr, Ipv6Addr};

use crate::base::Duration;

/// Encoding of XCP headers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum XcpForm {
    /// RTT in µs, and inter-packet time and feedback with their fractions.
    #[default]
    Full,
    /// Three 16-bit fields for thin links: RTT in ms, window in packets, and feedback as a window
    /// change with a 13-bit mantissa (XCP Linux paper, section II-B).
    Compact,
}

/// Fields that a sender writes into the header of its next packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct XcpRequest {
    /// Smoothed RTT in µs, or 0 if unknown, in which case the header doesn't get a share of
    /// anything.
    pub rtt_us: u32,
    /// Inter-packet time in 2^-40 s, i.e. the time for the packets represented by this header at
    /// the sender's rate, or 0 if unknown.
    pub x: u64,
    /// Requested change of the rate in 2^-16 bytes per second.
    pub delta: i64,
    /// Number of packets that this header represents, including its own. It is more than 1 if only
    /// every n-th packet carries a header.
    pub covers: u16,
    /// Window in bytes that belongs to `x`, which is the minimum of the congestion window and all
    /// other limits. The compact form carries it instead of `x`, in packets of
    /// [`packet`](Self::packet) bytes.
    pub window: u64,
    /// Size of a full packet in bytes, as counted by [`window`](Self::window).
    pub packet: u16,
}

/// Fields of an XCP header that the link half reads.
///
/// The compact form is converted to this form by [`WindowForm`](crate::xcp::WindowForm). In a
/// header of the *minimal* format (draft-falk-xcp-spec-03, section 3.2), all fields are 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct XcpCarried {
    /// The sender's smoothed RTT in µs, or 0 if unknown.
    pub rtt_us: u32,
    /// Inter-packet time in 2^-40 s, or 0 if unknown.
    pub x: u64,
    /// Change of the rate that all hops so far would grant, in 2^-16 bytes per second.
    pub delta: i64,
    /// Number of packets that the header represents; 0 counts as 1.
    pub covers: u16,
    /// Hops since the last XCP router that aren't XCP routers, if there are any and the header can
    /// show them.
    pub cloud: Option<Cloud>,
}

/// A router's stamp.
///
/// From then on, the packet counts as stamped, even if the answer doesn't lower anything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct XcpAnswer {
    /// New value of the header in 2^-16 bytes per second, at most the old value.
    pub delta: i64,
    /// True if this port lowered the value, so that its identity is the one that limits the flow.
    pub bounding: bool,
    /// True if the port runs another law, and translates its answer into XCP's rates. The header
    /// keeps this with the identity.
    pub translated: bool,
    /// Loss by corruption that the port declares for the link behind it, in 10^-6 of packets, which
    /// is added to the header's value. It is set by the port
    /// ([`Answer::declare`](super::Answer::declare)) instead of the law.
    pub corruption_ppm: u32,
    /// Result for the cloud through which the packet arrived.
    pub cloud: CloudAnswer,
}

/// XCP: contents of headers received since the previous feedback.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct XcpFeedback {
    /// Sum of rate changes in the headers of *stamped* packets, in 2^-16 bytes per second. An
    /// unstamped header returns its sender's request, which no router has granted, so it doesn't
    /// count.
    pub delta: i64,
    /// Packets with a header that routers read.
    pub packets: u64,
    /// Packets among these that an XCP router has stamped. The others are *no signal*.
    pub stamped: u64,
    /// Bytes of all packets with a header, as the receiver counts them (UDP payload).
    pub bytes: u64,
    /// Number of XCP routers on the path according to `xcp_ttl`, from the latest packet.
    pub hops: u8,
    /// Total loss by corruption that the routers on the path declare, see
    /// [`VcpFeedback::corruption_ppm`](super::VcpFeedback::corruption_ppm).
    pub corruption_ppm: u32,
    /// True if `xcp_ttl` and the IP TTL at the receiver show a hop that isn't an XCP router, from
    /// the latest packet. `None` if the receiver can't read TTLs, or the TTL was rewritten on the
    /// way.
    pub unmarked_hop: Option<bool>,
    /// True if, in addition, an XCP-i router has found this hop but doesn't know its capacity.
    pub uncounted: bool,
    /// True if the IP TTL at the receiver exceeds `xcp_ttl`, because it was rewritten on the way.
    pub ttl_rewritten: bool,
    /// Identity of the router that last lowered the request, from the latest packet, or 0 if there
    /// is none.
    pub router: u16,
    /// True if this router runs another law, and has translated its answer into XCP's rates.
    pub translated: bool,
}

// Clouds, which are hops between two XCP routers that aren't XCP routers themselves (the XCP-i
// paper, Lopez-Pacheco, Pham, Lefèvre, section II-B).

/// The XCP router or host that sent a packet into a cloud, identified by its address.
///
/// Ports move packet contents often, so these must be small. Bytes have no alignment, and the last
/// byte has unused values, in which the compiler encodes the kind of the packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(C)]
pub struct Upstream {
    /// An address; IPv4 addresses are IPv4-mapped (RFC 4291, section 2.5.5.2).
    octets: [u8; 16],
    there: There,
}

/// One of 256 values of a byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
enum There {
    Is = 1,
}

impl Upstream {
    /// Returns the identity of the node with this address, or `None` for an unspecified address.
    pub fn of(address: IpAddr) -> Option<Self> {
        let address = address.to_canonical();
        let mapped = match address {
            IpAddr::V4(v4) => v4.to_ipv6_mapped(),
            IpAddr::V6(v6) => v6,
        };
        let name = Self {
            octets: mapped.octets(),
            there: There::Is,
        };
        (!address.is_unspecified()).then_some(name)
    }

    /// Returns the node's address.
    pub fn address(self) -> IpAddr {
        IpAddr::V6(Ipv6Addr::from(self.octets)).to_canonical()
    }

    /// Returns the first 64 bits of an IPv6 address, or `None` for an IPv4 address.
    ///
    /// A host with one address in such a prefix can usually use every address there (RFC 4291,
    /// section 2.5.4; RFC 8504, section 6.1).
    pub(crate) fn prefix(self) -> Option<[u8; 8]> {
        match self.address() {
            IpAddr::V4(_) => None,
            IpAddr::V6(_) => self.octets.first_chunk().copied(),
        }
    }
}

/// A cloud through which a packet arrived at this port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Cloud {
    /// Node that sent the packet into the cloud.
    pub upstream: Upstream,
    /// IP TTL subtracted by the cloud's hops, modulo 256.
    pub hops: u8,
}

/// A port's result for the cloud through which a packet arrived.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CloudAnswer {
    /// There's no cloud.
    #[default]
    None,
    /// There's a cloud, but the port doesn't look for clouds. The header continues to name the
    /// router before the cloud, so that a later port finds a cloud that begins there.
    Passed,
    /// The answer considers the cloud's capacity. The cloud's hops are subtracted from
    /// `xcp_ttl`.
    Counted {
        /// See [`Cloud::hops`].
        hops: u8,
    },
    /// The cloud's capacity is unknown. Its hops are subtracted from `xcp_ttl`, and from now on the
    /// header states that its feedback ignores one of its clouds.
    Unknown {
        /// See [`Cloud::hops`].
        hops: u8,
    },
}

/// Remaining capacity of a cloud's narrowest link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CloudEstimate {
    /// Capacity minus arrivals at the link, in bytes per second. Negative if more arrives than it
    /// carries.
    pub available: i64,
    /// Capacity of the link in bytes per second, or 0 if unknown.
    pub capacity: u64,
    /// Persistent queue in front of the link in bytes, or 0 if unknown.
    pub queue: u64,
    /// Time for which the estimate may be used.
    pub valid_for: Duration,
}

#[cfg(test)]
mod cloud_tests {
    use super::*;
    use crate::signals::Carried;

    #[test]
    fn names_stand_for_addresses() {
        for text in ["192.0.2.11", "2001:db8::11", "255.255.255.255", "::1"] {
            let address: IpAddr = text.parse().unwrap();
            assert_eq!(Upstream::of(address).unwrap().address(), address);
        }
        // A router only has one name, however its IPv4 address is written.
        let mapped: IpAddr = "::ffff:192.0.2.11".parse().unwrap();
        let plain: IpAddr = "192.0.2.11".parse().unwrap();
        assert_eq!(Upstream::of(mapped), Upstream::of(plain));
        for text in ["0.0.0.0", "::", "::ffff:0.0.0.0"] {
            assert_eq!(Upstream::of(text.parse().unwrap()), None, "{text}");
        }
        // The last 64 bits distinguish two routers, but not two prefixes.
        let name = |text: &str| Upstream::of(text.parse().unwrap()).unwrap();
        assert_ne!(name("2001:db8::1"), name("2001:db8::2"));
        assert_eq!(name("2001:db8::1").prefix(), name("2001:db8::2").prefix());
        let other = name("2001:db8:0:1::1").prefix();
        assert_ne!(other, name("2001:db8::1").prefix());
        assert_eq!(name("192.0.2.11").prefix(), None);
    }

    /// Ports move packet contents several times.
    #[test]
    fn what_a_packet_carries_is_small() {
        assert!(size_of::<Carried>() <= 40);
    }
}
