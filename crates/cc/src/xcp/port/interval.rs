//! A port's intervals: when one begins and ends, and what it has to give.

use super::XcpLink;
use super::departures::DepartureCompensation;
use super::efficiency::{absorbed_q16, aggregate};
use super::fairness::{Pools, shuffle};
use super::overflow::Overflow;
use super::start::{Start, first};
use super::sums::{Sums, WeightedRtt};
use super::totals::Seen;
use crate::base::arith::{micros, mul_div, nanos, ns_since, saturate};
use crate::base::rtt_sketch::RttSketch;
use crate::base::{Duration, Instant};
use crate::quick_start::FIRST_WINDOW;
use crate::signals::XcpCarried;
use crate::xcp::fixed::{rate_q16, to_q16, x_of};
use crate::xcp::params::{
    IDLE_INTERVALS, INITIAL_INTERVAL, LONGEST_LOOK, MAX_INTERVAL, MIN_INTERVAL, RISE, RTT_SLACK,
};

impl XcpLink {
    /// Upper limit of what is given, or shuffled, per interval: what the buffer can absorb if all
    /// of it arrives at once. While traffic begins the mean RTT is still growing, so the longest
    /// one counts.
    pub(super) fn absorbed(&self) -> u64 {
        if !self.params.guard {
            return u64::MAX;
        }
        let rtt_us = match self.start {
            Some(_) => micros(self.longest()),
            None => self.mean_rtt_us,
        };
        absorbed_q16(self.buffer, rtt_us)
    }

    /// The first packet after idleness: earlier measurements do not apply to the new traffic. All
    /// capacity is spare, so the first interval may give its share of that. Each new flow gets a
    /// single flow's share, limited by the pool.
    #[cold]
    pub(super) fn wake(&mut self, now: Instant, header: Option<&XcpCarried>) {
        self.mean_rtt_us = micros(INITIAL_INTERVAL);
        self.sums = Sums::new(self.params.guard.then_some(self.mean_rtt_us));
        if let Some(rtts) = &mut self.rtts {
            *rtts = RttSketch::new(now);
        }
        self.waking = true;
        self.vcp_flows.clear();
        self.stated_us = 0;
        self.begin(now);
        self.stated_us = header.map_or(0, |header| u64::from(header.rtt_us));
        self.pools = Pools::default();
        self.seen = Seen::default();
        if self.params.guard {
            self.start = Some(Start::new(self.totals.net()));
            let free = self.capacity.saturating_sub(self.granted.rate());
            let first = first(free).min(self.absorbed());
            let given = i64::try_from(first).unwrap_or(i64::MAX);
            let alone = x_of(self.interval);
            self.pools = Pools::new(given, 0, u128::from(alone), 0);
            self.vcp_flows
                .begin(self.interval, self.interval, self.pools.share(alone));
            self.seen.aggregate = given;
            self.seen.spare = i128::from(to_q16(self.capacity));
        }
    }

    /// True if a header that comes after idleness states more than the window that a flow begins
    /// with: its traffic goes on, as after a stall of its host.
    #[cold]
    pub(super) fn goes_on(&self, now: Instant, header: Option<&XcpCarried>, bytes: u32) -> bool {
        // A granted flight begins, and states what it was granted.
        let granted = self.flight_at == now;
        let knows = self.params.guard && self.totals.intervals > 0 && !granted;
        let Some(header) = header.filter(|_| knows) else {
            return false;
        };
        // Bytes over X are a rate, and a rate times an RTT is a window.
        let rtt = (u128::from(header.rtt_us) << 40) / 1_000_000;
        let bytes = u128::from(bytes) * u128::from(header.covers.max(1));
        let window = bytes * rtt / u128::from(header.x.max(1));
        window > u128::from(FIRST_WINDOW)
    }

    /// The flows already have their windows, and their sum shows within an interval: until then
    /// nothing is given.
    #[cold]
    pub(super) fn resume(&mut self, now: Instant) {
        self.begin(now);
        self.pools = Pools::default();
        self.vcp_flows.begin(self.interval, self.interval, 0);
        self.waking = false;
    }

    pub(super) fn begin(&mut self, now: Instant) {
        self.started = now;
        self.offered.begin();
        self.interval = self.control_interval();
        self.due = now + self.look(self.interval);
        self.stated_us /= 2;
        self.note_reported();
        let flows = saturate(self.sums.x() / u128::from(x_of(self.interval).max(1)));
        if let Some(rtts) = &mut self.rtts {
            rtts.age(now, self.interval);
        }
        self.sums.turn(self.plausible_rtt_us());
        self.granted.begin(now);
        if let Some(known) = &mut self.known {
            let longest = Duration::from_micros(self.sums.most_rtt_us()).max(self.interval);
            known.begin(now, flows, x_of(longest));
        }
        self.newcomers.begin(None);
        let longest = self.longest();
        if let Some(policer) = &mut self.policer {
            policer.turn(now, longest);
        }
    }

    /// What the link could carry in the running interval, `elapsed` nanoseconds long so far, in
    /// bytes per second.
    fn mean_capacity(&self, elapsed: u64) -> u64 {
        match &self.drain {
            Some(drain) => drain.believed().max(1),
            None => self.offered.mean(Duration::from_nanos(elapsed)),
        }
    }

    /// The length of an interval by the mean RTT.
    pub(super) fn control_interval(&self) -> Duration {
        Duration::from_micros(self.mean_rtt_us).clamp(MIN_INTERVAL, MAX_INTERVAL)
    }

    /// The longest stated RTT bounds how long flows may be silent.
    pub(super) fn note_reported(&mut self) {
        self.stated_us = self.stated_us.max(self.sums.stated_us());
        let pause = nanos(self.interval).max(self.stated_us * 1000);
        self.idle_ns = pause.saturating_mul(u64::from(IDLE_INTERVALS));
    }

    /// When to look at the running interval, of which `left` remains.
    pub(super) fn look(&self, left: Duration) -> Duration {
        if self.params.guard {
            left.min(LONGEST_LOOK)
        } else {
            left
        }
    }

    /// The running interval is due: over, unless it is a long one and no shorter RTTs show in it.
    #[cold]
    pub(super) fn look_or_close(&mut self, now: Instant) {
        let elapsed = now - self.started;
        if elapsed < self.interval {
            // One flow at least must have shown for half of the time.
            let x = self.sums.x() + self.vcp_flows.rtts(elapsed).x;
            let shown = x >= u128::from(x_of(elapsed) / 2);
            let mean = self.shown_rtt_us(elapsed).filter(|_| shown);
            if mean.is_none_or(|mean| Duration::from_micros(mean) > elapsed) {
                self.due = now + self.look(self.interval - elapsed);
                return;
            }
        }
        self.close(now);
    }

    /// The longest RTT in µs that is plausible next to those of the other bytes.
    fn plausible_rtt_us(&self) -> u64 {
        let rtts = self.rtts.as_ref();
        rtts.map_or(u64::MAX, |rtts| rtts.plausible(self.capacity))
    }

    /// The mean RTT of the flows, XCP's and VCP's, that the interval showed in `elapsed`, bounded
    /// by the RTT that its bytes need.
    fn shown_rtt_us(&self, elapsed: Duration) -> Option<u64> {
        let mean = self.sums.mean_rtt_us(self.vcp_flows.rtts(elapsed))?;
        let Some(rtts) = &self.rtts else {
            return Some(mean);
        };
        let Some(reference) = rtts.reference(self.capacity) else {
            return Some(mean);
        };
        let needed = if rtts.is_light(self.capacity) {
            reference
        } else {
            self.sums.mean_rtt_of_bytes()
        };
        let plausible = self.sums.stated_us() <= rtts.plausible(self.capacity);
        let slack = if plausible { RTT_SLACK } else { 1 };
        Some(mean.min(needed.saturating_mul(slack)))
    }

    /// Packets stated an RTT that was not known: an interval that is no longer plausible ends once
    /// one of the RTTs that rule is over.
    #[cold]
    pub(super) fn review(&mut self) {
        if self.waking || micros(self.interval) <= self.plausible_rtt_us() {
            return;
        }
        let rtts = self.rtts.as_ref();
        if let Some(rtt) = rtts.and_then(|rtts| rtts.reference(self.capacity)) {
            let least = Duration::from_micros(rtt).max(MIN_INTERVAL);
            self.due = self.due.min(self.started + least);
        }
    }

    /// The mean RTT of the interval, as far as it is believed at once. False: it rises by more.
    pub(super) fn learn_mean_rtt(&mut self, elapsed: Duration) -> bool {
        let Some(mean) = self.shown_rtt_us(elapsed) else {
            self.forget_mean_rtt();
            return true;
        };
        let most = if self.params.guard {
            let least = micros(MIN_INTERVAL);
            self.mean_rtt_us.max(least).saturating_mul(RISE)
        } else {
            u64::MAX
        };
        self.mean_rtt_us = mean.min(most);
        mean <= most
    }

    /// No header stated an RTT for a whole interval: the mean of flows that left applies less and
    /// less to those that are there.
    pub(super) fn forget_mean_rtt(&mut self) {
        if self.params.guard {
            let least = self.mean_rtt_us.min(micros(INITIAL_INTERVAL));
            self.mean_rtt_us = (self.mean_rtt_us / 2).max(least);
        }
    }

    /// The interval is over.
    pub(super) fn close(&mut self, now: Instant) {
        let elapsed = ns_since(now, self.started);
        if elapsed == 0 {
            return;
        }
        let full = self.learn_mean_rtt(Duration::from_nanos(elapsed));
        let bytes = self.sums.bytes();
        let seen = rate_q16(bytes, elapsed);
        let queue = self.queue.bytes();
        if let Some(drain) = &mut self.drain {
            drain.on_interval(seen >> 16, queue);
            self.capacity = drain.believed();
        }
        // A grant that has not arrived counts as traffic.
        let granted = self.granted.until(now);
        let input = rate_q16(bytes.saturating_add(granted), elapsed);
        let capacity = match self.stated_spare {
            Some(spare) => to_q16((input >> 16).saturating_add_signed(spare)),
            None => to_q16(self.mean_capacity(elapsed)),
        };
        let mut total = 0;
        if bytes > 0 {
            let wanted = mul_div(capacity >> 16, micros(self.wait), 1_000_000);
            let mean_rtt = self.mean_rtt_us;
            total = aggregate(&self.params, capacity, input, (queue, wanted), mean_rtt);
        }
        if let Some(start) = &mut self.start {
            let within = start.within(total, capacity, input, self.totals.net(), full);
            match within {
                Some(within) => total = within,
                None => self.start = None,
            }
        }
        let net = self.totals.net();
        if self.start.is_some() {
            self.leaving = DepartureCompensation::new(net);
        }
        // Only while flows start and end often, as for shuffling.
        let more = self.leaving.on_interval(input, capacity, net, total);
        if self.params.guard && self.newcomers.are_young() {
            total = total.saturating_add(more);
        }
        self.overflow = self.overflow.turn();
        let most = match self.overflow {
            Overflow::No => self.absorbed(),
            Overflow::Now | Overflow::Before => 0,
        };
        total = total.min(i64::try_from(most).unwrap_or(i64::MAX));
        let usual = self.params.shuffle_ppm;
        let part = if self.params.guard {
            self.newcomers.shuffle_ppm(bytes, usual)
        } else {
            usual
        };
        let moved = shuffle(part, seen, total, most / 2);
        let stated = self.sums.x() > 0;
        let elapsed = Duration::from_nanos(elapsed);
        let whole = x_of(elapsed);
        let guests = u128::from(self.vcp_flows.active()) * u128::from(whole);
        // Without earlier flows, the first flow gets the share of a single flow.
        let x = match self.sums.x() + guests {
            0 if self.params.guard => u128::from(x_of(self.interval)),
            x => x,
        };
        self.pools = Pools::new(total, moved, x, bytes);
        let next = self.control_interval();
        self.vcp_flows.begin(elapsed, next, self.pools.share(whole));
        self.seen = Seen {
            input,
            spare: i128::from(capacity) - i128::from(input),
            aggregate: total,
            load_128: u8::try_from(mul_div(input, 128, capacity)).unwrap_or(u8::MAX),
        };
        self.waking = false;
        self.totals.intervals += 1;
        self.begin(now);
        if self.params.guard && stated {
            self.newcomers.begin(Some(self.pools.positive_left()));
        }
    }

    /// The first interval lasts as long as the RTTs that show, if they are shorter than it.
    #[cold]
    pub(super) fn settle_first_interval(&mut self) {
        self.note_reported();
        if let Some(mean) = self.sums.mean_rtt_us(WeightedRtt::default()) {
            let shown = Duration::from_micros(mean).clamp(MIN_INTERVAL, self.interval);
            self.due = self.started + shown;
        }
        let longest = self.longest();
        if let Some(policer) = &mut self.policer {
            policer.lasts(longest);
        }
    }

    /// The longest time after which feedback shows: while traffic begins, intervals are shorter
    /// than RTTs.
    pub(super) fn longest(&self) -> Duration {
        let stated = self.stated_us.min(self.sums.most_rtt_us());
        self.interval.max(Duration::from_micros(stated))
    }
}
