//! Clouds: hops between two XCP routers that are not XCP routers themselves (the XCP-i paper,
//! Lopez-Pacheco, Pham, Lefèvre, section II-B).

use core::net::{IpAddr, Ipv6Addr};

use crate::base::Duration;

/// Identifies the XCP router or host that sent a packet into a cloud, by its address.
///
/// What a packet carries stays small, since ports move it often: bytes have no alignment, and the
/// last one has values to spare, in which the compiler keeps what kind of a packet it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(C)]
pub struct Upstream {
    /// An address, IPv4 as IPv4-mapped (RFC 4291, section 2.5.5.2).
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
    /// The name of the node with this address. `None` for an unspecified address.
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

    /// The address that it stands for.
    pub fn address(self) -> IpAddr {
        IpAddr::V6(Ipv6Addr::from(self.octets)).to_canonical()
    }

    /// The first 64 bits of an IPv6 address; `None` for an IPv4 address.
    ///
    /// A host with one address of such a prefix can mostly use them all (RFC 4291, section 2.5.4;
    /// RFC 8504, section 6.1).
    pub(crate) fn prefix(self) -> Option<[u8; 8]> {
        match self.address() {
            IpAddr::V4(_) => None,
            IpAddr::V6(_) => self.octets.first_chunk().copied(),
        }
    }
}

/// A cloud that a packet came through on its way to this port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Cloud {
    /// The node that sent the packet into it.
    pub upstream: Upstream,
    /// What its hops took off the IP TTL, modulo 256.
    pub hops: u8,
}

/// A port's result for the cloud that a packet came through.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CloudAnswer {
    /// There is none.
    #[default]
    None,
    /// There is one, and the port does not look for them. The header goes on naming the router
    /// before the cloud, so that a port behind this one finds a cloud that begins there.
    Passed,
    /// The answer is within what the cloud can carry. Its hops are taken off `xcp_ttl`.
    Counted {
        /// As in [`Cloud::hops`].
        hops: u8,
    },
    /// The cloud's capacity is unknown. Its hops are taken off `xcp_ttl`, and the header states
    /// from here on that its feedback ignores one of its clouds.
    Unknown {
        /// As in [`Cloud::hops`].
        hops: u8,
    },
}

/// What is left of a cloud's narrowest link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CloudEstimate {
    /// Capacity less what arrives at the link, in bytes per second; negative if more arrives than
    /// it carries.
    pub available: i64,
    /// What the link carries, in bytes per second; 0 if that is not known.
    pub capacity: u64,
    /// Bytes that wait in front of it and do not drain; 0 if that is not known.
    pub queue: u64,
    /// For how long the estimate may be used.
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
        // One router has one name, however its IPv4 address is written.
        let mapped: IpAddr = "::ffff:192.0.2.11".parse().unwrap();
        let plain: IpAddr = "192.0.2.11".parse().unwrap();
        assert_eq!(Upstream::of(mapped), Upstream::of(plain));
        for text in ["0.0.0.0", "::", "::ffff:0.0.0.0"] {
            assert_eq!(Upstream::of(text.parse().unwrap()), None, "{text}");
        }
        // The last 64 bits distinguish two routers, and not two prefixes.
        let name = |text: &str| Upstream::of(text.parse().unwrap()).unwrap();
        assert_ne!(name("2001:db8::1"), name("2001:db8::2"));
        assert_eq!(name("2001:db8::1").prefix(), name("2001:db8::2").prefix());
        assert_ne!(
            name("2001:db8:0:1::1").prefix(),
            name("2001:db8::1").prefix()
        );
        assert_eq!(name("192.0.2.11").prefix(), None);
    }

    /// Ports move what a packet carries several times.
    #[test]
    fn what_a_packet_carries_is_small() {
        assert!(size_of::<Carried>() <= 40);
    }
}
