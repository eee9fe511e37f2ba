use std::net::SocketAddr;

use super::testing::*;
use super::*;
use crate::crypto::null::NullEndpointKey;
use crate::crypto::{InitialCrypto, ResetToken, Side};
use crate::wire::packet::PlainHeader;
use crate::wire::version::VersionNegotiation;
use crate::wire::{ConnectionId, Frame, Frames, PartialDecode, TransportErrorCode};

fn handle(endpoint: &mut Endpoint, port: u16, datagram: &[u8]) -> (DatagramEvent, Vec<u8>) {
    let mut answer = Vec::new();
    let event = endpoint.handle(NOW, &from(port), datagram, &mut answer);
    (event, answer)
}

fn incoming(endpoint: &mut Endpoint, port: u16, datagram: &[u8]) -> Incoming {
    match handle(endpoint, port, datagram) {
        (DatagramEvent::Incoming(incoming), _) => incoming,
        other => panic!("{other:?}"),
    }
}

fn answer(endpoint: &mut Endpoint, port: u16, datagram: &[u8]) -> Vec<u8> {
    match handle(endpoint, port, datagram) {
        (DatagramEvent::Respond, answer) => answer,
        other => panic!("{other:?}"),
    }
}

fn nothing(endpoint: &mut Endpoint, port: u16, datagram: &[u8]) {
    let (event, _) = handle(endpoint, port, datagram);
    assert!(matches!(event, DatagramEvent::Nothing), "{event:?}");
}

/// The code of the CONNECTION_CLOSE in an answer to client `n`'s Initial.
fn close_code(answer: &[u8], dcid: &ConnectionId) -> TransportErrorCode {
    let PartialDecode::Protected(found) = PartialDecode::new(answer, 8).unwrap() else {
        panic!("no packet with frames");
    };
    assert_eq!(found.len, answer.len());
    let mut packet = answer.to_vec();
    let keys = crypto().initial_keys(dcid.as_slice(), Side::Client).remote;
    let header = PlainHeader::decode(&packet, &found).unwrap();
    let len = keys.packet.open(0, &mut packet, header.payload_at).unwrap();
    let payload = &packet[header.payload_at..header.payload_at + len];
    match Frames::new(payload).next().unwrap().unwrap() {
        Frame::ConnectionClose(close) => close.error_code,
        other => panic!("{other:?}"),
    }
}

/// Follows a Retry: the token and the new destination.
fn follow(retry: &[u8], original: &ConnectionId) -> (Vec<u8>, ConnectionId) {
    let PartialDecode::Retry(found) = PartialDecode::new(retry, 8).unwrap() else {
        panic!("no Retry");
    };
    let (packet, tag) = retry.split_last_chunk().unwrap();
    assert_eq!(crypto().retry_tag(original.as_slice(), packet), *tag);
    (retry[found.token].to_vec(), found.scid)
}

#[test]
fn first_packet_asks_for_a_connection_once() {
    let mut endpoint = server();
    let hello = hello(1, &[]);
    let first = incoming(&mut endpoint, 1, &hello);
    assert_eq!(first.remote_address(), from(1).remote);
    assert!(!first.is_validated() && first.may_retry());
    nothing(&mut endpoint, 1, &hello);
    assert_eq!((endpoint.connections(), endpoint.half_open()), (1, 1));
    // The same ids from another address are another client.
    let _second = incoming(&mut endpoint, 2, &hello);
    let (handle_of_first, _) = endpoint.accept(NOW, first).unwrap();
    match handle(&mut endpoint, 1, &hello).0 {
        DatagramEvent::Connection(handle) => assert_eq!(handle, handle_of_first),
        other => panic!("{other:?}"),
    }
}

#[test]
fn clients_only_endpoint_hears_no_clients() {
    let mut endpoint = Endpoint::new(config(false), Random::from_u64(1));
    nothing(&mut endpoint, 1, &hello(1, &[]));
    assert_eq!(endpoint.connections(), 0);
}

#[test]
fn short_or_forged_first_packets_leave_nothing_behind() {
    let mut endpoint = server();
    let crypto = crypto();
    nothing(
        &mut endpoint,
        1,
        &initial(&*crypto, &id(1), &id(2), &[], 1199),
    );
    let short_id = ConnectionId::new(&[1; 7]).unwrap();
    nothing(
        &mut endpoint,
        1,
        &initial(&*crypto, &short_id, &id(2), &[], 1200),
    );
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
fn unknown_version_is_negotiated_if_the_datagram_is_large() {
    let mut endpoint = server();
    // Version 2, with ids longer than version 1 knows.
    let mut packet = vec![0xd0, 0x6b, 0x33, 0x43, 0xcf, 30];
    packet.extend([7; 30]);
    packet.push(25);
    packet.extend([8; 25]);
    packet.resize(1200, 0);
    let answer = answer(&mut endpoint, 1, &packet);
    let negotiation = VersionNegotiation::decode(&answer).unwrap();
    assert_eq!(
        (negotiation.dcid, negotiation.scid),
        (&[8; 25][..], &[7; 30][..])
    );
    let versions: Vec<_> = negotiation.versions().collect();
    assert!(versions.contains(&1) && !versions.contains(&0x6b33_43cf));
    nothing(&mut endpoint, 1, &packet[..1199]);
    // Never in answer to a Version Negotiation.
    nothing(&mut endpoint, 1, &answer);
}

#[test]
fn retry_proves_the_address_and_keeps_nothing_meanwhile() {
    let mut config = config(true);
    config.retry = RetryPolicy::Always;
    let mut endpoint = Endpoint::new(config, Random::from_u64(1));
    let retry = answer(&mut endpoint, 1, &hello(1, &[]));
    assert_eq!((endpoint.connections(), endpoint.demux.len()), (0, 0));
    let (token, dcid) = follow(&retry, &id(1));

    let again = initial(&*crypto(), &dcid, &id(2), &token, 1200);
    let validated = incoming(&mut endpoint, 1, &again);
    assert!(validated.is_validated() && !validated.may_retry());
    assert_eq!(validated.origin.original_dcid, id(1));
    assert_eq!(validated.origin.retry_scid, Some(dcid));

    // From another port, to another id, or too late: refused with INVALID_TOKEN.
    let elsewhere = answer(&mut endpoint, 2, &again);
    assert_eq!(
        close_code(&elsewhere, &dcid),
        TransportErrorCode::INVALID_TOKEN
    );
    let other_id = initial(&*crypto(), &id(5), &id(2), &token, 1200);
    let refused = answer(&mut endpoint, 1, &other_id);
    assert_eq!(
        close_code(&refused, &id(5)),
        TransportErrorCode::INVALID_TOKEN
    );

    // A bit error on the way says nothing about the client.
    let refused = endpoint.stats().tokens_refused;
    let mut damaged = again.clone();
    let at = damaged
        .windows(token.len())
        .position(|w| w == token)
        .unwrap();
    damaged[at + token.len() / 2] ^= 4;
    nothing(&mut endpoint, 2, &damaged);
    assert_eq!(endpoint.stats().dropped_forged_initials, 1);
    assert_eq!(endpoint.stats().tokens_refused, refused);

    endpoint.ignore(validated);
    let late = NOW + Duration::from_secs(16);
    let mut out = Vec::new();
    let event = endpoint.handle(late, &from(1), &again, &mut out);
    assert!(matches!(event, DatagramEvent::Respond));
    assert_eq!(close_code(&out, &dcid), TransportErrorCode::INVALID_TOKEN);
}

#[test]
fn token_of_another_endpoint_is_as_good_as_none() {
    let mut endpoint = server();
    let other = NullEndpointKey::new(5);
    let token = crate::crypto::token::new_token(
        &other,
        &mut Random::from_u64(1),
        from(1).remote.ip(),
        EPOCH * 2,
    );
    assert!(!incoming(&mut endpoint, 1, &hello(1, &token)).is_validated());
    assert_eq!(endpoint.stats().tokens_refused, 1);
}

#[test]
fn token_for_a_later_connection_counts_once() {
    let mut endpoint = server();
    let token = crate::crypto::token::new_token(
        &*endpoint.config.key,
        &mut Random::from_u64(1),
        from(1).remote.ip(),
        EPOCH + Duration::from_secs(100),
    );
    // Neither a damaged packet spends it nor one that finds no place.
    let mut damaged = hello(1, &token);
    damaged[1100] ^= 1;
    nothing(&mut endpoint, 5, &damaged);
    endpoint.config.max_half_open = 0;
    nothing(&mut endpoint, 5, &hello(1, &token));
    endpoint.config.max_half_open = 8;
    assert!(incoming(&mut endpoint, 5, &hello(1, &token)).is_validated());
    assert!(!incoming(&mut endpoint, 6, &hello(2, &token)).is_validated());
}

#[test]
fn hosts_that_begin_and_never_end_keep_nobody_else_out() {
    for hosts in [1, 2, 4] {
        few_hosts_keep_nobody_else_out(hosts);
    }
}

fn few_hosts_keep_nobody_else_out(hosts: u8) {
    let mut config = config(true);
    config.max_half_open = 16;
    config.retry = RetryPolicy::Never;
    let mut endpoint = Endpoint::new(config, Random::from_u64(1));
    let greedy_from = |n: u64| Received {
        remote: SocketAddr::from(([198, 51, 100, (n % u64::from(hosts)) as u8], 1)),
        ..from(1)
    };
    let mut answer = Vec::new();
    let mut begin = |endpoint: &mut Endpoint, n| {
        endpoint.handle(NOW, &greedy_from(n), &hello(n, &[]), &mut answer)
    };
    let mut greedy: Vec<_> = (0..16)
        .map(|n| match begin(&mut endpoint, n) {
            DatagramEvent::Incoming(incoming) => incoming,
            other => panic!("{other:?}"),
        })
        .collect();
    assert!(matches!(begin(&mut endpoint, 16), DatagramEvent::Nothing));
    assert_eq!(endpoint.stats().dropped_full, 1);
    let other = |port| Received {
        remote: SocketAddr::from(([192, 0, 2, 8], port)),
        ..from(1)
    };
    let mut answer = Vec::new();
    // One that waits to be accepted goes, then one that was accepted.
    let (first, mut connection) = endpoint.accept(NOW, greedy.remove(1)).unwrap();
    let mut honest = Vec::new();
    for n in 17..19 {
        let mut forged = hello(n, &[]);
        forged[1100] ^= 1;
        endpoint.handle(NOW, &other(n as u16), &forged, &mut answer);
        assert_eq!(endpoint.half_open(), 16);
        let event = endpoint.handle(NOW, &other(n as u16), &hello(n, &[]), &mut answer);
        let DatagramEvent::Incoming(client) = event else {
            panic!("{event:?}");
        };
        honest.push(client);
    }
    assert_eq!((endpoint.half_open(), endpoint.stats().evicted), (16, 2));
    let late = greedy.remove(0);
    assert!(!endpoint.is_waiting(&late) && endpoint.is_waiting(&honest[0]));
    assert!(matches!(
        endpoint.accept(NOW, late),
        Err(AcceptError::Expired)
    ));
    assert_eq!(endpoint.poll_evicted(), Some(first));
    assert_eq!(endpoint.poll_evicted(), None);
    // It may say so to the client, and is forgotten.
    connection.refuse(NOW);
    assert!(connection.poll_transmit(NOW, &mut [0; 1500], 1).is_some());
    assert!(!endpoint.update(NOW, first, &mut connection));
    assert_eq!(endpoint.connections(), 16);
    for client in greedy.into_iter().chain(honest) {
        endpoint.ignore(client);
    }
    assert_eq!((endpoint.half_open(), endpoint.connections()), (0, 0));
    assert_eq!(endpoint.demux.len(), 0);
}

#[test]
fn retry_switches_itself_on_when_handshakes_pile_up() {
    let mut config = config(true);
    config.retry = RetryPolicy::Automatic { half_open: 10 };
    let mut endpoint = Endpoint::new(config, Random::from_u64(1));
    let waiting: Vec<_> = (0..10)
        .map(|n| incoming(&mut endpoint, 1, &hello(n, &[])))
        .collect();
    let retry = answer(&mut endpoint, 1, &hello(10, &[]));
    // Those who follow get in.
    let (token, dcid) = follow(&retry, &id(10));
    let again = initial(&*crypto(), &dcid, &id(2), &token, 1200);
    assert!(incoming(&mut endpoint, 1, &again).is_validated());
    for client in waiting {
        endpoint.ignore(client);
    }
    let mut out = Vec::new();
    let mut calm = |seconds| {
        let now = NOW + Duration::from_secs(seconds);
        endpoint.handle(now, &from(1), &hello(100 + seconds, &[]), &mut out)
    };
    assert!(matches!(calm(9), DatagramEvent::Respond));
    assert!(matches!(calm(10), DatagramEvent::Incoming(_)));
}

#[test]
fn application_may_refuse_retry_or_ignore() {
    let mut endpoint = server();
    let mut out = Vec::new();
    let client = incoming(&mut endpoint, 1, &hello(1, &[]));
    let event = endpoint.refuse(NOW, client, &mut out);
    assert!(matches!(event, DatagramEvent::Respond));
    assert_eq!(
        close_code(&out, &id(1)),
        TransportErrorCode::CONNECTION_REFUSED
    );

    let client = incoming(&mut endpoint, 1, &hello(1, &[]));
    let event = endpoint.retry(NOW, client, &mut out);
    assert!(matches!(event, DatagramEvent::Respond));
    let (token, dcid) = follow(&out, &id(1));
    let client = incoming(
        &mut endpoint,
        1,
        &initial(&*crypto(), &dcid, &id(2), &token, 1200),
    );
    let event = endpoint.retry(NOW, client, &mut out);
    assert!(matches!(event, DatagramEvent::Nothing));

    let client = incoming(&mut endpoint, 1, &hello(1, &[]));
    endpoint.ignore(client);
    assert_eq!((endpoint.connections(), endpoint.half_open()), (0, 0));
    assert_eq!(endpoint.demux.len(), 0);
}

#[test]
fn failed_handshakes_count_until_they_are_forgotten() {
    let mut config = config(true);
    config.max_half_open = 1;
    let mut endpoint = Endpoint::new(config, Random::from_u64(1));
    let first = incoming(&mut endpoint, 1, &hello(1, &[]));
    let (handle, mut connection) = endpoint.accept(NOW, first).unwrap();
    connection.close(NOW, 0, bytes::Bytes::new());
    assert!(endpoint.update(NOW, handle, &mut connection));
    assert_eq!(endpoint.half_open(), 1);
    nothing(&mut endpoint, 2, &hello(2, &[]));
    assert_eq!(endpoint.stats().dropped_full, 1);

    let end = connection.deadline().unwrap();
    connection.handle_timeout(end);
    assert!(!endpoint.update(end, handle, &mut connection));
    assert_eq!(endpoint.half_open(), 0);
    let _ = incoming(&mut endpoint, 2, &hello(2, &[]));
}

#[test]
fn what_waits_is_bounded_and_expires() {
    let mut endpoint = server();
    let client = incoming(&mut endpoint, 1, &hello(1, &[]));
    for _ in 0..100 {
        nothing(&mut endpoint, 1, &hello(1, &[]));
    }
    // 16 KiB hold 13 datagrams of 1200 bytes.
    assert_eq!(endpoint.stats().dropped_waiting, 101 - 13);
    let late = NOW + Duration::from_secs(10);
    let mut out = Vec::new();
    let _other = endpoint.handle(late, &from(2), &hello(2, &[]), &mut out);
    assert_eq!((endpoint.stats().expired, endpoint.connections()), (1, 1));
    assert!(matches!(
        endpoint.accept(late, client),
        Err(AcceptError::Expired)
    ));
    assert_eq!(endpoint.connections(), 1);
}

#[test]
fn unknown_short_packet_is_reset_by_something_shorter() {
    let mut endpoint = server();
    for len in 22..200 {
        let mut packet = vec![0x41; len];
        packet[1..9].copy_from_slice(&[9; 8]);
        let reset = answer(&mut endpoint, 1, &packet);
        assert!(reset.len() < len && reset.len() >= 21);
        assert_eq!(reset[0] & 0xc0, 0x40);
        assert_eq!(
            ResetToken::at_end_of(&reset),
            Some(ResetToken::derive(&*endpoint.config.key, &[9; 8]))
        );
    }
    nothing(&mut endpoint, 1, &[0x41; 21]);
}

#[test]
fn two_endpoints_do_not_reset_each_other_for_ever() {
    let (mut a, mut b) = (server(), Endpoint::new(config(true), Random::from_u64(2)));
    let mut packet = vec![0x41; 1500];
    let mut rounds = 0;
    while let (DatagramEvent::Respond, reset) = handle(&mut a, 1, &packet) {
        packet = reset;
        core::mem::swap(&mut a, &mut b);
        rounds += 1;
    }
    assert!(rounds < 60, "{rounds}");
}

#[test]
fn answers_to_strangers_are_limited() {
    let mut endpoint = server();
    let answered = (0..5000)
        .filter(|_| {
            matches!(
                handle(&mut endpoint, 1, &[0x41; 100]).0,
                DatagramEvent::Respond
            )
        })
        .count();
    assert_eq!(answered, 1000);
    assert_eq!(endpoint.stats().answers_withheld, 4000);
}

#[test]
fn reset_for_a_connection_reaches_it_from_its_peers_address_only() {
    let mut endpoint = server();
    let client = incoming(&mut endpoint, 1, &hello(1, &[]));
    let (handle_of_client, _connection) = endpoint.accept(NOW, client).unwrap();
    let token = ResetToken::new([0xab; 16]);
    let key = std::sync::Arc::clone(&endpoint.config.key);
    let known = Some((from(1).remote, token));
    endpoint.demux.set_token(&*key, handle_of_client, known);
    let mut reset = vec![0x52; 30];
    reset.extend([0xab; 16]);
    match handle(&mut endpoint, 1, &reset).0 {
        DatagramEvent::Connection(handle) => assert_eq!(handle, handle_of_client),
        other => panic!("{other:?}"),
    }
    assert!(matches!(
        handle(&mut endpoint, 2, &reset).0,
        DatagramEvent::Respond
    ));
    endpoint.remove(handle_of_client);
    assert!(matches!(
        handle(&mut endpoint, 1, &reset).0,
        DatagramEvent::Respond
    ));
    assert_eq!(endpoint.demux.len(), 0);
}

#[test]
fn shim_is_stepped_over_to_find_the_connection() {
    let mut endpoint = server();
    let ours = id(77);
    let handle_of_ours =
        ConnectionHandle(endpoint.slots.insert(Slot::Connection { half_open: None }));
    endpoint.demux.add_id(handle_of_ours, &ours);
    let mut shim = [0u8; 16];
    shim[..4].copy_from_slice(&pathmark_shim::frame::prefix::<16>(
        pathmark_shim::Kind::VCP,
    ));
    let packet = [&[0x41][..], ours.as_slice(), &[0; 60]].concat();
    for datagram in [packet.clone(), [&shim[..], &packet].concat()] {
        match handle(&mut endpoint, 1, &datagram).0 {
            DatagramEvent::Connection(handle) => assert_eq!(handle, handle_of_ours),
            other => panic!("{other:?}"),
        }
    }
    // A long header never stands behind a shim.
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
