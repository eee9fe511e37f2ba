use proptest::prelude::*;

use super::super::*;
use super::*;
use crate::connection::tests::signal::counters;

fn stream_id(id: u64) -> StreamId {
    StreamId::from_u64(id).unwrap()
}

/// Frames written by hand from the figures of RFC 9000 §19, RFC 9221 and the ack-frequency
/// draft.
fn by_hand() -> Vec<(&'static [u8], Frame<'static>)> {
    const NEW_CONNECTION_ID: &[u8] = &[
        0x18, 5, 3, 4, 0xd1, 0xd2, 0xd3, 0xd4, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15,
    ];
    let id = stream_id(8);
    let reset = ResetStream {
        id,
        error_code: 128,
        final_size: 9,
    };
    let data = stream(id, 100, true, b"hi");
    let first = stream(id, 0, false, b"hi");
    let token = core::array::from_fn(|i| i as u8);
    let new_id = new_id(5, 3, &[0xd1, 0xd2, 0xd3, 0xd4], token);
    let close = close(TransportErrorCode::PROTOCOL_VIOLATION, types::CRYPTO, b"no");
    let close = Frame::ConnectionClose(close);
    let (error_code, reason) = (256, &b""[..]);
    let of_application = Frame::ApplicationClose(ApplicationClose { error_code, reason });
    let [stop, data_blocked] = [
        Frame::StopSending(StopSending { id, error_code: 7 }),
        Frame::StreamDataBlocked(StreamDataBlocked { id, limit: 9 }),
    ];
    let max_data = Frame::MaxStreamData(MaxStreamData { id, max: 9 });
    let max = |dir| Frame::MaxStreams(MaxStreams { dir, max: 9 });
    let blocked = |dir| Frame::StreamsBlocked(StreamsBlocked { dir, limit: 9 });
    let path_data = [1, 2, 3, 4, 5, 6, 7, 8];
    let [challenge, response] = [
        Frame::PathChallenge(path_data),
        Frame::PathResponse(path_data),
    ];
    let frequency = frequency([7, 10, 3, 25]);
    vec![
        (&[0, 0, 0], Frame::Padding(3)),
        (&[0x01], Frame::Ping),
        (&[0x04, 8, 0x40, 0x80, 9], Frame::ResetStream(reset)),
        (&[0x05, 8, 7], stop),
        (
            &[0x06, 0x44, 0x00, 2, b'h', b'i'],
            Frame::Crypto(crypto(1024, b"hi")),
        ),
        (&[0x07, 2, b'h', b'i'], Frame::NewToken(b"hi")),
        (&[0x0a, 8, 2, b'h', b'i'], Frame::Stream(first)),
        (&[0x0f, 8, 0x40, 0x64, 2, b'h', b'i'], Frame::Stream(data)),
        (&[0x10, 0x80, 0x01, 0, 0], Frame::MaxData(65_536)),
        (&[0x11, 8, 9], max_data),
        (&[0x12, 9], max(Dir::Bi)),
        (&[0x13, 9], max(Dir::Uni)),
        (&[0x14, 9], Frame::DataBlocked(9)),
        (&[0x15, 8, 9], data_blocked),
        (&[0x16, 9], blocked(Dir::Bi)),
        (&[0x17, 9], blocked(Dir::Uni)),
        (NEW_CONNECTION_ID, new_id),
        (&[0x19, 9], Frame::RetireConnectionId(9)),
        (&[0x1a, 1, 2, 3, 4, 5, 6, 7, 8], challenge),
        (&[0x1b, 1, 2, 3, 4, 5, 6, 7, 8], response),
        (&[0x1c, 0x0a, 0x06, 2, b'n', b'o'], close),
        (&[0x1d, 0x41, 0x00, 0], of_application),
        (&[0x1e], Frame::HandshakeDone),
        (&[0x1f], Frame::ImmediateAck),
        (&[0x31, 2, b'h', b'i'], Frame::Datagram(b"hi")),
        (&[0x40, 0xaf, 7, 10, 0x80, 0x00, 0x61, 0xa8, 3], frequency),
    ]
}

#[test]
fn known_bytes_both_ways() {
    for (bytes, frame) in by_hand() {
        assert_eq!(frames(bytes), [frame]);
        assert_eq!(frame.len(), bytes.len(), "{frame:?}");
        let mut buffer = [0; 64];
        let mut w = Writer::new(&mut buffer);
        frame.encode(&mut w).unwrap();
        assert_eq!(w.written(), bytes, "{frame:?}");
        for room in 0..bytes.len() {
            let mut w = Writer::new(&mut buffer[..room]);
            assert_eq!(frame.encode(&mut w), Err(WriteError::NoRoom));
            assert_eq!(w.position(), 0);
        }
    }
}

#[test]
fn a_cut_frame_is_a_frame_encoding_error() {
    for (bytes, frame) in by_hand() {
        if matches!(frame, Frame::Padding(_)) {
            continue;
        }
        for cut in 1..bytes.len() {
            let error = error(&bytes[..cut]);
            assert_eq!(error.code, TransportErrorCode::FRAME_ENCODING_ERROR);
            let is_data = matches!(frame, Frame::Stream(_) | Frame::Datagram(_));
            if cut >= varint::len(frame.ty()) && !is_data {
                assert_eq!(error.frame_type, frame.ty());
            }
        }
    }
}

#[test]
fn frames_follow_one_another_until_the_first_error() {
    let (bytes, expected): (Vec<_>, Vec<_>) = by_hand().into_iter().unzip();
    assert_eq!(frames(&bytes.concat()), expected);

    let mut iterator = Frames::new(&[0x01, 0x3f, 0x01, 0x01]);
    assert_eq!(iterator.next(), Some(Ok(Frame::Ping)));
    assert!(iterator.next().unwrap().is_err());
    assert_eq!(iterator.next(), None);
    assert_eq!(Frames::new(&[]).next(), None);
}

#[test]
fn without_a_length_data_runs_to_the_end() {
    let whole = stream(stream_id(4), 0, false, &[1, 1, 1]);
    let end = stream(stream_id(4), 9, true, &[]);
    assert_eq!(frames(&[0x08, 4, 1, 1, 1]), [Frame::Stream(whole)]);
    assert_eq!(frames(&[0x0d, 4, 9]), [Frame::Stream(end)]);
    assert_eq!(frames(&[0x30, 1, 1]), [Frame::Datagram(&[1, 1])]);
}

#[test]
fn server_initial_payload_of_rfc_9001_a_3() {
    let mut payload = vec![0x02, 0, 0, 0, 0, 0x06, 0x00, 0x40, 0x5a];
    payload.extend([0x16; 0x5a]);
    let [Frame::Ack(ack), Frame::Crypto(crypto)] = frames(&payload)[..] else {
        panic!();
    };
    assert!(ack.ranges().eq([0..=0]));
    assert_eq!((crypto.offset, crypto.data.len()), (0, 90));
}

#[test]
fn feedback_byte_by_byte() {
    let counters = counters([1, 300, 70_000, varint::MAX]);
    let mut bytes = vec![0x80, 0x66, 0x65, 0x64, 0x02, 0x05, 0xbf, 0xff, 0xff, 0xff];
    bytes.extend([0x04, 0x01, 0x41, 0x2c]);
    bytes.extend([0x80, 0x01, 0x11, 0x70]);
    bytes.extend([0xff; 8]);
    let [Frame::Feedback(frame)] = frames(&bytes)[..] else {
        panic!();
    };
    assert_eq!((frame.kind, frame.epoch, frame.time), (2, 5, (1 << 30) - 1));
    assert_eq!(frame.counters(), counters);
    let mut buffer = [0; 64];
    let mut w = Writer::new(&mut buffer);
    feedback::encode(&mut w, 2, 5, frame.time, &counters).unwrap();
    assert_eq!(w.written(), bytes);
    assert_eq!(feedback::len(2, 5, frame.time, &counters), bytes.len());
    assert_eq!(Frame::Feedback(frame).len(), bytes.len());
}

#[test]
fn twenty_counters_and_no_more() {
    let mut bytes = vec![0x80, 0x66, 0x65, 0x64, 0, 0, 0, 20];
    bytes.extend([9; 21]);
    let most = [&bytes[..28], &[0x01]].concat();
    let [Frame::Feedback(frame), Frame::Ping] = frames(&most)[..] else {
        panic!();
    };
    assert_eq!(frame.counters().as_slice(), [9; 20]);
    bytes[7] = 21;
    assert_eq!(error(&bytes).code, TransportErrorCode::FRAME_ENCODING_ERROR);
    // A kind that no one-byte list can have offered.
    let kind = error(&[0x80, 0x66, 0x65, 0x64, 0x41, 0x00, 0, 0, 0]);
    assert_eq!(kind.frame_type, types::FEEDBACK);
    // A time that is not modulo 2^30.
    let bytes = [
        0x80, 0x66, 0x65, 0x64, 0, 0, 0xc0, 0, 0, 0, 0x40, 0, 0, 0, 0,
    ];
    let time = error(&bytes);
    assert_eq!(time.code, TransportErrorCode::FRAME_ENCODING_ERROR);
}

#[test]
fn values_that_cannot_be_are_refused() {
    // [9000 4.6 limit-too-large] [9000 19.14 blocked-beyond] [9000 19.8 beyond-offsets]
    // [9000 19.7 empty-token] [9000 19.15 new-id-length] [9000 19.15 retires-itself]
    let encoding = TransportErrorCode::FRAME_ENCODING_ERROR;
    let violation = TransportErrorCode::PROTOCOL_VIOLATION;
    let (max, beyond) = ([0xff; 8], [0xd0, 0, 0, 0, 0, 0, 0, 1]);
    let long_type = &[0xc0, 0, 0, 0, 0, 0x66, 0x65, 0x64, 0, 0, 0];
    for (bytes, code, ty) in [
        (&[0x07, 0][..], encoding, types::NEW_TOKEN),
        (&[0x20], encoding, 0x20),
        (&[0xc0], encoding, 0), // ends inside the type
        (&[0x40, 0x01], violation, types::PING),
        (&[0x80, 0, 0, 0x06, 0, 0], violation, types::CRYPTO),
        (long_type, violation, types::FEEDBACK),
        (&[&[0x12], &beyond[..]].concat(), encoding, 0x12),
        (&[&[0x17], &beyond[..]].concat(), encoding, 0x17),
        (&[&[0x0c, 4], &max[..], &[1]].concat(), encoding, 0x0c),
        (&[&[0x06], &max[..], &[1, 1]].concat(), encoding, 0x06),
        (&[&[0x18, 1, 0, 0], &max[..], &max].concat(), encoding, 0x18),
        (&[&[0x18, 1, 0, 21], &[7; 37][..]].concat(), encoding, 0x18),
        (&[&[0x18, 1, 2, 4], &[7; 20][..]].concat(), encoding, 0x18),
        // 2^14 ms
        (&[0x40, 0xaf, 0, 1, 0x80, 0xfa, 0, 0, 1], violation, 0xaf),
    ] {
        let error = error(bytes);
        assert_eq!((error.code, error.frame_type), (code, ty), "{bytes:x?}");
    }
    assert!(frames(&[0x40, 0xaf, 0, 1, 0x80, 0xf9, 0xff, 0xff, 1]).len() == 1);
}

#[test]
fn what_a_reader_refuses_is_not_written() {
    let mut buffer = [0; 64];
    let mut w = Writer::new(&mut buffer);
    let (dir, max) = (Dir::Uni, (1 << 60) + 1);
    for frame in [
        Frame::NewToken(b""),
        Frame::MaxData(1 << 62),
        Frame::MaxStreams(MaxStreams { dir, max }),
        new_id(1, 2, &[1], [0; 16]),
        new_id(1, 0, &[], [0; 16]),
        frequency([0, 0, 0, 1 << 14]),
    ] {
        assert!(matches!(frame.encode(&mut w), Err(WriteError::Value(_))));
        assert_eq!(w.position(), 0);
    }
}

proptest! {
    #[test]
    fn reasons_are_cut_to_the_room_between_characters(
        reason in "[aé€😀]{0,120}",
        room in 0usize..200,
    ) {
        let transport = close(TransportErrorCode::INTERNAL_ERROR, 0, reason.as_bytes());
        let application = ApplicationClose { error_code: 300, reason: reason.as_bytes() };
        let mut buffer = vec![0; room];
        let mut check = |write: &dyn Fn(&mut Writer<'_>) -> Result<(), WriteError>, whole: usize| {
            let mut w = Writer::new(&mut buffer);
            if write(&mut w).is_err() {
                return room < 4;
            }
            let cut = match frames(w.written())[..] {
                [Frame::ConnectionClose(frame)] => frame.reason,
                [Frame::ApplicationClose(frame)] => frame.reason,
                _ => return false,
            };
            let cut = core::str::from_utf8(cut).unwrap();
            // Complete, or without room for another character and a longer length.
            reason.starts_with(cut) && (whole <= room) == (cut == reason) && (
                cut == reason || w.remaining() <= 4
            )
        };
        prop_assert!(check(&|w| transport.encode_cut(w), Frame::ConnectionClose(transport).len()));
        prop_assert!(
            check(&|w| application.encode_cut(w), Frame::ApplicationClose(application).len()),
        );
    }
}
