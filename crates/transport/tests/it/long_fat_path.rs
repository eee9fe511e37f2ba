//! Flows over long fat paths, 1 Gbit/s × 400 ms and 10 Gbit/s × 720 ms, within a memory budget of
//! the receiving endpoint: how much memory they need on either side, how fast they are, and whether
//! they report their limit. This uses two connections with a virtual clock, and an allocator
//! that counts each side's memory.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use pathmark_cc::{Acked, Controller, Lost, Metrics, Phase};
use pathmark_transport::connection::{ClientStart, Connection, ServerStart};
use pathmark_transport::crypto::Random;
use pathmark_transport::crypto::null::{NullCrypto, NullEndpointKey};
use pathmark_transport::streams::{Dir, ReceiveMemory, StreamId};
use pathmark_transport::wire::PartialDecode;
use pathmark_transport::{Duration, Instant, TransportConfig};

use crate::memory::{forget, most, of};

/// Default memory that endpoints share among their connections.
const DEFAULT: u64 = 512 << 20;
/// Longer than necessary to fill the path; the rate is measured in the second half.
const TIME: Duration = Duration::from_secs(8);

#[derive(Clone, Copy, Debug)]
struct Link {
    /// Bytes per second.
    rate: u64,
    /// One-way delay.
    delay: Duration,
    /// Largest datagram.
    mtu: u16,
    /// One in this many of the sender's datagrams is lost.
    loses: Option<u64>,
}

/// 1 Gbit/s over 400 ms.
const FAT: Link = Link {
    rate: 125_000_000,
    delay: Duration::from_millis(200),
    mtu: 1472,
    loses: None,
};

/// 10 Gbit/s over 720 ms.
const FATTER: Link = Link {
    rate: 1_250_000_000,
    delay: Duration::from_millis(360),
    mtu: 8972,
    loses: None,
};

impl Link {
    /// Returns the bytes that the path holds.
    const fn bdp(&self) -> u64 {
        self.rate * 2 * self.delay.as_millis() as u64 / 1000
    }
}

/// A window that fills the path, paced at its rate, regardless of losses.
#[derive(Debug)]
struct Full(Link);

impl Controller for Full {
    fn on_ack(&mut self, _: Instant, _: &Acked) {}
    fn on_loss(&mut self, _: Instant, _: &Lost) {}
    fn on_persistent_congestion(&mut self, _: Instant) {}
    fn on_mtu(&mut self, _: u16) {}
    fn window(&self) -> u64 {
        self.0.bdp()
    }

    fn pacing_rate(&self) -> Option<u64> {
        Some(self.0.rate)
    }

    fn metrics(&self) -> Metrics {
        Metrics::new("full", Phase::Avoidance, self.window())
    }
}

fn config(link: Link) -> Arc<TransportConfig> {
    let full = move |_, _: u16| Box::new(Full(link)) as Box<dyn Controller>;
    let mut config = TransportConfig::new(Arc::new(full));
    config.initial_mtu = link.mtu;
    config.max_mtu = Some(link.mtu);
    Arc::new(config)
}

fn address(side: usize) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, side as u8], 443))
}

/// One end, and the datagrams in flight to it.
struct End {
    side: usize,
    connection: Box<Connection>,
    arriving: VecDeque<(Instant, Vec<u8>)>,
}

struct Path {
    now: Instant,
    ends: [End; 2],
    buffer: Vec<u8>,
    link: Link,
    random: Random,
}

impl Path {
    fn new(link: Link, memory: u64) -> Self {
        let now = Instant::from_millis(1);
        let crypto = || Arc::new(NullCrypto::new(&[b"x"]));
        let mut buffer = vec![0; 64 << 10];
        let mut sender = of(1, || {
            let start = ClientStart {
                config: config(link),
                crypto: crypto(),
                server_name: "localhost".into(),
                remote: address(2),
                local: None,
                token: Vec::new(),
                endpoint_key: Arc::new(NullEndpointKey::new(1)),
                random: Random::from_u64(1),
            };
            Connection::client(now, start).expect("a client")
        });
        let first = of(1, || sender.poll_transmit(now, &mut buffer, 1)).expect("a first flight");
        let Ok(PartialDecode::Protected(found)) = PartialDecode::new(&buffer[..first.len], 8)
        else {
            panic!("not an Initial packet");
        };
        let mut receiver = of(2, || {
            let start = ServerStart {
                config: config(link),
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
            };
            Connection::server(now, start).expect("a server")
        });
        let memory = Arc::new(ReceiveMemory::new(memory));
        of(2, || receiver.streams().share_memory(memory));
        let end = |side, connection| End {
            side,
            connection,
            arriving: VecDeque::new(),
        };
        let mut path = Self {
            now,
            ends: [end(1, sender), end(2, receiver)],
            buffer,
            link,
            random: Random::from_u64(3),
        };
        let initial = path.buffer[..first.len].to_vec();
        path.ends[1].arriving.push_back((now + link.delay, initial));
        path
    }

    /// Sends the packets that the end `index` has ready.
    fn transmit(&mut self, index: usize) {
        let arrives = self.now + self.link.delay;
        loop {
            let end = &mut self.ends[index];
            let polled = of(end.side, || {
                end.connection.poll_transmit(self.now, &mut self.buffer, 40)
            });
            let Some(transmit) = polled else { return };
            for datagram in self.buffer[..transmit.len].chunks(transmit.segment_size) {
                let loses = self.link.loses.filter(|_| index == 0);
                let lost = loses.is_some_and(|n| self.random.below(n) == 0);
                if !lost {
                    let copy = datagram.to_vec();
                    self.ends[1 - index].arriving.push_back((arrives, copy));
                }
            }
        }
    }

    /// Processes the next event. Returns false if there will never be another one.
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
                let received = crate::plain(address(3 - end.side));
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

    /// The sender's application writes as much as the transport accepts, and the receiver's reads
    /// everything available. Returns the bytes read.
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

#[derive(Debug)]
struct FlowResult {
    /// Largest memory of sender and receiver, in bandwidth-delay products.
    most: [f64; 2],
    /// The application's share of the path's rate in the second half.
    rate: f64,
    /// The receiver reports at the end that it limits the flow.
    receive_limited: bool,
    /// Share of time during which the sender was limited by the peer's credit, as it reports.
    bounded_by_peer: f64,
}

/// Runs a flow over `link` to a receiver whose endpoint has `memory` bytes for received data.
fn flow(link: Link, memory: u64) -> FlowResult {
    for side in 1..3 {
        forget(side);
    }
    let mut path = Path::new(link, memory);
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
    let [sender, receiver] = &path.ends;
    let per_second = read as f64 / (TIME / 2).as_secs_f64();
    let outcome = FlowResult {
        most: [1, 2].map(|side| most(side) as f64 / link.bdp() as f64),
        rate: per_second / link.rate as f64,
        receive_limited: receiver.connection.path_report(path.now).receive_limited,
        bounded_by_peer: sender.connection.path_report(path.now).bounded_by.peer,
    };
    println!("{link:?} with {} MiB: {outcome:?}", memory >> 20);
    outcome
}

/// Tests run one at a time, since each needs gigabytes of memory.
static TURN: Mutex<()> = Mutex::new(());

#[test]
fn a_gigabit_over_400_ms_has_its_rate_by_default() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    for (loses, bound) in [(None, 3.0), (Some(100), 6.0)] {
        let outcome = flow(Link { loses, ..FAT }, DEFAULT);
        assert!(outcome.rate > 0.8, "the path is full: {outcome:?}");
        let bounded = outcome.most.iter().all(|most| *most <= bound);
        assert!(bounded, "{outcome:?}");
    }
}

/// As in `docs/transport.md`: five bandwidth-delay products are 4.5 GB, and a connection can use
/// half of its endpoint's memory.
#[test]
fn ten_gigabits_over_720_ms_have_their_rate_with_8_gib() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let loses = Some(1000);
    let outcome = flow(Link { loses, ..FATTER }, 8 << 30);
    assert!(outcome.rate > 0.8, "the path is full: {outcome:?}");
    assert!(outcome.most.iter().all(|most| *most <= 3.0), "{outcome:?}");
}

/// Both sides report why the flow is no faster, and the receiver stays within its budget.
#[test]
fn ten_gigabits_over_720_ms_are_limited_by_default_and_say_so() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    for (loses, least) in [(None, 0.25), (Some(1000), 0.1)] {
        let link = Link { loses, ..FATTER };
        let outcome = flow(link, DEFAULT);
        assert!(outcome.rate > least && outcome.rate < 0.7, "{outcome:?}");
        assert!(outcome.receive_limited, "{outcome:?}");
        assert!(outcome.bounded_by_peer > 0.4, "{outcome:?}");
        let budget = DEFAULT as f64 / link.bdp() as f64;
        assert!(outcome.most[1] < budget, "{outcome:?}");
    }
}
