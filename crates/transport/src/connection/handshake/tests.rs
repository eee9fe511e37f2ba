//! A handshake without a connection, with sessions of the null cipher.

mod early;
mod messages;
mod parameters;

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use super::{EarlyData, EarlyDecision, Handshake, Parameters, RetryAnswer};
use crate::connection::Received;
use crate::crypto::null::NullCrypto;
use crate::crypto::{ClientCrypto, InitialCrypto, ServerCrypto, Side};
use crate::wire::frame::Frames;
use crate::wire::packet::{Retry, VersionNegotiation};
use crate::wire::transport_parameters::HandshakeIds;
use crate::wire::{ConnectionId, Frame, SpaceId, TransportErrorCode, TransportParameters, Writer};

fn id(n: u8) -> ConnectionId {
    ConnectionId::new(&[n; 8]).unwrap()
}

/// The client chose the ID 1 for the server, and has the ID 2.
fn seen() -> HandshakeIds {
    HandshakeIds {
        initial_source: ConnectionId::EMPTY,
        original_destination: id(1),
        retry_source: None,
    }
}

fn client() -> Handshake {
    client_of(NullCrypto::new(&[b"test"]))
}

fn client_of(crypto: NullCrypto) -> Handshake {
    let sent = TransportParameters {
        initial_source_connection_id: Some(id(2)),
        ..TransportParameters::DEFAULT
    };
    let session = ClientCrypto::start(&crypto, "server", sent.to_vec(None).unwrap(), 1).unwrap();
    let parameters = Parameters::new(seen(), false, Vec::new());
    Handshake::new(Side::Client, session, Arc::new(crypto), parameters)
}

/// A server whose parameters contain these IDs.
fn server(source: u8) -> Handshake {
    let crypto = NullCrypto::new(&[b"test"]);
    server_of(crypto, source, &TransportParameters::DEFAULT)
}

/// The same with other parameters, too.
fn server_of(crypto: NullCrypto, source: u8, others: &TransportParameters) -> Handshake {
    let sent = TransportParameters {
        initial_source_connection_id: Some(id(source)),
        original_destination_connection_id: Some(id(1)),
        ..others.clone()
    };
    let session = ServerCrypto::start(&crypto, sent.to_vec(None).unwrap(), 2).unwrap();
    let ids = HandshakeIds {
        initial_source: id(2),
        ..seen()
    };
    let parameters = Parameters::new(ids, true, Vec::new());
    Handshake::new(Side::Server, session, Arc::new(crypto), parameters)
}

/// A Retry with `token`, after which the server's ID is `source`.
fn retry(source: u8, token: &[u8]) -> (Vec<u8>, Retry) {
    let mut datagram = [&b"header"[..], token].concat();
    let (start, end) = (6, datagram.len());
    let tag = NullCrypto::new(&[b"test"]).retry_tag(id(1).as_slice(), &datagram);
    datagram.extend_from_slice(&tag);
    let retry = Retry {
        dcid: id(2),
        scid: id(source),
        token: start..end,
        tag: end..datagram.len(),
    };
    (datagram, retry)
}

fn received() -> Received {
    Received::plain(SocketAddr::from((Ipv4Addr::LOCALHOST, 1)))
}

#[test]
fn a_client_takes_one_retry_and_no_forged_one() {
    // [9000 17.2.5.2 first-retry] [9000 17.2.5.2 retry-tag] [9000 17.2.5.2 retry-without-token]
    // [9000 8.1.3 retry-token-once] [9000 17.2.5.1 other-id]
    let mut handshake = client();
    let mut forged = retry(3, b"token");
    *forged.0.last_mut().unwrap() ^= 1;
    for (datagram, form) in [forged, retry(1, b"token"), retry(3, b"")] {
        let answer = handshake.on_retry(&datagram, &form, 100);
        assert!(matches!(answer, Some(RetryAnswer::Drop)), "{form:?}");
    }
    let (datagram, form) = retry(3, b"token");
    let answer = handshake.on_retry(&datagram, &form, 4);
    assert!(matches!(answer, Some(RetryAnswer::TooLong(5))));
    assert!(handshake.token().is_empty());
    let answer = handshake.on_retry(&datagram, &form, 5);
    assert!(matches!(answer, Some(RetryAnswer::Again(_, to)) if to == id(3)));
    assert_eq!(handshake.token(), b"token");
    let answer = handshake.on_retry(&datagram, &form, 100);
    assert!(matches!(answer, Some(RetryAnswer::Drop)), "a second one");
    assert!(handshake.on_retry(&datagram[..4], &form, 100).is_none());
}

#[test]
fn the_peer_keeps_the_id_of_its_first_packet() {
    let mut handshake = client();
    assert!(handshake.is_from_peer(&id(7)) && handshake.is_from_peer(&id(8)));
    assert!(handshake.on_source(id(7)));
    assert!(!handshake.on_source(id(8)));
    assert!(handshake.is_from_peer(&id(7)) && !handshake.is_from_peer(&id(8)));
    // A Retry then arrives too late.
    let (datagram, form) = retry(3, b"token");
    let answer = handshake.on_retry(&datagram, &form, 100);
    assert!(matches!(answer, Some(RetryAnswer::Drop)));
    assert!(!server(9).on_source(id(7)), "a server knows from the start");
}

#[test]
fn versions_are_refused_by_the_server_that_was_asked() {
    let packet = |dcid: u8, scid: u8, version: u32| {
        let ids = [&[dcid; 8][..], &[8], &[scid; 8]].concat();
        [&[0x80, 0, 0, 0, 0, 8], &ids[..], &version.to_be_bytes()].concat()
    };
    for (dcid, scid, version, refuses) in [
        (2, 1, 0x1a2a_3a4a, true),
        (2, 1, 1, false),
        (2, 7, 0x1a2a_3a4a, false),
        (7, 1, 0x1a2a_3a4a, false),
    ] {
        let bytes = packet(dcid, scid, version);
        let decoded = VersionNegotiation::decode(&bytes).unwrap();
        let ours = [id(2)];
        assert_eq!(client().is_refusal(&decoded, ours.iter()), refuses);
        assert!(!server(9).is_refusal(&decoded, ours.iter()));
    }
}

#[test]
fn parameters_are_read_once_and_must_name_the_ids_that_were_seen() {
    for (source, fits) in [(9, true), (8, false)] {
        let (mut client, mut server) = (client(), server(source));
        assert!(client.on_source(id(9)));
        assert_eq!(client.read_parameters(), Ok(false), "there are none");
        exchange(&mut client, &mut server);
        assert_eq!(server.read_parameters(), Ok(true));
        match client.read_parameters() {
            Ok(first) => assert!(first && fits && client.peer().is_some()),
            Err(error) => {
                assert!(!fits);
                assert_eq!(error.code, TransportErrorCode::TRANSPORT_PARAMETER_ERROR);
                continue;
            }
        }
        assert_eq!(client.read_parameters(), Ok(false));
        assert_eq!(client.peer_ack_delay_exponent(), 3);
    }
}

/// Passes written messages to the other side, which then writes its own.
fn deliver(from: &mut Handshake, to: &mut Handshake) {
    for space in SpaceId::ALL {
        let mut room = [0; 4000];
        let mut w = Writer::new(&mut room);
        while from.crypto.write_frame(space, &mut w).is_some() {}
        for frame in Frames::new(w.written()) {
            let Ok(Frame::Crypto(frame)) = frame else {
                panic!("{frame:?}");
            };
            to.on_crypto(space, frame.offset, frame.data).unwrap();
            to.write(|_| {}).unwrap();
        }
    }
}

/// Passes all CRYPTO data between both sides until neither has any.
fn exchange(client: &mut Handshake, server: &mut Handshake) {
    client.write(|_| {}).unwrap();
    for _ in 0..4 {
        deliver(client, server);
        deliver(server, client);
    }
    assert_eq!(client.complete_now(), Ok(true));
    assert_eq!(server.complete_now(), Ok(true));
    assert!(client.complete_now() == Ok(false) && client.is_complete());
    assert!(!client.is_confirmed() && client.confirm() && !client.confirm());
}

#[test]
fn what_overtakes_the_end_of_the_handshake_is_kept_until_then() {
    let (mut client, mut server) = (client(), server(9));
    assert!(!client.keep(&received(), &[0xc0; 100]), "a long header");
    assert!(client.keep(&received(), &[0x40, 7]));
    assert!(client.take_kept().is_none(), "nothing opens it");
    exchange(&mut client, &mut server);
    assert!(!client.keep(&received(), &[0x40, 8]));
    assert_eq!(client.take_kept().map(|kept| kept.1), Some(vec![0x40, 7]));
    assert!(client.take_kept().is_none());
}

#[test]
fn without_a_session_to_resume_there_is_no_early_data() {
    let (mut client, mut server) = (client(), server(9));
    assert!(client.begin_early_data().is_none());
    assert_eq!(client.settle_early_data(5), EarlyDecision::None);
    assert!(!server.may_take_early_data());
    assert!(server.take_early_keys().is_none());
    assert_eq!(client.early_data(), EarlyData::None);
}
