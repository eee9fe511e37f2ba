//! Which addresses a router forwards between (RFC 1812 §5.3.7, RFC 4291 §2.4).

use std::net::IpAddr;

/// True if a packet may come from this address.
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

/// True if a packet for the router itself may come from this address: a single host's, which may
/// be one of the link that it came in on (RFC 1812 §5.3.7, RFC 4291 §2.5.2, §2.5.3, §2.7).
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

/// True if this address means another host on each link, so that what is for it must not leave by
/// another port than the one where it was seen (RFC 3927 §7, RFC 4291 §2.5.6).
pub(super) fn is_of_one_link(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(a) => a.is_link_local(),
        IpAddr::V6(a) => a.is_unicast_link_local(),
    }
}

/// True if a packet may be forwarded to this address. Multicast is not routed here.
#[inline]
pub(super) fn is_destination(address: IpAddr) -> bool {
    is_source(address)
}
