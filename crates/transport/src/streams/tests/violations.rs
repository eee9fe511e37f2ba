//! Violations by a peer, and their error codes.

use super::*;
use crate::wire::TransportErrorCode as Code;
use crate::wire::frame::{ResetStream, StopSending, Stream, StreamDataBlocked};

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
    let (id, error_code) = (id(n), 1);
    Frame::StopSending(StopSending { id, error_code })
}

fn max(n: u64) -> Frame<'static> {
    let (id, max) = (id(n), 1 << 20);
    Frame::MaxStreamData(MaxStreamData { id, max })
}

fn blocked(n: u64) -> Frame<'static> {
    let (id, limit) = (id(n), 5);
    Frame::StreamDataBlocked(StreamDataBlocked { id, limit })
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
    let state = Code::STREAM_STATE_ERROR;
    let (flow, size) = (Code::FLOW_CONTROL_ERROR, Code::FINAL_SIZE_ERROR);
    let table: &[(&[Frame<'_>], Code)] = &[
        // RFC 9000 §19.8, §19.4, §19.13: on a stream on which only the receiver of the frame
        // can send.
        (&[stream(3, 0, b"x", false)], state),
        (&[reset(3, 0)], state),
        (&[blocked(3)], state),
        // §19.5, §19.10: on a stream on which only the sender of the frame can send.
        (&[stop(2)], state),
        (&[max(2)], state),
        // The same frames, and STREAM, for a stream that the receiver would have to open.
        (&[stream(5, 0, b"x", false)], state),
        (&[stop(5)], state),
        (&[max(7)], state),
        // §4.6.
        (&[stream(16, 0, b"", false)], Code::STREAM_LIMIT_ERROR),
        (&[reset(18, 0)], Code::STREAM_LIMIT_ERROR),
        (&[stop(16)], Code::STREAM_LIMIT_ERROR),
        (&[max(16)], Code::STREAM_LIMIT_ERROR),
        (&[blocked(1 << 61)], Code::STREAM_LIMIT_ERROR),
        // §4.1.
        (&[stream(0, 1000, b"x", false)], flow),
        (&[reset(0, 1001)], flow),
        (
            &[stream(0, 999, b"x", false), stream(4, 500, b"x", false)],
            flow,
        ),
        (&[stream(0, 999, b"x", false), reset(2, 501)], flow),
        // §4.5.
        (
            &[stream(0, 0, b"abc", true), stream(0, 3, b"d", false)],
            size,
        ),
        (&[stream(0, 0, b"abc", false), reset(0, 2)], size),
    ];
    for (frames, code) in table {
        let (_, mut server) = pair(config());
        server.open(Dir::Bi).unwrap();
        server.open(Dir::Uni).unwrap();
        let (last, before) = frames.split_last().unwrap();
        for frame in before {
            on_frame(&mut server, NOW, frame).unwrap();
        }
        let error = on_frame(&mut server, NOW, last).unwrap_err();
        assert_eq!(error.code, *code, "{frames:?}");
        assert_eq!(error.frame_type, last.ty(), "{frames:?}");
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
    let readable = StreamEvent::Readable(id(8));
    let opened = [StreamEvent::Opened(Dir::Bi), readable];
    assert_eq!(events(&mut server), opened);
    let accepted: Vec<_> = std::iter::from_fn(|| server.accept(Dir::Bi)).collect();
    assert_eq!(accepted, [0, 4, 8].map(id));
    on_frame(&mut server, NOW, &max(12)).unwrap();
    assert_eq!(server.poll_event(), Some(StreamEvent::Opened(Dir::Bi)));
}

#[test]
fn complaints_cost_the_receiver_nothing() {
    let (_, mut server) = pair(config());
    // Also for the current limit, and for limits that were never promised.
    let dir = Dir::Uni;
    for limit in 0..4000 {
        for frame in [
            Frame::DataBlocked(limit),
            blocked(0),
            Frame::StreamsBlocked(StreamsBlocked { dir, limit }),
        ] {
            on_frame(&mut server, NOW, &frame).unwrap();
        }
        assert!(!server.wants_to_send());
    }
    assert_eq!(server.open_streams(), 1);
}
