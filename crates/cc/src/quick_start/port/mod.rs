//! The router's part, which wraps the law of a port.

mod pending;
mod sources;
mod usage;

use super::{CREDIT_BYTES, REPEATS, REUSE, SHOWN_PART, TOGETHER};
use crate::base::arith::{mul_div, nanos, scramble};
use crate::base::{Duration, Instant};
use crate::law::LinkController;
use crate::metrics::{GrantMetrics, LinkMetrics};
use crate::signals::{
    Answer, Arrival, Carried, CloudEstimate, QuickStartAnswer, QuickStartCarried, Upstream,
};
use pending::{Granting, Pending};
use sources::{Burst, Sources, Waiting};
use usage::{GrantUtilization, Usage, approve};

/// Grants starting rates at a port with the law `L`.
#[derive(Debug)]
pub struct QuickStartLink<L> {
    law: L,
    capacity: u64,
    usage: Usage,
    pending: Pending,
    sources: Sources,
    waiting: Waiting,
    burst: Burst,
    kept: GrantUtilization,
    random: u64,
    metrics: GrantMetrics,
    /// Until this time, packets are only counted: no grant is remembered, and no usage sample ends.
    calm_until: Instant,
    /// True if reports include grants even before the first request.
    alone: bool,
}

impl<L: LinkController> QuickStartLink<L> {
    /// Creates a port like [`new`](Self::new), whose law has reports of its own. They only include
    /// grants after the first request.
    pub fn with_law(now: Instant, bytes_per_second: u64, seed: u64, law: L) -> Self {
        Self {
            alone: false,
            ..Self::new(now, bytes_per_second, seed, law)
        }
    }

    /// Creates a port at time `now` with a capacity of `bytes_per_second`. `seed` determines
    /// nonces.
    pub fn new(now: Instant, bytes_per_second: u64, seed: u64, law: L) -> Self {
        Self {
            law,
            capacity: bytes_per_second,
            usage: Usage::new(now),
            pending: Pending::new(),
            sources: Sources::new(now),
            waiting: Waiting::new(),
            burst: Burst::new(now),
            kept: GrantUtilization::new(),
            random: seed,
            metrics: GrantMetrics::default(),
            calm_until: now,
            alone: true,
        }
    }

    /// Answers a request of flow `flow`. If another hop has already denied it, it is only counted.
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
        let repeats = self.forget_before(now, flow);
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
        let promised = if repeats > 0 {
            self.law.promised_again(now, flow)
        } else {
            self.law.promised(now, flow)
        };
        let used = self.usage.peak(now).max(promised);
        let counting = self.pending.counting();
        let free = approve(self.capacity, used, counting, u64::MAX);
        let credit = self.credit();
        let dealt = self.burst.given_back(now);
        // True if the flow has a share of the rate that another flow gave back.
        let shared = dealt.is_some_and(|(since, _)| self.waiting.has(flow, since));
        answer.approved = match dealt {
            None => free.min(wanted),
            Some((since, of)) => self.share_given_back(flow, since, of, free).min(wanted),
        };
        // A rate that is dealt out is already an equal share.
        if dealt.is_none()
            && let Some(own) = self.credit_of(credit, most, asked)
        {
            answer.approved = answer.approved.max(own.min(wanted));
        }
        self.waiting.add(now, flow, wanted - answer.approved);
        if answer.approved > 0 {
            self.metrics.granted += 1;
            // Rate shared by flows that ask together.
            let before = self.burst.used_before(now, used);
            let of = approve(self.capacity, before, counting, u64::MAX);
            if free >= answer.approved {
                let rtt = asked.rtt.map(|rtt| self.pending.believed(rtt));
                self.burst.on_grant(now, of, rtt);
            }
            let reported = if shared {
                0
            } else {
                self.kept.part(answer.approved)
            };
            let grant = Granting {
                rate: answer.approved,
                reported,
                of: dealt.map_or(of.max(credit), |_| u64::MAX),
                // A grant on credit isn't repeated.
                repeats: if dealt.is_none() && free < answer.approved {
                    REPEATS
                } else {
                    repeats
                },
            };
            self.pending.put(now, flow, asked.source, grant, asked.rtt);
            self.calm_until = Instant::ZERO;
            if shared {
                let own = self.kept.part(answer.approved);
                self.law.on_dealt_out(now, flow, own);
            } else {
                self.law.on_granted(now, flow, reported);
            }
        } else {
            self.metrics.denied_busy += 1;
        }
        Answer::QuickStart(answer)
    }

    /// Discards the previous grant of `flow`, because it requests a total instead of an increase.
    /// Returns how often its answer seems to have been lost, in which case the same question is
    /// repeated and doesn't count against the source.
    fn forget_before(&mut self, now: Instant, flow: u32) -> u32 {
        let Some((before, soon)) = self.pending.take(now, flow) else {
            return 0;
        };
        let used = before.shown.saturating_mul(REUSE) >= before.granted;
        let again = soon && !used && before.repeats < REPEATS;
        match (again, before.judged) {
            (false, false) => self.sources.on_settled(now, &before, self.capacity),
            (true, true) => self.sources.take_back(before.source),
            _ => {}
        }
        if let Some(reported) = before.outstanding {
            if !again {
                self.kept.on_unused();
            }
            self.law.on_grant_over(now, reported, false);
        }
        if again { before.repeats + 1 } else { 0 }
    }

    /// Answers flow `flow`, which asks whether it may keep its grant. If the grant isn't known
    /// here, the question passes unchanged, and the flow keeps it.
    fn answer_keeper(&mut self, now: Instant, flow: u32, asked: &QuickStartCarried) -> Answer {
        if asked.rate == 0 || !self.sources.admit(now, asked.source) {
            return Answer::None;
        }
        let Some(grant) = self.pending.grant(flow) else {
            return Answer::None;
        };
        let mut approved = asked.rate;
        // Other flows count with the rate that they requested, up to an equal share.
        let rtt = asked.rtt.map(|rtt| self.pending.believed(rtt));
        let until = grant.at + rtt.unwrap_or_default() / TOGETHER;
        let (others, unmet) = self.waiting.others(flow, grant.at, until);
        let share = grant.of / (others + 1);
        let left = share.max(grant.rate.saturating_sub(unmet));
        if left < approved {
            approved = left;
            self.metrics.lowered += 1;
            self.pending.lower(flow, left);
            self.burst.on_given_back(grant.at);
        }
        Answer::QuickStart(QuickStartAnswer {
            approved,
            random: self.draw(),
        })
    }

    /// Returns the rate for a flow while `of` is dealt out among flows that have asked since
    /// `since`: an equal share if the flow has asked since then, or otherwise the remainder of the
    /// `free` rate.
    fn share_given_back(&self, flow: u32, since: Instant, of: u64, free: u64) -> u64 {
        if !self.waiting.has(flow, since) {
            return free.saturating_sub(of);
        }
        let (others, _) = self.waiting.others(flow, since, Instant::FAR_FUTURE);
        approve(self.capacity, 0, self.pending.counting(), of / (others + 1))
    }

    /// Returns the rate in bytes per second that new flows may have together even if all is in use.
    fn credit(&self) -> u64 {
        let most = mul_div(self.capacity, self.law.room_percent(), 100);
        most.saturating_sub(self.pending.counting())
    }

    /// Returns half of the remaining `credit` if this helps a source that may have at most `most`.
    /// Nothing is granted on credit to a source that leaves its grants unused, or to a flight that
    /// would arrive too late.
    fn credit_of(&self, credit: u64, most: u64, asked: &QuickStartCarried) -> Option<u64> {
        let own = (credit / 2).min(most);
        let rtt = asked.rtt.filter(|rtt| self.pending.is_plausible(*rtt))?;
        let worth = mul_div(own, nanos(rtt), 1_000_000_000);
        (worth >= CREDIT_BYTES).then_some(own)
    }

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
                Some(reported) => {
                    metrics.unused += 1;
                    kept.on_unused();
                    law.on_grant_over(now, reported, false);
                }
                None if settled.shown >= settled.granted / SHOWN_PART => kept.on_used(),
                None => {}
            }
        });
        while let Some((began, reported)) = self.pending.take_unused(now) {
            self.metrics.unused += 1;
            self.kept.on_unused();
            self.law.on_grant_unused(now, began, reported);
        }
    }

    fn count(&mut self, now: Instant, arrival: &Arrival) {
        if now < self.calm_until {
            self.usage.add_to_sample(arrival.bytes.into());
        } else {
            self.count_and_look(now, arrival);
        }
    }

    /// Counts packets and handles changes that are due. It is a separate function so that the code
    /// for each packet remains small.
    #[inline(never)]
    fn count_and_look(&mut self, now: Instant, arrival: &Arrival) {
        self.settle(now);
        self.usage.add(now, arrival.bytes.into());
        if let Some(reported) = self.begun(now, arrival) {
            self.law.on_grant_over(now, reported, true);
        }
        if self.pending.is_empty() {
            self.calm_until = self.usage.sample_ends();
        }
    }

    /// Notes a question for a starting rate, which may wait in a queue before it is answered.
    fn note_question(&mut self, now: Instant, arrival: &Arrival) {
        if let Carried::QuickStart(asked) = arrival.carried
            && !asked.keeps
        {
            let used = self.usage.peak(now);
            let promised = self.law.promised(now, arrival.flow_hash);
            self.burst.on_question(now, used.max(promised));
        }
    }

    /// If a granted flight begins with this packet, returns the rate of its grant that was reported
    /// to the law. Questions aren't part of a flight.
    fn begun(&mut self, now: Instant, arrival: &Arrival) -> Option<u64> {
        match arrival.carried {
            Carried::QuickStart(_) => None,
            _ => {
                let bytes = arrival.bytes.into();
                self.pending.on_bytes(now, arrival.flow_hash, bytes)
            }
        }
    }

    /// Returns the next number of a sequence (SplitMix64).
    fn draw(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9E37_79B9_7F4A_7C15);
        scramble(self.random)
    }
}

impl<L: LinkController> LinkController for QuickStartLink<L> {
    fn admits(&mut self, now: Instant, arrival: &Arrival) -> bool {
        self.law.admits(now, arrival)
    }

    fn admits_all(&mut self, now: Instant, run: &Arrival, packets: u32) -> bool {
        self.law.admits_all(now, run, packets)
    }

    fn on_arrival(&mut self, now: Instant, arrival: &Arrival, queue: u64) {
        self.note_question(now, arrival);
        self.count(now, arrival);
        self.law.on_arrival(now, arrival, queue);
    }

    fn on_arrivals(&mut self, now: Instant, run: &Arrival, packets: u32, queue: u64) {
        self.count(now, run);
        self.law.on_arrivals(now, run, packets, queue);
    }

    /// Ends the flow's grant for the law, because its link already shrinks by these bytes.
    fn on_unheard(&mut self, now: Instant, arrival: &Arrival) {
        self.note_question(now, arrival);
        if self.pending.is_empty() {
            return;
        }
        self.settle(now);
        if let Some(reported) = self.begun(now, arrival) {
            self.law.on_grant_over(now, reported, false);
        }
    }

    fn on_departure(&mut self, now: Instant, packet: &Arrival, queue: u64) -> Answer {
        match &packet.carried {
            Carried::QuickStart(asked) if asked.keeps => {
                self.answer_keeper(now, packet.flow_hash, asked)
            }
            Carried::QuickStart(asked) => self.answer(now, packet.flow_hash, asked),
            _ => self.law.on_departure(now, packet, queue),
        }
    }

    fn on_drop(&mut self, now: Instant, packet: &Arrival) {
        self.law.on_drop(now, packet);
    }

    fn on_set_aside(&mut self, now: Instant) {
        self.law.on_set_aside(now);
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

    fn on_variation(&mut self, wait: Duration) {
        self.law.on_variation(wait);
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
