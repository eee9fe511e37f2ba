//! Longest prefix match over IPv4 and IPv6.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use prefix_trie::PrefixMap;

/// A prefix such as `10.1.0.0/16`; a bare address is a host route.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Prefix(IpNet);

/// Text that is no prefix.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PrefixError {
    /// Not an address, or no such length.
    #[error("cannot read the prefix `{0}`: write ADDRESS/LENGTH, as in 10.1.0.0/16 or fd00::/8")]
    Syntax(String),
    /// Bits are set behind the prefix length.
    #[error("`{given}` has bits set behind its length: did you mean `{meant}`?")]
    HostBits {
        /// What was given.
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
    /// True if the prefix holds `address`.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        self.0.contains(&address)
    }
}

impl From<IpAddr> for Prefix {
    /// The host route to `address`.
    fn from(address: IpAddr) -> Self {
        Self(IpNet::from(address))
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A routing table with `T` as next hops.
#[derive(Clone, Debug)]
pub struct Routes<T> {
    v4: PrefixMap<Ipv4Net, T>,
    v6: PrefixMap<Ipv6Net, T>,
}

impl<T> Routes<T> {
    /// An empty table.
    #[must_use]
    pub fn new() -> Self {
        Self {
            v4: PrefixMap::new(),
            v6: PrefixMap::new(),
        }
    }

    /// Adds a route; returns the next hop that the same prefix had before.
    pub fn insert(&mut self, prefix: Prefix, next_hop: T) -> Option<T> {
        match prefix.0 {
            IpNet::V4(net) => self.v4.insert(net, next_hop),
            IpNet::V6(net) => self.v6.insert(net, next_hop),
        }
    }

    /// The next hop of the longest prefix that holds `destination`.
    #[inline]
    #[must_use]
    pub fn lookup(&self, destination: IpAddr) -> Option<&T> {
        match destination {
            IpAddr::V4(address) => self.lookup_v4(address),
            IpAddr::V6(address) => self.lookup_v6(address),
        }
    }

    #[inline]
    fn lookup_v4(&self, address: Ipv4Addr) -> Option<&T> {
        self.v4.get_lpm(&Ipv4Net::from(address)).map(|(_, hop)| hop)
    }

    #[inline]
    fn lookup_v6(&self, address: Ipv6Addr) -> Option<&T> {
        self.v6.get_lpm(&Ipv6Net::from(address)).map(|(_, hop)| hop)
    }

    /// Number of routes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.v4.len() + self.v6.len()
    }

    /// True without any route.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<T> Default for Routes<T> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn table(routes: &[&str]) -> Routes<usize> {
        let mut table = Routes::new();
        for (hop, prefix) in routes.iter().enumerate() {
            table.insert(prefix.parse().unwrap(), hop);
        }
        table
    }

    #[test]
    fn the_longest_prefix_wins() {
        let table = table(&[
            "0.0.0.0/0",
            "10.0.0.0/8",
            "10.1.0.0/16",
            "10.1.2.3",
            "fd00::/8",
            "fd00:1::/32",
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
        assert!(matches!(
            "10.0.0.0/33".parse::<Prefix>(),
            Err(PrefixError::Syntax(_))
        ));
        assert!(matches!(
            "ten".parse::<Prefix>(),
            Err(PrefixError::Syntax(_))
        ));
        assert_eq!(
            "10.1.2.3/16".parse::<Prefix>().unwrap_err().to_string(),
            "`10.1.2.3/16` has bits set behind its length: did you mean `10.1.0.0/16`?"
        );
    }

    proptest! {
        /// Against a linear search.
        #[test]
        fn agrees_with_the_definition(
            routes in prop::collection::vec((any::<u32>(), 0u8..=32), 0..80),
            destination: u32,
        ) {
            let mut table = Routes::new();
            let mut list = std::collections::BTreeMap::new();
            for (hop, (address, length)) in routes.into_iter().enumerate() {
                // Few distinct leading bits, so that prefixes nest.
                let net = Ipv4Net::new(Ipv4Addr::from(address & 0x0303_FFFF), length).unwrap().trunc();
                table.insert(Prefix(IpNet::V4(net)), hop);
                list.insert((net.prefix_len(), net.addr()), hop);
            }
            let destination = Ipv4Addr::from(destination & 0x0303_FFFF);
            let expected = list.iter().rev().find(|((length, address), _)| {
                Ipv4Net::new(*address, *length).unwrap().contains(&destination)
            });
            prop_assert_eq!(table.lookup(IpAddr::V4(destination)), expected.map(|(_, hop)| hop));
        }
    }
}
