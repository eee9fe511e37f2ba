//! Violations by a peer, and their error codes.

use super::channel::{on_frame, pair};
use crate::Instant;
use crate::streams::{Dir, StreamEvent, StreamsConfig};
use crate::wire::{
    Frame, StreamId, TransportErrorCode as Code,
    frame::{
        MaxStreamData, ResetStream, StopSending, Stream, StreamDataBlocked, StreamsBlocked, types,
    },
};

const NOW: Instant = Instant::ZERO;

fn id(n: u64) -> StreamId {
    StreamId::from_u64(n).unwrap()
}

fn stream(n: u64, offset: u64, data: &[u8], fin: bool) -> Frame<'_> {
    Frame::Stream(Stream {
        id: id(n),
        offset,
        fin,
        data,
    })
}

fn reset(n: u64, final_size: u64) -> Frame<'static> {
    Frame::ResetStream(ResetStream {
        id: id(n),
        error_code: 1,
        final_size,
    })
}

fn stop(n: u64) -> Frame<'static> {
    Frame::StopSending(StopSending {
        id: id(n),
        error_code: 1,
    })
}

fn max(n: u64) -> Frame<'static> {
    Frame::MaxStreamData(MaxStreamData {
        id: id(n),
        max: 1 << 20,
    })
}

fn blocked(n: u64) -> Frame<'static> {
    Frame::StreamDataBlocked(StreamDataBlocked {
        id: id(n),
        limit: 5,
    })
}

fn config() -> StreamsConfig {
    StreamsConfig {
        initial_connection_window: 1500,
        initial_stream_window: 1000,
        max_bidi_streams: 4,
        max_uni_streams: 4,
        ..StreamsConfig::default()
    }
}

/// The last frame of each row, as the client sends it to a server that has opened streams 1 and 3.
#[test]
fn each_breach_has_its_code() {
    // [9000 4.6 peers-streams] [9000 4.1 credit-exceeded] [9000 19.4 send-only]
    // [9000 19.5 receive-only] [9000 19.5 not-created]
    let table: &[(&[Frame<'_>], Code, u64)] = &[
        // RFC 9000 §19.8, §19.4, §19.13: on a stream on which only the receiver of the frame
        // can send.
        (
            &[stream(3, 0, b"x", false)],
            Code::STREAM_STATE_ERROR,
            types::STREAM,
        ),
        (
            &[reset(3, 0)],
            Code::STREAM_STATE_ERROR,
            types::RESET_STREAM,
        ),
        (
            &[blocked(3)],
            Code::STREAM_STATE_ERROR,
            types::STREAM_DATA_BLOCKED,
        ),
        // §19.5, §19.10: on a stream on which only the sender of the frame can send.
        (&[stop(2)], Code::STREAM_STATE_ERROR, types::STOP_SENDING),
        (&[max(2)], Code::STREAM_STATE_ERROR, types::MAX_STREAM_DATA),
        // The same frames, and STREAM, for a stream that the receiver would have to open.
        (
            &[stream(5, 0, b"x", false)],
            Code::STREAM_STATE_ERROR,
            types::STREAM,
        ),
        (&[stop(5)], Code::STREAM_STATE_ERROR, types::STOP_SENDING),
        (&[max(7)], Code::STREAM_STATE_ERROR, types::MAX_STREAM_DATA),
        // §4.6.
        (
            &[stream(16, 0, b"", false)],
            Code::STREAM_LIMIT_ERROR,
            types::STREAM,
        ),
        (
            &[reset(18, 0)],
            Code::STREAM_LIMIT_ERROR,
            types::RESET_STREAM,
        ),
        (&[stop(16)], Code::STREAM_LIMIT_ERROR, types::STOP_SENDING),
        (&[max(16)], Code::STREAM_LIMIT_ERROR, types::MAX_STREAM_DATA),
        (
            &[blocked(1 << 61)],
            Code::STREAM_LIMIT_ERROR,
            types::STREAM_DATA_BLOCKED,
        ),
        // §4.1.
        (
            &[stream(0, 1000, b"x", false)],
            Code::FLOW_CONTROL_ERROR,
            types::STREAM,
        ),
        (
            &[reset(0, 1001)],
            Code::FLOW_CONTROL_ERROR,
            types::RESET_STREAM,
        ),
        (
            &[stream(0, 999, b"x", false), stream(4, 500, b"x", false)],
            Code::FLOW_CONTROL_ERROR,
            types::STREAM,
        ),
        (
            &[stream(0, 999, b"x", false), reset(2, 501)],
            Code::FLOW_CONTROL_ERROR,
            types::RESET_STREAM,
        ),
        // §4.5.
        (
            &[stream(0, 0, b"abc", true), stream(0, 3, b"d", false)],
            Code::FINAL_SIZE_ERROR,
            types::STREAM,
        ),
        (
            &[stream(0, 0, b"abc", false), reset(0, 2)],
            Code::FINAL_SIZE_ERROR,
            types::RESET_STREAM,
        ),
    ];
    for (frames, code, frame_type) in table {
        let (_, mut server) = pair(config());
        server.open(Dir::Bi).unwrap();
        server.open(Dir::Uni).unwrap();
        let (last, before) = frames.split_last().unwrap();
        for frame in before {
            on_frame(&mut server, NOW, frame).unwrap();
        }
        let error = on_frame(&mut server, NOW, last).unwrap_err();
        assert_eq!(
            (error.code, error.frame_type),
            (*code, *frame_type),
            "{frames:?}"
        );
    }
}

#[test]
fn frames_for_a_stream_that_is_done_are_ignored() {
    // [9000 13.3 outdated-frames]
    let (_, mut server) = pair(config());
    for frame in [stream(2, 0, b"abc", true), stream(6, 0, b"", true)] {
        on_frame(&mut server, NOW, &frame).unwrap();
    }
    assert_eq!(server.accept(Dir::Uni), Some(id(2)));
    assert_eq!(server.read(id(2), &mut [0; 9]), Ok(Some(3)));
    assert_eq!(server.read(id(2), &mut [0; 9]), Ok(None));
    assert_eq!(server.open_streams(), 1);
    for frame in [stream(2, 0, b"abcdef", false), reset(2, 77), blocked(2)] {
        on_frame(&mut server, NOW, &frame).unwrap();
    }
    assert_eq!(server.open_streams(), 1);
}

#[test]
fn one_frame_opens_all_streams_below_it_and_no_more() {
    // [9000 3.2 lower-streams-first]
    let (_, mut server) = pair(config());
    on_frame(&mut server, NOW, &stream(8, 0, b"x", false)).unwrap();
    assert_eq!(server.open_streams(), 3);
    let events: Vec<_> = std::iter::from_fn(|| server.poll_event()).collect();
    assert_eq!(
        events,
        [StreamEvent::Opened(Dir::Bi), StreamEvent::Readable(id(8))]
    );
    let accepted: Vec<_> = std::iter::from_fn(|| server.accept(Dir::Bi)).collect();
    assert_eq!(accepted, [0, 4, 8].map(id));
    on_frame(&mut server, NOW, &max(12)).unwrap();
    assert_eq!(server.poll_event(), Some(StreamEvent::Opened(Dir::Bi)));
}

#[test]
fn complaints_cost_the_receiver_nothing() {
    let (_, mut server) = pair(config());
    // Also for the current limit, and for limits that were never promised.
    for limit in 0..4000 {
        for frame in [
            Frame::DataBlocked(limit),
            blocked(0),
            Frame::StreamsBlocked(StreamsBlocked {
                dir: Dir::Uni,
                limit,
            }),
        ] {
            on_frame(&mut server, NOW, &frame).unwrap();
        }
        assert!(!server.wants_to_send());
    }
    assert_eq!(server.open_streams(), 1);
}
