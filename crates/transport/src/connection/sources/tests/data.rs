//! The application's data: its limits, and how streams and datagrams share packets.

use bytes::Bytes;
use pathmark_cc::Limit;

use super::*;
use crate::streams::WriteError;

#[test]
fn the_sender_is_bounded_by_the_window_while_data_waits() {
    let mut parts = client();
    assert_eq!(parts.sources.limit(), Limit::Application);
    let datagrams = &mut parts.sources.datagrams;
    datagrams.send(Bytes::from_static(b"datagram"));
    assert_eq!(parts.sources.limit(), Limit::Window);
    let _ = parts.write(DATA);
    assert_eq!(parts.sources.limit(), Limit::Application);
    let stream = parts.open();
    parts.sources.streams.on_congestion_window(CREDIT);
    parts.put(stream, CREDIT as usize + 1000);
    while parts.have(DATA) {
        assert_eq!(parts.sources.limit(), Limit::Window);
        let _ = parts.write(DATA);
    }
    assert_eq!(parts.sources.limit(), Limit::Peer, "no credit is left");
}

/// This doesn't depend on which data is first in a packet, on the packet's other contents, or on
/// the size of a stream's data.
#[test]
fn streams_and_datagrams_get_the_same_bytes_while_both_wait() {
    let mut parts = client();
    let stream = parts.open();
    let (mut in_streams, mut in_datagrams) = (0, 0);
    let mut datagrams_first = 0;
    for n in 0..100 {
        parts.sources.datagrams.send(Bytes::from_static(&[7; 800]));
        parts.put(stream, if n < 10 { 50 } else { 1200 });
        let (_, bytes) = parts.fill(DATA, |sources, asked, w, contents| {
            w.put_zeros(300).unwrap();
            sources.write(asked, w, contents);
        });
        let frames = frames(&bytes);
        datagrams_first += u32::from(matches!(frames[1], Frame::Datagram(_)));
        for frame in frames {
            match frame {
                Frame::Stream(stream) => in_streams += stream.data.len(),
                Frame::Datagram(data) => in_datagrams += data.len(),
                _ => {}
            }
        }
    }
    assert!((10..90).contains(&datagrams_first), "{datagrams_first}");
    let difference = in_streams.abs_diff(in_datagrams);
    let even = in_streams > 30_000 && difference < FULL;
    assert!(even, "{in_streams} {in_datagrams}");
}

/// Returns how much the send buffer accepts now.
fn fill_buffer(parts: &mut Parts, stream: StreamId) -> Result<usize, WriteError> {
    let data = vec![7; CREDIT as usize];
    parts.sources.streams.write(stream, &data)
}

/// Growth of the send buffer once the window is known, in bytes: two windows.
const GROWTH: usize = 2 * WINDOW as usize * FULL;

#[test]
fn the_send_buffer_follows_the_window() {
    let mut parts = client();
    let stream = parts.open();
    assert!(fill_buffer(&mut parts, stream).is_ok());
    assert_eq!(fill_buffer(&mut parts, stream), Err(WriteError::Blocked));
    let path = &mut parts.paths.path;
    parts.sources.follow_window(parts.now, None, path);
    assert_eq!(fill_buffer(&mut parts, stream), Ok(GROWTH));
}

/// RFC 9000 §9.4: another path has a separate window, but another port of the same host doesn't.
/// RFC 9000 §9.2: the server follows a client's packets, so the client sends one.
#[test]
fn a_move_is_an_event_and_a_client_shows_the_server_where_it_is() {
    for side in [Side::Client, Side::Server] {
        let mut parts = parts(side);
        let stream = parts.open();
        assert!(fill_buffer(&mut parts, stream).is_ok());
        let mut room = Vec::new();
        for moved in [Move::Stays, Move::OtherPort, Move::OtherPath] {
            let path = &parts.paths.path;
            let moves = parts.sources.on_move(moved, path, &mut parts.outbox);
            assert_eq!(moves, moved != Move::Stays);
            let event = parts.outbox.poll_event();
            assert_eq!(event, moves.then_some(Event::PathChanged));
            let pings = core::mem::take(&mut parts.sources.control.ping);
            assert_eq!(pings, moves && side == Side::Client);
            room.push(fill_buffer(&mut parts, stream));
        }
        let blocked = Err(WriteError::Blocked);
        assert_eq!(room, [blocked, blocked, Ok(GROWTH)]);
    }
}
