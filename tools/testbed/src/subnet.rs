//! A subnet behind a gateway, with both IP versions.
//!
//! ```text
//!   inside ──a b── gateway ──c d── outside
//! ```
//!
//! The subnet has private addresses, and the nodes outside have addresses for documentation (RFC
//! 5737, RFC 3849).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};

use crate::{Error, Node, Testbed};

/// An IPv4 and an IPv6 address.
pub type Pair = [IpAddr; 2];

/// Addresses of the inside host.
pub const INSIDE: Pair = [
    IpAddr::V4(Ipv4Addr::new(192, 168, 7, 2)),
    IpAddr::V6(Ipv6Addr::new(0xfd00, 7, 0, 0, 0, 0, 0, 2)),
];
/// Addresses of the gateway on the side of the subnet.
pub const GATEWAY_INSIDE: Pair = [
    IpAddr::V4(Ipv4Addr::new(192, 168, 7, 1)),
    IpAddr::V6(Ipv6Addr::new(0xfd00, 7, 0, 0, 0, 0, 0, 1)),
];
/// Addresses of the gateway on the outside.
pub const GATEWAY: Pair = [
    IpAddr::V4(Ipv4Addr::new(203, 0, 113, 1)),
    IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 2, 0, 0, 0, 0, 1)),
];
/// Addresses of the outside host.
pub const OUTSIDE: Pair = [
    IpAddr::V4(Ipv4Addr::new(203, 0, 113, 2)),
    IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 2, 0, 0, 0, 0, 2)),
];
/// Other addresses of the outside host.
pub const OUTSIDE_TOO: Pair = [
    IpAddr::V4(Ipv4Addr::new(203, 0, 113, 3)),
    IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 2, 0, 0, 0, 0, 3)),
];

/// The nodes. Dropping this removes them.
#[derive(Clone, Debug)]
pub struct Subnet {
    /// A host in the subnet.
    pub inside: Node,
    /// The gateway, which forwards packets.
    pub gateway: Node,
    /// A host outside, which has a route to the subnet.
    pub outside: Node,
}

impl Subnet {
    /// Creates the nodes and joins them by interfaces with an MTU of 1,500 bytes.
    ///
    /// # Errors
    /// [`Error`].
    pub fn new() -> Result<Self, Error> {
        let bed = Testbed::new()?;
        let (inside, gateway) = (bed.node("inside")?, bed.node("gateway")?);
        let outside = bed.node("outside")?;
        bed.veth((&inside, "a"), (&gateway, "b"), 1500)?;
        bed.veth((&gateway, "c"), (&outside, "d"), 1500)?;
        for (node, interface, addresses) in [
            (&inside, "a", INSIDE),
            (&gateway, "b", GATEWAY_INSIDE),
            (&gateway, "c", GATEWAY),
            (&outside, "d", OUTSIDE),
            (&outside, "d", OUTSIDE_TOO),
        ] {
            for address in addresses {
                let length = if address.is_ipv4() { 24 } else { 64 };
                node.add_address(interface, IpNet::new_assert(address, length))?;
            }
        }
        for (node, interface, [v4, v6]) in [
            (&inside, "a", GATEWAY_INSIDE),
            (&gateway, "c", OUTSIDE),
            (&outside, "d", GATEWAY),
        ] {
            node.add_route(Ipv4Net::default().into(), interface, Some(v4))?;
            node.add_route(Ipv6Net::default().into(), interface, Some(v6))?;
        }
        gateway.forward()?;
        Ok(Self {
            inside,
            gateway,
            outside,
        })
    }
}
