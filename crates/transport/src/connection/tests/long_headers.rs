//! Validity of IDs and tokens in long headers, and when packets of a handshake are repeated.

use super::handshake_probes::long_headers;
use super::*;

/// Returns the number of packets received and dropped.
pub(super) fn counts(connection: &Connection) -> (u64, u64) {
    let stats = connection.stats();
    (stats.packets_received, stats.packets_dropped)
}

/// A pair whose client has read the server's first packet but hasn't answered it.
fn answered() -> Pair {
    let mut pair = Pair::new();
    pair.until_client_has_id();
    pair
}

/// RFC 9002 §6.2.3: a client that asks again lacks the server's flight, which was lost and is
/// repeated immediately. The server's own probe timeout would fire a second after it.
#[test]
fn a_client_that_asks_again_gets_the_first_flight_again() {
    let mut pair = Pair::new();
    pair.down.faults.loss = 1_000_000;
    pair.run(Duration::from_millis(400));
    pair.down.faults.loss = 0;
    is_answered_at_once(&mut pair);
}

/// The client sends an Initial packet with a PING.
fn ask(pair: &mut Pair) {
    send_initial(pair, &frames(&[Frame::Ping]));
}

/// The client sends an Initial packet with these frames.
fn send_initial(pair: &mut Pair, frames: &[u8]) {
    let mut bytes = packet(pair.client.get(), pair.now, SpaceId::Initial, frames);
    bytes.resize(1200, 0);
    pair.send_to_server(bytes);
}

/// The client asks, and gets the server's flight after a round trip of 20 ms.
fn is_answered_at_once(pair: &mut Pair) {
    let now = pair.now;
    ask(pair);
    pair.until_established();
    assert_eq!(pair.now - now, Duration::from_millis(20));
}

/// An Initial packet that only contains padding isn't ack-eliciting, so the flight isn't repeated.
#[test]
fn an_initial_packet_that_asks_for_nothing_repeats_no_flight() {
    let mut pair = Pair::new();
    pair.down.faults.loss = 1_000_000;
    pair.run(Duration::from_millis(400));
    let before = pair.server.get().stats();
    send_initial(&mut pair, &[0; 8]);
    pair.run(Duration::from_millis(50));
    let after = pair.server.get().stats();
    assert_eq!(after.packets_received, before.packets_received + 1);
    assert_eq!(after.datagrams_sent, before.datagrams_sent);
    pair.down.faults.loss = 0;
    is_answered_at_once(&mut pair);
}

/// The server's first packet only contains an ACK, because the client's first one had no CRYPTO
/// frame. The data that the client lacks is repeated.
#[test]
fn an_old_acknowledgement_is_not_repeated_in_place_of_the_first_flight() {
    let mut pair = Pair::new();
    // It arrives before the client's first flight.
    let latency = core::mem::take(&mut pair.up.latency);
    ask(&mut pair);
    pair.up.latency = latency;
    pair.down.faults.loss = 1_000_000;
    pair.run(Duration::from_millis(100));
    pair.down.faults.loss = 0;
    is_answered_at_once(&mut pair);
}

/// Packets that request the flight while its repetition is in flight don't make the server repeat
/// it again, and don't use up its repetitions.
#[test]
fn what_is_asked_for_many_times_at_once_is_repeated_once() {
    let mut pair = Pair::new();
    pair.down.faults.loss = 1_000_000;
    pair.run(Duration::from_millis(100));
    for _ in 0..20 {
        ask(&mut pair);
    }
    pair.run(Duration::from_millis(100));
    pair.down.faults.loss = 0;
    is_answered_at_once(&mut pair);
}

/// All data of an old level may arrive again, in a separate packet.
#[test]
fn a_whole_old_flight_may_come_again() {
    // [9001 4 retransmit-same-keys]
    let mut pair = answered();
    let server = pair.server.get();
    server.sources.handshake.crypto.resend(SpaceId::Initial);
    let mut buffer = [0; 1200];
    let again = server.poll_transmit(pair.now, &mut buffer, 1).unwrap();
    assert!(types(&buffer[..again.len]).contains(&PacketType::Initial));
    let before = counts(pair.client.get()).0;
    pair.send_to_client(buffer[..again.len].to_vec());
    assert!(counts(pair.client.get()).0 > before);
    assert_eq!(pair.client.error(), None);
    pair.connect();
}

/// The first probe of a handshake is answered before the second is due, after an eighth of the next
/// timeout. The client's next packets then wait for their own acknowledgement, and aren't probed
/// before their own timeout.
#[test]
fn an_answer_stops_the_second_probe_also_where_there_is_more_to_wait_for() {
    let mut pair = Pair::with(Setup::with_latency(50));
    let left = long_headers(&mut pair, Duration::from_millis(10));
    pair.connect();
    pair.run(Duration::from_millis(500));
    // The flight, its first probe after 999 ms, and the Finished a round trip of 100 ms later. The
    // second probe would be sent after 999 and 124.875 ms, and the answer arrives after 1199 ms.
    let mut times = left.borrow().clone();
    times.dedup();
    assert_eq!(times, [0, 999, 1099].map(Duration::from_millis));
}

/// RFC 9000 §10.2.3, §14.1: an endpoint that closes during the handshake does so at each level that
/// the peer can read, in one datagram. A client's datagram has full size.
#[test]
fn a_close_during_the_handshake_is_said_at_every_level() {
    use PacketType::{Handshake, Initial, OneRtt};
    for (client, expected) in [
        (true, &[Initial, Handshake, OneRtt][..]),
        (false, &[Initial, Handshake]),
    ] {
        let mut pair = answered();
        pair.record = true;
        let now = pair.now;
        let host = pair.host(client);
        host.get().close(now, 7, Bytes::from_static(b"enough"));
        host.sent.clear();
        pair.flush();
        let host = pair.host(client);
        assert_eq!(host.sent.len(), 1);
        assert_eq!(types(&host.sent[0]), expected);
        assert_eq!(host.sent[0].len(), 1200);
    }
}

/// A long Retry token leaves little room in an Initial packet. The reason is truncated to fit, the
/// datagram has full size, and the server receives the client's reason.
#[test]
fn a_close_with_a_long_token_is_still_one_that_an_initial_may_hold() {
    for token in [800, 900, 1000, 1050, 1090] {
        let mut pair = answered();
        let client = pair.client.get();
        client.sources.handshake.parameters_mut().token = vec![7; token];
        client.spaces.keys.discard(SpaceId::Handshake);
        let code = Code::INTERNAL_ERROR;
        let error = crate::wire::TransportError::new(code, "x".repeat(300));
        client.receiving(pair.now).fail(error);
        pair.run(Duration::from_millis(50));
        match pair.server.error() {
            Some(ConnectionError::ConnectionClosed(error)) => {
                assert_eq!(error.code, code);
                assert!(error.reason.len() <= 256 && error.reason.starts_with('x'));
            }
            error => panic!("{token}: {error:?}"),
        }
    }
}

/// The keys of the next level end a level even before data of the next one arrives. Data that
/// someone else may add in Initial packets isn't read as the server's Handshake messages.
#[test]
fn nothing_new_is_read_at_a_level_once_the_next_keys_are_there() {
    // [9001 4.1.3 old-level]
    let mut pair = Pair::new();
    // Only the first packet of the server's flight arrives.
    pair.tap = Some(Box::new(|_, datagram| {
        if datagram.from == SERVER.parse().unwrap() {
            let first = first_packet(&datagram.bytes);
            let initial = first.ty == PacketType::Initial;
            datagram.bytes.truncate(if initial { first.len } else { 0 });
        }
    }));
    let known = |p: &mut Pair| p.client.get().spaces.keys.has(SpaceId::Handshake);
    assert!(pair.run_until(Duration::from_secs(1), known));
    let (offset, data) = (2000, &[0x02]);
    let ahead = Frame::Crypto(Crypto { offset, data });
    let bytes = packet_from(&mut pair, From::Server, SpaceId::Initial, &[ahead]);
    pair.send_to_client(bytes);
    assert_eq!(pair.client.closed_with(), Code::PROTOCOL_VIOLATION);
}
