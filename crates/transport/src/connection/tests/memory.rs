//! Memory for received data, which the connections of an endpoint share.

use std::sync::Arc;

use super::fixed_window::fixed_window;
use super::inject::{From, frames, send};
use super::pair::{Pair, Setup, drain};
use crate::Duration;
use crate::config::TransportConfig;
use crate::streams::ReceiveMemory;
use crate::wire::frame::{ResetStream, Stream};
use crate::wire::{Dir, Frame, Side, SpaceId, StreamId};

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
    let (client, client_told) = fixed_window(window);
    let mut server = TransportConfig::new(fixed_window(1 << 20).0);
    server.streams = server.streams.with_room_for_grants();
    Setup {
        seed,
        client: TransportConfig::new(client),
        client_told,
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
    let beside = honest.now - begun;
    let mut alone = Pair::connected(setup(7, 1 << 20));
    alone.up.faults.loss = 10_000;
    let begun = alone.now;
    alone.upload(8 << 20, Duration::from_secs(10));
    let alone = alone.now - begun;
    assert!(
        beside <= alone + Duration::from_secs(1),
        "{beside:?} {alone:?}"
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

#[test]
fn resets_earn_no_window() {
    let mut pair = Pair::connected(Setup::default());
    let initial = pair.server.get().streams().receive_window();
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
    assert_eq!(pair.server.get().streams().receive_window(), initial);
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
