//! Transfers to a server without memory for what comes behind a gap.

use std::net::SocketAddr;
use std::sync::Arc;

use super::inject::{From, frames, send};
use super::link::Faults;
use super::memory::{every_second_number, room_for_ranges};
use super::pair::{Pair, SERVER, Setup, drain};
use crate::Duration;
use crate::streams::{Dir, ReceiveMemory};
use crate::wire::{Frame, SpaceId};

/// A receiver acknowledges no packet with data that it has no memory for, even if it took the rest.
/// So probes with new data, or with data that it waits for and other data, would get no answer
/// however often they are repeated.
#[test]
fn probes_bring_what_the_receiver_waits_for() {
    for seed in 0..50 {
        let mut pair = Pair::connected(Setup {
            seed,
            latency: Duration::from_millis(50),
            ..Setup::default()
        });
        let memory = Arc::new(ReceiveMemory::new(0));
        pair.server.get().streams().share_memory(memory);
        pair.up.faults = Faults {
            loss: 200_000,
            ..Faults::default()
        };
        pair.down.faults = pair.up.faults.clone();
        pair.upload(200_000, Duration::from_secs(120));
    }
}

/// Which stream the receiver waits for is its own affair: here one of low priority, behind much
/// unread data of high priority.
#[test]
fn probes_bring_streams_of_low_priority_too() {
    let mut pair = Pair::connected(Setup::default());
    let memory = Arc::new(ReceiveMemory::new(0));
    pair.server.get().streams().share_memory(memory);
    let streams = pair.client.get().streams();
    let high = streams.open(Dir::Uni).unwrap();
    streams.set_priority(high, 1).unwrap();
    let _ = streams.write(high, &[1; 200_000]);
    pair.run(Duration::from_secs(5));
    let streams = pair.client.get().streams();
    let low = streams.open(Dir::Uni).unwrap();
    streams.write(low, &[2; 100]).unwrap();
    streams.finish(low).unwrap();
    let mut got = Vec::new();
    let done = pair.run_until(Duration::from_secs(60), |pair| {
        let server = pair.server.get();
        while server.streams().accept(Dir::Uni).is_some() {}
        drain(server, low, &mut got)
    });
    assert!(done, "{} bytes", got.len());
    assert_eq!(got, [2; 100]);
}

/// What comes in order in one batch is taken, though the application has had no turn to read its
/// first packet and more is held behind gaps than there is memory for. Refused, it was lost to the
/// sender, and each packet took a probe timeout: 4039 for these 4200 packets.
#[test]
fn gaps_are_closed_by_batches_although_memory_is_short() {
    let mut pair = Pair::connected(Setup {
        latency: Duration::from_micros(50),
        ..Setup::default()
    });
    let memory = Arc::new(ReceiveMemory::new(512 << 20));
    let shared = Arc::clone(&memory);
    pair.server.get().streams().share_memory(shared);
    let server: SocketAddr = SERVER.parse().unwrap();
    let mut datagrams = 0;
    pair.tap = Some(Box::new(move |_, datagram| {
        datagrams += usize::from(datagram.to == server);
        if (500..1000).contains(&datagrams) && datagrams % 2 == 0 {
            // An empty datagram cannot be opened.
            datagram.bytes.clear();
        } else if datagrams == 1000 {
            memory.set_limit(0);
        }
    }));
    pair.upload(6_000_000, Duration::from_secs(4));
    let refused = pair.server.get().stats().packets_refused;
    let probes = pair.client.get().stats().probe_timeouts;
    assert!(refused > 1000, "{refused}");
    assert!(probes < 1000, "{probes}");
}

/// Room for ranges of packet numbers is given back, also by a connection that holds more than it
/// may by then.
#[test]
fn room_for_ranges_shrinks_although_memory_is_short() {
    let mut pair = Pair::connected(Setup::default());
    let memory = Arc::new(ReceiveMemory::new(512 << 20));
    let shared = Arc::clone(&memory);
    pair.server.get().streams().share_memory(shared);
    pair.down.faults.loss = 1_000_000;
    every_second_number(&mut pair, 3000);
    assert_eq!((room_for_ranges(&mut pair), memory.held()), (4096, 61_440));
    memory.set_limit(0);
    assert!(pair.server.get().streams().receiving.holds_all_it_may());
    // Once the client acknowledges an ACK that came with data, it has an ACK for all of them.
    pair.down.faults.loss = 0;
    let id = pair.server.get().streams().open(Dir::Uni).unwrap();
    for _ in 0..10 {
        let written = pair.server.get().streams().write(id, b"acknowledge this");
        assert_eq!(written, Ok(16));
        send(
            &mut pair,
            From::Client,
            SpaceId::Data,
            &frames(&[Frame::Ping]),
        );
        pair.run(Duration::from_secs(1));
    }
    assert_eq!((room_for_ranges(&mut pair), memory.held()), (256, 0));
}
