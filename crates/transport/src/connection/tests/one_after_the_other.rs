//! Applications that read one stream after the other, or pause, while memory for received data is
//! scarce.

use pathmark_cc::NewReno;

use super::*;

/// The client's application, which writes `count` streams of `size` bytes one after the other.
#[derive(Debug)]
struct Writer {
    left: usize,
    size: usize,
    open: Option<(StreamId, usize)>,
}

impl Writer {
    fn write(&mut self, pair: &mut Pair) {
        let streams = pair.client.get().streams();
        loop {
            if self.open.is_none() && self.left > 0 {
                let Ok(id) = streams.open(Dir::Uni) else {
                    return;
                };
                self.left -= 1;
                self.open = Some((id, 0));
            }
            let Some((id, written)) = &mut self.open else {
                return;
            };
            let data = vec![7; self.size - *written];
            match streams.write(*id, &data) {
                Ok(n) => *written += n,
                Err(WriteError::Blocked) => return,
                Err(error) => panic!("{error}"),
            }
            if *written == self.size {
                streams.finish(*id).unwrap();
                self.open = None;
            }
        }
    }
}

/// The server's application, which reads each stream to its end before accepting the next one.
#[derive(Debug, Default)]
struct Reader {
    current: Option<StreamId>,
    bytes: usize,
    done: usize,
}

impl Reader {
    fn read(&mut self, pair: &mut Pair) {
        let streams = pair.server.get().streams();
        let mut chunk = [0; 16 * 1024];
        loop {
            let Some(id) = self.current.or_else(|| streams.accept(Dir::Uni)) else {
                return;
            };
            self.current = Some(id);
            match streams.read(id, &mut chunk) {
                Ok(Some(n)) => self.bytes += n,
                Ok(None) => {
                    self.current = None;
                    self.done += 1;
                }
                Err(ReadError::Blocked) => return,
                Err(error) => panic!("{error}"),
            }
        }
    }
}

/// A server whose connections share `memory`, and a client with congestion control.
fn connected(latency: Duration, streams: u64, memory: &Arc<ReceiveMemory>) -> Pair {
    let reno =
        |_: Instant, mtu: u16| -> Box<dyn Controller> { Box::new(NewReno::newreno(mtu, None)) };
    let mut server = TransportConfig::new(fixed_window(1 << 20).0);
    server.streams.max_uni_streams = streams;
    server.streams = server.streams.with_room_for_grants().within(memory);
    let mut pair = Pair::connected(Setup {
        client: TransportConfig::new(Arc::new(reno)),
        server,
        latency,
        ..Setup::default()
    });
    pair.share(memory);
    pair
}

/// Returns how long it takes to read `count` streams of `size` bytes one after the other.
fn read_all(pair: &mut Pair, count: usize, size: usize, limit: Duration) -> Duration {
    let (left, open) = (count, None);
    let mut writer = Writer { left, size, open };
    let mut reader = Reader::default();
    let begun = pair.now;
    let done = pair.run_until(limit, |pair| {
        writer.write(pair);
        reader.read(pair);
        reader.done == count
    });
    let took = pair.now - begun;
    let sent = pair.client.get().stats();
    println!(
        "{count} x {size}: {} streams, {} bytes after {took:?}, sent {}, lost {}, \
         probe timeouts {}",
        reader.done, reader.bytes, sent.packets_sent, sent.packets_lost, sent.probe_timeouts,
    );
    assert!(done, "{reader:?} {:?}", pair.client.error());
    assert_eq!(reader.bytes, count * size);
    took
}

#[test]
fn many_streams_without_memory_are_read_one_after_the_other() {
    for (micros, open, count, size, limit) in [
        (50, 128, 128, 100, 2),
        (50, 128, 128, 1000, 2),
        (50, 128, 128, 10_000, 2),
        (10_000, 128, 128, 100, 2),
        (10_000, 128, 128, 1000, 2),
        (1000, 128, 128, 10_000, 2),
        // More streams than are open at once.
        (1000, 100, 1000, 1000, 10),
    ] {
        let memory = Arc::new(ReceiveMemory::new(0));
        let mut pair = connected(Duration::from_micros(micros), open, &memory);
        read_all(&mut pair, count, size, Duration::from_secs(limit));
    }
}

/// Each peer occupies as much memory as possible, and its application doesn't read.
#[test]
fn a_reader_goes_on_while_other_peers_fill_the_memory() {
    let memory = Arc::new(ReceiveMemory::new(16 << 20));
    let hoards = (0..30).map(|_| {
        let mut pair = connected(Duration::from_micros(50), 128, &memory);
        let id = pair.client.open();
        let _ = pair.client.get().streams().write(id, &[1; 100_000]);
        pair.run(Duration::from_secs(2));
        pair
    });
    let hoards: Vec<Pair> = hoards.collect();
    assert!(memory.taken() > 15 << 17, "{}", memory.taken());
    for latency in [Duration::from_micros(50), Duration::from_millis(10)] {
        let mut pair = connected(latency, 128, &memory);
        read_all(&mut pair, 100, 5000, Duration::from_secs(2));
    }
    drop(hoards);
}

#[test]
fn more_streams_of_one_byte_than_memory_keeps_are_read() {
    let memory = Arc::new(ReceiveMemory::new(512 << 20));
    let mut pair = connected(Duration::from_micros(50), 200_000, &memory);
    read_all(&mut pair, 100_000, 1, Duration::from_secs(2));
}

/// The connection may be promised more than its streams deliver before the first stream ends.
#[test]
fn a_reader_that_waits_is_not_held_up_by_credit() {
    let memory = Arc::new(ReceiveMemory::new(0));
    let mut setup = Setup::with_latency(1);
    setup.server.streams.initial_connection_window = 256 << 10;
    let mut pair = Pair::connected(setup);
    pair.share(&memory);
    read_all(&mut pair, 100, 4000, Duration::from_secs(20));
}

/// Promised memory is reserved. After a pause, a reader therefore finds all of the promised data,
/// and later data as soon as a peer can send it.
#[test]
fn a_pause_costs_two_round_trips() {
    const RTT: Duration = Duration::from_millis(20);
    for rate in [12_500_000_u64, 125_000_000] {
        let memory = Arc::new(ReceiveMemory::new(512 << 20));
        let mut server = TransportConfig::new(fixed_window(1 << 20).0);
        server.streams = server.streams.with_room_for_grants().within(&memory);
        let mut pair = Pair::connected(Setup {
            client: TransportConfig::new(fixed_window(rate / 50).0),
            server,
            latency: RTT / 2,
            ..Setup::default()
        });
        pair.share(&memory);
        let id = pair.client.open();
        let data = vec![7; 64 << 10];
        let write = |pair: &mut Pair| {
            while let Ok(1..) = pair.client.get().streams().write(id, &data) {}
        };
        let mut reader = Reader::default();
        let begun = pair.now;
        pair.run_until(Duration::from_secs(3), |pair| {
            write(pair);
            reader.read(pair);
            pair.now - begun > Duration::from_secs(2)
        });
        for _ in 0..800 {
            write(&mut pair);
            pair.run(Duration::from_millis(10));
        }
        let before = reader.bytes;
        reader.read(&mut pair);
        let (resumed, held) = (pair.now, reader.bytes - before);
        let before = reader.bytes;
        let done = pair.run_until(Duration::from_secs(20), |pair| {
            write(pair);
            reader.read(pair);
            reader.bytes > before
        });
        let took = pair.now - resumed;
        println!("{rate} B/s: held {held}, next byte after {took:?}");
        assert!(done && took <= 2 * RTT, "{took:?}");
        let sent = pair.client.get().stats();
        assert_eq!((sent.packets_lost, sent.bytes_retransmitted), (0, 0));
    }
}
