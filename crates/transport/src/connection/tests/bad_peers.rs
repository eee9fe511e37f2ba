//! Peers that violate the protocol. Each violation ends the connection with the code that RFC 9000
//! requires, on both sides.

use super::inject::{From, frames, packet_with_bits, send};
use super::pair::{Pair, Setup};
use crate::Duration;
use crate::connection::ConnectionError;
use crate::wire::frame::{
    AckFrequency, Crypto, MaxStreamData, MaxStreams, NewConnectionId, ResetStream, StopSending,
    Stream, StreamDataBlocked, types,
};
use crate::wire::{ConnectionId, Dir, Frame, Side, SpaceId, StreamId, TransportErrorCode as Code};

fn id(initiator: Side, dir: Dir, index: u64) -> StreamId {
    StreamId::new(initiator, dir, index).unwrap()
}

fn stream(id: StreamId, offset: u64, data: &'static [u8], fin: bool) -> Frame<'static> {
    Frame::Stream(Stream {
        id,
        offset,
        fin,
        data,
    })
}

/// Sends `payload`, and checks that the receiver closes with `code` and `frame_type` and that the
/// sender receives this.
#[track_caller]
fn breach(from: From, payload: &[u8], code: Code, frame_type: Option<u64>) {
    let mut setup = Setup::default();
    setup.client.datagrams.receive_bytes = 0;
    setup.server.datagrams.receive_bytes = 0;
    let mut pair = Pair::connected(setup);
    pair.run(Duration::from_millis(200));
    send(&mut pair, from, SpaceId::Data, payload);
    pair.run(Duration::from_millis(100));
    let (sender, receiver) = match from {
        From::Client => (&pair.client, &pair.server),
        From::Server => (&pair.server, &pair.client),
    };
    match receiver.error() {
        Some(ConnectionError::Transport(error)) => {
            assert_eq!(error.code, code, "{error}");
            if let Some(ty) = frame_type {
                assert_eq!(error.frame_type, ty, "{error}");
            }
        }
        other => panic!("{other:?}"),
    }
    match sender.error() {
        Some(ConnectionError::PeerTransport(error)) => assert_eq!(error.code, code),
        other => panic!("{other:?}"),
    }
}

#[test]
fn unknown_frames_and_frame_types_in_too_many_bytes() {
    // [9000 12.4 unknown-frame] [9000 12.4 shortest-type]
    breach(
        From::Client,
        &[0x21, 0, 0, 0],
        Code::FRAME_ENCODING_ERROR,
        None,
    );
    breach(
        From::Client,
        &[0x40, 1, 0, 0],
        Code::PROTOCOL_VIOLATION,
        None,
    );
}

#[test]
fn frames_cut_short() {
    for payload in [
        &[0x06, 0x00, 0x40][..],
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
    // ACK of packet 1000, without delay and further ranges.
    breach(
        From::Client,
        &[0x02, 0x43, 0xe8, 0x00, 0x00, 0x00],
        Code::PROTOCOL_VIOLATION,
        Some(types::ACK),
    );
    // Ranges below packet number 0.
    breach(
        From::Server,
        &[0x02, 0x01, 0x00, 0x00, 0x05],
        Code::FRAME_ENCODING_ERROR,
        Some(types::ACK),
    );
}

#[test]
fn streams_that_the_peer_may_not_use() {
    // [9000 19.4 send-only] [9000 19.5 receive-only] [9000 19.5 not-created]
    let cases = [
        // Beyond the limit on streams.
        (
            stream(id(Side::Client, Dir::Bi, 1 << 20), 0, b"x", false),
            Code::STREAM_LIMIT_ERROR,
        ),
        // A stream that we haven't opened.
        (
            stream(id(Side::Server, Dir::Bi, 0), 0, b"x", false),
            Code::STREAM_STATE_ERROR,
        ),
        // A stream on which only we may send.
        (
            stream(id(Side::Server, Dir::Uni, 0), 0, b"x", false),
            Code::STREAM_STATE_ERROR,
        ),
        (
            Frame::MaxStreamData(MaxStreamData {
                id: id(Side::Client, Dir::Uni, 0),
                max: 10,
            }),
            Code::STREAM_STATE_ERROR,
        ),
        (
            Frame::StopSending(StopSending {
                id: id(Side::Client, Dir::Uni, 0),
                error_code: 1,
            }),
            Code::STREAM_STATE_ERROR,
        ),
        (
            Frame::StreamDataBlocked(StreamDataBlocked {
                id: id(Side::Server, Dir::Uni, 0),
                limit: 10,
            }),
            Code::STREAM_STATE_ERROR,
        ),
    ];
    for (frame, code) in cases {
        breach(From::Client, &frames(&[frame]), code, Some(frame.ty()));
    }
    // A number of streams that exceeds the possible IDs.
    let mut payload = frames(&[Frame::MaxStreams(MaxStreams {
        dir: Dir::Bi,
        max: 1 << 60,
    })]);
    payload[8] = 1;
    breach(From::Client, &payload, Code::FRAME_ENCODING_ERROR, None);
}

#[test]
fn flow_control() {
    // [9000 4.1 credit-exceeded]
    let uni = id(Side::Client, Dir::Uni, 0);
    breach(
        From::Client,
        &frames(&[stream(uni, 1 << 30, b"x", false)]),
        Code::FLOW_CONTROL_ERROR,
        Some(types::STREAM),
    );
    breach(
        From::Client,
        &frames(&[Frame::ResetStream(ResetStream {
            id: uni,
            error_code: 0,
            final_size: 1 << 30,
        })]),
        Code::FLOW_CONTROL_ERROR,
        Some(types::RESET_STREAM),
    );
}

#[test]
fn final_sizes_that_change() {
    // [9000 5.2 no-half-packets]
    let uni = id(Side::Client, Dir::Uni, 0);
    for second in [
        stream(uni, 5, b"", true),
        stream(uni, 6, b"7", false),
        Frame::ResetStream(ResetStream {
            id: uni,
            error_code: 0,
            final_size: 3,
        }),
    ] {
        breach(
            From::Client,
            &frames(&[stream(uni, 0, b"1234", true), second]),
            Code::FINAL_SIZE_ERROR,
            None,
        );
    }
}

#[test]
fn frames_of_the_other_role() {
    // [9000 12.4 permitted-frames] [9000 19.7 empty-token]
    breach(
        From::Client,
        &frames(&[Frame::HandshakeDone]),
        Code::PROTOCOL_VIOLATION,
        Some(types::HANDSHAKE_DONE),
    );
    breach(
        From::Client,
        &frames(&[Frame::NewToken(b"t")]),
        Code::PROTOCOL_VIOLATION,
        Some(types::NEW_TOKEN),
    );
    breach(
        From::Server,
        &[0x07, 0x00],
        Code::FRAME_ENCODING_ERROR,
        Some(types::NEW_TOKEN),
    );
}

#[test]
fn frames_that_were_not_negotiated() {
    breach(
        From::Client,
        &frames(&[Frame::Datagram(b"hi")]),
        Code::PROTOCOL_VIOLATION,
        Some(types::DATAGRAM),
    );
    // FEEDBACK of kind 0, epoch 0, no counters.
    breach(
        From::Client,
        &[0x80, 0x66, 0x65, 0x64, 0, 0, 0],
        Code::FRAME_ENCODING_ERROR,
        Some(types::FEEDBACK),
    );
    breach(
        From::Client,
        &frames(&[Frame::AckFrequency(AckFrequency {
            sequence: 0,
            ack_eliciting_threshold: 1,
            max_ack_delay: Duration::from_micros(1),
            reordering_threshold: 1,
        })]),
        Code::PROTOCOL_VIOLATION,
        Some(types::ACK_FREQUENCY),
    );
}

fn new_id(sequence: u64, retire_prior_to: u64, id: &[u8]) -> Frame<'static> {
    Frame::NewConnectionId(NewConnectionId {
        sequence,
        retire_prior_to,
        id: ConnectionId::new(id).unwrap(),
        reset_token: [u8::try_from(sequence).unwrap(); 16],
    })
}

#[test]
fn connection_ids() {
    // [9000 5.1.1 too-many] [9000 19.16 never-sent] [9000 19.16 own-destination]
    // More IDs than we store.
    breach(
        From::Client,
        &frames(&[new_id(8, 0, b"another8"), new_id(9, 0, b"another9")]),
        Code::CONNECTION_ID_LIMIT_ERROR,
        Some(types::NEW_CONNECTION_ID),
    );
    // The same number for another ID.
    breach(
        From::Client,
        &frames(&[new_id(1, 0, b"another1")]),
        Code::PROTOCOL_VIOLATION,
        Some(types::NEW_CONNECTION_ID),
    );
    // Retiring an ID that was never issued, and the packet's own destination.
    for sequence in [100, 0] {
        breach(
            From::Client,
            &frames(&[Frame::RetireConnectionId(sequence)]),
            Code::PROTOCOL_VIOLATION,
            Some(types::RETIRE_CONNECTION_ID),
        );
    }
}

/// 64 KiB beyond the data received in order are accepted, and not a byte more.
#[test]
fn handshake_data() {
    // [9000 7.5 crypto-buffer] [9000 7.5 crypto-exceeded]
    let ends_at = |end: u64| {
        let data = b"far ahead";
        let offset = end - data.len() as u64;
        frames(&[Frame::Crypto(Crypto { offset, data })])
    };
    for from in [From::Client, From::Server] {
        breach(
            from,
            &ends_at(64 * 1024 + 1),
            Code::CRYPTO_BUFFER_EXCEEDED,
            Some(types::CRYPTO),
        );
        let mut pair = Pair::connected(Setup::default());
        send(&mut pair, from, SpaceId::Data, &ends_at(64 * 1024));
        pair.run(Duration::from_millis(100));
        assert_eq!((pair.client.error(), pair.server.error()), (None, None));
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
        pair.flush();
        // The server's Initial keys exist once it has received the client's Initial.
        pair.run_until(Duration::from_secs(1), |p| p.server.connection.is_some());
        let mut payload = frames(&[frame]);
        payload.resize(1100, 0);
        send(&mut pair, From::Server, SpaceId::Initial, &payload);
        pair.run(Duration::from_millis(100));
        match pair.client.error() {
            Some(ConnectionError::Transport(error)) => {
                assert_eq!(error.code, Code::PROTOCOL_VIOLATION);
                assert_eq!(error.frame_type, frame.ty());
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn reserved_bits() {
    // [9000 17.2 reserved-bits]
    let mut pair = Pair::connected(Setup::default());
    pair.run(Duration::from_millis(200));
    let now = pair.now;
    // The bits are set before the packet is sealed, so they are only visible after decryption (RFC
    // 9000 §17.3.1).
    let client = pair.client.get();
    let bytes = packet_with_bits(client, now, SpaceId::Data, &[1, 0, 0, 0], 0x18);
    let datagram = super::link::Datagram {
        from: pair.client.address,
        to: pair.server.address,
        ecn: crate::Ecn::NotEct,
        bytes: bytes.clone(),
    };
    let dropped = pair.server.get().stats().packets_dropped;
    pair.up.send(now, datagram.clone());
    pair.run(Duration::from_millis(50));
    assert_eq!(pair.server.get().stats().packets_dropped, dropped);
    match pair.server.error() {
        Some(ConnectionError::Transport(error)) => {
            assert_eq!(error.code, Code::PROTOCOL_VIOLATION, "{error}");
        }
        other => panic!("{other:?}"),
    }
    // If they are set in flight, the packet is damaged like any other.
    let mut pair = Pair::connected(Setup::default());
    pair.run(Duration::from_millis(200));
    let mut bytes = super::inject::packet(pair.client.get(), now, SpaceId::Data, &[1, 0, 0, 0]);
    bytes[0] |= 0x18;
    let dropped = pair.server.get().stats().packets_dropped;
    pair.up
        .send(now, super::link::Datagram { bytes, ..datagram });
    pair.run(Duration::from_millis(50));
    assert!(pair.server.error().is_none());
    assert_eq!(pair.server.get().stats().packets_dropped, dropped + 1);
}

#[test]
fn garbage_changes_nothing() {
    // [9001 5.4.2 short-sample] [9000 14 odd-sizes]
    let mut pair = Pair::connected(Setup::default());
    let mut rng = super::link::Rng::new(5);
    for len in 0..1500usize {
        let bytes: Vec<u8> = (0..len).map(|_| rng.next() as u8).collect();
        pair.send_to_client(bytes);
    }
    assert!(pair.client.error().is_none());
    pair.upload(10_000, Duration::from_secs(5));
}
