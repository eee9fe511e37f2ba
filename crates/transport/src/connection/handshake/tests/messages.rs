//! CRYPTO data at the limits of levels and memory, and the public state of a handshake.

use super::*;
use crate::crypto::{ExportError, tls};

const VIOLATION: TransportErrorCode = TransportErrorCode::PROTOCOL_VIOLATION;

/// A client whose ClientHello has arrived, and the server's ServerHello.
fn hellos() -> (Handshake, Vec<u8>) {
    let (mut client, mut server) = (client(), server(9));
    client.write(|_| {}).unwrap();
    deliver(&mut client, &mut server);
    let range = server.crypto.level(SpaceId::Initial).send.poll(4000);
    let send = &server.crypto.level(SpaceId::Initial).send;
    (client, send.bytes(&range.unwrap()).to_vec())
}

/// The code with which Initial data at `offset` is refused, if it is.
fn code(handshake: &mut Handshake, offset: u64, data: &[u8]) -> Option<TransportErrorCode> {
    let result = handshake.on_crypto(SpaceId::Initial, offset, data);
    result.err().map(|error| error.code)
}

#[test]
fn data_far_ahead_is_held_within_bounds() {
    // [9000 7.5 crypto-buffer] [9000 7.5 crypto-exceeded]
    let exceeded = Some(TransportErrorCode::CRYPTO_BUFFER_EXCEEDED);
    let end = 64 * 1024 - 100;
    let mut server = server(9);
    assert_eq!(code(&mut server, 1, &[0; 4096]), None);
    assert_eq!(code(&mut server, end, &[0; 100]), None);
    assert_eq!(code(&mut server, end, &[0; 101]), exceeded);
    assert_eq!(code(&mut server, 1 << 40, &[0; 100]), exceeded);
}

#[test]
fn messages_arrive_in_pieces_of_any_order() {
    let (mut client, hello) = hellos();
    let third = hello.len() / 3;
    for part in [2, 0, 1, 3] {
        let piece = hello.chunks(third).nth(part).unwrap_or_default();
        let offset = (part * third) as u64;
        client.on_crypto(SpaceId::Initial, offset, piece).unwrap();
    }
    let mut keys = 0;
    client.write(|_| keys += 1).unwrap();
    assert_eq!(keys, 1, "those of Handshake packets");
}

#[test]
fn a_level_that_is_over_gets_what_it_had_and_no_more() {
    // [9001 4.1.3 old-level]
    let (mut client, hello) = hellos();
    client.on_crypto(SpaceId::Initial, 0, &hello).unwrap();
    client.write(|_| {}).unwrap();
    assert_eq!(code(&mut client, 0, &hello), None);
    let end = hello.len() as u64;
    for offset in [end, end + 100] {
        assert_eq!(code(&mut client, offset, &[0]), Some(VIOLATION));
    }
}

#[test]
fn keys_do_not_come_while_data_of_the_level_before_is_missing() {
    // [9001 4.1.3 unread-at-new-keys]
    let (mut client, hello) = hellos();
    let gap = hello.len() as u64 + 1;
    client.on_crypto(SpaceId::Initial, gap, &[0; 10]).unwrap();
    client.on_crypto(SpaceId::Initial, 0, &hello).unwrap();
    let error = client.write(|_| panic!("no keys")).unwrap_err();
    assert_eq!(error.code, VIOLATION);
}

#[test]
fn both_sides_agree_on_protocol_and_keying_material() {
    let (mut client, mut server) = (client(), server(9));
    let export = |side: &Handshake, label: &[u8]| {
        let mut out = [0; 32];
        side.export_keying_material(&mut out, label, b"context")?;
        Ok::<_, ExportError>(out)
    };
    assert!(export(&client, b"label").is_err(), "too early");
    assert!(format!("{client:?}").contains("Running"));
    exchange(&mut client, &mut server);
    assert!(format!("{server:?}").contains("Complete"));
    assert_eq!(client.data().protocol.as_deref(), Some(&b"test"[..]));
    assert_eq!(server.data().server_name.as_deref(), Some("server"));
    let ours = export(&client, b"label").unwrap();
    assert_eq!(export(&server, b"label"), Ok(ours));
    assert_ne!(export(&server, b"other"), Ok(ours));
    assert!(client.is_confirmed() && !server.is_confirmed());
    assert!(server.confirm() && server.is_confirmed());
}

#[cfg(feature = "rustls")]
#[test]
fn the_servers_certificate_is_shown_to_the_client() {
    let sent = |own: u8| TransportParameters {
        initial_source_connection_id: Some(super::id(own)),
        ..TransportParameters::DEFAULT
    };
    let handshake = |side, session, crypto: Arc<dyn InitialCrypto>| {
        let parameters = Parameters::new(seen(), false, Vec::new());
        Handshake::new(side, session, crypto, parameters)
    };
    let config = tls::testing::client(tls::testing::trust_ca(), &[b"a"]);
    let session = ClientCrypto::start(&config, "server.test", sent(2).to_vec(None).unwrap(), 1);
    let mut client = handshake(Side::Client, session.unwrap(), Arc::new(config));
    let config = tls::testing::server("server", &[b"a"]);
    let session = ServerCrypto::start(&config, sent(9).to_vec(None).unwrap(), 2);
    let mut server = handshake(Side::Server, session.unwrap(), Arc::new(config));
    exchange(&mut client, &mut server);
    let chain = client.peer_certificates();
    // A certificate in DER is a SEQUENCE with a length of two bytes.
    assert!(chain[0].starts_with(&[0x30, 0x82]));
    assert!(server.peer_certificates().is_empty());
}
