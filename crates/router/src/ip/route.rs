//! Longest prefix match over IPv4 and IPv6.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use prefix_trie::PrefixMap;

use super::table::{Draft, Table};

/// A prefix such as `10.1.0.0/16`; a bare address is a host route.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Prefix(IpNet);

/// Text that is not a prefix.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PrefixError {
    /// Not an address, or an impossible length.
    #[error("cannot read the prefix `{0}`: write ADDRESS/LENGTH, as in 10.1.0.0/16 or fd00::/8")]
    Syntax(String),
    /// Bits are set beyond the prefix length.
    #[error("`{given}` has bits set behind its length: did you mean `{meant}`?")]
    HostBits {
        /// The given text.
        given: String,
        /// The same without those bits.
        meant: String,
    },
}

impl FromStr for Prefix {
    type Err = PrefixError;
    fn from_str(text: &str) -> Result<Self, PrefixError> {
        let net = match text.parse::<IpAddr>() {
            Ok(address) => IpNet::from(address),
            Err(_) => text
                .parse()
                .map_err(|_| PrefixError::Syntax(text.to_owned()))?,
        };
        if net != net.trunc() {
            return Err(PrefixError::HostBits {
                given: text.to_owned(),
                meant: net.trunc().to_string(),
            });
        }
        Ok(Self(net))
    }
}

impl Prefix {
    /// Returns true if the prefix contains `address`.
    pub fn contains(&self, address: IpAddr) -> bool {
        self.0.contains(&address)
    }

    /// Returns the prefix as address and length.
    pub fn net(&self) -> IpNet {
        self.0
    }
}

impl From<IpAddr> for Prefix {
    /// Creates the host route to `address`.
    fn from(address: IpAddr) -> Self {
        Self(IpNet::from(address))
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Routes with `T` as next hops. They can be looked up once they are [compiled](Self::compile).
#[derive(Clone, Debug)]
pub struct Routes<T> {
    v4: BTreeMap<Ipv4Net, T>,
    v6: PrefixMap<Ipv6Net, T>,
}

impl<T> Routes<T> {
    /// Creates a set without routes.
    pub fn new() -> Self {
        Self {
            v4: BTreeMap::new(),
            v6: PrefixMap::new(),
        }
    }

    /// Adds a route, replacing any route for the same prefix.
    pub fn insert(&mut self, prefix: Prefix, next_hop: T) {
        match prefix.0 {
            IpNet::V4(net) => drop(self.v4.insert(net, next_hop)),
            IpNet::V6(net) => drop(self.v6.insert(net, next_hop)),
        }
    }

    /// Number of routes.
    pub fn len(&self) -> usize {
        self.v4.len() + self.v6.len()
    }

    /// Returns true if there is no route.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<T: PartialEq> Routes<T> {
    /// Compiles a table for lookups. It should have few different next hops; routes to more than
    /// 2²⁴ of them are omitted.
    pub fn compile(self) -> RouteTable<T> {
        let mut hops: Vec<T> = Vec::new();
        let mut draft = Draft::new();
        for (net, hop) in self.v4 {
            let number = hops.iter().position(|known| *known == hop);
            let number = number.unwrap_or_else(|| {
                hops.push(hop);
                hops.len() - 1
            });
            draft.insert(net, number);
        }
        RouteTable {
            v4: draft.pack(),
            v6: self.v6,
            hops,
        }
    }
}

impl<T> Default for Routes<T> {
    fn default() -> Self {
        Self::new()
    }
}

/// An immutable routing table.
#[derive(Clone, Debug)]
pub struct RouteTable<T> {
    v4: Table,
    v6: PrefixMap<Ipv6Net, T>,
    /// IPv4 next hops, indexed by number.
    hops: Vec<T>,
}

impl<T> RouteTable<T> {
    /// Returns the next hop of the longest prefix that contains `destination`.
    #[inline]
    pub fn lookup(&self, destination: IpAddr) -> Option<&T> {
        match destination {
            IpAddr::V4(address) => self.hops.get(self.v4.lookup(address)?),
            IpAddr::V6(address) => self.v6.get_lpm(&Ipv6Net::from(address)).map(|(_, hop)| hop),
        }
    }
}

impl<T> Default for RouteTable<T> {
    /// Creates a table without routes.
    fn default() -> Self {
        Self {
            v4: Table::default(),
            v6: PrefixMap::new(),
            hops: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use proptest::prelude::*;

    use super::*;

    fn table_of(routes: &[(&str, usize)]) -> RouteTable<usize> {
        let mut table = Routes::new();
        for (prefix, hop) in routes {
            table.insert(prefix.parse().unwrap(), *hop);
        }
        table.compile()
    }

    #[test]
    fn the_longest_prefix_wins() {
        let table = table_of(&[
            ("0.0.0.0/0", 0),
            ("10.0.0.0/8", 1),
            ("10.1.0.0/16", 2),
            ("10.1.2.3", 3),
            ("fd00::/8", 4),
            ("fd00:1::/32", 5),
        ]);
        let hop = |address: &str| table.lookup(address.parse().unwrap()).copied();
        assert_eq!(hop("192.0.2.1"), Some(0));
        assert_eq!(hop("10.2.0.1"), Some(1));
        assert_eq!(hop("10.1.2.4"), Some(2));
        assert_eq!(hop("10.1.2.3"), Some(3));
        assert_eq!(hop("fd00:2::1"), Some(4));
        assert_eq!(hop("fd00:1::1"), Some(5));
        assert_eq!(hop("2001:db8::1"), None);
    }

    #[test]
    fn prefixes_are_read_strictly() {
        for text in ["10.0.0.0/33", "ten"] {
            let read = text.parse::<Prefix>();
            assert!(matches!(read, Err(PrefixError::Syntax(_))), "{text}");
        }
        let error = "10.1.2.3/16".parse::<Prefix>().unwrap_err().to_string();
        let expected = "has bits set behind its length: did you mean `10.1.0.0/16`?";
        assert_eq!(error, format!("`10.1.2.3/16` {expected}"));
    }

    #[test]
    fn the_later_of_two_equal_prefixes_counts() {
        let table = table_of(&[("10.1.2.0/23", 7), ("10.1.2.0/23", 8)]);
        assert_eq!(table.lookup(Ipv4Addr::new(10, 1, 3, 255).into()), Some(&8));
        assert_eq!(table.lookup(Ipv4Addr::new(10, 1, 4, 0).into()), None);
        let empty = RouteTable::<u8>::default();
        assert!(empty.lookup(Ipv4Addr::LOCALHOST.into()).is_none());
    }

    proptest! {
        /// Compares lookups with a linear search.
        #[test]
        fn agrees_with_the_definition(
            routes in prop::collection::vec((any::<u32>(), 0u8..=32), 0..80),
            destinations: [u32; 20],
        ) {
            let mut table = Routes::new();
            let mut list = std::collections::BTreeMap::new();
            for (hop, (address, length)) in routes.into_iter().enumerate() {
                // Few distinct leading bits, so that prefixes nest.
                let net = Ipv4Net::new(
                    Ipv4Addr::from(address & 0x0303_FFFF),
                    length,
                ).unwrap().trunc();
                table.insert(Prefix(IpNet::V4(net)), hop);
                list.insert((net.prefix_len(), net.addr()), hop);
            }
            let table = table.compile();
            for destination in destinations {
                let destination = Ipv4Addr::from(destination & 0x0303_FFFF);
                let expected = list.iter().rev().find(|((length, address), _)| {
                    Ipv4Net::new(*address, *length).unwrap().contains(&destination)
                });
                prop_assert_eq!(table.lookup(destination.into()), expected.map(|(_, hop)| hop));
            }
        }
    }
}
