//! The estimator against a link that a test knows: error, load, and what becomes of it when the
//! link or the other router does not behave.

use core::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::collections::VecDeque;

use pathmark_cc::{Duration, Instant};
use rand_pcg::{
    Pcg64Mcg,
    rand_core::{Rng, SeedableRng},
};
use xcp_edge::{Edge, Estimator, Key, Limits, Prober, Received, Requester, Step};

const PACKET: u16 = 972;

fn address(n: u8) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(192, 0, 2, n))
}

/// Packets that come as in a Poisson process, of 40, 576 and 1500 bytes as on the internet.
struct Cross {
    rate: f64,
    next: u64,
    random: Pcg64Mcg,
}

impl Cross {
    fn uniform(&mut self) -> f64 {
        (self.random.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    fn packet(&mut self) -> u64 {
        let bytes = match self.random.next_u32() % 10 {
            0..4 => 40.0,
            4..6 => 576.0,
            _ => 1500.0,
        };
        // Mean 731 bytes.
        let gap = -self.uniform().max(1e-12).ln() * 731.2 / self.rate;
        self.next += (gap * 1e9) as u64;
        bytes as u64
    }
}

/// A process that is not always running: when it is, it looks at what came meanwhile.
struct Process {
    /// Share of the time in which it is held up, and for how long at most at once, ns.
    share: f64,
    most: f64,
    begins: u64,
    ends: u64,
    random: Pcg64Mcg,
    /// It does one thing after the other, each of which takes some time, ns.
    free: u64,
    each: u64,
}

impl Process {
    fn new(share: f64, most: u64, each: u64, seed: u64) -> Self {
        Self {
            share,
            most: most as f64,
            begins: 0,
            ends: 0,
            random: Pcg64Mcg::seed_from_u64(seed),
            free: 0,
            each,
        }
    }

    fn uniform(&mut self) -> f64 {
        (self.random.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// When it gets to do what is there from `at` on. Times do not fall from call to call.
    fn runs(&mut self, at: u64) -> u64 {
        if self.share <= 0.0 {
            return at;
        }
        let at = at.max(self.free);
        while self.ends <= at {
            let pause = self.most * (1.0 - self.share) / self.share * self.uniform();
            self.begins = self.ends + pause as u64;
            self.ends = self.begins + (self.most * self.uniform()) as u64 + 1;
        }
        if at < self.begins { at } else { self.ends }
    }

    fn did(&mut self, now: u64) {
        if self.share > 0.0 {
            self.free = now + self.each;
        }
    }
}

/// A link between two routers, with a queue before it.
struct World {
    now: u64,
    capacity: f64,
    uplink: f64,
    limit: f64,
    up_free: f64,
    free: f64,
    cross: Cross,
    there: VecDeque<(u64, Vec<u8>)>,
    back: VecDeque<(u64, Vec<u8>)>,
    upstream: Edge,
    downstream: Edge,
    estimator: Estimator,
    probe_bytes: u64,
    dropped: u64,
    first: Option<Duration>,
    /// The upstream router hears nothing any more.
    gone: bool,
    /// By how much its clock is ahead, ns, and how much faster it goes, in 10^-6.
    ahead: u64,
    drift: u64,
    /// The processes of the routers before, in and behind the cloud.
    sender: Process,
    middle: Process,
    reader: Process,
}

const DELAY: u64 = 15_000_000;

/// A router; `run` tells one start of it from another.
fn edge(n: u8, run: u8, limits: Limits, start: Instant) -> Edge {
    let key = || Key::new(&[1; 32]).unwrap();
    let own = Key::new(&[run; 32]).unwrap();
    let prober = Prober::new(start, address(n), key(), own, limits);
    let first = Estimator::first_train(PACKET);
    let requester = Requester::new(start, address(n), key(), u64::from(run), first);
    Edge::new(address(n), key(), prober, requester)
}

impl World {
    fn new(capacity: f64, share: f64, seed: u64) -> Self {
        let uplink = 2.667 * capacity;
        let limits = Limits {
            rate: (uplink / 100.0) as u64,
            burst: (uplink / 10.0) as u64,
            packet: 1472,
        };
        let start = Instant::ZERO;
        Self {
            now: 0,
            capacity: capacity / 1e9,
            uplink: uplink / 1e9,
            limit: 100.0 * 1000.0,
            up_free: 0.0,
            free: 0.0,
            cross: Cross {
                rate: (capacity * share).max(1.0),
                next: 0,
                random: Pcg64Mcg::seed_from_u64(seed),
            },
            there: VecDeque::new(),
            back: VecDeque::new(),
            upstream: edge(1, 1, limits, start),
            downstream: edge(2, 2, limits, start),
            estimator: Estimator::new(start, PACKET),
            probe_bytes: 0,
            dropped: 0,
            first: None,
            gone: false,
            ahead: 0,
            drift: 0,
            sender: Process::new(0.0, 0, 0, 0),
            middle: Process::new(0.0, 0, 0, 0),
            reader: Process::new(0.0, 0, 0, 0),
        }
    }

    /// Routers as processes on a machine that has other things to do: each is held up for a fifth
    /// of the time, for up to so many microseconds at once, and looks after its timers no more
    /// often than every 100 µs.
    fn busy(mut self, micros: u64, seed: u64) -> Self {
        let process = |each, salt| Process::new(0.2, micros * 1000, each, 10 * seed + salt);
        self.sender = process(100_000, 1);
        self.middle = process(100_000, 2);
        self.reader = process(8_000, 3);
        self
    }

    /// The upstream router's clock.
    fn its_clock(&self) -> Instant {
        let faster = u128::from(self.now) * u128::from(self.drift) / 1_000_000;
        Instant::from_nanos(self.ahead.wrapping_add(self.now) + faster as u64)
    }

    /// When something is due there, by the clock of this one.
    fn its_deadline(&self) -> Option<u64> {
        let at = self.upstream.deadline()?.as_nanos();
        let wait = u128::from(at.saturating_sub(self.its_clock().as_nanos())) * 1_000_000;
        let here = wait.div_ceil(1_000_000 + u128::from(self.drift));
        Some(self.now + here as u64)
    }

    /// The upstream router starts anew: its clock begins at 0, and it knows nothing of before.
    fn restart(&mut self) {
        self.ahead = 0u64.wrapping_sub(self.now);
        let limits = Limits {
            rate: (self.uplink * 1e9 / 100.0) as u64,
            burst: (self.uplink * 1e9 / 10.0) as u64,
            packet: 1472,
        };
        self.upstream = edge(1, 3, limits, Instant::ZERO);
    }

    fn instant(&self) -> Instant {
        Instant::from_nanos(self.now)
    }

    /// A packet arrives at the link at `at`; when it has crossed it, if there was room.
    fn cross_link(&mut self, at: f64, bytes: f64) -> Option<u64> {
        let waits = (self.free - at).max(0.0) * self.capacity;
        if waits + bytes > self.limit {
            self.dropped += 1;
            return None;
        }
        self.free = self.free.max(at) + bytes / self.capacity;
        let leaves = self.middle.runs(self.free as u64);
        // What is due by then leaves at once.
        if leaves > self.middle.free {
            self.middle.did(leaves);
        }
        Some(leaves + DELAY)
    }

    /// Everything until `end`.
    fn run(&mut self, end: Duration) {
        let end = end.as_nanos() as u64;
        let upstream = SocketAddr::new(address(1), 7000);
        let downstream = SocketAddr::new(address(2), 7000);
        let mut out = [0; 2000];
        while self.now < end {
            let read = self.there.front().map(|(at, _)| self.reader.runs(*at));
            let polled = self.its_deadline().map(|at| self.sender.runs(at));
            let times = [
                Some(self.cross.next),
                read,
                self.back.front().map(|(at, _)| *at),
                polled,
                self.downstream.deadline().map(Instant::as_nanos),
                Some(end),
            ];
            self.now = times.into_iter().flatten().min().unwrap().max(self.now);
            let now = self.instant();
            self.downstream.requester.saw(now, upstream);
            while self.cross.next <= self.now {
                let at = self.cross.next as f64;
                let bytes = self.cross.packet() as f64;
                self.cross_link(at, bytes);
            }
            while self.back.front().is_some_and(|(at, _)| *at <= self.now) {
                let (_, bytes) = self.back.pop_front().unwrap();
                let its = self.its_clock();
                if !self.gone {
                    assert_eq!(self.upstream.on_datagram(its, downstream, &bytes), None);
                }
            }
            while self
                .there
                .front()
                .is_some_and(|(at, _)| self.reader.runs(*at) <= self.now)
            {
                self.reader.did(self.now);
                let (_, bytes) = self.there.pop_front().unwrap();
                match self.downstream.on_datagram(now, upstream, &bytes) {
                    Some(Received::Coming {
                        number, train, rtt, ..
                    }) => {
                        let ask = self.estimator.coming(now, number, &train, rtt);
                        self.downstream.requester.want(upstream, ask);
                    }
                    Some(Received::Probe {
                        number,
                        probe,
                        bytes,
                        ..
                    }) => {
                        self.estimator.on_probe(now, number, &probe, bytes, 0);
                        if self.first.is_none() {
                            self.first = self.estimator.took();
                        }
                    }
                    _ => {}
                }
            }
            let its = self.its_clock();
            let polled = polled.is_some_and(|at| at <= self.now);
            if polled {
                self.sender.did(self.now);
            }
            while polled && let Some(transmit) = self.upstream.prober.poll_transmit(its, &mut out) {
                let bytes = (transmit.len + 28) as f64;
                self.up_free = self.up_free.max(self.now as f64) + bytes / self.uplink;
                self.probe_bytes += bytes as u64;
                if let Some(at) = self.cross_link(self.up_free, bytes) {
                    self.there.push_back((at, out[..transmit.len].to_vec()));
                }
            }
            while let Some(step) = self.downstream.requester.poll(now, &mut out) {
                if let Step::Send(transmit) = step {
                    let bytes = out[..transmit.len].to_vec();
                    self.back.push_back((self.now + DELAY, bytes));
                }
            }
        }
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Error of what is said to be available and probing load, over links of 30 to 300 Mbit/s of which
/// foreign packets take 0 to 80 %. The error is a share of the link: what a virtual router gives
/// too much or too little.
#[test]
fn error_and_load() {
    for capacity in [30e6 / 8.0, 100e6 / 8.0, 300e6 / 8.0] {
        for share in [0.0, 0.2, 0.4, 0.6, 0.8] {
            let mut errors = Vec::new();
            let mut relative = Vec::new();
            let (mut burst, mut steady, mut took) = (0.0f64, 0.0f64, 0.0f64);
            for seed in 1..=5 {
                let mut world = World::new(capacity, share, seed);
                world.run(Duration::from_secs(2));
                burst = burst.max(world.probe_bytes as f64 / (2.0 * capacity));
                let after = world.probe_bytes;
                took = took.max(world.first.unwrap().as_secs_f64());
                for second in 0..200 {
                    world.run(Duration::from_millis(2_000 + 100 * second));
                    let now = world.instant();
                    let Some(told) = world.estimator.estimate(now, 0) else {
                        continue;
                    };
                    let error = (told.available as f64 - capacity * (1.0 - share)).abs();
                    errors.push(error / capacity);
                    relative.push(error / (capacity * (1.0 - share)));
                }
                let load = (world.probe_bytes - after) as f64 / (20.0 * capacity);
                steady = steady.max(load);
            }
            let (error, relative) = (median(errors), median(relative));
            println!(
                "{:3.0} Mbit/s, {share:.1}: error {error:.3} of the link, {relative:.3} of what is \
                 left; first {took:.2} s, load {burst:.4}, then {steady:.4}",
                capacity * 8.0 / 1e6
            );
            assert!(error <= 0.1, "{capacity} {share}: {error}");
            assert!(burst <= 0.05 && steady <= 0.0101, "{burst} {steady}");
            assert!(took <= 2.0, "{took}");
        }
    }
}

/// The same with routers that are processes on a busy machine: what they read comes in batches, and
/// what they send is late. Held up for up to 0.3 ms at once, they err by little more; for up to 4
/// ms, ten packets' time, a slow link is still known.
#[test]
fn error_on_a_busy_machine() {
    let slow = 30e6 / 8.0;
    for (micros, capacity, most) in [
        (300, slow, 0.15),
        (300, 100e6 / 8.0, 0.15),
        (300, 300e6 / 8.0, 0.15),
        (4000, slow, 0.2),
    ] {
        for share in [0.0, 0.4, 0.8] {
            let mut errors = Vec::new();
            let mut without = 0;
            for seed in 1..=3 {
                let mut world = World::new(capacity, share, seed).busy(micros, seed);
                world.run(Duration::from_secs(3));
                for tenth in 0..200 {
                    world.run(Duration::from_millis(3_000 + 100 * tenth));
                    let now = world.instant();
                    match world.estimator.estimate(now, 0) {
                        Some(told) => {
                            errors.push(told.available as f64 / capacity - (1.0 - share));
                        }
                        None => without += 1,
                    }
                }
            }
            let size = median(errors.iter().map(|error| error.abs()).collect());
            let middle = median(errors);
            println!(
                "{micros} us, {:3.0} Mbit/s, {share:.1}: error {size:.3}, median {middle:+.3}, \
                 {without} without",
                capacity * 8.0 / 1e6
            );
            assert!(size <= most && without <= 30, "{size} {without}");
        }
    }
}

fn known(world: &mut World) -> Option<f64> {
    let now = world.instant();
    let told = world.estimator.estimate(now, 0)?;
    Some(told.available as f64 / 1e9 / world.capacity)
}

/// The upstream router vanishes: its estimate runs out, it gets three requests, then one row of
/// three after each silence.
#[test]
fn a_router_that_vanishes() {
    let mut world = World::new(30e6 / 8.0, 0.4, 1);
    world.run(Duration::from_secs(5));
    assert!(known(&mut world).is_some());
    world.gone = true;
    let before = world.downstream.requester.stats().requests;
    world.run(Duration::from_secs(10));
    assert_eq!(known(&mut world), None);
    let asked = world.downstream.requester.stats().requests - before;
    assert!(asked <= 9, "{asked}");
    world.gone = false;
    world.run(Duration::from_secs(30));
    let told = known(&mut world).unwrap();
    assert!((told - 0.6).abs() <= 0.2, "{told}");
}

/// Its clock is a day ahead and 100 ppm fast: neither shows.
#[test]
fn clocks_that_differ() {
    let mut world = World::new(30e6 / 8.0, 0.4, 1);
    world.ahead = 86_400_000_000_000;
    world.drift = 100;
    let mut errors = Vec::new();
    for second in 3..30 {
        world.run(Duration::from_secs(second));
        errors.push((known(&mut world).unwrap() - 0.6).abs());
    }
    let error = median(errors);
    assert!(error <= 0.1, "{error}");
}

/// The upstream router starts anew, and its clock begins at 0 again: no queue is seen where there
/// is none, and nothing else is told of the cloud.
#[test]
fn a_router_that_starts_anew() {
    let mut world = World::new(30e6 / 8.0, 0.4, 1);
    world.run(Duration::from_secs(10));
    assert!((known(&mut world).unwrap() - 0.6).abs() <= 0.2);
    world.restart();
    for tenth in 100..300 {
        world.run(Duration::from_millis(100 * tenth));
        let now = world.instant();
        let Some(told) = world.estimator.estimate(now, 0) else {
            continue;
        };
        let available = told.available as f64 / 1e9 / world.capacity;
        assert!((available - 0.6).abs() <= 0.4, "{tenth}: {told:?}");
        let queue = told.queue as f64 / 1e9 / world.capacity;
        assert!(queue <= 0.1, "{tenth}: {queue} s");
    }
}

/// A queue of ten packets: trains become shorter until they fit.
#[test]
fn a_shallow_queue() {
    let mut world = World::new(100e6 / 8.0, 0.4, 1);
    world.limit = 10.0 * 1000.0;
    let mut errors = Vec::new();
    for second in 3..30 {
        world.run(Duration::from_secs(second));
        errors.extend(known(&mut world).map(|told| (told - 0.6).abs()));
    }
    assert!(errors.len() >= 20, "{}", errors.len());
    let error = median(errors);
    assert!(error <= 0.15, "{error}");
}

/// The link becomes slower and faster again: that is found within fifteen seconds.
#[test]
fn a_link_that_changes() {
    let mut world = World::new(100e6 / 8.0, 0.0, 1);
    world.run(Duration::from_secs(5));
    assert!((known(&mut world).unwrap() - 1.0).abs() <= 0.05);
    for (at, rate) in [(20, 40e6), (35, 100e6)] {
        world.capacity = rate / 8.0 / 1e9;
        world.run(Duration::from_secs(at));
        let told = known(&mut world).unwrap();
        assert!((told - 1.0).abs() <= 0.05, "{rate}: {told}");
    }
}
