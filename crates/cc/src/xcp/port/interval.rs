//! A port's control intervals: when they begin and end, and how much they can give.

use super::XcpLink;
use super::answers::{Overflow, Start, first};
use super::controllers::{Pools, absorbed_q16, aggregate, shuffle};
use super::known::DepartureCompensation;
use super::sums::{Sums, WeightedRtt};
use crate::base::arith::{micros, mul_div, nanos, ns_since, saturate};
use crate::base::rtt_sketch::RttSketch;
use crate::base::{Duration, Instant};
use crate::quick_start::FIRST_WINDOW;
use crate::signals::XcpCarried;
use crate::xcp::params::{
    IDLE_INTERVALS, INITIAL_INTERVAL, LEAST_QUEUE_INTERVAL, LONGEST_LOOK, MAX_INTERVAL,
    MIN_INTERVAL, RISE, RTT_SLACK, SHUFFLE_PPM, rate_q16, to_q16, x_of,
};

impl XcpLink {
    /// Upper limit of grants, or of the shuffle, per interval, which the buffer must absorb if they
    /// arrive at once. While traffic begins, the mean RTT is still growing, so the longest RTT
    /// counts.
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

    /// Handles the first packet after idleness, when earlier measurements no longer apply. All
    /// capacity is spare, so the first interval may give its share of the capacity. Each new flow
    /// gets a single flow's share, limited by the pool.
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

    /// True if a header after idleness states more than the initial window of a flow, because then
    /// its traffic continues, for example after a stall of its host.
    #[cold]
    pub(super) fn goes_on(&self, now: Instant, header: Option<&XcpCarried>, bytes: u32) -> bool {
        // This is the beginning of a granted flight, which states its grant.
        let granted = self.flight_at == now;
        let knows = self.params.guard && self.totals.intervals > 0 && !granted;
        let Some(header) = header.filter(|_| knows) else {
            return false;
        };
        // Bytes divided by X give a rate, and a rate times an RTT gives a window.
        let rtt = (u128::from(header.rtt_us) << 40) / 1_000_000;
        let bytes = u128::from(bytes) * u128::from(header.covers.max(1));
        let window = bytes * rtt / u128::from(header.x.max(1));
        window > u128::from(FIRST_WINDOW)
    }

    /// Begins an interval without grants: the flows already have their windows, whose sum becomes
    /// visible within an interval.
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

    /// The mean capacity during the current interval, which has lasted `elapsed` nanoseconds so
    /// far, in bytes per second.
    fn mean_capacity(&self, elapsed: u64) -> u64 {
        match &self.drain {
            Some(drain) => drain.believed().max(1),
            None => self.offered.mean(Duration::from_nanos(elapsed)),
        }
    }

    /// The length of an interval according to the mean RTT.
    pub(super) fn control_interval(&self) -> Duration {
        Duration::from_micros(self.mean_rtt_us).clamp(MIN_INTERVAL, MAX_INTERVAL)
    }

    /// Updates the longest stated RTT, which bounds how long flows can pause.
    pub(super) fn note_reported(&mut self) {
        self.stated_us = self.stated_us.max(self.sums.stated_us());
        let pause = nanos(self.interval).max(self.stated_us * 1000);
        self.idle_ns = pause.saturating_mul(u64::from(IDLE_INTERVALS));
    }

    /// The time until the next check of the current interval, of which `left` remains.
    pub(super) fn look(&self, left: Duration) -> Duration {
        if self.params.guard {
            left.min(LONGEST_LOOK)
        } else {
            left
        }
    }

    /// Ends the current interval, or, if it is long, checks whether shorter RTTs have appeared.
    #[cold]
    pub(super) fn look_or_close(&mut self, now: Instant) {
        let elapsed = now - self.started;
        if elapsed < self.interval {
            // At least one flow must have been visible for half of the time.
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

    /// The longest RTT in µs that is plausible given the RTTs of the other bytes.
    fn plausible_rtt_us(&self) -> u64 {
        let rtts = self.rtts.as_ref();
        rtts.map_or(u64::MAX, |rtts| rtts.plausible(self.capacity))
    }

    /// The mean RTT of XCP and VCP flows during `elapsed`, bounded by the RTT that the bytes show.
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

    /// Reacts to a change in the known RTTs: an interval that is implausibly long now ends after
    /// the reference RTT.
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

    /// Sets the mean RTT of the interval, limiting its growth. False if the growth was limited.
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

    /// Lets the mean RTT decay after an interval in which no header stated an RTT, because the mean
    /// of flows that left applies less and less to the remaining flows.
    pub(super) fn forget_mean_rtt(&mut self) {
        if self.params.guard {
            let least = self.mean_rtt_us.min(micros(INITIAL_INTERVAL));
            self.mean_rtt_us = (self.mean_rtt_us / 2).max(least);
        }
    }

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
        // A grant whose packets have not arrived counts as traffic.
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
            total = aggregate(&self.params, capacity, input, queue, wanted, mean_rtt);
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
        // Only while flows start and end often, as with shuffling.
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
        let usual = SHUFFLE_PPM;
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

    /// Ends the first interval after the mean RTT that headers show, if it is shorter.
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

    /// The longest time until feedback takes effect: while traffic begins, intervals are shorter
    /// than RTTs.
    pub(super) fn longest(&self) -> Duration {
        let stated = self.stated_us.min(self.sums.most_rtt_us());
        self.interval.max(Duration::from_micros(stated))
    }
}

// The persistent queue, which does not drain within about half a round trip.

/// Measures the minimum length of the queue per observation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StandingQueue {
    bytes: u64,
    least: u64,
    /// End of the current observation.
    due: Instant,
}

/// Length of one observation in ns: half of the rest of the mean RTT once the queue has drained,
/// and at least 2 ms.
pub(crate) fn look_ns(mean_rtt_us: u64, queue: u64, capacity: u64) -> u64 {
    let draining = mul_div(queue, 1_000_000_000, capacity);
    let left = mean_rtt_us.saturating_mul(1_000).saturating_sub(draining);
    (left / 2).max(nanos(LEAST_QUEUE_INTERVAL))
}

impl StandingQueue {
    pub(crate) const fn new(now: Instant) -> Self {
        Self {
            bytes: 0,
            least: u64::MAX,
            due: now,
        }
    }

    /// Bytes that did not drain during the last observation.
    pub(crate) const fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(crate) fn sample(&mut self, now: Instant, queue: u64, mean_rtt_us: u64, capacity: u64) {
        self.least = self.least.min(queue);
        if now >= self.due {
            self.turn(now, queue, mean_rtt_us, capacity);
        }
    }

    #[cold]
    fn turn(&mut self, now: Instant, queue: u64, mean_rtt_us: u64, capacity: u64) {
        let look = look_ns(mean_rtt_us, queue, capacity);
        // After a pause, the minimum length is from the time before the pause.
        let paused = ns_since(now, self.due) > look;
        self.bytes = if paused { queue } else { self.least };
        self.least = queue;
        self.due = now + core::time::Duration::from_nanos(look);
    }
}

// Measurements and grants of a port, for its start and for reports.

/// Measurements of the last interval, in 2^-16 bytes per second.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Seen {
    pub(crate) input: u64,
    pub(crate) spare: i128,
    pub(crate) aggregate: i64,
    /// The input in 1/128 of the capacity.
    pub(crate) load_128: u8,
}

/// Totals for reports, rates in 2^-16 bytes per second.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Totals {
    pub(crate) given: u128,
    pub(crate) taken: u128,
    pub(crate) stamped: u64,
    pub(crate) intervals: u64,
}

impl Totals {
    pub(crate) fn add(&mut self, delta: i64) {
        if delta > 0 {
            self.given += u128::from(delta.unsigned_abs());
        } else {
            self.taken += u128::from(delta.unsigned_abs());
        }
    }

    /// Total given minus total taken.
    pub(crate) fn net(&self) -> i128 {
        i128::try_from(self.given).unwrap_or(i128::MAX)
            - i128::try_from(self.taken).unwrap_or(i128::MAX)
    }
}
