//! Lookups agree with the definition, and tables stay small.

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

fn net(address: [u8; 4], length: u8) -> Ipv4Net {
    Ipv4Net::new(address.into(), length).unwrap()
}

#[test]
fn longer_prefixes_shine_through_shorter_ones_in_any_order() {
    let routes = [
        (net([10, 1, 2, 128], 25), 3),
        (net([10, 1, 0, 0], 16), 1),
        (net([10, 1, 2, 0], 24), 2),
        (net([0, 0, 0, 0], 0), 0),
        (net([10, 1, 2, 129], 32), 4),
    ];
    for turn in 0..routes.len() {
        let mut draft = Draft::new();
        for (net, hop) in routes.iter().cycle().skip(turn).take(routes.len()) {
            assert!(draft.insert(*net, *hop));
        }
        let table = draft.pack();
        for (address, hop) in [
            ([11, 0, 0, 1], 0),
            ([10, 1, 1, 255], 1),
            ([10, 1, 3, 0], 1),
            ([10, 1, 2, 127], 2),
            ([10, 1, 2, 128], 3),
            ([10, 1, 2, 129], 4),
            ([10, 1, 2, 130], 3),
            ([10, 1, 2, 255], 3),
        ] {
            assert_eq!(table.lookup(address.into()), Some(hop), "{address:?}");
        }
    }
}

#[test]
fn a_few_routes_behind_16_bits_take_some_100_bytes() {
    let mut draft = Draft::new();
    for high in 0..=255 {
        for third in [3, 40, 41, 100, 180, 254] {
            assert!(draft.insert(net([20, high, third, 0], 24), usize::from(third)));
        }
    }
    let bytes = draft.pack().packed.len() * 4 / 256;
    assert!((60..110).contains(&bytes), "{bytes}");
}

#[test]
fn next_hops_beyond_24_bits_are_refused() {
    assert!(!Draft::new().insert(net([10, 0, 0, 0], 8), MAX_HOPS));
}
