//! Clouds, which are hops between two XCP routers that aren't XCP routers themselves (the XCP-i
//! paper, Lopez-Pacheco, Pham, Lefèvre, section II-B).

use core::net::{IpAddr, Ipv6Addr};

use crate::base::Duration;

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
    #[inline]
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
mod tests {
    use super::*;
    use crate::signals::carried::Carried;

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
