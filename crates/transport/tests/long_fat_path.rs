//! What a flow of 1 Gbit/s over a round trip of 400 ms holds in memory, on either side, without
//! loss and with one packet in a hundred lost: two connections under a virtual clock, and an
//! allocator that counts whose memory it gives.

use std::alloc::{GlobalAlloc, Layout, System};
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicIsize, AtomicUsize, Ordering};

use pathmark_cc::{Acked, Controller, Lost, Metrics, Phase};
use pathmark_transport::connection::{ClientStart, Connection, Received, ServerStart};
use pathmark_transport::crypto::Random;
use pathmark_transport::crypto::null::{NullCrypto, NullEndpointKey};
use pathmark_transport::streams::{Dir, StreamId};
use pathmark_transport::wire::PartialDecode;
use pathmark_transport::{Duration, Instant, TransportConfig};

/// Bytes per second, and one way's delay.
const RATE: u64 = 125_000_000;
const DELAY: Duration = Duration::from_millis(200);
/// Bytes that the path holds.
const BDP: u64 = RATE * 400 / 1000;
/// Fill the path, and then some; what comes in the second half counts as its rate.
const TIME: Duration = Duration::from_secs(8);

/// Who runs: nobody, the sender, the receiver.
static SIDE: AtomicUsize = AtomicUsize::new(0);
/// Bytes that each holds, and the most that it ever did.
static HELD: [AtomicIsize; 3] = [const { AtomicIsize::new(0) }; 3];
static MOST: [AtomicIsize; 3] = [const { AtomicIsize::new(0) }; 3];

struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn count(bytes: isize) {
    let side = SIDE.load(Ordering::Relaxed);
    let held = HELD[side].fetch_add(bytes, Ordering::Relaxed) + bytes;
    MOST[side].fetch_max(held, Ordering::Relaxed);
}

fn size(layout: Layout) -> isize {
    layout.size().cast_signed()
}

#[expect(unsafe_code, reason = "an allocator is unsafe by its trait")]
// SAFETY: everything is handed on to the system's allocator unchanged; counting allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(size(layout));
        // SAFETY: the caller's contract is the system allocator's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(size(layout));
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(-size(layout));
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, new: usize) -> *mut u8 {
        count(new.cast_signed() - size(layout));
        // SAFETY: as above.
        unsafe { System.realloc(pointer, layout, new) }
    }
}

/// Runs a part of `side` and counts what it takes and gives back as that side's.
fn of<T>(side: usize, part: impl FnOnce() -> T) -> T {
    SIDE.store(side, Ordering::Relaxed);
    let result = part();
    SIDE.store(0, Ordering::Relaxed);
    result
}

/// The window that the path holds, paced at its rate, whatever is lost.
#[derive(Debug)]
struct Full;

impl Controller for Full {
    fn on_ack(&mut self, _: Instant, _: &Acked) {}
    fn on_loss(&mut self, _: Instant, _: &Lost) {}
    fn on_persistent_congestion(&mut self, _: Instant) {}
    fn on_mtu(&mut self, _: u16) {}
    fn window(&self) -> u64 {
        BDP
    }
    fn pacing_rate(&self) -> Option<u64> {
        Some(RATE)
    }
    fn metrics(&self) -> Metrics {
        Metrics::new("full", Phase::Avoidance, self.window())
    }
}

fn config() -> Arc<TransportConfig> {
    let mut config = TransportConfig::new(Arc::new(|_, _| Box::new(Full) as Box<dyn Controller>));
    config.initial_mtu = 1472;
    config.max_mtu = Some(1472);
    Arc::new(config)
}

fn address(side: usize) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, side as u8], 443))
}

/// One end, and what is on its way to it.
struct End {
    side: usize,
    connection: Box<Connection>,
    arriving: VecDeque<(Instant, Vec<u8>)>,
}

struct Path {
    now: Instant,
    ends: [End; 2],
    buffer: Vec<u8>,
    /// One in so many of the sender's datagrams is lost.
    loses: Option<u64>,
    sent: u64,
    random: Random,
}

impl Path {
    fn new(loses: Option<u64>) -> Self {
        let now = Instant::from_millis(1);
        let crypto = || Arc::new(NullCrypto::new(&[b"x"]));
        let mut buffer = vec![0; 64 << 10];
        let mut sender = of(1, || {
            Connection::client(
                now,
                ClientStart {
                    config: config(),
                    crypto: crypto(),
                    server_name: "localhost".into(),
                    remote: address(2),
                    local: None,
                    token: Vec::new(),
                    endpoint_key: Arc::new(NullEndpointKey::new(1)),
                    random: Random::from_u64(1),
                },
            )
            .expect("a client")
        });
        let first = of(1, || sender.poll_transmit(now, &mut buffer, 1)).expect("a first flight");
        let Ok(PartialDecode::Protected(found)) = PartialDecode::new(&buffer[..first.len], 8)
        else {
            panic!("not an Initial packet");
        };
        let receiver = of(2, || {
            Connection::server(
                now,
                ServerStart {
                    config: config(),
                    crypto: crypto(),
                    remote: address(1),
                    local: None,
                    destination: found.dcid,
                    source: found.scid,
                    original_destination: found.dcid,
                    retry_source: None,
                    validated: true,
                    endpoint_key: Arc::new(NullEndpointKey::new(2)),
                    random: Random::from_u64(2),
                },
            )
            .expect("a server")
        });
        let end = |side, connection| End {
            side,
            connection,
            arriving: VecDeque::new(),
        };
        let mut path = Self {
            now,
            ends: [end(1, sender), end(2, receiver)],
            buffer,
            loses,
            sent: 0,
            random: Random::from_u64(3),
        };
        let initial = path.buffer[..first.len].to_vec();
        path.ends[1].arriving.push_back((now + DELAY, initial));
        path
    }

    /// What end `index` has to send goes on its way.
    fn transmit(&mut self, index: usize) {
        let arrives = self.now + DELAY;
        loop {
            let end = &mut self.ends[index];
            let polled = of(end.side, || {
                end.connection.poll_transmit(self.now, &mut self.buffer, 40)
            });
            let Some(transmit) = polled else { return };
            for datagram in self.buffer[..transmit.len].chunks(transmit.segment_size) {
                self.sent += u64::from(index == 0);
                let lost = index == 0 && self.loses.is_some_and(|n| self.random.below(n) == 0);
                if !lost {
                    let copy = datagram.to_vec();
                    self.ends[1 - index].arriving.push_back((arrives, copy));
                }
            }
        }
    }

    /// The next thing happens. False if nothing ever will.
    fn step(&mut self) -> bool {
        let next = |end: &End| {
            let arrival = end.arriving.front().map(|(at, _)| *at);
            arrival.into_iter().chain(end.connection.deadline()).min()
        };
        let Some(now) = self.ends.iter().filter_map(next).min() else {
            return false;
        };
        self.now = self.now.max(now);
        for index in 0..2 {
            let end = &mut self.ends[index];
            let mut woken = false;
            while let Some((_, mut datagram)) = end.arriving.pop_front_if(|(at, _)| *at <= self.now)
            {
                let received = Received {
                    remote: address(3 - end.side),
                    local: None,
                    ecn: pathmark_transport::Ecn::NotEct,
                    ttl: None,
                };
                of(end.side, || {
                    end.connection
                        .handle_datagram(self.now, received, &mut datagram);
                });
                woken = true;
            }
            if end.connection.deadline().is_some_and(|at| at <= self.now) {
                of(end.side, || end.connection.handle_timeout(self.now));
                woken = true;
            }
            if woken {
                self.transmit(index);
            }
        }
        true
    }

    /// The sender's application writes what the transport takes, the receiver's reads what is
    /// there. Bytes read.
    fn applications(&mut self, stream: StreamId, data: &[u8]) -> u64 {
        let sender = &mut self.ends[0].connection;
        of(1, || {
            while sender.streams().write(stream, data).is_ok_and(|n| n > 0) {}
        });
        self.transmit(0);
        let receiver = &mut self.ends[1].connection;
        let read = of(2, || {
            while receiver.poll_event().is_some() {}
            while receiver.streams().accept(Dir::Uni).is_some() {}
            let mut read = 0;
            while let Ok(Some(chunk)) = receiver.streams().read_chunk(stream, usize::MAX) {
                read += chunk.len() as u64;
            }
            read
        });
        self.transmit(1);
        read
    }
}

/// Most bytes that sender and receiver hold, and the bytes per second that the application got in
/// the second half.
fn flow(loses: Option<u64>) -> ([f64; 2], u64) {
    for side in 1..3 {
        HELD[side].store(0, Ordering::Relaxed);
        MOST[side].store(0, Ordering::Relaxed);
    }
    let mut path = Path::new(loses);
    while !path.ends[0].connection.is_established() {
        assert!(path.step());
    }
    let stream = of(1, || path.ends[0].connection.streams().open(Dir::Uni)).expect("a stream");
    let data = vec![7; 1 << 20];
    let begun = path.now;
    let mut read = 0;
    while path.now - begun < TIME {
        let bytes = path.applications(stream, &data);
        if path.now - begun > TIME / 2 {
            read += bytes;
        }
        assert!(path.step());
    }
    let most = [1, 2].map(|side| MOST[side].load(Ordering::Relaxed) as f64 / BDP as f64);
    (most, read / (TIME / 2).as_secs())
}

#[test]
fn a_side_holds_a_few_bandwidth_delay_products() {
    for (loses, bound) in [(None, 3.0), (Some(100), 6.0)] {
        let ([sender, receiver], rate) = flow(loses);
        println!(
            "loss {loses:?}: sender {sender:.2} and receiver {receiver:.2} BDP of {} MB at {:.0} \
             Mbit/s",
            BDP / 1_000_000,
            rate as f64 * 8e-6
        );
        assert!(rate > RATE * 8 / 10, "the path is full: {rate}");
        assert!(sender <= bound && receiver <= bound, "{sender} {receiver}");
    }
}
