//! A router's part, beside the law of a port.

use super::approval::approve;
use super::kept::Kept;
use super::params::{CREDIT_BYTES, CREDIT_PART, SHOWN_PART};
use super::pending::Pending;
use super::sources::Sources;
use super::usage::Usage;
use super::{QuickStartAnswer, QuickStartCarried};
use crate::arith::{mul_div, nanos, scramble};
use crate::{
    Answer, Arrival, Carried, CloudEstimate, Instant, LinkController, LinkMetrics, Upstream,
};

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
    kept: Kept,
    random: u64,
    metrics: GrantMetrics,
    /// Reports tell of requests before there was one.
    alone: bool,
}

impl<L: LinkController> QuickStartLink<L> {
    /// The same beside a law of which reports are to tell: they tell of requests once there was
    /// one.
    #[must_use]
    pub fn beside(now: Instant, bytes_per_second: u64, seed: u64, law: L) -> Self {
        Self {
            alone: false,
            ..Self::new(now, bytes_per_second, seed, law)
        }
    }

    /// A port that starts at `now` and sends `bytes_per_second`. `seed` draws nonces.
    #[must_use]
    pub fn new(now: Instant, bytes_per_second: u64, seed: u64, law: L) -> Self {
        Self {
            law,
            capacity: bytes_per_second,
            usage: Usage::new(now),
            pending: Pending::new(),
            sources: Sources::new(now),
            kept: Kept::new(),
            random: seed,
            metrics: GrantMetrics::default(),
            alone: true,
        }
    }

    /// Answers a request of flow `flow`. One that was denied on its way counts and costs nothing
    /// here.
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
            if let Some(told) = before.outstanding {
                self.kept.on_unused();
                self.law.on_grant_over(now, told, false);
            }
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
        let used = self.usage.peak(now).max(self.law.promised());
        let free = approve(self.capacity, used, self.pending.counting(), wanted);
        answer.approved = free.max(self.credit(asked).min(wanted));
        if answer.approved > 0 {
            self.metrics.granted += 1;
            let told = self.kept.part(answer.approved);
            let rates = (answer.approved, told);
            self.pending.put(now, flow, asked.source, rates, asked.rtt);
            self.law.on_granted(now, flow, told);
        } else {
            self.metrics.denied_busy += 1;
        }
        Answer::QuickStart(answer)
    }

    /// What a newcomer is granted although all is in use, in bytes per second.
    fn credit(&self, asked: &QuickStartCarried) -> u64 {
        if !self.law.makes_room() {
            return 0;
        }
        let left = (self.capacity / CREDIT_PART).saturating_sub(self.pending.counting());
        let credit = left / 2;
        let rtt = asked.rtt.unwrap_or_default();
        let worth = mul_div(credit, nanos(rtt), 1_000_000_000);
        if worth >= CREDIT_BYTES { credit } else { 0 }
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
        let (law, kept) = (&mut self.law, &mut self.kept);
        self.pending.settle(now, |settled| {
            sources.on_settled(now, &settled, capacity);
            match settled.outstanding {
                Some(told) => {
                    metrics.unused += 1;
                    kept.on_unused();
                    law.on_grant_over(now, told, false);
                }
                None if settled.shown >= settled.granted / SHOWN_PART => kept.on_used(),
                None => {}
            }
        });
    }

    /// `bytes` of `flow` came.
    #[inline]
    fn count(&mut self, now: Instant, flow: u32, bytes: u32) {
        self.settle(now);
        self.usage.add(now, bytes.into());
        if let Some(rate) = self.pending.on_bytes(now, flow, bytes.into()) {
            self.law.on_grant_over(now, rate, true);
        }
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
        self.settle(now);
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

    fn on_estimate(&mut self, now: Instant, upstream: Upstream, estimate: &CloudEstimate) {
        self.law.on_estimate(now, upstream, estimate);
    }

    fn visit_clouds(&self, visit: &mut dyn FnMut(Upstream, u64)) {
        self.law.visit_clouds(visit);
    }

    fn metrics(&self) -> LinkMetrics {
        LinkMetrics {
            grants: (self.alone || self.metrics.requests > 0).then_some(GrantMetrics {
                pending: self.pending.counting(),
                outstanding: self.pending.outstanding(),
                ..self.metrics
            }),
            ..self.law.metrics()
        }
    }
}
