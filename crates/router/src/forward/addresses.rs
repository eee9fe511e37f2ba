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

/// True if a packet may be forwarded to this address. Multicast is not routed here.
#[inline]
pub(super) fn is_destination(address: IpAddr) -> bool {
    is_source(address)
}
