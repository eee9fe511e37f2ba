//! CRYPTO data at the limits of levels and memory, and the public state of a handshake.

use super::*;
use crate::crypto::ExportError;

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

fn code(
    handshake: &mut Handshake,
    space: SpaceId,
    offset: u64,
    data: &[u8],
) -> Option<TransportErrorCode> {
    let result = handshake.on_crypto(space, offset, data);
    result.err().map(|error| error.code)
}

#[test]
fn data_far_ahead_is_held_within_bounds() {
    // [9000 7.5 crypto-buffer] [9000 7.5 crypto-exceeded]
    let exceeded = Some(TransportErrorCode::CRYPTO_BUFFER_EXCEEDED);
    let end = 64 * 1024 - 100;
    let mut server = server(9);
    assert_eq!(code(&mut server, SpaceId::Initial, 1, &[0; 4096]), None);
    assert_eq!(code(&mut server, SpaceId::Initial, end, &[0; 100]), None);
    let beyond = code(&mut server, SpaceId::Initial, end, &[0; 101]);
    assert_eq!(beyond, exceeded);
    let beyond = code(&mut server, SpaceId::Initial, 1 << 40, &[0; 100]);
    assert_eq!(beyond, exceeded);
}

#[test]
fn a_level_that_is_over_gets_what_it_had_and_no_more() {
    // [9001 4.1.3 old-level]
    let (mut client, hello) = hellos();
    client.on_crypto(SpaceId::Initial, 0, &hello).unwrap();
    client.write(|_| {}).unwrap();
    assert_eq!(code(&mut client, SpaceId::Initial, 0, &hello), None);
    let end = hello.len() as u64;
    for (offset, data) in [(end, [0; 1]), (end + 100, [0; 1])] {
        let found = code(&mut client, SpaceId::Initial, offset, &data);
        assert_eq!(found, Some(VIOLATION));
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
