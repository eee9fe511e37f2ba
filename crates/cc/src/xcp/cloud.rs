//! Clouds: hops between two XCP routers that are no XCP routers themselves (the XCP-i paper,
//! Lopez-Pacheco, Pham, Lefèvre, section II-B).

use core::net::{IpAddr, Ipv4Addr};

use crate::Duration;

/// Names whoever sent a packet into a cloud, an XCP router or the sending host, by its address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Upstream(Name);

/// In words of 32 bits, so that what a packet carries stays small: ports move it often.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Name {
    V4(u32),
    /// A hash of the address.
    V6([u32; 2]),
}

impl Upstream {
    /// The name that follows from an address: IPv4 addresses differ in it, of IPv6 addresses it is
    /// a hash. `None` for an unspecified address.
    #[must_use]
    pub fn of(address: IpAddr) -> Option<Self> {
        if address.is_unspecified() {
            return None;
        }
        Some(Self(match address {
            IpAddr::V4(v4) => Name::V4(v4.to_bits()),
            IpAddr::V6(v6) => {
                let [high, low] = [v6.to_bits() >> 64, v6.to_bits()];
                let part = |bits: u128| u64::try_from(bits & u128::from(u64::MAX)).unwrap_or(0);
                let fold = |hash: u64, bits: u128| {
                    (hash ^ part(bits))
                        .wrapping_mul(0x9E37_79B9_7F4A_7C15)
                        .rotate_left(29)
                };
                let hash = fold(fold(0, high), low);
                let half = |bits: u64| u32::try_from(bits & u64::from(u32::MAX)).unwrap_or(0);
                Name::V6([half(hash >> 32), half(hash)])
            }
        }))
    }

    /// The IPv4 address that it stands for; `None` if it stands for an IPv6 address.
    #[must_use]
    pub const fn v4(self) -> Option<Ipv4Addr> {
        match self.0 {
            Name::V4(bits) => Some(Ipv4Addr::from_bits(bits)),
            Name::V6(_) => None,
        }
    }
}

/// A cloud that a packet came through on its way to this port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cloud {
    /// Who sent the packet into it.
    pub upstream: Upstream,
    /// What its hops took off the IP TTL, modulo 256.
    pub hops: u8,
}

/// What a port says of the cloud that a packet came through.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CloudAnswer {
    /// There is none, or the port does not look for them.
    #[default]
    None,
    /// The answer is within what the cloud can carry. Its hops are taken off `xcp_ttl`.
    Counted {
        /// As in [`Cloud::hops`].
        hops: u8,
    },
    /// Nothing is known of what the cloud can carry. Its hops are taken off `xcp_ttl`, and the
    /// packet says from here on that its feedback knows nothing of one of its clouds.
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
