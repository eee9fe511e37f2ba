//! Decides to which addresses a proxy connects.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;

/// Configured prefixes, in addition to those that every proxy denies.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    /// Prefixes that are allowed although they are denied by default.
    pub allow: Vec<IpNet>,
    /// Prefixes that are always denied.
    pub deny: Vec<IpNet>,
}

impl Policy {
    /// Returns true if the proxy may connect to an address. `own` is true for addresses of the
    /// proxy's host.
    pub fn allows(&self, address: IpAddr, own: bool) -> bool {
        // The kernel sends to the IPv4 address in a mapped address.
        let address = address.to_canonical();
        let within = |prefixes: &[IpNet], address: IpAddr| {
            let mut prefixes = prefixes.iter().map(|prefix| canonical(*prefix));
            prefixes.any(|prefix| prefix.contains(&address))
        };
        let leads_to = embedded(address);
        if within(&self.deny, address) || leads_to.is_some_and(|inner| within(&self.deny, inner)) {
            return false;
        }
        within(&self.allow, address) || (!own && is_public(address))
    }
}

/// Converts a prefix of mapped addresses to IPv4.
fn canonical(prefix: IpNet) -> IpNet {
    let mapped = match prefix.addr().to_canonical() {
        address @ IpAddr::V4(_) if prefix.addr().is_ipv6() => prefix
            .prefix_len()
            .checked_sub(96)
            .and_then(|length| IpNet::new(address, length).ok()),
        _ => None,
    };
    mapped.unwrap_or(prefix)
}

/// Returns true for an address that any host on the Internet can reach.
fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(v6) => match embedded(address) {
            Some(IpAddr::V4(inner)) => is_public_v4(inner),
            _ => is_public_v6(v6),
        },
    }
}

/// Excludes the registry of RFC 6890 and multicast. This includes 169.254.169.254 (link-local),
/// where clouds provide their metadata.
fn is_public_v4(address: Ipv4Addr) -> bool {
    let shared = matches!(address.octets(), [100, 64..=127, ..]);
    let protocols = matches!(address.octets(), [192, 0, 0, _]);
    let benchmarks = matches!(address.octets(), [198, 18..=19, ..]);
    let this_network = address.octets()[0] == 0;
    let reserved = address.octets()[0] >= 240;
    !(this_network
        || shared
        || protocols
        || benchmarks
        || reserved
        || address.is_private()
        || address.is_loopback()
        || address.is_link_local()
        || address.is_multicast())
}

/// Only global unicast (2000::/3) is public. This excludes unspecified, loopback, unique local
/// (fc00::/7), link-local (fe80::/10), site-local and multicast addresses.
fn is_public_v6(address: Ipv6Addr) -> bool {
    address.segments()[0] & 0xe000 == 0x2000
}

/// Returns the IPv4 address embedded in a mapped, compatible, 6to4, Teredo or ISATAP (RFC 5214
/// section 6.1) address, or in one of NAT64 with its well-known prefix. In 64:ff9b:1::/48 (RFC
/// 8215), its position depends on the translator, so this prefix is denied unless it is explicitly
/// allowed.
pub(crate) fn embedded(address: IpAddr) -> Option<IpAddr> {
    let v4 = |high: u16, low: u16| {
        let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
        IpAddr::from([a, b, c, d])
    };
    let IpAddr::V6(address) = address else {
        return None;
    };
    match address.segments() {
        [0, 0, 0, 0, 0, 0 | 0xffff, high, low]
        | [0x64, 0xff9b, 0, 0, 0, 0, high, low]
        | [0x2002, high, low, ..]
        | [_, _, _, _, 0 | 0x200, 0x5efe, high, low] => Some(v4(high, low)),
        [0x2001, 0, .., high, low] => Some(v4(!high, !low)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allows(policy: &Policy, address: &str) -> bool {
        policy.allows(address.parse().unwrap(), false)
    }

    /// Addresses that lead to the host itself, its site, or no single host, also inside others.
    const DENIED: &str = "0.0.0.0 0.1.2.3 10.0.0.1 100.64.0.1 100.100.100.200 127.0.0.1 \
        127.255.255.255 169.254.169.254 172.16.0.1 192.0.0.170 192.168.1.1 198.18.0.1 224.0.0.1 \
        240.0.0.1 255.255.255.255 :: ::1 ::127.0.0.1 ::ffff:127.0.0.1 ::ffff:169.254.169.254 \
        64:ff9b::10.0.0.1 64:ff9b:1::10.0.0.1 64:ff9b:1:7f00:0:100:808:808 64:ff9b:1::8.8.8.8 \
        2002:7f00:1:: 2001:0:1:2:3:4:80ff:fffe 2606:4700::5efe:127.0.0.1 \
        2606:4700::200:5efe:10.0.0.1 fc00::1 fd00:ec2::254 fe80::1 fec0::1 ff02::1";

    #[test]
    fn addresses_of_hosts_and_sites_are_denied() {
        let policy = Policy::default();
        for address in DENIED.split(' ') {
            assert!(!allows(&policy, address), "{address}");
        }
        for address in ["1.1.1.1", "192.0.2.1", "2606:4700::1111", "::ffff:1.1.1.1"] {
            assert!(allows(&policy, address), "{address}");
            assert!(!policy.allows(address.parse().unwrap(), true), "{address}");
        }
    }

    #[test]
    fn prefixes_change_the_rule() {
        let policy = Policy {
            allow: vec!["10.0.0.0/8".parse().unwrap(), "::1/128".parse().unwrap()],
            deny: vec![
                "10.1.0.0/16".parse().unwrap(),
                "1.1.1.1/32".parse().unwrap(),
                "::ffff:9.9.9.0/120".parse().unwrap(),
            ],
        };
        for (address, expected) in [
            ("10.0.0.1", true),
            ("::ffff:10.0.0.1", true),
            ("10.1.0.1", false),
            ("::ffff:10.1.0.1", false),
            ("1.1.1.1", false),
            ("64:ff9b::1.1.1.1", false),
            ("2002:101:101::", false),
            ("9.9.9.9", false),
            ("9.9.8.9", true),
            ("::1", true),
            ("127.0.0.1", false),
        ] {
            assert_eq!(allows(&policy, address), expected, "{address}");
        }
        assert!(policy.allows("10.0.0.1".parse().unwrap(), true));
    }
}
