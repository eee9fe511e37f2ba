//! Addresses between which a router forwards (RFC 1812 §5.3.7, RFC 4291 §2.4).

use std::net::IpAddr;

/// Whether this is a valid source address for a forwarded packet.
#[inline]
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
#[inline]
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
pub(super) fn is_of_one_link(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(a) => a.is_link_local(),
        IpAddr::V6(a) => a.is_unicast_link_local(),
    }
}

/// Whether a packet may be forwarded to this address. Multicast is not routed.
#[inline]
pub(super) fn is_destination(address: IpAddr) -> bool {
    is_source(address)
}
