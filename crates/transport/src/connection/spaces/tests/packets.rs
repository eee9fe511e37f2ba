//! Writing of packets: numbers, headers, acknowledgements, and seals.

use std::sync::Arc;

use super::*;
use crate::Arrived;
use crate::connection::paths::{Feedback, ShimPrefix};
use crate::connection::tests::signal::TestSignal;
use crate::wire::PacketType;

/// Feedback with something to return, because the peer's signal arrived in a packet's ECN field.
fn feedback() -> Feedback {
    let mut feedback = Feedback::new(&[Arc::new(TestSignal::in_ecn(200))]);
    feedback.negotiate(&[200]);
    let arrived = Arrived {
        shim: None,
        ecn: Ecn::Ect1,
        ttl: None,
        bytes: 1200,
        now: START,
        number: 0,
    };
    feedback.on_packet(ShimPrefix::Plain, arrived);
    feedback
}

/// Writes acknowledgements. Returns the largest number in the ACK frame if there's one, the size of
/// all frames, and whether a FEEDBACK frame is the last.
fn write_acks(
    spaces: &mut PacketSpaces,
    space: SpaceId,
    with_data: bool,
    room: &mut [u8],
) -> (Option<u64>, usize, bool) {
    let mut w = Writer::new(room);
    let acked = spaces.write_acks(START, space, with_data, &mut feedback(), &mut w);
    let frames: Vec<_> = Frames::new(w.written()).map(Result::unwrap).collect();
    let feedback = matches!(frames.last(), Some(Frame::Feedback(_)));
    assert!(frames.len() == usize::from(acked.is_some()) + usize::from(feedback));
    if let Some(acked) = acked {
        assert!(matches!(&frames[0], Frame::Ack(ack) if ack.largest == acked));
    }
    (acked, w.position(), feedback)
}

/// Every second packet of a hundred arrives, which is too much for an ACK frame.
fn with_gaps(space: SpaceId) -> PacketSpaces {
    let [mut client, _] = both_sides();
    for number in (0..100).step_by(2) {
        let received = client.received_mut(space);
        received.on_packet(START, number, true, Ecn::NotEct, 1200);
    }
    client
}

#[test]
fn what_arrived_is_acknowledged_once_in_its_own_space() {
    // [9000 13.2.6 same-space]
    let [mut client, _] = both_sides();
    let mut room = [0; 100];
    for space in SpaceId::ALL {
        let mut write = |client: &mut _| write_acks(client, space, false, &mut room);
        assert_eq!(write(&mut client), (None, 0, false));
        let received = client.received_mut(space);
        received.on_packet(START, 7, true, Ecn::NotEct, 1200);
        let (acked, bytes, _) = write(&mut client);
        assert!(acked == Some(7) && bytes > 0);
        assert_eq!(write(&mut client), (None, 0, false));
    }
}

#[test]
fn acknowledgements_leave_half_of_a_packet_to_data() {
    let mut room = [0; 60];
    for (space, with_data, halved) in [
        (SpaceId::Data, true, true),
        (SpaceId::Data, false, false),
        (SpaceId::Initial, true, false),
    ] {
        let mut client = with_gaps(space);
        let (acked, bytes, _) = write_acks(&mut client, space, with_data, &mut room);
        assert_eq!(acked, Some(98));
        let fits = if halved { 25..=30 } else { 55..=60 };
        assert!(fits.contains(&bytes), "{space:?} {with_data} {bytes}");
    }
}

#[test]
fn feedback_follows_acknowledgements_of_one_rtt_packets() {
    // [9000 19.21 known-to-peer]
    let mut room = [0; 200];
    for (space, has_keys, follows) in [
        (SpaceId::Data, true, true),
        (SpaceId::Data, false, false),
        (SpaceId::Handshake, true, false),
    ] {
        let mut client = with_gaps(space);
        if has_keys {
            install(&mut client);
        }
        let (acked, _, feedback) = write_acks(&mut client, space, false, &mut room);
        assert_eq!(acked, Some(98));
        assert_eq!(feedback, follows, "{space:?} {has_keys}");
    }
}

/// An ACK_FREQUENCY frame that doesn't fit into a packet is written into a later one.
#[test]
fn an_ack_frequency_frame_is_written_once() {
    let [mut client, _] = both_sides();
    let ms = Duration::from_millis;
    client.on_peer_parameters(ms(25), Some(ms(1)));
    let mut room = [0; 100];
    let mut write = |client: &mut PacketSpaces, at, room_len: usize| {
        let mut w = Writer::new(&mut room[..room_len]);
        let sequence = client.write_ack_request(at, None, 160, &mut w);
        let frame = Frames::new(w.written()).next().map(Result::unwrap);
        match (sequence, frame) {
            (None, None) => None,
            (Some(sequence), Some(Frame::AckFrequency(frame))) => {
                assert_eq!(sequence, frame.sequence);
                Some(frame)
            }
            other => panic!("{other:?}"),
        }
    };
    // There is no round trip yet.
    assert!(write(&mut client, START, 100).is_none());
    send(&mut client, SpaceId::Data, START, 100);
    acked(&mut client, SpaceId::Data, 0, after(80));
    assert!(write(&mut client, after(80), 3).is_none(), "no room");
    let frame = write(&mut client, after(80), 100).unwrap();
    assert_eq!(frame.ack_eliciting_threshold, 10);
    assert_eq!(frame.max_ack_delay, ms(10));
    assert!(write(&mut client, after(80), 100).is_none());
    assert!(write(&mut client, after(800), 100).is_none());
}

#[test]
fn data_may_leave_early_at_a_client_and_before_the_end_at_a_server() {
    // [9000 13.2.6 early-data-acked]
    let data = SpaceId::Data;
    let [mut client, mut server] = both_sides();
    assert!(client.may_send(data, true) && server.may_send(data, true));
    for spaces in [&mut client, &mut server] {
        assert!(!spaces.may_send(data, false));
        spaces.keys.set_early(early_keys());
    }
    assert!(client.may_send(data, false) && !server.may_send(data, false));
    install(&mut server);
    assert!(server.may_send(data, false) && server.may_send(data, true));
    server.keys.discard_early();
    assert!(!server.may_send(data, false));
}

#[test]
fn data_leaves_in_zero_rtt_packets_at_a_client_until_there_are_newer_keys() {
    // [9001 4.9 newest-keys] [9001 5.6 server-seals-none]
    let mut room = [0; 100];
    let mut ty = |spaces: &PacketSpaces| {
        let mut w = Writer::new(&mut room);
        let open = spaces.start(SpaceId::Data, ids(), &[], &mut w)?;
        Some(open.started.ty())
    };
    let [mut client, mut server] = both_sides();
    client.keys.set_early(early_keys());
    server.keys.set_early(early_keys());
    assert_eq!(ty(&client), Some(PacketType::ZeroRtt));
    assert_eq!(ty(&server), None);
    install(&mut client);
    install(&mut server);
    assert_eq!(ty(&client), Some(PacketType::OneRtt));
    assert_eq!(ty(&server), Some(PacketType::OneRtt));
}

#[test]
fn acknowledgements_are_due_where_there_are_keys() {
    // [9000 13.2.6 same-space]
    let [mut spaces, _] = both_sides();
    // A client continues to probe until the server has validated its address.
    assert!(spaces.deadline(START).is_some());
    spaces.recovery.on_peer_validated();
    assert_eq!(spaces.deadline(Instant::ZERO), None);
    let data = spaces.received_mut(SpaceId::Data);
    data.on_packet(START, 0, true, Ecn::NotEct, 1200);
    assert_eq!(spaces.deadline(Instant::ZERO), None);
    let initial = spaces.received_mut(SpaceId::Initial);
    initial.on_packet(START, 0, true, Ecn::NotEct, 1200);
    assert_eq!(spaces.deadline(Instant::ZERO), Some(START));
    assert_eq!(spaces.deadline(START), None, "it could not be sent");
}

#[test]
fn a_packet_is_started_with_room_for_its_seal() {
    let [mut spaces, _] = both_sides();
    let initial = SpaceId::Initial;
    let mut room = [0; 100];
    let mut w = Writer::new(&mut room);
    let open = spaces.start(initial, ids(), b"token", &mut w).unwrap();
    assert_eq!((open.space, open.number, open.end), (initial, 0, 100));
    assert_eq!(w.limit(), 100 - open.tag_len);
    w.put_zeros(w.remaining()).unwrap();
    assert_eq!(spaces.seal(&open, &mut w), Ok(0..100));
    // There are no keys of another space, so writing there fails and leaves nothing behind.
    assert!(!spaces.may_send(SpaceId::Handshake, false) && spaces.may_send(initial, false));
    assert!(!spaces.may_send(SpaceId::Data, false));
    let mut w = Writer::new(&mut room);
    let handshake = SpaceId::Handshake;
    let open = spaces.start(handshake, ids(), &[], &mut w).unwrap();
    w.put_zeros(20).unwrap();
    let error = spaces.seal(&open, &mut w).unwrap_err();
    assert_eq!(error.code, TransportErrorCode::INTERNAL_ERROR);
    assert_eq!(w.position(), 0);
    // A packet isn't shorter than its sample requires (RFC 9001 §5.4.2).
    let mut w = Writer::new(&mut room);
    let open = spaces.start(initial, ids(), b"token", &mut w).unwrap();
    let least = open.started.sample_at() + open.tag_len;
    let mut w = Writer::new(&mut room[..least]);
    let open = spaces.start(initial, ids(), b"token", &mut w).unwrap();
    assert_eq!(spaces.seal(&open, &mut w), Ok(0..least));
    let mut w = Writer::new(&mut room[..least - 1]);
    assert!(spaces.start(initial, ids(), b"token", &mut w).is_none());
}
