//! Peers that violate the protocol. Each violation ends the connection with the code that RFC 9000
//! requires, on both sides.

use super::inject::{id, reset, stream};
use super::*;
use crate::wire::frame::{NewConnectionId, types};

/// Sends `payload`, and checks that the receiver closes with `code` and `frame_type` and that the
/// sender receives this.
#[track_caller]
fn breach(from: From, payload: &[u8], code: Code, frame_type: Option<u64>) {
    let mut pair = Pair::at_rest(Setup::both(|config| config.datagrams.receive_bytes = 0));
    send(&mut pair, from, SpaceId::Data, payload);
    pair.run(Duration::from_millis(100));
    let (sender, receiver) = match from {
        From::Client => (&pair.client, &pair.server),
        From::Server => (&pair.server, &pair.client),
    };
    let error = receiver.violation();
    assert_eq!(error.code, code, "{error}");
    if let Some(ty) = frame_type {
        assert_eq!(error.frame_type, ty, "{error}");
    }
    assert_eq!(sender.peer_closed_with(), code);
}

/// Checks that the client's frames end the connection with `code` because of the last of them.
#[track_caller]
fn refused(list: &[Frame<'_>], code: Code) {
    let last = list.last().map(Frame::ty);
    breach(From::Client, &frames(list), code, last);
}

#[test]
fn frames_that_cannot_be_read() {
    // [9000 12.4 unknown-frame] [9000 12.4 shortest-type]
    let longer_type = [0x40, 1, 0, 0];
    breach(From::Client, &longer_type, Code::PROTOCOL_VIOLATION, None);
    for payload in [
        // An unknown type, and frames that are cut short.
        &[0x21, 0, 0, 0][..],
        &[0x06, 0x00, 0x40],
        &[0x08 | 0x02, 0x00, 0x3f, 1, 2, 3],
        &[0x02, 0x05, 0x00, 0x01, 0x00],
        &[0x18, 0x01, 0x00, 0x15, 0, 0],
        &[0x1c, 0x00, 0x00, 0x20],
    ] {
        breach(From::Client, payload, Code::FRAME_ENCODING_ERROR, None);
    }
}

#[test]
fn acknowledgements_of_what_was_never_sent() {
    // [9000 10.3 close-if-able]
    let ack = Some(types::ACK);
    // ACK of packet 1000, without delay and further ranges.
    let payload = [0x02, 0x43, 0xe8, 0x00, 0x00, 0x00];
    breach(From::Client, &payload, Code::PROTOCOL_VIOLATION, ack);
    // Ranges below packet number 0.
    let payload = [0x02, 0x01, 0x00, 0x00, 0x05];
    breach(From::Server, &payload, Code::FRAME_ENCODING_ERROR, ack);
}

/// The streams' own tests have all breaches. Here is one for each code.
#[test]
fn what_streams_refuse() {
    // [9000 5.2 no-half-packets]
    let beyond = id(Side::Client, Dir::Bi, 1 << 20);
    let unopened = id(Side::Server, Dir::Bi, 0);
    let uni = id(Side::Client, Dir::Uni, 0);
    let one = |id, offset| stream(id, offset, b"x", false);
    refused(&[one(beyond, 0)], Code::STREAM_LIMIT_ERROR);
    refused(&[one(unopened, 0)], Code::STREAM_STATE_ERROR);
    refused(&[one(uni, 1 << 30)], Code::FLOW_CONTROL_ERROR);
    let end = stream(uni, 0, b"1234", true);
    refused(&[end, reset(uni, 3)], Code::FINAL_SIZE_ERROR);
}

#[test]
fn frames_of_the_other_role() {
    // [9000 12.4 permitted-frames] [9000 19.7 empty-token]
    for frame in [Frame::HandshakeDone, Frame::NewToken(b"t")] {
        refused(&[frame], Code::PROTOCOL_VIOLATION);
    }
    let ty = Some(types::NEW_TOKEN);
    breach(From::Server, &[7, 0], Code::FRAME_ENCODING_ERROR, ty);
}

/// A FEEDBACK frame that wasn't offered has an unknown type (RFC 9000 §12.4).
#[test]
fn frames_that_were_not_negotiated() {
    refused(&[Frame::Datagram(b"hi")], Code::PROTOCOL_VIOLATION);
    // FEEDBACK of kind 0, epoch 0, no counters.
    let payload = [0x80, 0x66, 0x65, 0x64, 0, 0, 0];
    let feedback = Some(types::FEEDBACK);
    breach(From::Client, &payload, Code::FRAME_ENCODING_ERROR, feedback);
    let frequency = AckFrequency {
        sequence: 0,
        ack_eliciting_threshold: 1,
        max_ack_delay: Duration::from_micros(1),
        reordering_threshold: 1,
    };
    refused(&[Frame::AckFrequency(frequency)], Code::PROTOCOL_VIOLATION);
}

fn new_id(sequence: u64, id: &[u8]) -> Frame<'static> {
    Frame::NewConnectionId(NewConnectionId {
        sequence,
        retire_prior_to: 0,
        id: ConnectionId::new(id).unwrap(),
        reset_token: [u8::try_from(sequence).unwrap(); 16],
    })
}

#[test]
fn connection_ids() {
    // [9000 5.1.1 too-many] [9000 19.16 never-sent] [9000 19.16 own-destination]
    // More IDs than we store.
    let many = [new_id(8, b"another8"), new_id(9, b"another9")];
    refused(&many, Code::CONNECTION_ID_LIMIT_ERROR);
    // The same number for another ID.
    refused(&[new_id(1, b"another1")], Code::PROTOCOL_VIOLATION);
    // Retiring an ID that was never issued, and the packet's own destination.
    for sequence in [100, 0] {
        let retire = Frame::RetireConnectionId(sequence);
        refused(&[retire], Code::PROTOCOL_VIOLATION);
    }
}

#[test]
fn frames_in_the_wrong_space() {
    // [9000 12.4 permitted-frames]
    for frame in [
        Frame::MaxData(1),
        Frame::HandshakeDone,
        Frame::PathChallenge([0; 8]),
        stream(id(Side::Server, Dir::Uni, 0), 0, b"x", false),
    ] {
        let mut pair = Pair::new();
        // The server's Initial keys exist once it has received the client's Initial.
        pair.until_server_exists();
        let mut payload = frames(&[frame]);
        payload.resize(1100, 0);
        send(&mut pair, From::Server, SpaceId::Initial, &payload);
        pair.run(Duration::from_millis(100));
        let error = pair.client.violation();
        assert_eq!(error.code, Code::PROTOCOL_VIOLATION);
        assert_eq!(error.frame_type, frame.ty());
    }
}

#[test]
fn reserved_bits() {
    // [9000 17.2 reserved-bits]
    // Set before the packet is sealed, they are only visible after decryption (RFC 9000 §17.3.1).
    // Set in flight, they damage the packet like any other bit.
    for (sealed, dropped) in [(true, 0), (false, 1)] {
        let mut pair = Pair::at_rest(Setup::default());
        let bits = if sealed { 0x18 } else { 0 };
        let client = pair.client.get();
        let mut bytes = inject::sealed(client, pair.now, SpaceId::Data, &[1, 0, 0, 0], bits, true);
        bytes[0] ^= 0x18 ^ bits;
        let before = pair.server.get().stats().packets_dropped;
        pair.send_to_server(bytes);
        pair.run(Duration::from_millis(50));
        assert_eq!(pair.server.get().stats().packets_dropped, before + dropped);
        match sealed {
            true => assert_eq!(pair.server.closed_with(), Code::PROTOCOL_VIOLATION),
            false => assert_eq!(pair.server.error(), None),
        }
    }
}

#[test]
fn garbage_changes_nothing() {
    // [9001 5.4.2 short-sample] [9000 14 odd-sizes]
    let mut pair = Pair::connected(Setup::default());
    let mut rng = Rng::new(5);
    for len in 0..1500usize {
        let bytes: Vec<u8> = (0..len).map(|_| rng.next() as u8).collect();
        pair.send_to_client(bytes);
    }
    assert!(pair.client.error().is_none());
    pair.upload(10_000, Duration::from_secs(5));
}
