//! Validity of IDs and tokens in long headers, and when packets of a handshake are repeated.

use bytes::Bytes;

use super::handshake_probes::long_headers;
use super::inject;
use super::pair::{Pair, SERVER, Setup};
use crate::Duration;
use crate::connection::{Connection, ConnectionError};
use crate::wire::frame::Crypto;
use crate::wire::{ConnectionId, Frame, PacketType, PartialDecode, SpaceId, TransportErrorCode};

/// Returns the number of packets received and dropped.
fn counts(connection: &Connection) -> (u64, u64) {
    let stats = connection.stats();
    (stats.packets_received, stats.packets_dropped)
}

/// A pair whose client has read the server's first packet but hasn't answered it.
fn answered() -> Pair {
    let mut pair = Pair::new();
    pair.until_client_has_id();
    pair
}

/// Delivers a packet of the server to the client. Returns the number received and dropped.
fn to_client(pair: &mut Pair, space: SpaceId) -> (u64, u64) {
    let ping = inject::frames(&[Frame::Ping]);
    let now = pair.now;
    let bytes = inject::packet(pair.server.get(), now, space, &ping);
    let before = counts(pair.client.get());
    pair.send_to_client(bytes);
    let after = counts(pair.client.get());
    (after.0 - before.0, after.1 - before.1)
}

/// RFC 9000 §7.2: after the first packet, a client drops packets with another source ID.
#[test]
fn a_server_keeps_the_source_id_of_its_first_packet() {
    // [9000 7.2 client-drops-other-source]
    for space in [SpaceId::Initial, SpaceId::Handshake] {
        let mut pair = answered();
        assert_eq!(to_client(&mut pair, space), (1, 0));
        let server = pair.server.get();
        let id = server.sources.control.handshake_id;
        server.sources.control.handshake_id = ConnectionId::new(b"another!").unwrap();
        assert_eq!(to_client(&mut pair, space), (0, 1));
        pair.server.get().sources.control.handshake_id = id;
        pair.connect();
    }
}

/// So does a server with packets of its client.
#[test]
fn a_client_keeps_the_source_id_of_its_first_packet() {
    // [9000 7.2 server-follows-first]
    let mut pair = Pair::new();
    pair.run(Duration::from_millis(15));
    let now = pair.now;
    for same in [true, false] {
        let client = pair.client.get();
        let id = client.sources.control.handshake_id;
        if !same {
            client.sources.control.handshake_id = ConnectionId::new(b"another!").unwrap();
        }
        let ping = inject::frames(&[Frame::Ping]);
        let mut bytes = inject::packet(client, now, SpaceId::Initial, &ping);
        client.sources.control.handshake_id = id;
        bytes.resize(1200, 0);
        let datagram = super::link::Datagram {
            from: pair.client.address,
            to: pair.server.address,
            ecn: crate::Ecn::NotEct,
            bytes,
        };
        let before = counts(pair.server.get()).0;
        pair.up.latency = Duration::ZERO;
        pair.up.send(now, datagram);
        pair.run(Duration::from_millis(1));
        let received = counts(pair.server.get()).0 - before;
        assert_eq!(received, u64::from(same));
    }
    pair.connect();
}

/// RFC 9000 §17.2.2: a server's Initial with a token is dropped.
#[test]
fn a_servers_initial_with_a_token_is_dropped() {
    // [9000 17.2.2 no-server-token]
    let mut pair = answered();
    pair.server.get().sources.handshake.parameters_mut().token = vec![7; 16];
    assert_eq!(to_client(&mut pair, SpaceId::Initial), (0, 1));
    pair.server
        .get()
        .sources
        .handshake
        .parameters_mut()
        .token
        .clear();
    assert_eq!(to_client(&mut pair, SpaceId::Initial), (1, 0));
    pair.connect();
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
    send_initial(pair, &inject::frames(&[Frame::Ping]));
}

/// The client sends an Initial packet with these frames.
fn send_initial(pair: &mut Pair, frames: &[u8]) {
    let now = pair.now;
    let mut bytes = inject::packet(pair.client.get(), now, SpaceId::Initial, frames);
    bytes.resize(1200, 0);
    let datagram = super::link::Datagram {
        from: pair.client.address,
        to: pair.server.address,
        ecn: crate::Ecn::NotEct,
        bytes,
    };
    pair.up.send(now, datagram);
}

/// The client asks, and gets the server's flight after a round trip of 20 ms.
fn is_answered_at_once(pair: &mut Pair) {
    let now = pair.now;
    ask(pair);
    assert!(pair.run_until(Duration::from_millis(100), |p| {
        p.client.get().is_established()
    }));
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

/// A client that requests it continually gets it eight times, even if its address is validated.
#[test]
fn a_first_flight_is_repeated_a_few_times_and_no_more() {
    let mut pair = Pair::with(Setup {
        validated: true,
        ..Setup::default()
    });
    pair.down.faults.loss = 1_000_000;
    pair.run(Duration::from_millis(100));
    let mut answered = 0;
    for _ in 0..30 {
        let before = pair.server.get().stats().bytes_sent;
        ask(&mut pair);
        pair.run(Duration::from_millis(20));
        answered += u64::from(pair.server.get().stats().bytes_sent > before + 1000);
    }
    assert!((8..16).contains(&answered), "{answered}");
}

/// All data of an old level may arrive again, in a separate packet.
#[test]
fn a_whole_old_flight_may_come_again() {
    // [9001 4 retransmit-same-keys]
    let mut pair = answered();
    let now = pair.now;
    let server = pair.server.get();
    server.sources.handshake.crypto.resend(SpaceId::Initial);
    let mut buffer = [0; 1200];
    let again = server.poll_transmit(now, &mut buffer, 1).unwrap();
    assert!(types(&buffer[..again.len]).contains(&PacketType::Initial));
    let before = counts(pair.client.get()).0;
    pair.send_to_client(buffer[..again.len].to_vec());
    assert!(counts(pair.client.get()).0 > before);
    assert_eq!(pair.client.error(), None);
    pair.connect();
}

/// RFC 9001 §4.1.3: no data of a level may be missing when the next one is read.
#[test]
fn a_level_that_is_left_with_a_gap_breaks_the_handshake() {
    // [9001 4.1.3 unread-at-new-keys]
    let mut pair = Pair::new();
    // The server's flight was sent.
    pair.run(Duration::from_millis(15));
    let ahead = Crypto {
        offset: 3000,
        data: &[0x02],
    };
    let frame = inject::frames(&[Frame::Crypto(ahead)]);
    let now = pair.now;
    let bytes = inject::packet(pair.server.get(), now, SpaceId::Initial, &frame);
    pair.send_to_client(bytes);
    assert_eq!(pair.client.error(), None);
    pair.run(Duration::from_millis(50));
    match pair.client.error() {
        Some(ConnectionError::Transport(error)) => {
            assert_eq!(error.code, TransportErrorCode::PROTOCOL_VIOLATION);
        }
        error => panic!("{error:?}"),
    }
}

/// The first probe of a handshake is answered before the second is due, after an eighth of the next
/// timeout. The client's next packets then wait for their own acknowledgement, and aren't probed
/// before their own timeout.
#[test]
fn an_answer_stops_the_second_probe_also_where_there_is_more_to_wait_for() {
    let mut pair = Pair::with(Setup {
        latency: Duration::from_millis(50),
        ..Setup::default()
    });
    let left = long_headers(&mut pair, Duration::from_millis(10));
    pair.connect();
    pair.run(Duration::from_millis(500));
    let ms = |ms: &u64| Duration::from_millis(*ms);
    // The flight, its first probe after 999 ms, and the Finished a round trip of 100 ms later. The
    // second probe would be sent after 999 and 124.875 ms, and the answer arrives after 1199 ms.
    let at: Vec<_> = left.borrow().clone();
    let mut times = at.clone();
    times.dedup();
    assert_eq!(
        times,
        [0, 999, 1099].iter().map(ms).collect::<Vec<_>>(),
        "{at:?}"
    );
}

/// Returns the types of a datagram's packets.
pub(super) fn types(mut datagram: &[u8]) -> Vec<PacketType> {
    let mut types = Vec::new();
    while let Ok(PartialDecode::Protected(found)) = PartialDecode::new(datagram, 8) {
        types.push(found.ty);
        datagram = &datagram[found.len..];
    }
    types
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
        let host = if client {
            &mut pair.client
        } else {
            &mut pair.server
        };
        host.get().close(now, 7, Bytes::from_static(b"enough"));
        host.sent.clear();
        pair.flush();
        let host = if client { &pair.client } else { &pair.server };
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
        client.spaces.keys_mut().discard(SpaceId::Handshake);
        let code = TransportErrorCode::INTERNAL_ERROR;
        let error = crate::wire::TransportError::new(code, "x".repeat(300));
        client.receiving(pair.now).fail(error);
        pair.run(Duration::from_millis(50));
        match pair.server.error() {
            Some(ConnectionError::PeerTransport(error)) => {
                assert_eq!(error.code, code);
                assert!(error.reason.len() <= 256 && error.reason.starts_with('x'));
            }
            error => panic!("{token}: {error:?}"),
        }
    }
}

/// RFC 9001 §4.1.3: data of an encryption level may arrive again, but no new data once the next
/// level is read.
#[test]
fn nothing_new_is_read_at_an_old_level() {
    // [9001 4.1.3 old-level]
    // The server's first message is shorter than this.
    for (offset, breaks) in [(0, false), (2000, true)] {
        let mut pair = answered();
        let data = &[0x02];
        let frame = inject::frames(&[Frame::Crypto(Crypto { offset, data })]);
        let now = pair.now;
        let bytes = inject::packet(pair.server.get(), now, SpaceId::Initial, &frame);
        pair.send_to_client(bytes);
        match pair.client.error() {
            Some(ConnectionError::Transport(error)) => {
                assert_eq!(error.code, TransportErrorCode::PROTOCOL_VIOLATION);
                assert!(breaks, "{error}");
            }
            error => assert!(!breaks && error.is_none(), "{error:?}"),
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
            let found = PartialDecode::new(&datagram.bytes, 8);
            match found {
                Ok(PartialDecode::Protected(first)) if first.ty == PacketType::Initial => {
                    datagram.bytes.truncate(first.len);
                }
                _ => datagram.bytes.clear(),
            }
        }
    }));
    let known = |p: &mut Pair| p.client.get().spaces.keys().has(SpaceId::Handshake);
    assert!(pair.run_until(Duration::from_secs(1), known));
    let ahead = Crypto {
        offset: 2000,
        data: &[0x02],
    };
    let frame = inject::frames(&[Frame::Crypto(ahead)]);
    let now = pair.now;
    let bytes = inject::packet(pair.server.get(), now, SpaceId::Initial, &frame);
    pair.send_to_client(bytes);
    match pair.client.error() {
        Some(ConnectionError::Transport(error)) => {
            assert_eq!(error.code, TransportErrorCode::PROTOCOL_VIOLATION);
        }
        error => panic!("{error:?}"),
    }
}
