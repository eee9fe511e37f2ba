//! First packets, intact and damaged, and the ways to find a connection.

use pathmark_shim::Kind;
use pathmark_shim::frame::{prefix, seal};

use super::*;
use crate::wire::packet::VersionNegotiation;

#[test]
fn first_packet_asks_for_a_connection_once() {
    let mut endpoint = server();
    let hello = hello(1, &[]);
    let first = incoming(&mut endpoint, 1, &hello);
    assert_eq!(first.remote_address(), from(1).remote);
    assert!(!first.is_validated() && first.may_retry());
    nothing(&mut endpoint, 1, &hello);
    assert_eq!((endpoint.connections(), endpoint.half_open()), (1, 1));
    // The same ids from another address belong to another client.
    let _second = incoming(&mut endpoint, 2, &hello);
    let (handle_of_first, _) = endpoint.accept(NOW, first).unwrap();
    assert_eq!(found(&mut endpoint, 1, &hello), handle_of_first);
}

#[test]
fn clients_only_endpoint_hears_no_clients() {
    let mut endpoint = Endpoint::new(config(false), Random::from_u64(1));
    nothing(&mut endpoint, 1, &hello(1, &[]));
    assert_eq!(endpoint.connections(), 0);
}

/// A server whose configuration limits paths to less than 1200 bytes accepts first packets of
/// that size.
#[test]
fn a_first_packet_is_as_large_as_the_server_says_that_paths_carry() {
    for (initial_mtu, least) in [(1200, 1200), (1472, 1200), (1000, 1000), (0, 400)] {
        let mut config = config(true);
        let server = config.server.as_mut().unwrap();
        Arc::make_mut(&mut server.transport).initial_mtu = initial_mtu;
        let mut endpoint = Endpoint::new(config, Random::from_u64(1));
        let first = |len| initial(&*crypto(), &id(1), &id(2), &[], len);
        nothing(&mut endpoint, 1, &first(least - 1));
        assert_eq!(endpoint.stats().dropped_short_initials, 1);
        let _first = incoming(&mut endpoint, 1, &first(least));
    }
}

#[test]
fn short_or_forged_first_packets_leave_nothing_behind() {
    // [9000 5.2.2 all-others] [9000 7.2 eight-bytes] [9000 14.1 short-initials-dropped]
    let mut endpoint = server();
    let crypto = crypto();
    let short = initial(&*crypto, &id(1), &id(2), &[], 1199);
    nothing(&mut endpoint, 1, &short);
    let short_id = ConnectionId::new(&[1; 7]).unwrap();
    let short = initial(&*crypto, &short_id, &id(2), &[], 1200);
    nothing(&mut endpoint, 1, &short);
    assert_eq!(endpoint.stats().dropped_short_initials, 2);
    let whole = hello(1, &[]);
    for at in [100, 700, 1199] {
        let mut forged = whole.clone();
        forged[at] ^= 1;
        nothing(&mut endpoint, 1, &forged);
    }
    assert_eq!(endpoint.stats().dropped_forged_initials, 3);
    assert_eq!((endpoint.connections(), endpoint.demux.len()), (0, 0));
}

#[test]
fn early_data_before_a_first_packet_leaves_nothing_behind() {
    let mut endpoint = server();
    let hello = hello(1, &[]);
    // The same header for a 0-RTT packet, which has no token.
    let mut early = [&hello[..23], &[0x44, 0x00][..], &[7; 1024]].concat();
    early[0] = 0xd0;
    for _ in 0..1000 {
        nothing(&mut endpoint, 1, &early);
    }
    assert_eq!(endpoint.stats().dropped_early, 1000);
    assert_eq!((endpoint.connections(), endpoint.demux.len()), (0, 0));
    // After the first packet, it belongs to the connection.
    let first = incoming(&mut endpoint, 1, &hello);
    nothing(&mut endpoint, 1, &early);
    let begun = begin(&mut endpoint, first).unwrap();
    assert_eq!(begun.datagrams.len(), 2);
    assert_eq!(endpoint.stats().dropped_early, 1000);
}

/// A shim with a question for a starting rate may precede early data, but no other long header.
#[test]
fn a_shim_in_front_of_early_data_is_stepped_over() {
    let mut shim = [0; 8];
    shim[..4].copy_from_slice(&prefix::<8>(Kind::QUICK_START));
    seal(Kind::QUICK_START, &mut shim);
    let mut endpoint = server();
    let hello = hello(1, &[]);
    let mut early = [&shim, &hello[..23], &[0x44, 0x00][..], &[7; 1024]].concat();
    early[8] = 0xd0;
    nothing(&mut endpoint, 1, &early);
    assert_eq!(endpoint.stats().dropped_early, 1);
    // These packets don't begin a connection.
    nothing(&mut endpoint, 1, &[&shim[..], &hello].concat());
    for len in 0..40 {
        nothing(&mut endpoint, 1, &early[..len]);
    }
    assert_eq!((endpoint.connections(), endpoint.demux.len()), (0, 0));
    let first = incoming(&mut endpoint, 1, &hello);
    nothing(&mut endpoint, 1, &early);
    nothing(&mut endpoint, 1, &[&shim[..], &hello].concat());
    let foreign = endpoint.stats().dropped_foreign;
    assert!(foreign >= 2, "{foreign}");
    let begun = begin(&mut endpoint, first).unwrap();
    let lengths: Vec<usize> = begun.datagrams.iter().map(|(_, d)| d.len()).collect();
    assert_eq!(lengths, [hello.len(), early.len()]);
}

/// Starting a TLS session takes time, and packets and events in the meantime must be handled.
#[test]
fn a_client_goes_on_waiting_while_its_connection_is_started() {
    let mut endpoint = server();
    let hello = hello(1, &[]);
    let first = incoming(&mut endpoint, 1, &hello);
    let started = endpoint.server(NOW, &first).unwrap().start(NOW);
    nothing(&mut endpoint, 1, &hello);
    let begun = endpoint.begin(NOW, first, started).unwrap();
    let datagrams = begun.datagrams.len();
    assert_eq!(datagrams, 2, "a datagram that came meanwhile is lost");
    // Another client is removed in the meantime.
    let second = incoming(&mut endpoint, 2, &hello);
    let started = endpoint.server(NOW, &second).unwrap().start(NOW);
    endpoint.remove(second.handle);
    let error = endpoint.begin(NOW, second, started).unwrap_err();
    assert_eq!(error, AcceptError::Expired);
    assert_eq!((endpoint.connections(), endpoint.half_open()), (1, 1));
    // If a connection can't be started, no state remains.
    let third = incoming(&mut endpoint, 3, &hello);
    let error = crate::wire::TransportError::new(TransportErrorCode::INTERNAL_ERROR, "no");
    let failed = crate::connection::ConnectError::Config(error);
    let error = endpoint.begin(NOW, third, Err(failed.clone())).unwrap_err();
    assert_eq!(error, AcceptError::Connection(failed));
    assert_eq!((endpoint.connections(), endpoint.half_open()), (1, 1));
    // If a connection never begins, nothing is left after its client has waited too long.
    let fourth = incoming(&mut endpoint, 4, &hello);
    drop(endpoint.server(NOW, &fourth).unwrap());
    let later = NOW + Duration::from_secs(11);
    endpoint.handle(later, &from(5), &hello, &mut Vec::new());
    assert!(!endpoint.is_waiting(&fourth));
}

/// Opens a first packet of the client at port 1.
fn opened(endpoint: &mut Endpoint, hello: &[u8]) -> OpenedFirst {
    match endpoint.sort(NOW, &from(1), hello, &mut Vec::new()) {
        Sorted::First(first) => first.open(&from(1), hello),
        Sorted::Known(other) => panic!("{other:?}"),
    }
}

/// Two sockets of an endpoint, each with a task, receive the same packet while it is being
/// opened.
#[test]
fn a_first_packet_that_comes_twice_at_once_is_one_client() {
    let mut endpoint = server();
    let hello = hello(1, &[]);
    let mut answer = Vec::new();
    let [one, other] = [(); 2].map(|()| opened(&mut endpoint, &hello));
    let event = endpoint.admit(NOW, &from(1), &hello, one, |_| false, &mut answer);
    assert!(matches!(event, DatagramEvent::Incoming(_)), "{event:?}");
    let event = endpoint.admit(NOW, &from(1), &hello, other, |_| false, &mut answer);
    assert!(matches!(event, DatagramEvent::Nothing), "{event:?}");
    assert_eq!((endpoint.connections(), endpoint.half_open()), (1, 1));
}

/// The endpoint stops accepting clients while a first packet is being opened.
#[test]
fn who_comes_while_clients_are_given_up_is_not_heard() {
    let mut endpoint = server();
    let hello = hello(1, &[]);
    let opened = opened(&mut endpoint, &hello);
    endpoint.set_server(None);
    let event = endpoint.admit(NOW, &from(1), &hello, opened, |_| false, &mut Vec::new());
    assert!(matches!(event, DatagramEvent::Nothing), "{event:?}");
    assert_eq!((endpoint.connections(), endpoint.half_open()), (0, 0));
}

/// A flood of forged tokens costs no more decryption than packets without one.
#[test]
fn with_a_worthless_token_nothing_is_opened_for_a_client_that_is_refused_anyway() {
    for (policy, opens) in [(RetryPolicy::Always, false), (RetryPolicy::Never, true)] {
        let mut endpoint = server();
        endpoint.set_retry(policy);
        let hello = hello(1, &[0; 40]);
        let mut answer = Vec::new();
        let opened = opened(&mut endpoint, &hello);
        assert_eq!(opened.is_opened(), opens, "{policy:?}");
        let event = endpoint.admit(NOW, &from(1), &hello, opened, |_| false, &mut answer);
        match opens {
            true => assert!(matches!(event, DatagramEvent::Incoming(_)), "{event:?}"),
            false => assert!(matches!(event, DatagramEvent::Respond), "{event:?}"),
        }
    }
}

#[test]
fn unknown_version_is_negotiated_if_the_datagram_is_large() {
    // [9000 5.2.2 small-unknown-version] [9000 6.1 none-for-negotiation]
    // [9000 17.2.1 negotiation-fields] [9000 17.2.1 any-id-length] [9000 17.2.1 one-negotiation]
    let mut endpoint = server();
    // Version 2, with ids longer than version 1 allows.
    let ids = [&[7; 30][..], &[25], &[8; 25]].concat();
    let mut packet = [&[0xd0, 0x6b, 0x33, 0x43, 0xcf, 30], &ids[..]].concat();
    packet.resize(1200, 0);
    let answer = answer(&mut endpoint, 1, &packet);
    let negotiation = VersionNegotiation::decode(&answer).unwrap();
    assert_eq!(negotiation.dcid, &[8; 25][..]);
    assert_eq!(negotiation.scid, &[7; 30][..]);
    let versions: Vec<_> = negotiation.versions().collect();
    assert!(versions.contains(&1) && !versions.contains(&0x6b33_43cf));
    nothing(&mut endpoint, 1, &packet[..1199]);
    // Never in response to Version Negotiation.
    nothing(&mut endpoint, 1, &answer);
}

#[test]
fn shim_is_stepped_over_to_find_the_connection() {
    let mut endpoint = server();
    let ours = id(77);
    let handle_of_ours =
        ConnectionHandle(endpoint.slots.insert(Slot::Connection { half_open: None }));
    endpoint.demux.add_id(handle_of_ours, &ours);
    let mut shim = [0u8; 16];
    shim[..4].copy_from_slice(&prefix::<16>(Kind::VCP));
    let packet = [&[0x41][..], ours.as_slice(), &[0; 60]].concat();
    for datagram in [packet.clone(), [&shim[..], &packet].concat()] {
        assert_eq!(found(&mut endpoint, 1, &datagram), handle_of_ours);
    }
    // This long header must not follow a shim.
    nothing(&mut endpoint, 1, &[&shim[..], &hello(1, &[])].concat());
    for cut in 0..20 {
        nothing(&mut endpoint, 1, &[&shim[..], &packet].concat()[..cut]);
    }
}

proptest::proptest! {
    #[test]
    fn garbage_never_becomes_state(
        first in proptest::prelude::any::<u8>(),
        version in proptest::sample::select(vec![0u32, 1, 2, 0x0a0a_0a0a]),
        rest in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..1400),
    ) {
        // [9000 5.2.2 all-others]
        let mut endpoint = server();
        let datagram = [&[first][..], &version.to_be_bytes(), &rest].concat();
        handle(&mut endpoint, 1, &datagram);
        proptest::prop_assert_eq!(endpoint.connections(), 0);
        proptest::prop_assert_eq!(endpoint.demux.len(), 0);
    }
}

#[cfg(feature = "rustls")]
#[test]
fn first_packets_are_authenticated_under_tls_too() {
    use crate::crypto::tls::{Trust, testing};
    let mut config = config(true);
    config.server = Some(ServerConfig {
        transport: transport(),
        crypto: std::sync::Arc::new(testing::server("server", &[b"test"])),
    });
    let mut endpoint = Endpoint::new(config, Random::from_u64(1));
    let client = testing::client(Trust::Anyone, &[b"test"]);
    let hello = initial(&client, &id(1), &id(2), &[], 1200);
    for at in [60, 700, 1199] {
        let mut forged = hello.clone();
        forged[at] ^= 1;
        nothing(&mut endpoint, 1, &forged);
    }
    assert_eq!(endpoint.stats().dropped_forged_initials, 3);
    let _client = incoming(&mut endpoint, 1, &hello);
}
