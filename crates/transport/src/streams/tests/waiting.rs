//! Writers that wait, requests for more credit, and BLOCKED frames.

use super::*;

/// Small enough that a few writes fill the send buffer.
const BUFFER: u64 = 32 * 1024;

/// Takes all packets, and declares them lost.
fn lose(from: &mut Streams) {
    while packet(from, NOW).is_some() {}
}

/// A client whose peer allows no data on single streams yet.
fn without_stream_credit(config: StreamsConfig) -> Streams {
    let mut client = Streams::new(Side::Client, config);
    let mut limits = limits(&config);
    limits.max_stream_data_uni = 0;
    client.set_peer_limits(limits);
    client
}

#[test]
fn a_full_buffer_is_what_limits_who_has_sent_it_all() {
    let (mut client, _) = pair_with(|config| config.max_send_buffer = BUFFER);
    let id = client.open(Dir::Uni).unwrap();
    while client.write(id, &[0; 10_000]).is_ok() {}
    assert_eq!(client.limit(), Limit::Window);
    let sent: Vec<_> = std::iter::from_fn(|| packet(&mut client, NOW)).collect();
    assert_eq!(client.account.unacked(), BUFFER);
    assert_eq!(client.limit(), Limit::Buffer);
    assert_eq!(client.limits(BUFFER).application, u64::MAX);
    for packet in &sent {
        acked(&mut client, &packet.sent);
    }
    assert_eq!(events(&mut client), [StreamEvent::Writable(id)]);
    assert_eq!(client.limit(), Limit::Application);
}

#[test]
fn who_does_not_wait_is_not_woken() {
    let (mut client, mut server) = pair_with(|config| config.max_send_buffer = BUFFER);
    let id = client.open(Dir::Uni).unwrap();
    while client.write(id, &[0; 10_000]).is_ok() {}
    client.reset(id, 7).unwrap();
    let other = client.open(Dir::Uni).unwrap();
    client.write(other, &[0; 10_000]).unwrap();
    settle(&mut client, &mut server, NOW);
    assert_eq!(events(&mut client), [StreamEvent::ResetAcked(id)]);
}

/// The BLOCKED frames in the next packets, with their streams and limits.
fn complaints(from: &mut Streams) -> Vec<(StreamId, u64)> {
    let mut all = Vec::new();
    while let Some(packet) = packet(from, NOW) {
        for frame in Frames::new(&packet.payload) {
            if let Frame::StreamDataBlocked(f) = frame.unwrap() {
                all.push((f.id, f.limit));
            }
        }
    }
    all
}

/// RFC 9000 §4.1: a blocked sender should report this, but once per limit suffices.
#[test]
fn a_stream_at_its_limit_says_so_once() {
    let mut client = without_stream_credit(StreamsConfig::default());
    let id = client.open(Dir::Uni).unwrap();
    client.write(id, &[0; 100]).unwrap();
    assert_eq!(complaints(&mut client), [(id, 0)]);
    client.write(id, &[0; 100]).unwrap();
    assert_eq!(complaints(&mut client), []);
    raise(&mut client, id, 150);
    assert_eq!(complaints(&mut client), [(id, 150)]);
    client.write(id, &[0; 100]).unwrap();
    assert_eq!(complaints(&mut client), []);
    raise(&mut client, id, 300);
    assert_eq!(complaints(&mut client), []);
}

/// An announced value must be sent, because the peer would otherwise never receive it.
#[test]
fn credit_for_which_a_packet_has_no_room_goes_into_the_next() {
    let config = StreamsConfig {
        initial_connection_window: 10_000,
        initial_stream_window: 10_000,
        max_bidi_streams: 1,
        max_uni_streams: 1,
        ..StreamsConfig::default()
    };
    for room in 0..=9 {
        let (mut client, mut server) = pair(config);
        let id = client.open(Dir::Uni).unwrap();
        client.write(id, &[0; 10_000]).unwrap();
        carry(&mut client, &mut server, NOW);
        assert_eq!(client.turns.credit(), 0);
        assert_eq!(server.read(id, &mut [0; 10_000]), Ok(Some(10_000)));
        let mut buffer = [0; 9];
        let mut w = Writer::new(&mut buffer[..room]);
        let sent = server.write_frames(NOW, &mut w);
        assert_eq!(sent.is_empty(), room < 9, "{room}");
        let written = w.written().to_vec();
        deliver(&mut client, NOW, &written).unwrap();
        assert_eq!(client.turns.credit() > 0, room == 9, "{room}");
        carry(&mut server, &mut client, NOW);
        assert!(client.turns.credit() > 0, "{room}");
        assert_eq!(client.write(id, b"goes on"), Ok(7));
        carry(&mut client, &mut server, NOW);
        assert_eq!(server.read(id, &mut [0; 10]), Ok(Some(7)));
    }
}

#[test]
fn no_event_of_many_is_lost() {
    const MANY: u64 = 3000;
    let (mut client, mut server) = pair_with(|config| config.max_uni_streams = MANY);
    for _ in 0..MANY {
        let id = client.open(Dir::Uni).unwrap();
        client.write(id, b"x").unwrap();
    }
    carry(&mut client, &mut server, NOW);
    assert_eq!(server.poll_event(), Some(StreamEvent::Opened(Dir::Uni)));
    for index in 0..MANY {
        let id = StreamId::new(Side::Client, Dir::Uni, index).unwrap();
        assert_eq!(server.poll_event(), Some(StreamEvent::Readable(id)));
    }
    assert_eq!(server.poll_event(), None);
}

/// The limit of many streams is found without visiting each.
#[test]
fn many_streams_are_bounded_by_the_connections_credit_alone() {
    let (mut client, _) = pair_with(|config| {
        config.initial_connection_window = 1_000_000;
        config.initial_stream_window = 1000;
    });
    let mut bounds = Vec::new();
    for _ in 0..60 {
        client.open(Dir::Uni).unwrap();
        bounds.push(client.limits(500).peer);
    }
    assert_eq!(bounds[..2], [1500, 2500]);
    assert_eq!(bounds[59], 1_000_500);
}

/// One ACK of many packets, processed from the largest downwards: the end of the stream is in
/// the first.
#[test]
fn an_ack_of_many_packets_ends_a_stream() {
    let (mut client, _) = pair(StreamsConfig::default());
    let id = client.open(Dir::Uni).unwrap();
    client.write(id, &[0; 5 * PACKET]).unwrap();
    client.finish(id).unwrap();
    let packets: Vec<_> = std::iter::from_fn(|| packet(&mut client, NOW)).collect();
    assert!(packets.len() > 4);
    let mut run = AckedRun::default();
    for packet in packets.iter().rev() {
        client.gather_acked(&packet.sent, &mut run);
        assert_eq!(client.poll_event(), None, "they are reported together");
    }
    client.settle_acked(&mut run);
    assert_eq!(events(&mut client), [StreamEvent::Finished(id)]);
    assert_eq!(client.open_streams(), 0);
}

/// RFC 9001 §4.6.2: a server that rejects early data may allow no streams initially.
#[test]
fn streams_opened_early_wait_until_one_is_allowed() {
    let (mut client, mut server) = pair(StreamsConfig::default());
    let id = client.open(Dir::Uni).unwrap();
    client.write(id, b"early").unwrap();
    let lost = packet(&mut client, NOW).unwrap();
    client.on_lost(&lost.sent);
    let mut lower = limits(&StreamsConfig::default());
    lower.max_streams_uni = 0;
    client.start_over(lower);
    // The packets report the wait, and contain no STREAM frame.
    while let Some(packet) = packet(&mut client, NOW) {
        assert_eq!(stream_frames(&packet.payload), []);
    }
    allow(&mut client, Dir::Uni, 1);
    carry(&mut client, &mut server, NOW);
    assert_eq!(server.read(id, &mut [0; 10]), Ok(Some(5)));
}

/// Lost packets are retransmitted stream by stream in order of their ids, regardless of the
/// hash table.
#[test]
fn what_is_repeated_goes_in_the_order_of_the_streams() {
    let (mut client, _) = pair(StreamsConfig::default());
    let ids: Vec<_> = (0..40).map(|_| client.open(Dir::Uni).unwrap()).collect();
    for id in &ids {
        client.write(*id, &[1; PACKET]).unwrap();
    }
    lose(&mut client);
    client.repeat_first(10);
    let again = packet(&mut client, NOW).unwrap();
    let frames = stream_frames(&again.payload).into_iter();
    assert_eq!(frames.map(|(id, _)| id).collect::<Vec<_>>(), ids);
}

/// Data sent in two packets because it was lost twice is in each only once, even if there is
/// room.
#[test]
fn no_packet_holds_the_same_bytes_twice() {
    let (mut client, _) = pair(StreamsConfig::default());
    let id = client.open(Dir::Uni).unwrap();
    client.write(id, &[1; 300]).unwrap();
    for _ in 0..2 {
        let lost = packet(&mut client, NOW).unwrap();
        client.on_lost(&lost.sent);
    }
    for _ in 0..2 {
        let again = packet(&mut client, NOW).unwrap();
        assert_eq!(stream_frames(&again.payload), [(id, 300)]);
    }
    assert!(packet(&mut client, NOW).is_none());
}

/// RFC 9000 §4.4: a client that has finished its direction of a stream still grants credit for
/// the other one.
#[test]
fn a_finished_direction_leaves_the_other_its_credit() {
    // [9000 4.4 other-direction]
    let (mut client, mut server) = pair_with(|config| config.initial_stream_window = 1000);
    let id = client.open(Dir::Bi).unwrap();
    client.finish(id).unwrap();
    settle(&mut client, &mut server, NOW);
    assert_eq!(server.accept(Dir::Bi), Some(id));
    assert_eq!(server.read(id, &mut [0; 9]), Ok(None));
    let written = server.write(id, &[7; 20_000]).unwrap();
    assert!(written > 5000, "{written}");
    server.finish(id).unwrap();
    let (mut read, mut ended) = (0, false);
    for _ in 0..100 {
        settle(&mut client, &mut server, NOW);
        match client.read(id, &mut [0; 4096]) {
            Ok(Some(bytes)) => read += bytes,
            Ok(None) => ended = true,
            Err(_) => {}
        }
    }
    assert_eq!((read, ended), (written, true));
}
