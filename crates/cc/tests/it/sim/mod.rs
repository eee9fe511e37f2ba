//! A small deterministic packet simulation: real controllers, real ports, hops in a row, cumulative
//! feedback.
//!
//! Senders pace, receivers acknowledge every second packet and return counters, lost packets are
//! found by three later ones or by a probe. What it leaves out: handshakes beyond their round trip,
//! reverse queues, reordering.
#![allow(
    dead_code,
    unused_imports,
    reason = "each test binary uses a part of it"
)]

mod config;
mod event;
mod flow;
mod hop;
mod receiver;

pub(crate) use config::{FlowConfig, Forged, Lie};
pub(crate) use hop::HopConfig;

use event::{Event, Queue};
use flow::Flow;
use hop::{Hop, Packet};
use pathmark_cc::{Duration, Instant};

/// IP packet of a full datagram, and the UDP payload in it.
pub(crate) const IP_BYTES: u32 = 1500;
pub(crate) const MTU: u16 = 1472;
/// Application bytes in it: less shim, QUIC header, frame header and tag.
pub(crate) const APP_BYTES: u64 = 1472 - 16 - 12 - 12 - 16;

/// The small generator of a simulation (SplitMix64).
#[derive(Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// True with probability `p`.
    pub(crate) fn chance(&mut self, p: f64) -> bool {
        p > 0.0 && ((self.next() >> 11) as f64) < p * (1u64 << 53) as f64
    }
}

/// A path of hops that all flows cross.
#[derive(Debug)]
pub(crate) struct Sim {
    now: Instant,
    events: Queue,
    hops: Vec<Hop>,
    flows: Vec<Flow>,
    random: Random,
}

impl Sim {
    pub(crate) fn new(hops: &[HopConfig], flows: &[FlowConfig], seed: u64) -> Self {
        let mut events = Queue::default();
        for (index, flow) in flows.iter().enumerate() {
            // The handshake takes a round trip.
            events.push(flow.start_at() + flow.rtt, Event::Start(index));
        }
        Self {
            now: Instant::ZERO,
            events,
            hops: hops
                .iter()
                .enumerate()
                .map(|(index, hop)| Hop::new(hop, seed ^ (index as u64 + 1) << 32))
                .collect(),
            flows: flows
                .iter()
                .enumerate()
                .map(|(index, flow)| Flow::new(index, flow))
                .collect(),
            random: Random::new(seed),
        }
    }

    /// How far it has run.
    pub(crate) fn now(&self) -> Duration {
        self.now - Instant::ZERO
    }

    /// A hop's rate changes without its controller knowing.
    pub(crate) fn set_rate(&mut self, hop: usize, mbit: f64) {
        self.hops[hop].set_rate(mbit);
    }

    pub(crate) fn flow_mut(&mut self, index: usize) -> &mut Flow {
        &mut self.flows[index]
    }

    /// Runs until `end` or until all finite flows are done; may be called again with a later end.
    pub(crate) fn run(&mut self, end: Duration) {
        let end = Instant::ZERO + end;
        while self.events.next_at().is_some_and(|at| at <= end) && !self.all_done() {
            if let Some((at, event)) = self.events.pop() {
                self.now = at;
                self.handle(event);
            }
        }
        let last = if self.all_done() { self.now } else { end };
        self.now = last;
        for hop in &mut self.hops {
            hop.settle(last);
        }
    }

    fn all_done(&self) -> bool {
        let mut finite = self.flows.iter().filter(|flow| flow.is_finite()).peekable();
        finite.peek().is_some() && finite.all(|flow| flow.completed().is_some())
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Start(index) => {
                self.flows[index].begin(self.now);
                self.pump(index);
            }
            Event::Wake(index, generation) => {
                if self.flows[index].is_current_wake(generation) {
                    self.pump(index);
                }
            }
            Event::Arrive(hop, packet) => self.arrive(hop, packet),
            Event::Transmitted(hop) => self.transmitted(hop),
            Event::HopTimer(hop) => {
                self.hops[hop].on_timer(self.now);
                self.arm(hop);
            }
            Event::Deliver(packet) => {
                let index = packet.flow;
                let now = self.now;
                if let Some(delay) = self.flows[index].deliver(now, &packet) {
                    self.events.push(
                        now + delay,
                        Event::AckTimer(index, self.flows[index].acks_sent()),
                    );
                }
                self.send_ack(index, false);
            }
            Event::AckTimer(index, acks) => {
                if self.flows[index].acks_sent() == acks {
                    self.send_ack(index, true);
                }
            }
            Event::Ack(index, ack) => {
                self.flows[index].on_ack(self.now, &ack);
                self.pump(index);
            }
            Event::Probe(index, armed) => {
                if let Some(packet) = self.flows[index].on_probe_timer(self.now, armed) {
                    self.enter(packet);
                    self.arm_probe(index);
                }
            }
        }
    }

    fn send_ack(&mut self, index: usize, force: bool) {
        if let Some(ack) = self.flows[index].make_ack(self.now, force) {
            let back = self.flows[index].return_delay();
            self.events.push(self.now + back, Event::Ack(index, ack));
        }
    }

    /// Lets a flow send what it may.
    fn pump(&mut self, index: usize) {
        while let Some(packet) = self.flows[index].poll_send(self.now) {
            self.enter(packet);
        }
        if let Some((at, generation)) = self.flows[index].wake_at(self.now) {
            self.events.push(at, Event::Wake(index, generation));
        }
        self.arm_probe(index);
    }

    fn arm_probe(&mut self, index: usize) {
        if let Some((at, armed)) = self.flows[index].probe_at(self.now) {
            self.events.push(at, Event::Probe(index, armed));
        }
    }

    fn enter(&mut self, packet: Packet) {
        self.events.push(self.now, Event::Arrive(0, packet));
    }

    fn arrive(&mut self, hop: usize, packet: Packet) {
        let hop_state = &mut self.hops[hop];
        if hop_state.loses(&mut self.random) {
            return;
        }
        if let Some(done) = hop_state.enqueue(self.now, packet) {
            self.events.push(done, Event::Transmitted(hop));
        }
        self.arm(hop);
    }

    fn transmitted(&mut self, hop: usize) {
        let (packet, next) = self.hops[hop].dequeue(self.now);
        if let Some(done) = next {
            self.events.push(done, Event::Transmitted(hop));
        }
        let Some(packet) = packet else { return };
        if self.hops[hop].loses_after(&mut self.random) {
            return;
        }
        if hop + 1 < self.hops.len() {
            self.events.push(self.now, Event::Arrive(hop + 1, packet));
        } else {
            let delay = self.flows[packet.flow].forward_delay();
            self.events.push(self.now + delay, Event::Deliver(packet));
        }
    }

    fn arm(&mut self, hop: usize) {
        if let Some(at) = self.hops[hop].timer_to_arm() {
            self.events.push(at, Event::HopTimer(hop));
        }
    }

    // Results.

    pub(crate) fn flow(&self, index: usize) -> &Flow {
        &self.flows[index]
    }

    pub(crate) fn hop(&self, index: usize) -> &Hop {
        &self.hops[index]
    }

    /// Seconds from start to the last byte, of each finite flow.
    pub(crate) fn completions(&self) -> Vec<f64> {
        self.flows
            .iter()
            .filter_map(Flow::completed)
            .map(|d| d.as_secs_f64())
            .collect()
    }
}

/// Mean of a slice.
pub(crate) fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

/// Jain's fairness index.
pub(crate) fn jain(values: &[f64]) -> f64 {
    let sum: f64 = values.iter().sum();
    let squares: f64 = values.iter().map(|v| v * v).sum();
    sum * sum / (values.len() as f64 * squares)
}
