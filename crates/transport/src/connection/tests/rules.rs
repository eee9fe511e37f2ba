//! Rules of RFC 9000 and RFC 9001 that other files don't test.

use std::collections::BTreeSet;

use super::long_headers::counts;
use super::*;
use crate::connection::building::Carried;
use crate::recovery::{PathNumber, packet as recorded};

/// Returns the distinct destination IDs of a datagram's packets.
pub(super) fn destinations(datagram: &[u8]) -> BTreeSet<ConnectionId> {
    packets(datagram).iter().map(|packet| packet.dcid).collect()
}

/// The client discards its Initial keys with its first Handshake packet. When this arrives, the
/// server discards its Initial keys and, because the handshake is confirmed there, its Handshake
/// keys. HANDSHAKE_DONE is sent immediately, and makes the client discard its own.
#[test]
fn keys_go_with_their_levels() {
    // [9001 4.1.2 handshake-done] [9001 4.9.1 client-initial-keys]
    // [9001 4.9.1 server-initial-keys] [9001 4.9.1 no-more-initials] [9001 4.9.2 handshake-keys]
    // [9000 12.2 one-destination] [9000 19.20 complete-first]
    let mut pair = Pair::new();
    pair.record = true;
    pair.until_established();
    let has = |connection: &Connection| SpaceId::ALL.map(|space| connection.spaces.keys.has(space));
    pair.flush();
    assert_eq!(has(pair.client.get()), [false, true, true]);
    assert_eq!(has(pair.server.get()), [true, true, true]);
    pair.run(Duration::from_millis(10));
    assert_eq!(has(pair.server.get()), [false, false, true]);
    let last = pair.server.sent.last().unwrap();
    assert_eq!(types(last), [PacketType::OneRtt], "HANDSHAKE_DONE, at once");
    pair.connect();
    assert_eq!(has(pair.client.get()), [false, false, true]);
    for datagram in pair.client.sent.iter().chain(&pair.server.sent) {
        assert_eq!(destinations(datagram).len(), 1);
    }
    let has_type = |ty| move |datagram: &Vec<u8>| types(datagram).contains(&ty);
    let sent = &pair.client.sent;
    let last = sent.iter().position(has_type(PacketType::Handshake));
    let late = [&sent[last.unwrap() + 1..], &pair.server.sent[1..]].concat();
    assert!(!late.iter().any(has_type(PacketType::Initial)));
}

/// A packet with a four-byte number needs no padding, so it may contain no frame.
#[test]
fn a_packet_without_frames() {
    // [9000 12.4 some-frame]
    let mut pair = Pair::at_rest(Setup::default());
    let mut far = recorded(pair.now, 40, Carried::default());
    (far.ack_eliciting, far.in_flight, far.path) = (false, false, PathNumber::OTHER);
    let recovery = &mut pair.client.get().spaces.recovery;
    // There's nothing to keep between this number and the previous numbers.
    recovery.drain(pair.now, SpaceId::Data, |_, _| {});
    assert!(recovery.on_sent(SpaceId::Data, 1 << 30, far));
    send(&mut pair, From::Client, SpaceId::Data, &[]);
    pair.run(Duration::from_millis(100));
    assert_eq!(pair.server.closed_with(), Code::PROTOCOL_VIOLATION);
}

/// The latency spin bit isn't used here, but a peer may set it.
#[test]
fn a_spin_bit_changes_nothing() {
    // [9000 17.4 spin-bit]
    let mut pair = Pair::at_rest(Setup::default());
    let before = pair.client.get().stats().packets_received;
    let server = pair.server.get();
    let bytes = sealed(server, pair.now, SpaceId::Data, &[1, 0, 0, 0], 0x20, true);
    pair.send_to_client(bytes);
    assert_eq!(pair.client.get().stats().packets_received, before + 1);
    assert_eq!(pair.client.error(), None);
    pair.upload(10_000, Duration::from_secs(5));
}

/// RFC 9000 §5.2.1: a client drops packets of other versions.
#[test]
fn a_packet_of_another_version_is_dropped() {
    // [9000 5.2.1 other-version]
    let mut pair = Pair::new();
    pair.until_client_has_id();
    let bytes = packet_from(&mut pair, From::Server, SpaceId::Handshake, &[Frame::Ping]);
    let before = counts(pair.client.get());
    let mut other = bytes.clone();
    other[4] = 2;
    pair.send_to_client(other);
    assert_eq!(counts(pair.client.get()), (before.0, before.1 + 1));
    pair.send_to_client(bytes);
    assert_eq!(counts(pair.client.get()), (before.0 + 1, before.1 + 1));
    pair.connect();
}

/// If a packet can't be decrypted, later packets in its datagram are nevertheless processed.
#[test]
fn packets_of_a_datagram_are_read_one_by_one() {
    // [9000 12.2 coalesced]
    for damaged in [true, false] {
        let mut pair = Pair::new();
        pair.until_established();
        let ping = frames(&[Frame::Ping]);
        let server = pair.server.get();
        let mut datagram = packet(server, pair.now, SpaceId::Handshake, &ping);
        *datagram.last_mut().unwrap() ^= u8::from(damaged);
        datagram.extend(packet(server, pair.now, SpaceId::Data, &ping));
        let before = counts(pair.client.get());
        pair.send_to_client(datagram);
        let (read, dropped) = if damaged { (1, 1) } else { (2, 0) };
        let expected = (before.0 + read, before.1 + dropped);
        assert_eq!(counts(pair.client.get()), expected);
        pair.connect();
    }
}

/// A server has 1-RTT keys before it receives the client's Finished, but doesn't use them to
/// decrypt.
#[test]
fn one_rtt_packets_wait_for_the_end_of_the_handshake() {
    // [9001 5.7 not-before-complete]
    let mut pair = Pair::new();
    pair.until_established();
    pair.flush();
    pair.up.cut();
    send_frames(&mut pair, From::Client, &[Frame::Ping]);
    let before = counts(pair.server.get());
    pair.run(Duration::from_millis(11));
    let server = pair.server.get();
    assert!(server.spaces.keys.has(SpaceId::Data) && !server.is_established());
    assert_eq!(counts(server), before);
    pair.connect();
}

/// Established doesn't mean confirmed.
#[test]
fn no_client_moves_before_the_handshake_is_confirmed() {
    // [9000 9 confirmed-first]
    let mut pair = Pair::new();
    pair.until_established();
    let now = pair.now;
    assert!(!pair.client.get().handshake().is_confirmed() && !pair.client.get().migrate(now, None));
    pair.connect();
    pair.run(Duration::from_millis(100));
    assert!(pair.client.get().migrate(pair.now, None));
}
