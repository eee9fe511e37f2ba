//! The behavior visible to the application and the connection, over a channel without loss.

use super::*;

fn read_all(of: &mut Streams, id: StreamId) -> Vec<u8> {
    let mut all = Vec::new();
    while let Ok(Some(chunk)) = of.read_chunk(id, usize::MAX) {
        all.extend(chunk);
    }
    all
}

/// A client that may open so many unidirectional streams, with 20 MB each and 50 MB together.
fn limited(max_streams_uni: u64) -> Streams {
    let mut streams = Streams::new(Side::Client, StreamsConfig::default());
    streams.set_peer_limits(PeerLimits {
        max_data: 50_000_000,
        max_stream_data_uni: 20_000_000,
        max_streams_uni,
        ..PeerLimits::default()
    });
    streams
}

#[test]
fn request_and_response() {
    let (mut client, mut server) = pair(StreamsConfig::default());
    let id = client.open(Dir::Bi).unwrap();
    assert_eq!(client.write(id, b"ping"), Ok(4));
    client.finish(id).unwrap();
    settle(&mut client, &mut server, NOW);
    assert_eq!(events(&mut client), [StreamEvent::Finished(id)]);
    let readable = StreamEvent::Readable(id);
    let opened = [StreamEvent::Opened(Dir::Bi), readable];
    assert_eq!(events(&mut server), opened);
    assert_eq!(server.accept(Dir::Bi), Some(id));
    assert_eq!(server.accept(Dir::Bi), None);
    assert_eq!(read_all(&mut server, id), b"ping");
    let mut pong = Bytes::from_static(b"pong");
    assert_eq!(server.write_bytes(id, &mut pong), Ok(4));
    server.finish(id).unwrap();
    assert_eq!(client.read(id, &mut [0; 9]), Err(ReadError::Blocked));
    settle(&mut client, &mut server, NOW);
    assert_eq!(events(&mut server), [StreamEvent::Finished(id)]);
    assert_eq!(events(&mut client), [StreamEvent::Readable(id)]);
    assert_eq!(read_all(&mut client, id), b"pong");
    assert_eq!((client.open_streams(), server.open_streams()), (0, 0));
    assert_eq!(client.write(id, b"x"), Err(WriteError::Closed));
    assert_eq!(client.read(id, &mut [0]), Err(ReadError::Closed));
    assert_eq!(client.finish(id), Err(FinishError::Closed));
    assert_eq!(client.reset(id, 0), Err(ClosedStream));
    assert_eq!(client.stop(id, 0), Err(ClosedStream));
}

#[test]
fn streams_wait_for_the_peers_limits_and_then_for_room() {
    let config = StreamsConfig {
        max_bidi_streams: 2,
        ..StreamsConfig::default()
    };
    let mut client = Streams::new(Side::Client, config);
    let mut server = Streams::new(Side::Server, config);
    server.set_peer_limits(limits(&config));
    assert_eq!(client.open(Dir::Bi), Err(OpenError::Limit(Dir::Bi)));
    client.set_peer_limits(limits(&config));
    assert_eq!(events(&mut client), [StreamEvent::Available(Dir::Bi)]);
    let (a, b) = (client.open(Dir::Bi).unwrap(), client.open(Dir::Bi).unwrap());
    assert_eq!(client.open(Dir::Bi), Err(OpenError::Limit(Dir::Bi)));
    for id in [a, b] {
        client.finish(id).unwrap();
    }
    settle(&mut client, &mut server, NOW);
    for id in [a, b] {
        assert_eq!(server.read(id, &mut [0]), Ok(None));
        server.finish(id).unwrap();
        settle(&mut client, &mut server, NOW);
        assert_eq!(client.read(id, &mut [0]), Ok(None));
    }
    settle(&mut client, &mut server, NOW);
    assert!(events(&mut client).contains(&StreamEvent::Available(Dir::Bi)));
    assert_eq!(client.open(Dir::Bi).map(StreamId::index), Ok(2));
}

/// The limits may differ from those under which streams were opened.
#[test]
fn who_waits_to_open_a_stream_hears_of_it_after_starting_over() {
    for (most, at_once) in [(1, false), (2, false), (3, true)] {
        let allowed = |most| PeerLimits {
            max_streams_bidi: most,
            ..limits(&StreamsConfig::default())
        };
        let (mut client, _) = pair_with(|config| config.max_bidi_streams = 2);
        for _ in 0..2 {
            client.open(Dir::Bi).unwrap();
        }
        assert_eq!(client.open(Dir::Bi), Err(OpenError::Limit(Dir::Bi)));
        events(&mut client);
        client.start_over(allowed(most));
        client.set_peer_limits(allowed(most));
        if !at_once {
            assert_eq!(events(&mut client), []);
            allow(&mut client, Dir::Bi, 3);
        }
        assert_eq!(events(&mut client), [StreamEvent::Available(Dir::Bi)]);
        assert_eq!(client.open(Dir::Bi).map(StreamId::index), Ok(2));
    }
}

#[test]
fn data_written_before_the_limits_are_known_is_sent_after() {
    let config = StreamsConfig::default();
    let mut server = Streams::new(Side::Server, config);
    let mut client = Streams::new(Side::Client, config);
    client.set_peer_limits(PeerLimits {
        max_streams_uni: 1,
        ..PeerLimits::default()
    });
    let id = client.open(Dir::Uni).unwrap();
    assert_eq!(client.write(id, &[7; 100_000]), Ok(16 * 1024));
    assert_eq!(client.write(id, &[7; 100_000]), Err(WriteError::Blocked));
    assert_eq!(client.limit(), Limit::Window, "STREAM_DATA_BLOCKED is due");
    let _ = packet(&mut client, NOW).unwrap();
    assert_eq!(client.limit(), Limit::Peer);
    client.set_peer_limits(limits(&config));
    assert_eq!(events(&mut client), [StreamEvent::Writable(id)]);
    carry(&mut client, &mut server, NOW);
    assert_eq!(read_all(&mut server, id).len(), 16 * 1024);
}

#[test]
fn a_reset_reaches_the_reader_and_frees_the_writer() {
    let (mut client, mut server) = pair(StreamsConfig::default());
    let id = client.open(Dir::Uni).unwrap();
    client.write(id, &[1; 50_000]).unwrap();
    let first = packet(&mut client, NOW).unwrap();
    client.reset(id, 42).unwrap();
    assert_eq!(client.account.unacked(), 0);
    assert_eq!(client.write(id, b"x"), Err(WriteError::Closed));
    deliver(&mut server, NOW, &first.payload).unwrap();
    client.on_lost(&first.sent);
    carry(&mut client, &mut server, NOW);
    assert_eq!(client.open_streams(), 0);
    assert_eq!(server.accept(Dir::Uni), Some(id));
    assert_eq!(server.read(id, &mut [0; 10]), Err(ReadError::Reset(42)));
    assert_eq!(server.open_streams(), 0);
    assert_eq!(events(&mut client), [StreamEvent::ResetAcked(id)]);
}

#[test]
fn a_lost_reset_and_a_lost_stop_go_again() {
    // [9000 3.5 stop-answered] [9000 13.3 same-reset]
    let (mut client, mut server) = pair(StreamsConfig::default());
    let id = client.open(Dir::Bi).unwrap();
    client.write(id, b"hello").unwrap();
    carry(&mut client, &mut server, NOW);
    server.stop(id, 6).unwrap();
    server.reset(id, 8).unwrap();
    let lost = packet(&mut server, NOW).unwrap();
    assert!(!server.wants_to_send());
    server.on_lost(&lost.sent);
    carry(&mut server, &mut client, NOW);
    let stopped = StreamEvent::Stopped(id, 6);
    assert_eq!(events(&mut client), [StreamEvent::Readable(id), stopped]);
    assert_eq!(client.write(id, b"x"), Err(WriteError::Stopped(6)));
    assert_eq!(client.finish(id), Err(FinishError::Stopped(6)));
    settle(&mut client, &mut server, NOW);
    assert_eq!(client.read(id, &mut [0]), Err(ReadError::Reset(8)));
    assert_eq!((client.open_streams(), server.open_streams()), (0, 0));
}

/// Returns the streams with frames in the next packet.
fn carried(from: &mut Streams) -> Vec<u64> {
    let packet = packet(from, NOW).unwrap();
    let streams = stream_frames(&packet.payload).into_iter();
    streams.map(|(id, _)| id.index()).collect()
}

#[test]
fn equals_take_turns_packet_by_packet_and_priority_goes_first() {
    let (mut client, _) = pair(StreamsConfig::default());
    let ids: Vec<_> = (0..3).map(|_| client.open(Dir::Uni).unwrap()).collect();
    for id in &ids {
        client.write(*id, &[0; 5 * PACKET]).unwrap();
    }
    let turns: Vec<_> = (0..6).flat_map(|_| carried(&mut client)).collect();
    assert_eq!(turns, [0, 1, 2, 0, 1, 2]);
    client.set_priority(ids[2], 1).unwrap();
    assert_eq!(client.priority(ids[0]), Ok(0));
    assert_eq!(client.priority(ids[2]), Ok(1));
    let turns: Vec<_> = (0..5).flat_map(|_| carried(&mut client)).collect();
    assert_eq!(turns[turns.len() - 2..], [2, 2]);
}

#[test]
fn small_streams_share_a_packet() {
    let (mut client, mut server) = pair(StreamsConfig::default());
    for _ in 0..100 {
        let id = client.open(Dir::Uni).unwrap();
        client.write(id, b"0123456789").unwrap();
        client.finish(id).unwrap();
    }
    let first = carried(&mut client);
    assert!(first.len() > 70, "{}", first.len());
    carry(&mut client, &mut server, NOW);
    assert_eq!(server.open_streams(), 100);
}

#[test]
fn a_bulk_packet_is_one_frame_without_a_length_and_full() {
    let (mut client, _) = pair(StreamsConfig::default());
    let id = client.open(Dir::Uni).unwrap();
    client.write(id, &[3; 10 * PACKET]).unwrap();
    for _ in 0..5 {
        let packet = packet(&mut client, NOW).unwrap();
        assert_eq!(packet.payload.len(), PACKET);
        assert_eq!(packet.payload[0] & 0x02, 0, "no length");
        assert_eq!(packet.sent.iter().count(), 1);
    }
}

#[test]
fn one_stream_without_credit_does_not_hold_up_others() {
    let (mut client, mut server) = pair_with(|config| {
        config.initial_connection_window = 1 << 20;
        config.initial_stream_window = 1_000;
        config.max_window = 1 << 20;
        config.max_send_buffer = 1;
    });
    let stuck = client.open(Dir::Uni).unwrap();
    while client.write(stuck, &[0; 1000]).is_ok() {}
    carry(&mut client, &mut server, NOW);
    let other = client.open(Dir::Uni).unwrap();
    assert_eq!(client.write(other, b"still goes"), Ok(10));
    carry(&mut client, &mut server, NOW);
    assert_eq!(read_all(&mut server, other), b"still goes");
    // Once the reader of the stuck stream wakes up, so does its writer.
    events(&mut client);
    read_all(&mut server, stuck);
    settle(&mut client, &mut server, NOW);
    assert!(events(&mut client).contains(&StreamEvent::Writable(stuck)));
}

#[test]
fn the_send_buffer_follows_the_window_and_wakes_writers_with_room_to_use() {
    let (mut client, mut server) = pair_with(|config| {
        config.initial_connection_window = 64 << 20;
        config.initial_stream_window = 64 << 20;
    });
    let id = client.open(Dir::Uni).unwrap();
    let mut data = Bytes::from(vec![9; 32 << 20]);
    let small = client.write_bytes(id, &mut data).unwrap() as u64;
    assert_eq!(small, client.account.limit());
    assert_eq!(client.write_bytes(id, &mut data), Err(WriteError::Blocked));
    client.on_congestion_window(4 << 20);
    assert_eq!(events(&mut client), [StreamEvent::Writable(id)]);
    client.write_bytes(id, &mut data).unwrap();
    let unacked = client.account.unacked();
    assert!((8 << 20..9 << 20).contains(&unacked), "{unacked}");
    assert_eq!(client.write_bytes(id, &mut data), Err(WriteError::Blocked));
    // One acknowledged packet doesn't wake the writer, but an eighth of the buffer does.
    for i in 0.. {
        let packet = packet(&mut client, NOW).unwrap();
        deliver(&mut server, NOW, &packet.payload).unwrap();
        acked(&mut client, &packet.sent);
        if events(&mut client) == [StreamEvent::Writable(id)] {
            assert!(client.account.unacked() <= client.account.limit() * 7 / 8);
            assert!(i > 500);
            break;
        }
    }
    carry(&mut client, &mut server, NOW);
    assert_eq!(client.limit(), Limit::Application);
}

#[test]
fn a_bulk_receiver_sends_few_updates_and_its_windows_grow() {
    // [9000 4.2 credit-unasked]
    let (mut client, mut server) = pair(StreamsConfig::default());
    client.on_congestion_window(16 << 20);
    let id = client.open(Dir::Uni).unwrap();
    let mut updates = 0;
    let (total, mut read) = (64 << 20, 0);
    let mut written = 0;
    for tick in 0u64.. {
        let now = Instant::from_micros(tick * 10);
        server.on_rtt(Duration::from_millis(20));
        while written < total {
            match client.write(id, &[0; 65_536]) {
                Ok(n) => written += n,
                Err(error) => {
                    assert_eq!(error, WriteError::Blocked);
                    break;
                }
            }
        }
        for _ in 0..8 {
            if let Some(packet) = packet(&mut client, now) {
                deliver(&mut server, now, &packet.payload).unwrap();
                acked(&mut client, &packet.sent);
            }
        }
        while let Ok(Some(chunk)) = server.read_chunk(id, usize::MAX) {
            read += chunk.len();
        }
        if let Some(packet) = packet(&mut server, now) {
            updates += 1;
            deliver(&mut client, now, &packet.payload).unwrap();
            acked(&mut server, &packet.sent);
        }
        if read >= total {
            break;
        }
    }
    assert!(server.receiving.window() > 8 << 20);
    assert!(updates < 300, "{updates}");
}

/// The limits on bytes in flight, for laws that report their rate to routers.
#[test]
fn limits_besides_the_window() {
    let mut streams = limited(3);
    let id = streams.open(Dir::Uni).unwrap();
    assert_eq!(streams.write(id, &[0; 1000]), Ok(1000));
    let limits = streams.limits(400);
    assert_eq!(limits.peer, 20_000_400, "one stream's credit");
    assert_eq!(limits.application, 1000, "all there is");
    assert_eq!(limits.buffer, StreamsConfig::default().max_send_buffer);
    // An application that fills the buffer has more data.
    assert!(streams.write(id, &[0; 1 << 20]).unwrap() < 1 << 20);
    assert_eq!(streams.limits(400).application, u64::MAX);
    // The connection's credit limits several streams together.
    for _ in 0..2 {
        streams.open(Dir::Uni).unwrap();
    }
    assert_eq!(streams.limits(0).peer, 50_000_000);
}

/// Announced bytes are known before they are written, per stream, and are only a hint.
#[test]
fn what_is_announced_bounds_what_is_asked_for() {
    let mut streams = limited(4);
    let first = streams.open(Dir::Uni).unwrap();
    streams.announce(first, 3_000_000).unwrap();
    assert_eq!(streams.limits(0).application, 3_000_000);
    let written = streams.write(first, &[0; 1 << 20]).unwrap();
    assert!(written < 1 << 20, "its writer waits");
    assert_eq!(streams.limits(0).application, 3_000_000);
    // A control stream stays open after its writer has written everything.
    let control = streams.open(Dir::Uni).unwrap();
    assert_eq!(streams.write(control, &[0; 26]).unwrap(), 26);
    assert_eq!(streams.limits(0).application, 3_000_026);
    streams.reset(control, 0).unwrap();
    // A stream without an announcement and without data limits nothing.
    let second = streams.open(Dir::Uni).unwrap();
    assert_eq!(streams.limits(0).application, 3_000_000);
    let little = streams.write(second, &[0; 1 << 20]).unwrap() as u64;
    assert!(little > 0);
    streams.write(second, &[0]).unwrap_err();
    assert_eq!(streams.limits(0).application, u64::MAX);
    streams.finish(second).unwrap();
    assert_eq!(streams.limits(0).application, 3_000_000 + little);
    // More than announced.
    streams.announce(first, 0).unwrap();
    assert_eq!(streams.limits(0).application, written as u64 + little);
    streams.announce(first, u64::MAX).unwrap();
    let third = streams.open(Dir::Uni).unwrap();
    streams.announce(third, u64::MAX).unwrap();
    assert_eq!(streams.limits(0).application, u64::MAX);
    streams.reset(first, 0).unwrap();
    streams.reset(third, 0).unwrap();
    assert_eq!(streams.limits(0).application, little);
    let unopened = StreamId::new(Side::Client, Dir::Uni, 77).unwrap();
    assert_eq!(streams.announce(unopened, 1), Err(ClosedStream));
}
