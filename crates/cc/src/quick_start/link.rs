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
    /// Denied: too many of one source within a second, or of one that left grants unused.
    pub denied_source: u64,
    /// Denied: no more grants can be remembered.
    pub denied_room: u64,
    /// Grants whose traffic did not come in time.
    pub unused: u64,
    /// Rate of all grants that count as approved, in bytes per second.
    pub pending: u64,
    /// Of these, those whose traffic has not come yet.
    pub outstanding: u64,
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
        self.settle(now);
        if !self.sources.admit(now, asked.source) {
            self.metrics.denied_source += 1;
            return Answer::QuickStart(answer);
        }
        // It asks for a total, not for more.
        if let Some(before) = self.pending.take(flow) {
            self.sources.on_settled(now, &before, self.capacity);
        }
        if !self.pending.has_room(flow) {
            self.metrics.denied_room += 1;
            return Answer::QuickStart(answer);
        }
        let most = self.sources.most(now, asked.source);
        let most = most.saturating_sub(self.pending.of_source(asked.source));
        if most == 0 {
            self.metrics.denied_source += 1;
            return Answer::QuickStart(answer);
        }
        let wanted = asked.rate.min(most);
        let used = self.usage.peak(now);
        answer.approved = approve(self.capacity, used, self.pending.counting(), wanted);
        if answer.approved > 0 {
            self.metrics.granted += 1;
            self.pending
                .put(now, flow, asked.source, answer.approved, asked.rtt);
        } else {
            self.metrics.denied_busy += 1;
        }
        Answer::QuickStart(answer)
    }

    /// Ends grants whose time is over.
    #[inline]
    fn settle(&mut self, now: Instant) {
        if self.pending.is_due(now) {
            self.settle_due(now);
        }
    }

    #[cold]
    fn settle_due(&mut self, now: Instant) {
        let (sources, metrics, capacity) = (&mut self.sources, &mut self.metrics, self.capacity);
        self.pending.settle(now, |settled| {
            metrics.unused += u64::from(settled.shown == 0);
            sources.on_settled(now, &settled, capacity);
        });
    }

    /// `bytes` of `flow` came.
    #[inline]
    fn count(&mut self, now: Instant, flow: u32, bytes: u32) {
        self.settle(now);
        self.usage.add(now, bytes.into());
        self.pending.on_bytes(now, flow, bytes.into());
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
        self.count(now, arrival.flow_hash, arrival.bytes);
        self.law.on_arrival(now, arrival, queue);
    }

    #[inline]
    fn on_arrivals(&mut self, now: Instant, run: &Arrival, packets: u32, queue: u64) {
        self.count(now, run.flow_hash, run.bytes);
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
                pending: self.pending.counting(),
                outstanding: self.pending.outstanding(),
                ..self.metrics
            }),
            ..self.law.metrics()
        }
    }
}
