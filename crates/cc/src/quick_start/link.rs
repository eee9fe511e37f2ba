//! A router's part, beside the law of a port.

use super::approval::approve;
use super::pending::Pending;
use super::sources::Sources;
use super::usage::Usage;
use super::{QuickStartAnswer, QuickStartCarried};
use crate::arith::scramble;
use crate::{Answer, Arrival, Carried, Instant, LinkController, LinkMetrics};

/// What a port has made of requests so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct GrantMetrics {
    /// Requests looked at.
    pub requests: u64,
    /// Of these, granted at least in part.
    pub granted: u64,
    /// Denied: what is used or granted already leaves nothing.
    pub denied_busy: u64,
    /// Denied: too many of one source within a second.
    pub denied_source: u64,
    /// Denied: no more grants can be remembered.
    pub denied_room: u64,
    /// Rate of all grants that are remembered, in bytes per second.
    pub pending: u64,
}

/// Grants starting rates at a port with the law `L`.
#[derive(Debug)]
pub struct QuickStartLink<L> {
    law: L,
    capacity: u64,
    usage: Usage,
    pending: Pending,
    sources: Sources,
    random: u64,
    metrics: GrantMetrics,
}

impl<L: LinkController> QuickStartLink<L> {
    /// A port that starts at `now` and sends `bytes_per_second`. `seed` draws nonces.
    #[must_use]
    pub fn new(now: Instant, bytes_per_second: u64, seed: u64, law: L) -> Self {
        Self {
            law,
            capacity: bytes_per_second,
            usage: Usage::new(now),
            pending: Pending::new(),
            sources: Sources::new(now),
            random: seed,
            metrics: GrantMetrics::default(),
        }
    }

    /// Answers a request of flow `flow`. One that was denied on its way counts and costs nothing here.
    fn answer(&mut self, now: Instant, flow: u32, asked: &QuickStartCarried) -> Answer {
        self.metrics.requests += 1;
        if asked.rate == 0 {
            return Answer::None;
        }
        let mut answer = QuickStartAnswer {
            approved: 0,
            random: self.draw(),
        };
        let others = self.pending.others(now, flow);
        if !self.sources.admit(now, asked.source) {
            self.metrics.denied_source += 1;
        } else if !self.pending.has_room(flow) {
            self.metrics.denied_room += 1;
        } else {
            answer.approved = approve(self.capacity, self.usage.peak(now), others, asked.rate);
            if answer.approved > 0 {
                self.metrics.granted += 1;
                self.pending.put(now, flow, answer.approved, asked.rtt);
            } else {
                self.metrics.denied_busy += 1;
            }
        }
        Answer::QuickStart(answer)
    }

    /// The next number of a sequence (SplitMix64).
    fn draw(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9E37_79B9_7F4A_7C15);
        scramble(self.random)
    }
}

impl<L: LinkController> LinkController for QuickStartLink<L> {
    #[inline]
    fn admits(&mut self, now: Instant, arrival: &Arrival) -> bool {
        self.law.admits(now, arrival)
    }

    #[inline]
    fn admits_all(&mut self, now: Instant, run: &Arrival, packets: u32) -> bool {
        self.law.admits_all(now, run, packets)
    }

    #[inline]
    fn on_arrival(&mut self, now: Instant, arrival: &Arrival, queue: u64) {
        self.usage.add(now, arrival.bytes.into());
        self.law.on_arrival(now, arrival, queue);
    }

    #[inline]
    fn on_arrivals(&mut self, now: Instant, run: &Arrival, packets: u32, queue: u64) {
        self.usage.add(now, run.bytes.into());
        self.law.on_arrivals(now, run, packets, queue);
    }

    #[inline]
    fn on_departure(&mut self, now: Instant, packet: &Arrival, queue: u64) -> Answer {
        match &packet.carried {
            Carried::QuickStart(asked) => self.answer(now, packet.flow_hash, asked),
            _ => self.law.on_departure(now, packet, queue),
        }
    }

    fn on_drop(&mut self, now: Instant, packet: &Arrival) {
        self.law.on_drop(now, packet);
    }

    fn on_timer(&mut self, now: Instant, queue: u64) {
        self.law.on_timer(now, queue);
    }

    fn deadline(&self) -> Option<Instant> {
        self.law.deadline()
    }

    fn on_capacity(&mut self, now: Instant, bytes_per_second: u64) {
        self.capacity = bytes_per_second;
        self.law.on_capacity(now, bytes_per_second);
    }

    fn on_buffer(&mut self, bytes: u64) {
        self.law.on_buffer(bytes);
    }

    fn metrics(&self) -> LinkMetrics {
        LinkMetrics {
            grants: Some(GrantMetrics {
                pending: self.pending.total(),
                ..self.metrics
            }),
            ..self.law.metrics()
        }
    }
}
