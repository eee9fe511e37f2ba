//! Memory for received data, which the connections of an endpoint share.

use std::sync::Arc;

use super::fixed_window::fixed_window;
use super::inject::{From, frames, packet, send};
use super::link::Datagram;
use super::pair::{Pair, Setup, drain};
use crate::config::TransportConfig;
use crate::streams::ReceiveMemory;
use crate::wire::frame::{ResetStream, Stream};
use crate::wire::{Dir, Frame, Side, SpaceId, StreamId};
use crate::{Duration, Ecn};

fn id(index: u64) -> StreamId {
    StreamId::new(Side::Client, Dir::Uni, index).unwrap()
}

fn sharing(setup: Setup, memory: &Arc<ReceiveMemory>) -> Pair {
    let mut pair = Pair::connected(setup);
    let server = pair.server.get();
    server.streams().share_memory(Arc::clone(memory));
    pair
}

/// Frames of one byte each, with a gap of `gap` bytes before each.
fn pieces(stream: StreamId, from: u64, count: u64, gap: u64) -> Vec<u8> {
    let piece = |i| {
        Frame::Stream(Stream {
            id: stream,
            offset: from + (i + 1) * (gap + 1) - 1,
            fin: false,
            data: b"x",
        })
    };
    let all: Vec<_> = (0..count).map(piece).collect();
    frames(&all)
}

fn setup(seed: u64, window: u64) -> Setup {
    let (client, client_log) = fixed_window(window);
    let mut server = TransportConfig::new(fixed_window(1 << 20).0);
    server.streams = server.streams.with_room_for_grants();
    Setup {
        seed,
        client: TransportConfig::new(client),
        client_log,
        server,
        ..Setup::default()
    }
}

#[test]
fn tiny_pieces_of_many_peers_are_bounded_and_an_honest_peer_goes_on() {
    let memory = Arc::new(ReceiveMemory::new(16 << 20));
    let mut hostile: Vec<Pair> = (0..16)
        .map(|i| sharing(setup(100 + i, 1 << 20), &memory))
        .collect();
    for round in 0..60 {
        for pair in &mut hostile {
            // Each at the end of 32 KiB of its own; then denser and denser.
            let (stream, gap, from) = match round {
                0..4 => (0, 32_767, round * 100 * 32_768),
                _ => (1 + round % 7, 1, round * 200),
            };
            let payload = pieces(id(stream), from, 100, gap);
            send(pair, From::Client, SpaceId::Data, &payload);
            pair.run(Duration::from_millis(25));
        }
    }
    let refused: u64 = hostile
        .iter_mut()
        .map(|pair| pair.server.get().stats().packets_refused)
        .sum();
    assert!(refused > 0 && memory.refused() == refused);
    // The pool of 1 MiB, what each may hold anyway, and the last packet of each.
    let held = memory.held();
    assert!(held <= (1 << 20) + 16 * 64 * 1024, "{held}");
    assert!(hostile.iter().all(|pair| pair.server.error().is_none()));

    let mut honest = sharing(setup(7, 1 << 20), &memory);
    honest.up.faults.loss = 10_000;
    let begun = honest.now;
    honest.upload(8 << 20, Duration::from_secs(10));
    let together = honest.now - begun;
    let mut alone = Pair::connected(setup(7, 1 << 20));
    alone.up.faults.loss = 10_000;
    let begun = alone.now;
    alone.upload(8 << 20, Duration::from_secs(10));
    let alone = alone.now - begun;
    assert!(
        together <= alone + Duration::from_secs(1),
        "{together:?} {alone:?}"
    );

    drop(hostile);
    drop(honest);
    assert_eq!(memory.held(), 0);
}

#[test]
fn data_without_memory_waits_for_the_application_and_the_connection_lives() {
    let memory = Arc::new(ReceiveMemory::new(1 << 20));
    let mut pair = sharing(setup(3, 4 << 20), &memory);
    let client = pair.client.get().streams();
    let stream = client.open(Dir::Uni).unwrap();
    let data = super::pair::pattern(3 << 20, 3);
    client.on_congestion_window(8 << 20);
    assert_eq!(client.write(stream, &data), Ok(data.len()));
    client.finish(stream).unwrap();
    // The application sleeps for longer than the idle timeout.
    pair.run(Duration::from_secs(70));
    assert_eq!((pair.client.error(), pair.server.error()), (None, None));
    assert!(pair.server.get().stats().packets_refused > 0);
    assert!(memory.held() < 1 << 20, "{}", memory.held());
    let mut got = Vec::new();
    let done = pair.run_until(Duration::from_secs(60), |pair| {
        drain(pair.server.get(), stream, &mut got)
    });
    assert!(done && got == data, "{}", got.len());
}

/// A copy of a packet that was refused is no new packet (RFC 9000 §12.3).
#[test]
fn a_refused_packet_is_dealt_with_once() {
    let memory = Arc::new(ReceiveMemory::new(0));
    let mut pair = sharing(setup(5, 1 << 20), &memory);
    let mut sent = Vec::new();
    let refused = |pair: &mut Pair| pair.server.get().stats().packets_refused;
    for piece in 1..=100 {
        let data = Frame::Stream(Stream {
            id: id(0),
            offset: piece * 2000,
            fin: false,
            data: &[7; 1000],
        });
        let now = pair.now;
        let bytes = packet(pair.client.get(), now, SpaceId::Data, &frames(&[data]));
        sent.push(Datagram {
            from: pair.client.address,
            to: pair.server.address,
            ecn: Ecn::NotEct,
            bytes,
        });
        pair.up.send(now, sent[sent.len() - 1].clone());
        pair.run(Duration::from_millis(1));
    }
    pair.run(Duration::from_millis(100));
    let before = refused(&mut pair);
    assert!((50..100).contains(&before), "{before}");
    let known = |pair: &mut Pair| {
        let stats = pair.server.get().stats();
        // Numbers of one byte are those of other packets by now, and do not open.
        stats.packets_duplicate + stats.packets_dropped
    };
    let duplicates = known(&mut pair);
    // All of them a second time.
    for copy in sent {
        let now = pair.now;
        pair.up.send(now, copy);
        pair.run(Duration::from_millis(1));
    }
    pair.run(Duration::from_millis(100));
    assert_eq!(refused(&mut pair), before);
    let again = known(&mut pair) - duplicates;
    assert_eq!(again, 100);
}

/// The client moves while each of its packets is refused: it is followed, and gets an answer.
#[test]
fn a_client_that_moves_while_memory_is_short_is_followed() {
    let memory = Arc::new(ReceiveMemory::new(1 << 20));
    let mut pair = sharing(setup(3, 4 << 20), &memory);
    let client = pair.client.get().streams();
    let stream = client.open(Dir::Uni).unwrap();
    client.on_congestion_window(8 << 20);
    let data = super::pair::pattern(3 << 20, 3);
    assert_eq!(client.write(stream, &data), Ok(data.len()));
    pair.run(Duration::from_secs(10));
    assert!(pair.server.get().stats().packets_refused > 0);
    pair.client.address = "10.0.0.9:2000".parse().unwrap();
    pair.run(Duration::from_secs(70));
    assert_eq!((pair.client.error(), pair.server.error()), (None, None));
    let moved = pair.client.address;
    assert_eq!(pair.server.get().remote_address(), moved);
}

#[test]
fn resets_earn_no_window() {
    let mut pair = Pair::connected(Setup::default());
    let initial = pair.server.get().streams().receiving.window();
    for index in 0..60 {
        let reset = Frame::ResetStream(ResetStream {
            id: id(index),
            error_code: 1,
            final_size: 500_000,
        });
        send(&mut pair, From::Client, SpaceId::Data, &frames(&[reset]));
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
    let memory = Arc::new(ReceiveMemory::new(512 << 20));
    let mut pair = sharing(setup(1, 2 << 20), &memory);
    pair.up.rate = Some(100_000_000);
    pair.upload(32 << 20, Duration::from_secs(20));
    let report = |pair: &mut Pair| pair.server.get().path_report(pair.now);
    assert!(!report(&mut pair).receive_limited);
    memory.set_limit(1 << 20);
    // What was promised before is used up first.
    pair.upload(96 << 20, Duration::from_secs(20));
    let server = report(&mut pair);
    assert!(server.receive_limited, "{server:?}");
    let shares = pair.client.get().path_report(pair.now).bounded_by;
    assert!(shares.peer > 0.2, "{shares:?}");
}

/// Packets with one frame for each of `ids`, `len` bytes from the beginning.
fn beginnings(pair: &mut Pair, ids: impl Iterator<Item = u64>, len: usize) {
    let data = vec![b'x'; len];
    let ids: Vec<u64> = ids.collect();
    for some in ids.chunks((1000 / (len + 4)).max(1)) {
        let begin = |index: &u64| {
            Frame::Stream(Stream {
                id: id(*index),
                offset: 0,
                fin: false,
                data: &data,
            })
        };
        let all: Vec<_> = some.iter().map(begin).collect();
        send(pair, From::Client, SpaceId::Data, &frames(&all));
        pair.run(Duration::from_millis(5));
    }
    pair.run(Duration::from_millis(10));
}

/// A server with no memory but what every connection may hold, and a client that may open
/// `streams`.
fn without_memory(streams: u64) -> (Pair, Arc<ReceiveMemory>) {
    let memory = Arc::new(ReceiveMemory::new(0));
    let mut setup = setup(11, 1 << 20);
    setup.server.streams.max_uni_streams = streams;
    let mut pair = sharing(setup, &memory);
    // Open all streams at the client: a frame for an unopened one would be an error.
    while pair.client.get().streams().open(Dir::Uni).is_ok() {}
    (pair, memory)
}

#[test]
fn first_bytes_of_unread_streams_count() {
    for len in [1, 20, 990] {
        let (mut pair, memory) = without_memory(256);
        beginnings(&mut pair, 0..256, len);
        assert_eq!((pair.client.error(), pair.server.error()), (None, None));
        // Twice what a connection may hold in any case, and one frame.
        let held = memory.held();
        assert!(held <= (32 << 10) + 2048, "{len} bytes each: {held}");
        // The application reads them all, one after the other.
        for index in 0..256 {
            let got = pair.server.get().streams().read(id(index), &mut [0; 2048]);
            if got != Ok(Some(len)) {
                beginnings(&mut pair, index..=index, len);
                let got = pair.server.get().streams().read(id(index), &mut [0; 2048]);
                assert_eq!(got, Ok(Some(len)), "stream {index}");
            }
        }
        assert!(memory.held() <= 16 << 10, "{}", memory.held());
    }
}

#[test]
fn data_that_is_waited_for_passes_while_other_data_is_refused() {
    let (mut pair, memory) = without_memory(64);
    beginnings(&mut pair, 0..60, 990);
    assert!(pair.server.get().stats().packets_refused > 0);
    while pair.server.get().streams().accept(Dir::Uni).is_some() {}
    let waits = pair.server.get().streams().read(id(63), &mut [0; 9]);
    assert!(waits.is_err());
    // The last stream is opened, and waited for.
    let open = Frame::Stream(Stream {
        id: id(63),
        offset: 0,
        fin: false,
        data: b"",
    });
    send(&mut pair, From::Client, SpaceId::Data, &frames(&[open]));
    pair.run(Duration::from_millis(15));
    while pair.server.get().streams().accept(Dir::Uni).is_some() {}
    let waits = pair.server.get().streams().read(id(63), &mut [0; 9]);
    assert_eq!(waits, Err(crate::streams::ReadError::Blocked));
    let piece = |index: u64, data: &'static [u8]| {
        Frame::Stream(Stream {
            id: id(index),
            offset: 0,
            fin: false,
            data,
        })
    };
    let held = memory.held();
    let refused = memory.refused();
    let more = frames(&[
        piece(61, &[b'x'; 500]),
        piece(63, b"waited"),
        piece(62, &[b'x'; 500]),
        Frame::MaxData(1 << 40),
    ]);
    send(&mut pair, From::Client, SpaceId::Data, &more);
    pair.run(Duration::from_millis(15));
    let mut got = [0; 9];
    let read = pair.server.get().streams().read(id(63), &mut got);
    assert_eq!((read, &got[..6]), (Ok(Some(6)), &b"waited"[..]));
    // A stream at rest keeps a few places for blocks.
    assert!(memory.held() <= held + 64, "{} {held}", memory.held());
    assert_eq!(memory.refused(), refused + 1);
}

#[test]
fn data_that_takes_no_memory_is_not_refused() {
    let (mut pair, memory) = without_memory(64);
    // One stream is read to its end, one is given up, one has begun.
    let whole = |index: u64, fin: bool| {
        Frame::Stream(Stream {
            id: id(index),
            offset: 0,
            fin,
            data: b"all of it",
        })
    };
    let all = frames(&[whole(0, true), whole(1, false), whole(2, false)]);
    send(&mut pair, From::Client, SpaceId::Data, &all);
    pair.run(Duration::from_millis(15));
    let server = pair.server.get().streams();
    while server.accept(Dir::Uni).is_some() {}
    assert_eq!(server.read(id(0), &mut [0; 99]), Ok(Some(9)));
    assert_eq!(server.read(id(0), &mut [0; 99]), Ok(None));
    let reset = Frame::ResetStream(ResetStream {
        id: id(1),
        error_code: 1,
        final_size: 1000,
    });
    send(&mut pair, From::Client, SpaceId::Data, &frames(&[reset]));
    beginnings(&mut pair, 3..60, 990);
    let refused = memory.refused();
    assert!(refused > 0);
    let more = Frame::Stream(Stream {
        id: id(1),
        offset: 9,
        fin: false,
        data: b"too late",
    });
    let again = frames(&[whole(0, true), whole(2, false), more]);
    send(&mut pair, From::Client, SpaceId::Data, &again);
    pair.run(Duration::from_millis(15));
    assert_eq!(memory.refused(), refused);
    assert_eq!((pair.client.error(), pair.server.error()), (None, None));
}

/// Packets of whose numbers every second is missing, `count` of them.
pub(super) fn every_second_number(pair: &mut Pair, count: u64) {
    for n in 0..count {
        let now = pair.now;
        // Never sent.
        let ping = frames(&[Frame::Ping]);
        packet(pair.client.get(), now, SpaceId::Data, &ping);
        send(pair, From::Client, SpaceId::Data, &ping);
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

/// Ranges of packet numbers come out of the same memory, and go back to it.
#[test]
fn gaps_in_packet_numbers_take_of_the_shared_memory() {
    let alone = Arc::new(ReceiveMemory::new(512 << 20));
    let mut pair = sharing(setup(1, 1 << 20), &alone);
    pair.down.faults.loss = 1_000_000;
    every_second_number(&mut pair, 6000);
    assert_eq!((room_for_ranges(&mut pair), alone.held()), (4096, 61_440));
    // Once the client acknowledges an ACK that came with data, it has an ACK for all of them.
    pair.down.faults.loss = 0;
    let id = pair.server.get().streams().open(Dir::Uni).unwrap();
    for _ in 0..10 {
        let written = pair.server.get().streams().write(id, b"acknowledge this");
        assert_eq!(written.unwrap(), 16);
        send(
            &mut pair,
            From::Client,
            SpaceId::Data,
            &frames(&[Frame::Ping]),
        );
        pair.run(Duration::from_secs(1));
    }
    assert_eq!((room_for_ranges(&mut pair), alone.held()), (256, 0));
}

#[test]
fn gaps_in_the_packet_numbers_of_many_are_bounded_together() {
    const HOSTILE: u64 = 24;
    let memory = Arc::new(ReceiveMemory::new(4 << 20));
    let mut hostile: Vec<Pair> = (0..HOSTILE)
        .map(|seed| {
            let mut pair = sharing(setup(100 + seed, 1 << 20), &memory);
            pair.down.faults.loss = 1_000_000;
            every_second_number(&mut pair, 6000);
            assert_eq!((pair.client.error(), pair.server.error()), (None, None));
            pair
        })
        .collect();
    let room: Vec<_> = hostile.iter_mut().map(room_for_ranges).collect();
    // The first take of the pool what they can get. Later ones have what everyone has: 16 KiB, and
    // the step that leads beyond.
    assert!(
        room[0] == 4096 && room[HOSTILE as usize - 1] == 2048,
        "{room:?}"
    );
    // The pool, and what each may hold anyway and one step more.
    assert!(memory.held() <= (4 << 20) / 24 + HOSTILE * 32 * 1024);
    let mut honest = sharing(setup(7, 1 << 20), &memory);
    honest.up.faults.loss = 10_000;
    honest.upload(8 << 20, Duration::from_secs(10));
    drop((hostile, honest));
    assert_eq!(memory.held(), 0);
}

/// Memory for a part of what is under way, and losses: an application that reads all it gets gets
/// all of it. What is refused is not acknowledged, so probes have to carry what is missing, and
/// now and then something beyond it is taken, whose acknowledgement tells of the losses.
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
            let begun = pair.now;
            pair.upload(bytes, Duration::from_secs(limit));
            println!("{seed} {} {loss} {:?}", memory.limit(), pair.now - begun);
            assert!(memory.refused() > 0, "{seed}");
        }
    }
}
