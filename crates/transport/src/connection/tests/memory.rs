//! Memory for received data, which the connections of an endpoint share.

use super::*;

fn id(index: u64) -> StreamId {
    inject::id(Side::Client, Dir::Uni, index)
}

/// A server whose connections share `memory` and promise no more than this.
pub(super) fn sharing(mut setup: Setup, memory: &Arc<ReceiveMemory>) -> Pair {
    setup.server.streams = setup.server.streams.within(memory);
    let mut pair = Pair::connected(setup);
    pair.share(memory);
    pair
}

/// Frames of one byte each, with a gap of `gap` bytes before each.
fn pieces(stream: StreamId, from: u64, count: u64, gap: u64) -> Vec<u8> {
    let piece = |i| inject::stream(stream, from + (i + 1) * (gap + 1) - 1, b"x", false);
    let all: Vec<_> = (0..count).map(piece).collect();
    frames(&all)
}

fn setup(seed: u64, window: u64) -> Setup {
    let mut setup = Setup::with_window(window);
    setup.server.streams = setup.server.streams.with_room_for_grants();
    setup.seed = seed;
    setup
}

/// An upload of `honest` takes little longer than one of `alone`, whose server has no other peers.
pub(super) fn arrives_as_if_alone(honest: &mut Pair, mut alone: Pair) {
    let [together, alone] = [honest, &mut alone].map(|pair| {
        pair.up.faults.loss = 10_000;
        pair.upload(8 << 20, Duration::from_secs(10))
    });
    let most = alone + Duration::from_secs(1);
    assert!(together <= most, "{together:?} {alone:?}");
}

#[test]
fn tiny_pieces_of_many_peers_are_bounded_and_an_honest_peer_goes_on() {
    let memory = Arc::new(ReceiveMemory::new(16 << 20));
    let hostile = (0..16).map(|i| sharing(setup(100 + i, 1 << 20), &memory));
    let mut hostile: Vec<Pair> = hostile.collect();
    for round in 0..60 {
        for pair in &mut hostile {
            let room = pair.server.get().streams().receiving.window() / 8;
            // First, each byte is at the end of a separate 4 KiB; then, they are denser. None is
            // beyond the promised window.
            let (stream, gap, from) = match round {
                0..4 => (0, 4095, round * 100 * 4096),
                _ => (1 + round % 7, 1, round * 200),
            };
            let count = (room.saturating_sub(from) / (gap + 1)).min(100);
            let payload = pieces(id(stream), from, count, gap);
            if count > 0 {
                send(pair, From::Client, SpaceId::Data, &payload);
            }
            pair.run(Duration::from_millis(25));
        }
    }
    assert!(hostile.iter_mut().all(|pair| pair.server.error().is_none()));
    // The part that wasn't earned, plus twice the amount that each connection may promise anyway.
    let held = memory.held();
    assert!(held <= (4 << 20) + 16 * 128 * 1024, "{held}");
    assert!(memory.taken() <= 4 << 20, "{}", memory.taken());

    let mut honest = sharing(setup(7, 1 << 20), &memory);
    arrives_as_if_alone(&mut honest, Pair::connected(setup(7, 1 << 20)));

    drop((hostile, honest));
    assert_eq!((memory.held(), memory.taken()), (0, 0));
}

#[test]
fn data_waits_at_the_sender_for_the_application_and_the_connection_lives() {
    let memory = Arc::new(ReceiveMemory::new(1 << 20));
    let mut pair = sharing(setup(3, 4 << 20), &memory);
    let stream = pair.client.open();
    let data = pattern(3 << 20, 3);
    let mut written = 0;
    let mut write = |pair: &mut Pair| {
        let client = pair.client.get().streams();
        while let Ok(more @ 1..) = client.write(stream, &data[written..]) {
            written += more;
        }
        if written == data.len() {
            let _ = client.finish(stream);
        }
    };
    write(&mut pair);
    // The application sleeps for longer than the idle timeout.
    pair.run(Duration::from_secs(70));
    assert_eq!((pair.client.error(), pair.server.error()), (None, None));
    assert!(memory.held() < 1 << 20, "{}", memory.held());
    let sent = pair.client.get().stats();
    assert_eq!((sent.packets_lost, sent.bytes_retransmitted), (0, 0));
    let mut got = Vec::new();
    let done = pair.run_until(Duration::from_secs(60), |pair| {
        write(pair);
        drain(pair.server.get(), stream, &mut got)
    });
    assert!(done && got == data, "{}", got.len());
}

#[test]
fn resets_earn_no_window() {
    let mut pair = Pair::connected(Setup::default());
    let initial = pair.server.get().streams().receiving.window();
    for index in 0..60 {
        let reset = inject::reset(id(index), 500_000);
        send_frames(&mut pair, From::Client, &[reset]);
        pair.run(Duration::from_millis(5));
        while pair.server.get().streams().accept(Dir::Uni).is_some() {}
        let _ = pair.server.get().streams().read(id(index), &mut [0; 9]);
        pair.run(Duration::from_millis(20));
    }
    assert_eq!((pair.client.error(), pair.server.error()), (None, None));
    assert_eq!(pair.server.get().streams().receiving.window(), initial);
}

#[test]
fn a_flow_that_memory_limits_says_so() {
    for (size, is_limited) in [(512 << 20, false), (1 << 20, true)] {
        let memory = Arc::new(ReceiveMemory::new(size));
        let mut pair = sharing(setup(1, 2 << 20), &memory);
        pair.up.rate = Some(100_000_000);
        pair.upload(32 << 20, Duration::from_secs(20));
        let server = pair.server.get().path_report(pair.now);
        assert_eq!(server.receive_limited, is_limited, "{server:?}");
        let shares = pair.client.get().path_report(pair.now).bounded_by;
        assert_eq!(shares.peer > 0.2, is_limited, "{shares:?}");
    }
}

/// Sends `count` packets, but skips every second number.
pub(super) fn every_second_number(pair: &mut Pair, count: u64) {
    for n in 0..count {
        // Never sent.
        packet_from(pair, From::Client, SpaceId::Data, &[Frame::Ping]);
        send_frames(pair, From::Client, &[Frame::Ping]);
        if n % 16 == 15 {
            pair.run(Duration::from_millis(1));
        }
    }
    pair.run(Duration::from_millis(50));
}

pub(super) fn room_for_ranges(pair: &mut Pair) -> usize {
    let spaces = &pair.server.get().spaces;
    spaces.received(SpaceId::Data).room_for_ranges()
}

/// Ranges of packet numbers use the same memory, and return it, even if the connection then holds
/// more than permitted.
#[test]
fn gaps_in_packet_numbers_take_of_the_shared_memory() {
    for becomes_short in [false, true] {
        let memory = Arc::new(ReceiveMemory::new(512 << 20));
        let mut pair = sharing(setup(1, 1 << 20), &memory);
        pair.down.faults.loss = 1_000_000;
        every_second_number(&mut pair, 6000);
        assert_eq!((room_for_ranges(&mut pair), memory.held()), (4096, 61_440));
        if becomes_short {
            memory.set_limit(0);
        }
        // When the client acknowledges an ACK sent with data, it has an ACK for all packets.
        pair.down.faults.loss = 0;
        let id = pair.server.open();
        for _ in 0..10 {
            let written = pair.server.get().streams().write(id, b"acknowledge this");
            assert_eq!(written, Ok(16));
            send_frames(&mut pair, From::Client, &[Frame::Ping]);
            pair.run(Duration::from_secs(1));
        }
        assert_eq!((room_for_ranges(&mut pair), memory.held()), (256, 0));
    }
}

#[test]
fn gaps_in_the_packet_numbers_of_many_are_bounded_together() {
    const HOSTILE: u64 = 24;
    let memory = Arc::new(ReceiveMemory::new(0));
    let peers = (0..HOSTILE).map(|seed| {
        let mut pair = sharing(setup(100 + seed, 1 << 20), &memory);
        pair.down.faults.loss = 1_000_000;
        every_second_number(&mut pair, 6000);
        assert_eq!((pair.client.error(), pair.server.error()), (None, None));
        pair
    });
    let mut hostile: Vec<Pair> = peers.collect();
    let room: Vec<_> = hostile.iter_mut().map(room_for_ranges).collect();
    assert!(room.iter().all(|room| *room <= 4096), "{room:?}");
    assert!(memory.held() <= HOSTILE * 64 * 1024);
    let mut honest = sharing(setup(7, 1 << 20), &memory);
    honest.up.faults.loss = 10_000;
    honest.upload(8 << 20, Duration::from_secs(10));
    drop((hostile, honest));
    assert_eq!(memory.held(), 0);
}

/// Memory for only a part of the data in flight, and losses. An application that reads everything
/// eventually gets all data.
#[test]
fn a_transfer_ends_although_memory_is_short_and_packets_are_lost() {
    // [9000 13.1 processed-first]
    for (memory, loss, bytes, limit) in [
        (0, 50_000, 256 << 10, 30),
        (1 << 20, 50_000, 1 << 20, 60),
        (8 << 20, 300_000, 4 << 20, 300),
    ] {
        for seed in 0..3 {
            let memory = Arc::new(ReceiveMemory::new(memory));
            let mut pair = sharing(setup(seed, 4 << 20), &memory);
            pair.up.faults.loss = loss;
            let took = pair.upload(bytes, Duration::from_secs(limit));
            println!("{seed} {} {loss} {took:?}", memory.limit());
        }
    }
}

/// Each of many connections has a stream that its reader hardly reads, filled by the peer as far as
/// permitted. Streams next to these arrive immediately, however large they are, and nothing is
/// retransmitted.
#[test]
fn streams_next_to_slow_readers_arrive_at_once() {
    const CONNECTIONS: u64 = 60;
    for size in [512 << 20, 0] {
        let memory = Arc::new(ReceiveMemory::new(size));
        let pairs = (0..CONNECTIONS).map(|seed| {
            let mut pair = sharing(setup(seed, 1 << 20), &memory);
            assert_eq!(pair.client.open(), id(0));
            let streams = pair.client.get().streams();
            while let Ok(1..) = streams.write(id(0), &[7; 65_536]) {}
            pair.run(Duration::from_secs(1));
            pair
        });
        let mut pairs: Vec<Pair> = pairs.collect();
        for pair in &mut pairs {
            let mut slow = [0; 4096];
            while pair.server.get().streams().accept(Dir::Uni).is_some() {}
            for _ in 0..20 {
                let read = pair.server.get().streams().read(id(0), &mut slow);
                assert_eq!(read, Ok(Some(4096)));
                let fresh = pair.client.write(b"eight or");
                pair.client.get().streams().finish(fresh).unwrap();
                let got = pair.read(false, fresh, Duration::from_millis(100));
                assert_eq!(got, b"eight or");
                let _ = pair.client.get().streams().write(id(0), &[7; 4096]);
            }
            let sent = pair.client.get().stats();
            assert_eq!((sent.packets_lost, sent.bytes_retransmitted), (0, 0));
        }
        // Each has at least 64 KiB.
        let most = size / 3 + CONNECTIONS * (64 << 10);
        assert!(memory.taken() <= most, "{}", memory.taken());
        assert!(memory.held() <= size / 4 * 9 / 8 + CONNECTIONS * (144 << 10));
    }
}

/// A peer's data on many streams isn't read. Readers of single streams get their data, one round
/// trip for each 16 KiB, although the peer has no other credit: first in the middle, then of each.
#[test]
fn readers_have_credit_of_their_own_when_others_have_used_it_up() {
    let memory = Arc::new(ReceiveMemory::new(0));
    let mut pair = sharing(setup(1, 1 << 20), &memory);
    let ids: Vec<_> = (0..20).map(|_| pair.client.write(&[7; 10_000])).collect();
    for &id in &ids {
        pair.client.get().streams().finish(id).unwrap();
    }
    pair.run(Duration::from_secs(1));
    while pair.server.get().streams().accept(Dir::Uni).is_some() {}
    let (before, after) = (&ids[..12], &ids[13..]);
    for &id in ids[12..13].iter().chain(before).chain(after) {
        let begun = pair.now;
        assert!(pair.read(false, id, Duration::from_secs(1)) == [7; 10_000]);
        let took = pair.now - begun;
        assert!(took <= Duration::from_millis(60), "{took:?}");
    }
    assert!(memory.held() <= 144 << 10);
}
