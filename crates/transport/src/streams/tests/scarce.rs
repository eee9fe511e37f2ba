//! Memory is short: which data is taken in all the same, and when.

use std::sync::Arc;

use super::channel::pair;
use crate::streams::{Arrival, Dir, ReceiveMemory, Side, StreamId, Streams, StreamsConfig};
use crate::wire::frame::Stream;
use crate::{Duration, Instant};

/// Where the data ends that a server holds beyond a gap at the beginning of a stream.
const HELD: u64 = 40_000;

/// The RTT of [`pair`] is 10 ms: without progress, requests are two of them apart.
const ROUNDS: u64 = 20;

fn id() -> StreamId {
    StreamId::new(Side::Client, Dir::Uni, 0).unwrap()
}

fn at(millis: u64) -> Instant {
    Instant::from_millis(1000 + millis)
}

fn arrives(to: &mut Streams, now: Instant, offset: u64, len: usize) -> Arrival {
    let data = vec![5; len];
    let frame = Stream {
        id: id(),
        offset,
        fin: false,
        data: &data,
    };
    to.on_stream(now, &frame).unwrap()
}

/// A server that holds more than it may, all of it beyond a gap, and whose application waits.
fn server() -> Streams {
    let (_, mut server) = pair(StreamsConfig::default());
    server.share_memory(Arc::new(ReceiveMemory::new(0)));
    let mut end = 1000;
    while !server.receiving.holds_all_it_may() {
        assert_eq!(arrives(&mut server, at(0), end, 1000), Arrival::Taken);
        end += 1000;
    }
    assert!(end < HELD);
    assert!(server.read(id(), &mut [0]).is_err());
    server
}

#[test]
fn beyond_a_gap_nothing_is_taken_and_the_peer_is_asked_for_it() {
    let mut server = server();
    assert!(!server.receiving.prepare(at(0)), "nothing was refused");
    for ms in [1, 1000] {
        let result = arrives(&mut server, at(ms), HELD, 100);
        assert_eq!(result, Arrival::Refused, "{ms}");
    }
    assert!(server.wants_preparation());
    assert!(server.receiving.prepare(at(1001)) && !server.receiving.prepare(at(1001)));
    // What is missing does not come: the next request waits for two round trips.
    assert_eq!(arrives(&mut server, at(1002), HELD, 100), Arrival::Refused);
    assert!(!server.wants_preparation() && !server.receiving.prepare(at(1000 + ROUNDS)));
    assert!(server.receiving.prepare(at(1001 + ROUNDS)));
}

#[test]
fn the_peer_is_asked_as_often_as_the_application_reads() {
    let mut server = server();
    for byte in 0..50 {
        let now = at(byte);
        assert_eq!(arrives(&mut server, now, byte, 1), Arrival::Taken);
        assert_eq!(server.read(id(), &mut [0; 10]), Ok(Some(1)));
        assert!(server.read(id(), &mut [0; 10]).is_err());
        assert_eq!(arrives(&mut server, now, HELD, 100), Arrival::Refused);
        assert!(server.receiving.prepare(now) && !server.receiving.prepare(now));
    }
}

/// An application that does not read is no reason to ask.
#[test]
fn the_peer_is_not_asked_while_there_is_something_to_read() {
    let mut server = server();
    assert_eq!(arrives(&mut server, at(0), 0, 10), Arrival::Taken);
    let later = at(0) + Duration::from_secs(1);
    assert_eq!(arrives(&mut server, later, HELD, 100), Arrival::Refused);
    assert!(!server.wants_preparation() && !server.receiving.prepare(later));
    assert_eq!(server.read(id(), &mut [0; 10]), Ok(Some(10)));
    assert!(server.wants_preparation() && server.receiving.prepare(later));
}

/// The application may just not have had its turn to read what came before in the same batch.
#[test]
fn some_data_in_order_is_taken_before_the_application_reads() {
    let (_, mut server) = pair(StreamsConfig::default());
    let memory = Arc::new(ReceiveMemory::new(512 << 20));
    server.share_memory(Arc::clone(&memory));
    assert_eq!(arrives(&mut server, at(0), 100_000, 60_000), Arrival::Taken);
    memory.set_limit(0);
    for round in 0..3 {
        let mut taken = 0;
        while arrives(&mut server, at(round), round * 20_000 + taken, 1000) == Arrival::Taken {
            taken += 1000;
        }
        assert_eq!(taken, 17_000, "16 KiB, and what begins below");
        let beyond = arrives(&mut server, at(round), 160_000, 1000);
        assert_eq!(beyond, Arrival::Refused);
        let read = server.read(id(), &mut [0; 20_000]);
        assert_eq!(read, Ok(Some(17_000)));
        let rest = arrives(&mut server, at(round), round * 20_000 + taken, 3000);
        assert_eq!(rest, Arrival::Taken);
        assert_eq!(server.read(id(), &mut [0; 20_000]), Ok(Some(3000)));
    }
}

/// A block for a stream of bulk data is as large for one byte: what is taken before the
/// application reads is bounded in memory, on however many streams it comes.
#[test]
fn a_byte_on_each_of_many_streams_takes_no_memory_that_is_not_there() {
    let config = StreamsConfig {
        initial_connection_window: 24 << 20,
        ..StreamsConfig::default()
    };
    let (_, mut server) = pair(config);
    let memory = Arc::new(ReceiveMemory::new(512 << 20));
    server.share_memory(Arc::clone(&memory));
    let streams = (0..50).map(|index| StreamId::new(Side::Client, Dir::Uni, index).unwrap());
    let streams: Vec<_> = streams.collect();
    let data = vec![5; 70_000];
    let frame = |id, offset: usize, len: usize| Stream {
        id,
        offset: offset as u64,
        fin: false,
        data: &data[..len],
    };
    for &id in &streams {
        let taken = server.on_stream(at(0), &frame(id, 0, 40_000));
        assert_eq!(taken, Ok(Arrival::Taken));
        assert_eq!(server.read(id, &mut [0; 40_000]), Ok(Some(40_000)));
    }
    // The first stream takes all that the connection may.
    let now = at(1000);
    let held = frame(streams[0], 40_001, 69_000);
    assert_eq!(server.on_stream(now, &held), Ok(Arrival::Taken));
    memory.set_limit(0);
    let before = memory.held();
    for &id in &streams[1..] {
        assert!(server.on_stream(now, &frame(id, 40_000, 1)).is_ok());
    }
    let more = memory.held() - before;
    assert!(more <= 48 * 1024, "{more}");
}
