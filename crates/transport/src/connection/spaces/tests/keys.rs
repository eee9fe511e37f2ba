//! Installed and discarded keys, and their effect on timers and packets.

use super::*;
use crate::recovery::INITIAL_RTT;
use crate::wire::frame::ack;
use crate::wire::packet::PartialDecode;

/// Builds a packet with a PING frame.
fn ping(spaces: &mut PacketSpaces, space: SpaceId) -> Vec<u8> {
    let mut room = [0; 100];
    let mut w = Writer::new(&mut room);
    let open = spaces.start(space, ids(), &[], &mut w).unwrap();
    Frame::Ping.encode(&mut w).unwrap();
    let range = spaces.seal(&open, &mut w).unwrap();
    let random = &mut Random::from_u64(1);
    spaces.on_sent(space, open.number, sent(START, 100, crypto()), random);
    room[range].to_vec()
}

/// Returns the number and the key phase of `packet` if it can be decrypted.
fn opened(spaces: &mut PacketSpaces, packet: &[u8]) -> Option<(u64, u64)> {
    let Ok(PartialDecode::Protected(found)) = PartialDecode::new(packet, 8) else {
        panic!("{packet:?}");
    };
    let opened = spaces.open(START, &found, &mut packet.to_vec()).ok()?;
    Some((opened.number, opened.generation))
}

/// Processes an ACK frame for packet `number` in `space`, in a packet of key phase `generation`.
fn ack_arrives(
    spaces: &mut PacketSpaces,
    space: SpaceId,
    number: u64,
    generation: u64,
) -> Result<(), TransportError> {
    let mut room = [0; 20];
    let mut w = Writer::new(&mut room);
    ack::encode(&mut w, [number..=number].into_iter(), 0, None, 20).unwrap();
    let Some(Ok(Frame::Ack(ack))) = Frames::new(w.written()).next() else {
        panic!("an ACK frame");
    };
    spaces.on_ack_frame(space, generation, &ack)
}

#[test]
fn packets_open_once_both_sides_have_the_keys_of_their_level() {
    let [mut client, mut server] = both_sides();
    let packet = ping(&mut client, SpaceId::Initial);
    assert_eq!(opened(&mut server, &packet), Some((0, 0)));
    let (own, peers) = (later_keys(Side::Client), later_keys(Side::Server));
    let later = own.into_iter().zip(peers);
    for ((own, peers), space) in later.zip([SpaceId::Handshake, SpaceId::Data]) {
        client.install(own, u64::MAX);
        let packet = ping(&mut client, space);
        assert_eq!(opened(&mut server, &packet), None);
        server.install(peers, u64::MAX);
        assert_eq!(opened(&mut server, &packet), Some((0, 0)));
    }
}

#[test]
fn initial_packets_begin_again_after_a_retry() {
    // [9000 17.2.5.3 numbers-go-on]
    let [mut client, mut server] = both_sides();
    ping(&mut client, SpaceId::Initial);
    client.on_retry(START, initial_keys(Side::Client, 2));
    assert_eq!(client.recovery.bytes_in_flight(), 0);
    let packet = ping(&mut client, SpaceId::Initial);
    assert_eq!(opened(&mut server, &packet), None);
    server.on_retry(START, initial_keys(Side::Server, 2));
    assert_eq!(opened(&mut server, &packet), Some((1, 0)));
}

/// The time until an answer is late is bounded, because the peer can delay its answers as it likes.
#[test]
fn the_probe_timeout_follows_the_peer_up_to_a_bound() {
    // [9002 6.2.1 least-period]
    let [mut client, _] = both_sides();
    let ms = Duration::from_millis;
    assert_eq!(client.pto(), 3 * INITIAL_RTT + ms(25));
    client.on_peer_parameters(ms(2000), None);
    assert_eq!(client.pto(), 3 * INITIAL_RTT + ms(2000));
    client.on_peer_parameters(ms(16_000), None);
    assert_eq!(client.pto(), LONGEST_PTO);
}

#[test]
fn the_delay_that_the_peer_was_asked_for_holds_once_it_is_acknowledged() {
    let [mut client, _] = both_sides();
    let ms = Duration::from_millis;
    client.on_peer_parameters(ms(25), Some(ms(1)));
    send(&mut client, SpaceId::Data, START, 100);
    acked(&mut client, SpaceId::Data, 0, after(80));
    let base = client.pto() - ms(25);
    let mut room = [0; 100];
    let mut ask = |client: &mut PacketSpaces, at, interval| {
        client.write_ack_request(at, Some(interval), 10, &mut Writer::new(&mut room))
    };
    // An eighth of the round trip. Until it is acknowledged, the longer of both applies.
    let first = ask(&mut client, after(80), ms(80)).unwrap();
    client.after_data_ack();
    assert_eq!(client.pto(), base + ms(25));
    let (.., request) = client.split(SpaceId::Data);
    request.on_acked(first);
    client.after_data_ack();
    assert_eq!(client.pto(), base + ms(10));
    let (.., request) = client.split(SpaceId::Data);
    assert_eq!(request.max_ack_delay(), ms(10));
}

#[test]
fn a_client_probes_with_its_newest_keys_until_the_server_has_validated_it() {
    // [9002 6.2.2.1 client-probe-space] [9002 6.2.2.1 client-keeps-probing]
    let [mut client, _] = both_sides();
    let space = |client: &PacketSpaces| client.recovery.probe_space();
    assert_eq!(space(&client), Some(SpaceId::Initial));
    let [handshake, _] = later_keys(Side::Client);
    client.install(handshake, u64::MAX);
    assert_eq!(space(&client), Some(SpaceId::Handshake));
    ack_arrives(&mut client, SpaceId::Initial, 0, 0).unwrap();
    assert_eq!(space(&client), Some(SpaceId::Handshake));
    ack_arrives(&mut client, SpaceId::Handshake, 0, 0).unwrap();
    assert_eq!(space(&client), None);
}

#[test]
fn a_confirmed_handshake_lets_data_be_probed_and_keys_be_updated() {
    // [9002 6.2.1 data-after-confirmation] [9001 6.1 confirmed-first]
    let [_, mut server] = both_sides();
    install(&mut server);
    ping(&mut server, SpaceId::Data);
    ack_arrives(&mut server, SpaceId::Data, 0, 0).unwrap();
    assert_eq!(server.recovery.probe_space(), None);
    assert!(!server.keys.begin_update(START));
    server.on_confirmed();
    assert_eq!(server.recovery.probe_space(), Some(SpaceId::Data));
    assert!(server.keys.begin_update(START));
}

#[test]
fn packets_of_a_key_phase_are_not_acknowledged_under_older_keys() {
    // [9001 6.2 follow-before-ack]
    let [mut client, _] = both_sides();
    install(&mut client);
    client.on_confirmed();
    ping(&mut client, SpaceId::Data);
    ack_arrives(&mut client, SpaceId::Data, 0, 0).unwrap();
    assert!(client.keys.begin_update(START));
    ping(&mut client, SpaceId::Data);
    ack_arrives(&mut client, SpaceId::Data, 0, 0).unwrap();
    let error = ack_arrives(&mut client, SpaceId::Data, 1, 0).unwrap_err();
    assert_eq!(error.code, TransportErrorCode::KEY_UPDATE_ERROR);
    assert_eq!(ack_arrives(&mut client, SpaceId::Data, 1, 1), Ok(()));
}

#[test]
fn what_waits_for_keys_goes_with_them() {
    // [9002 6.4 discarded-packets]
    let [mut spaces, _] = both_sides();
    let initial = SpaceId::Initial;
    assert!(!spaces.discard(START, SpaceId::Handshake), "there are none");
    send(&mut spaces, initial, START, 1200);
    let _ = spaces.begin_probes(initial);
    assert!(spaces.is_probing() && spaces.recovery.bytes_in_flight() > 0);
    assert!(spaces.discard(START, initial));
    assert!(!spaces.is_probing() && spaces.recovery.bytes_in_flight() == 0);
    assert!(!spaces.keys.has(initial) && !spaces.discard(START, initial));
}
