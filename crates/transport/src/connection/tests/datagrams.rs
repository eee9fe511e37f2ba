//! Unreliable datagrams (RFC 9221) between two connections.

use super::*;
use crate::DatagramError;

/// Both ends accept datagrams.
fn setup() -> Setup {
    Setup::both(|config| config.datagrams.receive_bytes = 1 << 20)
}

/// The client sends a datagram.
fn push(pair: &mut Pair, data: impl Into<Bytes>) {
    pair.client.get().datagrams().send(data.into()).unwrap();
}

fn read_all(connection: &mut Connection) -> Vec<Bytes> {
    std::iter::from_fn(|| connection.datagrams().read()).collect()
}

#[test]
fn they_arrive_once_and_what_is_lost_is_not_sent_again() {
    let mut pair = Pair::at_rest(setup());
    pair.up.faults.loss = 100_000;
    pair.up.faults.duplicate = 100_000;
    let mut seen = Vec::new();
    for n in 0..1000_u32 {
        push(&mut pair, [&n.to_be_bytes()[..], &[7; 400]].concat());
        pair.run(Duration::from_millis(5));
        seen.extend(read_all(pair.server.get()));
    }
    pair.run(Duration::from_secs(5));
    seen.extend(read_all(pair.server.get()));
    let number = |data: &Bytes| u32::from_be_bytes(*data.first_chunk().unwrap());
    let numbers: Vec<_> = seen.iter().map(number).collect();
    assert!(numbers.is_sorted_by(|a, b| a < b), "each once, in order");
    assert!((850..=950).contains(&numbers.len()), "{}", numbers.len());
    let stats = pair.client.get().stats();
    assert_eq!(stats.datagram_frames_sent, 1000);
    assert_eq!(stats.bytes_retransmitted, 0);
    assert!(stats.packets_lost >= 50, "{stats:?}");
    let received = pair.server.get().stats().datagram_frames_received;
    assert_eq!(received, numbers.len() as u64);
    assert!(pair.server.has(|event| *event == Event::DatagramReceived));
}

/// Each has the mark of its own packet, unless this is a code of a signal.
#[test]
fn they_come_with_the_marks_of_their_packets() {
    let codes: Arc<dyn Signal> = Arc::new(TestSignal::in_ecn(5));
    for (signals, expected) in [
        (vec![], [Ecn::Ect0, Ecn::Ce, Ecn::Ect0]),
        (vec![codes], [Ecn::NotEct; 3]),
    ] {
        let mut setup = setup();
        setup.client.signals.clone_from(&signals);
        setup.server.signals = signals;
        let mut pair = Pair::at_rest(setup);
        for mark in [None, Some(Ecn::Ce), None] {
            pair.up.faults.ecn = mark;
            push(&mut pair, &b"marked"[..]);
            pair.run(Duration::from_millis(200));
        }
        let read = std::iter::from_fn(|| pair.server.get().datagrams().read_marked());
        let marks: Vec<_> = read.map(|(_, mark)| mark).collect();
        assert_eq!(marks, expected);
    }
}

/// The kernel splits a batch into segments of one size, of which only the last may be shorter.
#[test]
fn a_shorter_packet_ends_its_batch() {
    let mut pair = Pair::at_rest(setup());
    let lens = [700, 900, 500, 1000, 600, 800];
    for len in lens {
        push(&mut pair, vec![7; len]);
    }
    pair.run(Duration::from_millis(100));
    let read = read_all(pair.server.get());
    assert_eq!(read.iter().map(Bytes::len).collect::<Vec<_>>(), lens);
    assert_eq!(pair.server.get().stats().packets_dropped, 0);
}

/// Equal datagrams are sent in one batch, even if each is much shorter than a packet may be, and
/// whatever else the first one contains.
#[test]
fn datagrams_of_one_size_leave_in_batches() {
    for (len, count) in [(1100, 8_usize), (700, 8), (100, 80)] {
        let mut pair = Pair::at_rest(setup());
        for _ in 0..count {
            push(&mut pair, vec![7; len]);
        }
        let mut buffer = vec![0; 65_535];
        // Probes of the path's MTU are sent first.
        let sent = loop {
            let sent = pair.client.get().poll_transmit(pair.now, &mut buffer, 64);
            if pair.client.get().stats().datagram_frames_sent > 0 {
                break sent.unwrap();
            }
        };
        let segments = sent.len.div_ceil(sent.segment_size);
        let per_packet = usize::from(pair.client.get().path_report(pair.now).mtu) / (len + 3);
        let filled = segments + 2 >= count.div_ceil(per_packet);
        assert!(filled && segments > 1, "{len}: {sent:?}");
        assert!(sent.segment_size >= len, "{len}: {sent:?}");
    }
}

/// They wait for the window. If their queue is full, the oldest are dropped.
#[test]
fn they_wait_for_the_window_in_a_queue_with_a_bound() {
    let mut setup = setup();
    setup.client.controller = fixed_window(12_000).0;
    setup.client.datagrams.send_bytes = 50 * 1064;
    let mut pair = Pair::at_rest(setup);
    for n in 0..100 {
        push(&mut pair, vec![n; 1000]);
    }
    assert_eq!(pair.client.get().stats().datagram_frames_unsent, 50);
    let mut seen = Vec::new();
    while seen.len() < 50 {
        assert!(pair.client.get().path_report(pair.now).in_flight <= 12_000);
        assert!(pair.step());
        let data = read_all(pair.server.get());
        seen.extend(data.into_iter().map(|data| data[0]));
    }
    assert_eq!(seen, (50..100).collect::<Vec<u8>>());
}

#[test]
fn they_are_as_long_as_the_path_allows() {
    let mut pair = Pair::connected(setup());
    let mut length = 0;
    for _ in 0..20 {
        pair.run(Duration::from_millis(200));
        let mtu = usize::from(pair.client.get().mtu());
        let max = pair.client.get().datagrams().max_size().unwrap();
        // One byte of type, two of length, and a short header.
        assert!((mtu - 40..mtu - 28).contains(&max), "{max} of {mtu}");
        length = max;
        let long = Bytes::from(vec![1; max + 1]);
        let refused = pair.client.get().datagrams().send(long);
        assert_eq!(refused, Err(DatagramError::TooLong(max)));
        let data = Bytes::from(vec![2; max]);
        push(&mut pair, data.clone());
        pair.run(Duration::from_millis(200));
        assert_eq!(pair.server.get().datagrams().read(), Some(data));
    }
    assert!(length > 1400, "the search is over: {length}");
    // The path carries less from now on, and datagrams that are too long don't block the others.
    pair.up.faults.mtu = Some(1250);
    let deadline = pair.now + Duration::from_secs(120);
    while pair.client.get().datagrams().max_size() == Some(length) {
        assert!(pair.now < deadline, "a black hole is noticed");
        push(&mut pair, vec![3; length]);
        pair.run(Duration::from_millis(100));
    }
    read_all(pair.server.get());
    let data = Bytes::from_static(b"short");
    push(&mut pair, data.clone());
    pair.run(Duration::from_secs(2));
    assert_eq!(read_all(pair.server.get()), [data]);
}

/// An application that sends more datagrams than the path carries doesn't starve its streams, nor
/// the other way around.
#[test]
fn streams_and_datagrams_take_turns() {
    let mut setup = setup();
    setup.client.controller = fixed_window(24_000).0;
    setup.client.datagrams.send_bytes = 40_000;
    let mut pair = Pair::at_rest(setup);
    let stream = pair.client.open();
    let before = pair.client.get().stats();
    for _ in 0..200 {
        let _ = pair.client.get().streams().write(stream, &[5; 100_000]);
        for _ in 0..40 {
            push(&mut pair, vec![6; 1000]);
        }
        pair.run(Duration::from_millis(20));
        read_all(pair.server.get());
        let server = pair.server.get().streams();
        if let Some(id) = server.accept(Dir::Uni).or(Some(stream)) {
            while let Ok(Some(_)) = server.read_chunk(id, usize::MAX) {}
        }
    }
    let after = pair.client.get().stats();
    let sent = after.bytes_sent - before.bytes_sent;
    let datagrams = 1000 * (after.datagram_frames_sent - before.datagram_frames_sent);
    assert!(datagrams > sent / 4, "{datagrams} of {sent}");
    assert!(sent - datagrams > sent / 4, "{datagrams} of {sent}");
}

#[test]
fn who_takes_none_is_sent_none() {
    let mut setup = setup();
    setup.server.datagrams.receive_bytes = 0;
    let mut pair = Pair::connected(setup);
    assert_eq!(pair.client.get().datagrams().max_size(), None);
    let refused = pair.client.get().datagrams().send(Bytes::new());
    assert_eq!(refused, Err(DatagramError::Unsupported));
    // They are also sent in the other direction, including an empty one.
    pair.server.get().datagrams().send(Bytes::new()).unwrap();
    pair.run(Duration::from_millis(200));
    assert_eq!(read_all(pair.client.get()), [Bytes::new()]);
}

/// A frame, including its type and length, isn't longer than the peer's limit (RFC 9221 §3).
#[test]
fn a_peer_that_takes_little_gets_no_more() {
    for (limit, longest) in [(1, None), (2, Some(0)), (3, Some(1)), (66, Some(63))] {
        let mut pair = Pair::connected(setup());
        let parameters = pair.client.get().sources.handshake.parameters_mut();
        parameters.peer.as_mut().unwrap().max_datagram_frame_size = limit;
        let found = pair.client.get().datagrams().max_size();
        assert_eq!(found, longest, "{limit}");
    }
}

/// Datagrams that don't fit after the connection has moved to a path with a smaller MTU don't block
/// those behind them.
#[test]
fn those_too_long_for_a_new_path_do_not_hold_up_the_others() {
    let mut pair = Pair::connected(setup());
    pair.upload_and_run(100_000, 5, Duration::from_secs(1));
    let longest = pair.client.get().datagrams().max_size().unwrap();
    assert!(longest > 1400);
    push(&mut pair, vec![1; longest]);
    pair.migrate("10.0.0.9:2000");
    assert!(pair.client.get().datagrams().max_size().unwrap() < longest);
    push(&mut pair, &b"short"[..]);
    pair.run(Duration::from_millis(100));
    assert_eq!(read_all(pair.server.get()), [&b"short"[..]]);
    assert_eq!(pair.client.get().stats().datagram_frames_unsent, 1);
}

/// An application that doesn't read events gets one for several datagrams.
#[test]
fn datagrams_that_arrive_together_are_reported_once() {
    let mut pair = Pair::at_rest(setup());
    pair.server.events.clear();
    for n in 0..3 {
        push(&mut pair, vec![n; 10]);
    }
    pair.run(Duration::from_millis(100));
    let events = pair.server.events.iter();
    let events = events.filter(|event| **event == Event::DatagramReceived);
    assert_eq!(events.count(), 1);
    assert_eq!(read_all(pair.server.get()).len(), 3);
}
