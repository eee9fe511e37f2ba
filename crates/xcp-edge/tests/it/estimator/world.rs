//! A link between two routers that the test knows, with foreign traffic and their own traffic.

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

/// Packets that arrive as in a Poisson process, of 40, 576 and 1500 bytes as on the internet.
pub(crate) struct Cross {
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
        // The mean is 731 bytes.
        let gap = -self.uniform().max(1e-12).ln() * 731.2 / self.rate;
        self.next += (gap * 1e9) as u64;
        bytes as u64
    }
}

/// A process that is not always running. When it runs, it handles the packets that have arrived in
/// the meantime.
pub(crate) struct Process {
    /// Share of the time in which it is held up, and the longest time at once, ns.
    share: f64,
    most: f64,
    begins: u64,
    ends: u64,
    random: Pcg64Mcg,
    /// It performs one action after the other, each of which takes some time, ns.
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

    /// Returns the time at which it can handle a packet available from `at`. Times must not
    /// decrease from call to call.
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

/// A link between two routers, with a queue in front of it.
pub(crate) struct World {
    pub(crate) now: u64,
    pub(crate) capacity: f64,
    pub(crate) uplink: f64,
    pub(crate) limit: f64,
    pub(crate) up_free: f64,
    pub(crate) free: f64,
    pub(crate) cross: Cross,
    pub(crate) there: VecDeque<(u64, Vec<u8>)>,
    pub(crate) back: VecDeque<(u64, Vec<u8>)>,
    pub(crate) upstream: Edge,
    pub(crate) downstream: Edge,
    pub(crate) estimator: Estimator,
    pub(crate) probe_bytes: u64,
    pub(crate) dropped: u64,
    pub(crate) first: Option<Duration>,
    /// True if the upstream router receives nothing any more.
    pub(crate) gone: bool,
    /// How far its clock is ahead, ns, and how much faster it is, in 10^-6.
    pub(crate) ahead: u64,
    pub(crate) drift: i64,
    /// Time from the link to the downstream router, and the largest additional time, which keeps
    /// the order, ns.
    pub(crate) delay: u64,
    pub(crate) jitter: u64,
    pub(crate) random: Pcg64Mcg,
    pub(crate) last_there: u64,
    /// The routers' own traffic: its share of the link, the time of its next packet, and the bytes
    /// that have arrived.
    pub(crate) own_share: f64,
    pub(crate) own_next: f64,
    pub(crate) own_there: VecDeque<u64>,
    pub(crate) own: u64,
    /// Traffic that is counted as own traffic but does not cross the link: its rate as a share of
    /// the link's, and the time of its next packet.
    pub(crate) stray_share: f64,
    pub(crate) stray_next: f64,
    /// Number of packets of a flow that are counted at once, and the uncounted packets of each
    /// flow.
    pub(crate) lump: u64,
    pub(crate) uncounted: Vec<u64>,
    /// The processes of the routers in front of, in and behind the cloud.
    pub(crate) sender: Process,
    pub(crate) middle: Process,
    pub(crate) reader: Process,
}

pub(crate) const DELAY: u64 = 15_000_000;
/// Bytes of a packet of the routers' own traffic.
const OWN_PACKET: f64 = 1000.0;

/// A router whose uplink has this rate; `run` distinguishes its starts.
fn edge(n: u8, run: u8, uplink: f64) -> Edge {
    let start = Instant::ZERO;
    let limits = Limits {
        rate: (uplink / 100.0) as u64,
        burst: (uplink / 10.0) as u64,
        packet: 1472,
    };
    let key = || Key::new(&[1; 32]).unwrap();
    let own = Key::new(&[run; 32]).unwrap();
    let prober = Prober::new(start, address(n), key(), own, limits);
    let first = Estimator::first_train(PACKET);
    let requester = Requester::new(start, address(n), key(), u64::from(run), first);
    Edge::new(address(n), key(), prober, requester)
}

impl World {
    pub(crate) fn new(capacity: f64, share: f64, seed: u64) -> Self {
        let uplink = 2.667 * capacity;
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
            upstream: edge(1, 1, uplink),
            downstream: edge(2, 2, uplink),
            estimator: Estimator::new(start, PACKET),
            probe_bytes: 0,
            dropped: 0,
            first: None,
            gone: false,
            ahead: 0,
            drift: 0,
            delay: DELAY,
            jitter: 0,
            random: Pcg64Mcg::seed_from_u64(1000 + seed),
            last_there: 0,
            own_share: 0.0,
            own_next: 0.0,
            own_there: VecDeque::new(),
            own: 0,
            stray_share: 0.0,
            stray_next: 0.0,
            lump: 1,
            uncounted: vec![0],
            sender: Process::new(0.0, 0, 0, 0),
            middle: Process::new(0.0, 0, 0, 0),
            reader: Process::new(0.0, 0, 0, 0),
        }
    }

    /// Routers as processes on a busy machine: each is suspended for a fifth of the time, for up to
    /// `micros` microseconds at once, and checks its timers no more often than every 100 µs.
    pub(crate) fn busy(mut self, micros: u64, seed: u64) -> Self {
        let process = |each, salt| Process::new(0.2, micros * 1000, each, 10 * seed + salt);
        self.sender = process(100_000, 1);
        self.middle = process(100_000, 2);
        self.reader = process(8_000, 3);
        self
    }

    pub(crate) fn its_clock(&self) -> Instant {
        let faster = i128::from(self.now) * i128::from(self.drift) / 1_000_000;
        let here = self.ahead.wrapping_add(self.now);
        Instant::from_nanos(here.wrapping_add_signed(faster as i64))
    }

    /// When an action is due at the upstream router, on the clock of the downstream router.
    pub(crate) fn its_deadline(&self) -> Option<u64> {
        let at = self.upstream.deadline()?.as_nanos();
        let wait = u128::from(at.saturating_sub(self.its_clock().as_nanos())) * 1_000_000;
        let here = wait.div_ceil(1_000_000u128.saturating_add_signed(self.drift.into()));
        Some(self.now + here as u64)
    }

    pub(crate) fn restart(&mut self) {
        self.ahead = 0u64.wrapping_sub(self.now);
        self.upstream = edge(1, 3, self.uplink * 1e9);
    }

    pub(crate) fn instant(&self) -> Instant {
        Instant::from_nanos(self.now)
    }

    /// Handles a packet that arrives at the link at `at`. Returns when it has crossed the link, if
    /// there was room.
    pub(crate) fn cross_link(&mut self, at: f64, bytes: f64) -> Option<u64> {
        let waits = (self.free - at).max(0.0) * self.capacity;
        if waits + bytes > self.limit {
            self.dropped += 1;
            return None;
        }
        self.free = self.free.max(at) + bytes / self.capacity;
        let leaves = self.middle.runs(self.free as u64);
        // Everything that is due by then leaves immediately.
        if leaves > self.middle.free {
            self.middle.did(leaves);
        }
        let more = match self.jitter {
            0 => 0,
            most => self.random.next_u64() % most,
        };
        self.last_there = self.last_there.max(leaves + self.delay + more);
        Some(self.last_there)
    }

    /// Handles the packets that arrive at the link until now: foreign packets, and own packets at a
    /// varying pace.
    pub(crate) fn traffic(&mut self) {
        loop {
            let own = (self.own_share > 0.0).then_some(self.own_next as u64);
            let foreign = self.cross.next;
            if own.is_some_and(|own| own <= foreign && own <= self.now) {
                let at = self.own_next;
                let varies = (self.random.next_u64() % 2001) as f64 / 1000.0;
                self.own_next += varies * OWN_PACKET / (self.capacity * self.own_share);
                if let Some(there) = self.cross_link(at, OWN_PACKET) {
                    self.own_there.push_back(there);
                }
            } else if foreign <= self.now {
                let bytes = self.cross.packet() as f64;
                self.cross_link(foreign as f64, bytes);
            } else {
                break;
            }
        }
        while self.stray_share > 0.0 && self.stray_next <= self.now as f64 {
            let varies = (self.random.next_u64() % 2001) as f64 / 1000.0;
            self.stray_next += varies * OWN_PACKET / (self.capacity * self.stray_share);
            self.own += OWN_PACKET as u64;
        }
        while self.own_there.front().is_some_and(|at| *at <= self.now) {
            self.own_there.pop_front();
            let flow = match self.uncounted.len() {
                1 => 0,
                flows => self.random.next_u64() as usize % flows,
            };
            self.uncounted[flow] += 1;
            if self.uncounted[flow] >= self.lump {
                self.own += self.uncounted[flow] * OWN_PACKET as u64;
                self.uncounted[flow] = 0;
            }
        }
    }

    pub(crate) fn run(&mut self, end: Duration) {
        let end = end.as_nanos() as u64;
        let upstream = SocketAddr::new(address(1), 7000);
        let downstream = SocketAddr::new(address(2), 7000);
        let mut out = [0; 2000];
        while self.now < end {
            let read = self.there.front().map(|(at, _)| self.reader.runs(*at));
            let polled = self.its_deadline().map(|at| self.sender.runs(at));
            let own = (self.own_share > 0.0).then_some(self.own_next as u64);
            let times = [
                Some(self.cross.next),
                own,
                read,
                self.back.front().map(|(at, _)| *at),
                polled,
                self.downstream.deadline().map(Instant::as_nanos),
                Some(end),
            ];
            self.now = times.into_iter().flatten().min().unwrap().max(self.now);
            let now = self.instant();
            self.downstream.requester.saw(now, upstream);
            self.traffic();
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
                        self.estimator
                            .on_probe(now, number, &probe, bytes, self.own);
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
