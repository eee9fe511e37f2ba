//! The router's half: one per output port.

use super::drain::DrainMeter;
use super::efficiency::{absorbed_q16, aggregate, rate_q16, to_q16};
use super::fairness::{Pools, shuffle};
use super::guests::Guests;
use super::known::{Known, Standing};
use super::newcomers::Newcomers;
use super::overflow::Overflow;
use super::params::{
    Capacity, IDLE_INTERVALS, INITIAL_INTERVAL, LONGEST_LOOK, MAX_INTERVAL, MIN_INTERVAL, RISE,
    XcpLinkParams,
};
use super::policer::Policer;
use super::standing::StandingQueue;
use super::start::{Start, first};
use super::sums::{Sums, x_of, x_of_window};
use super::totals::{Seen, Totals};
use super::{WindowForm, XcpAnswer, XcpCarried, XcpLinkMetrics};
use crate::arith::{micros, mul_div, nanos, ns_since, saturate};
use crate::quick_start::Granted;
use crate::{
    Answer, Arrival, Carried, Duration, Instant, LinkController, LinkMetrics, VcpAnswer,
    VcpCarried, VcpCode,
};

/// An XCP port.
///
/// Driven by packets alone: an interval ends with the first packet that comes once it is over.
#[derive(Clone, Debug)]
pub struct XcpLink {
    params: XcpLinkParams,
    /// Bytes per second.
    capacity: u64,
    /// Where the capacity is measured.
    drain: Option<DrainMeter>,
    /// What the port's queue can hold, in bytes.
    buffer: u64,
    started: Instant,
    interval: Duration,
    /// When the running interval is over, or is to be looked at.
    due: Instant,
    last_arrival: Instant,
    /// The longest RTT that was told lately, in µs.
    told_us: u64,
    /// A longer pause means that the port was idle.
    idle_ns: u64,
    /// Nothing is known of the traffic: it begins, or begins again.
    waking: bool,
    start: Option<Start>,
    mean_rtt_us: u64,
    sums: Sums,
    granted: Granted,
    queue: StandingQueue,
    pools: Pools,
    guests: Guests,
    /// Which flows' words count.
    known: Option<Known>,
    newcomers: Newcomers,
    policer: Option<Policer>,
    overflow: Overflow,
    seen: Seen,
    totals: Totals,
}

impl XcpLink {
    /// A port that starts at `now` and sends `capacity` bytes per second.
    #[must_use]
    pub fn new(now: Instant, capacity: u64, params: XcpLinkParams) -> Self {
        let mut link = Self {
            capacity: 1,
            drain: (params.capacity == Capacity::Auto).then(|| DrainMeter::new(capacity)),
            buffer: u64::MAX,
            started: now,
            interval: INITIAL_INTERVAL,
            due: now,
            last_arrival: now,
            told_us: 0,
            idle_ns: 0,
            waking: true,
            start: None,
            mean_rtt_us: micros(INITIAL_INTERVAL),
            sums: Sums::new(None),
            granted: Granted::new(now),
            queue: StandingQueue::new(now),
            pools: Pools::default(),
            guests: Guests::new(),
            known: params.guard.then(Known::new),
            newcomers: Newcomers::new(),
            policer: params.police.then(Policer::new),
            overflow: Overflow::No,
            seen: Seen::default(),
            totals: Totals::default(),
            params,
        };
        link.set_capacity(capacity);
        link
    }

    fn set_capacity(&mut self, port: u64) {
        self.capacity = match (&mut self.drain, self.params.capacity) {
            (Some(drain), _) => {
                drain.set_port(port);
                drain.believed()
            }
            (None, Capacity::Fixed(fixed)) => fixed,
            (None, Capacity::Port | Capacity::Auto) => port,
        }
        .max(1);
    }

    /// Most that may be given, or dealt out anew, per interval: what the buffer can take if all of
    /// it comes at once. While traffic begins the mean RTT is still growing, so that the longest
    /// one is what counts.
    fn absorbed(&self) -> u64 {
        if !self.params.guard {
            return u64::MAX;
        }
        let rtt_us = match self.start {
            Some(_) => micros(self.longest()),
            None => self.mean_rtt_us,
        };
        absorbed_q16(self.buffer, rtt_us)
    }

    /// The first packet after idleness: what was measured before says nothing about what comes. All
    /// capacity is spare, so the first interval may give its share of that; who comes is given as
    /// if alone, and the pool bounds them all.
    #[cold]
    fn wake(&mut self, now: Instant, header: Option<&XcpCarried>) {
        self.mean_rtt_us = micros(INITIAL_INTERVAL);
        self.sums = Sums::new(self.params.guard.then_some(self.mean_rtt_us));
        self.waking = true;
        self.guests.clear();
        self.told_us = 0;
        self.begin(now);
        self.told_us = header.map_or(0, |header| u64::from(header.rtt_us));
        self.pools = Pools::default();
        self.seen = Seen::default();
        if self.params.guard {
            self.start = Some(Start::new(self.totals.net()));
            let free = self.capacity.saturating_sub(self.granted.rate());
            let first = first(free).min(self.absorbed());
            let given = i64::try_from(first).unwrap_or(i64::MAX);
            let alone = x_of(self.interval);
            self.pools = Pools::new(given, 0, u128::from(alone), 0);
            self.guests
                .begin(self.interval, self.interval, self.pools.share(alone));
            self.seen.aggregate = given;
            self.seen.spare = i128::from(to_q16(self.capacity));
        }
    }

    fn begin(&mut self, now: Instant) {
        self.started = now;
        self.interval = self.control_interval();
        self.due = now + self.look(self.interval);
        self.told_us /= 2;
        self.note_told();
        let flows = saturate(self.sums.x() / u128::from(x_of(self.interval).max(1)));
        self.sums.turn();
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

    /// Mean RTT over its flows' packets.
    pub(crate) const fn mean_rtt(&self) -> Duration {
        Duration::from_micros(self.mean_rtt_us)
    }

    /// How long the mean RTT makes an interval.
    fn control_interval(&self) -> Duration {
        Duration::from_micros(self.mean_rtt_us).clamp(MIN_INTERVAL, MAX_INTERVAL)
    }

    /// The longest RTT that was told says how long flows may be silent.
    fn note_told(&mut self) {
        self.told_us = self.told_us.max(self.sums.told_us());
        let pause = nanos(self.interval).max(self.told_us * 1000);
        self.idle_ns = pause.saturating_mul(u64::from(IDLE_INTERVALS));
    }

    /// When to look at the running interval, of which so much is left.
    fn look(&self, left: Duration) -> Duration {
        if self.params.guard {
            left.min(LONGEST_LOOK)
        } else {
            left
        }
    }

    /// The running interval is due: over, unless it is a long one and what came in it shows no
    /// shorter RTTs.
    #[cold]
    fn look_or_close(&mut self, now: Instant) {
        let elapsed = now - self.started;
        if elapsed < self.interval {
            // One flow at least must have shown for half of the time.
            let shown = self.sums.x() >= u128::from(x_of(elapsed) / 2);
            let mean = self.sums.mean_rtt_us().filter(|_| shown);
            if mean.is_none_or(|mean| Duration::from_micros(mean) > elapsed) {
                self.due = now + self.look(self.interval - elapsed);
                return;
            }
        }
        self.close(now);
    }

    /// The mean RTT that the interval showed, as far as it is believed at once. False: it rises by
    /// more.
    fn learn_mean_rtt(&mut self) -> bool {
        let Some(mean) = self.sums.mean_rtt_us() else {
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

    /// Nobody told an RTT for a whole interval: what others did before they left says less and less
    /// of those that are there.
    fn forget_mean_rtt(&mut self) {
        if self.params.guard {
            let least = self.mean_rtt_us.min(micros(INITIAL_INTERVAL));
            self.mean_rtt_us = (self.mean_rtt_us / 2).max(least);
        }
    }

    /// The interval is over.
    fn close(&mut self, now: Instant) {
        let elapsed = ns_since(now, self.started);
        if elapsed == 0 {
            return;
        }
        let full = self.learn_mean_rtt();
        let bytes = self.sums.bytes();
        let seen = rate_q16(bytes, elapsed);
        let queue = self.queue.bytes();
        if let Some(drain) = &mut self.drain {
            drain.on_interval(seen >> 16, queue);
            self.capacity = drain.believed();
        }
        // What was granted and has not come is as good as there.
        let granted = self.granted.until(now);
        let input = rate_q16(bytes.saturating_add(granted), elapsed);
        let capacity = to_q16(self.capacity);
        let mut total = 0;
        if bytes > 0 {
            total = aggregate(&self.params, capacity, input, queue, self.mean_rtt_us);
        }
        if let Some(start) = &mut self.start {
            let within = start.within(total, capacity, input, self.totals.net(), full);
            match within {
                Some(within) => total = within,
                None => self.start = None,
            }
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
        let told = self.sums.x() > 0;
        let elapsed = Duration::from_nanos(elapsed);
        let whole = x_of(elapsed);
        let guests = u128::from(self.guests.active()) * u128::from(whole);
        // Whoever comes first where nobody was is given as if alone.
        let x = match self.sums.x() + guests {
            0 if self.params.guard => u128::from(x_of(self.interval)),
            x => x,
        };
        self.pools = Pools::new(total, moved, x, bytes);
        let next = self.control_interval();
        self.guests.begin(elapsed, next, self.pools.share(whole));
        self.seen = Seen {
            input,
            spare: i128::from(capacity) - i128::from(input),
            aggregate: total,
            load_128: u8::try_from(mul_div(input, 128, capacity)).unwrap_or(u8::MAX),
        };
        self.waking = false;
        self.totals.intervals += 1;
        self.begin(now);
        if self.params.guard && told {
            self.newcomers.begin(Some(self.pools.positive_left()));
        }
    }

    /// The first interval lasts as long as the RTTs that show, if they are shorter than it.
    #[cold]
    fn settle_first_interval(&mut self) {
        self.note_told();
        if let Some(mean) = self.sums.mean_rtt_us() {
            let shown = Duration::from_micros(mean).clamp(MIN_INTERVAL, self.interval);
            self.due = self.started + shown;
        }
        let longest = self.longest();
        if let Some(policer) = &mut self.policer {
            policer.lasts(longest);
        }
    }

    /// The longest time after which what flows are told shows: while traffic begins, intervals are
    /// shorter than RTTs.
    fn longest(&self) -> Duration {
        let told = self.told_us.min(self.sums.most_rtt_us());
        self.interval.max(Duration::from_micros(told))
    }

    #[inline]
    fn answer(&mut self, flow_hash: u32, header: &XcpCarried, bytes: u32) -> XcpAnswer {
        self.totals.stamped += 1;
        let x = if self.waking && self.params.guard {
            x_of_window(header, self.interval)
        } else {
            self.sums.x_granted(header, bytes)
        };
        if x == 0 {
            // Who does not say what they have is given nothing.
            return XcpAnswer {
                delta: header.delta.min(0),
                bounding: header.delta > 0,
                ..XcpAnswer::default()
            };
        }
        let stands_for = u64::from(bytes) * u64::from(header.covers.max(1));
        let new = self
            .known
            .as_ref()
            .is_some_and(|known| !known.is_known(flow_hash));
        let most = if new { self.newcomers.left() } else { u64::MAX };
        // Nobody gives back more than the rate that they have.
        let wanted = if header.delta < 0 && self.params.guard {
            header.delta.max(-whole_rate(stands_for, header.rtt_us))
        } else {
            header.delta
        };
        let mut settled = self.pools.settle_within(wanted, x, stands_for, most);
        settled.delta = settled.delta.min(header.delta);
        if new {
            self.newcomers.take(settled.delta);
        }
        self.totals.add(settled.delta);
        let delta = if self.params.whole {
            whole_packets(settled.delta, header.rtt_us, bytes).min(header.delta)
        } else {
            settled.delta
        };
        XcpAnswer {
            delta,
            bounding: settled.bounding,
            ..XcpAnswer::default()
        }
    }

    #[inline]
    fn answer_guest(&self, flow_hash: u32, carried: &VcpCarried) -> VcpAnswer {
        let mut told = self
            .guests
            .told(flow_hash, carried.bise && carried.carries_r);
        if self.overflow != Overflow::No {
            told.code = VcpCode::Over;
        }
        let load = self.seen.load_128;
        VcpAnswer {
            code: told.code,
            r: carried.carries_r.then_some(told.r),
            t_rho_ms: VcpAnswer::whole_millis(self.guests.look()),
            load_128: load,
            ..VcpAnswer::default()
        }
    }

    /// Bytes that the link carries for a packet.
    #[inline]
    fn size(&self, packet: &Arrival) -> u32 {
        packet.bytes.saturating_add(self.params.overhead)
    }
}

/// A packet's part of its flow's rate, spread over a round trip, in 2^-16 bytes per second.
#[inline]
fn whole_rate(bytes: u64, rtt_us: u32) -> i64 {
    rate_q16(bytes, u64::from(rtt_us) * 1000).cast_signed()
}

/// The rate change next to `delta` that is a window change by whole packets.
#[cold]
fn whole_packets(delta: i64, rtt_us: u32, bytes: u32) -> i64 {
    let form = WindowForm {
        rtt_us,
        ..WindowForm::default()
    };
    let packets = form.feedback_q12(delta, bytes).saturating_add(1 << 11) >> 12;
    WindowForm {
        feedback_q12: packets.saturating_mul(1 << 12),
        ..form
    }
    .delta(bytes)
}

impl LinkController for XcpLink {
    #[inline]
    fn admits(&mut self, now: Instant, arrival: &Arrival) -> bool {
        let size = self.size(arrival);
        let Some(policer) = &mut self.policer else {
            return true;
        };
        let header = match &arrival.carried {
            Carried::Xcp(header) => Some(header),
            Carried::QuickStart(_) | Carried::Foreign => None,
            // Its own law's business.
            Carried::Vcp(_) => return true,
        };
        policer.admits(now, arrival.flow_hash, header, size)
    }

    #[inline]
    fn on_arrival(&mut self, now: Instant, arrival: &Arrival, queue: u64) {
        let header = match &arrival.carried {
            Carried::Xcp(header) => Some(header),
            _ => None,
        };
        let silent = ns_since(now, self.last_arrival) > self.idle_ns && queue == 0;
        if silent || (self.waking && self.sums.bytes() == 0) {
            self.wake(now, header);
        } else if now >= self.due {
            self.look_or_close(now);
        }
        self.last_arrival = now;
        self.queue
            .sample(now, queue, self.mean_rtt_us, self.capacity);
        self.sums.count(self.size(arrival));
        match &arrival.carried {
            Carried::Xcp(header) => {
                let size = self.size(arrival);
                let x = self.sums.hear(header, size);
                let standing = match &mut self.known {
                    Some(known) => known.count(now, arrival.flow_hash, x),
                    None => Standing::Known,
                };
                if standing == Standing::New {
                    self.newcomers.count(size);
                }
                // At first nobody is known.
                if self.waking || standing == Standing::Known {
                    self.sums.count_header(header, x);
                }
                if self.waking {
                    self.settle_first_interval();
                }
            }
            Carried::Vcp(_) => {
                let bytes = self.size(arrival);
                let net = self
                    .guests
                    .count(now, arrival.flow_hash, bytes, &mut self.pools);
                self.totals.add(net);
            }
            Carried::QuickStart(_) | Carried::Foreign => {
                let bytes = self.size(arrival);
                let net = self
                    .guests
                    .count_silent(now, arrival.flow_hash, bytes, &mut self.pools);
                self.totals.add(net);
            }
        }
    }

    #[inline]
    fn on_departure(&mut self, now: Instant, packet: &Arrival, queue: u64) -> Answer {
        self.queue
            .sample(now, queue, self.mean_rtt_us, self.capacity);
        if now >= self.due && !self.waking {
            self.look_or_close(now);
        }
        let size = self.size(packet);
        if let Some(drain) = &mut self.drain {
            let mean = Duration::from_micros(self.mean_rtt_us);
            if drain.on_departure(now, size, queue > 0, mean) {
                self.capacity = drain.believed();
            }
        }
        match &packet.carried {
            Carried::Xcp(header) => {
                let answer = self.answer(packet.flow_hash, header, size);
                if let Some(policer) = &mut self.policer {
                    policer.on_answer(packet.flow_hash, &answer);
                }
                Answer::Xcp(answer)
            }
            Carried::Vcp(carried) if carried.code != VcpCode::None => {
                Answer::Vcp(self.answer_guest(packet.flow_hash, carried))
            }
            Carried::Vcp(_) | Carried::QuickStart(_) | Carried::Foreign => Answer::None,
        }
    }

    /// Nothing is given until an interval without drops has passed; drops of plain traffic say
    /// nothing of the flows that feedback reaches.
    fn on_drop(&mut self, _now: Instant, packet: &Arrival) {
        let ours = !matches!(packet.carried, Carried::QuickStart(_) | Carried::Foreign);
        if self.params.guard && ours {
            self.overflow = Overflow::Now;
            self.pools.give_nothing();
        }
    }

    /// The mean RTT and what it led to begin anew; the traffic goes on.
    fn on_set_aside(&mut self, now: Instant) {
        if self.params.guard {
            self.mean_rtt_us = micros(INITIAL_INTERVAL);
            self.sums = Sums::new(Some(self.mean_rtt_us));
            self.told_us = 0;
            self.overflow = Overflow::No;
            self.begin(now);
        }
    }

    fn on_timer(&mut self, _now: Instant, _queue: u64) {}

    #[inline]
    fn deadline(&self) -> Option<Instant> {
        None
    }

    fn on_capacity(&mut self, _now: Instant, bytes_per_second: u64) {
        self.set_capacity(bytes_per_second);
    }

    fn on_buffer(&mut self, bytes: u64) {
        self.buffer = bytes;
    }

    fn makes_room(&self) -> bool {
        true
    }

    fn promised(&self) -> u64 {
        // Later on, what was promised shows within a round trip.
        let Some(start) = &self.start else { return 0 };
        let promised = u64::try_from(start.promised(self.totals.net()) >> 16).unwrap_or(0);
        promised.saturating_sub(self.granted.rate())
    }

    fn on_granted(&mut self, now: Instant, flow_hash: u32, bytes_per_second: u64) {
        self.granted.add(now, self.started, bytes_per_second);
        let rate = to_q16(bytes_per_second);
        let rate = i64::try_from(rate).unwrap_or(i64::MAX);
        self.pools.give_less(rate.unsigned_abs());
        self.totals.add(rate);
        if let Some(policer) = &mut self.policer {
            policer.on_granted(now, flow_hash, rate.unsigned_abs());
        }
    }

    fn on_grant_over(&mut self, now: Instant, bytes_per_second: u64, came: bool) {
        self.granted.take(now, bytes_per_second);
        if !came {
            let rate = i64::try_from(to_q16(bytes_per_second)).unwrap_or(i64::MAX);
            self.totals.add(-rate);
        }
    }

    fn metrics(&self) -> LinkMetrics {
        let load_ppb =
            u128::from(self.seen.input) * 1_000_000_000 / u128::from(to_q16(self.capacity));
        LinkMetrics {
            interval: self.interval,
            load_ppb: saturate(load_ppb),
            persistent_queue: self.queue.bytes(),
            xcp: Some(XcpLinkMetrics {
                intervals: self.totals.intervals,
                interval: self.interval,
                mean_rtt: Duration::from_micros(self.mean_rtt_us),
                capacity: self.capacity,
                input: self.seen.input >> 16,
                spare: i64::try_from(self.seen.spare >> 16).unwrap_or(i64::MIN),
                persistent_queue: self.queue.bytes(),
                aggregate: self.seen.aggregate >> 16,
                positive_left: self.pools.positive_left() >> 16,
                negative_left: self.pools.negative_left() >> 16,
                given: saturate(self.totals.given >> 16),
                taken: saturate(self.totals.taken >> 16),
                stamped: self.totals.stamped,
                policed: self.policer.as_ref().map_or(0, Policer::refused),
            }),
            ..LinkMetrics::default()
        }
    }
}
