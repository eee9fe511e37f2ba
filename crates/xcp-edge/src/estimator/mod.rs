//! Estimates a cloud's unused capacity from trains of packets that crossed it.
//!
//! It measures three quantities:
//!
//! - **Capacity** C of the narrow link ([`capacity`]): packets that wait together in front of the
//!   link leave it one after the other, so the shortest time in which a few packets arrive is the
//!   transmission time of their bytes at C (packet pairs; here four packets in a row, and more if
//!   times are coarse: [`arrivals`]).
//! - **Foreign traffic** X ([`Load`]): a train sent slightly faster than C keeps the link busy
//!   from its first packet to its last. All other bytes that the link carried in between, except
//!   router k's own traffic, are foreign. (Trains that load the path themselves are known from
//!   pathload and pathChirp. One train at the rate of the link instead of a search is from
//!   Spruce: Strauss, Katabi, Kaashoek, "A measurement study of available bandwidth estimation
//!   tools", 2003.)
//! - **Queue** ([`delay`]): the delay of small packets in between, minus the shortest recent
//!   delay, gives the queue. While the queue never drains, the link is full. Its growth then
//!   gives the unused rate without any model, as the link's rate minus the arrival rate, which
//!   also corrects X.
//!
//! Router k already knows its own traffic through the cloud, which is the passive half of the
//! estimate.
//!
//! Trains use [`LOAD_PPM`] of C over time, and 0.1 s of C for the first estimate. An estimate is
//! valid for three times as long as it took.

mod arrivals;
mod capacity;
mod delay;

use pathmark_cc::{CloudEstimate, Duration, Instant};

use crate::message::{LEAST_PROBE, MOST_PACKETS, Probe, Train};
use crate::requester::Ask;
use arrivals::{Arrivals, Arrived, Scattered};
use capacity::{Capacity, Load, Turns};
use delay::{Delay, Doubt, Found};

/// Headers of IPv4 and UDP, and the additional bytes of an IPv6 header.
const HEADERS: u64 = 28;
const MORE_V6: u64 = 20;
/// The share of the capacity for trains over time, in 10^-6, and the maximum for small packets.
const LOAD_PPM: u64 = 8_000;
const DELAY_PPM: u64 = 2_000;
/// Number of trains sized for the first estimate, and the minimum number before there is one.
const FIRST_TRAINS: u32 = 8;
const TRAINS_FOR_ESTIMATE: u32 = 3;
/// Time that the first trains take on the link in total: 5 % of 2 s.
const FIRST_SHARE_MS: u64 = 100;
/// Rate of a train, in 10^-6 of the capacity, so that one of its packets always waits.
const FASTER_PPM: u64 = 1_050_000;
/// One train in this number is sent back to back. The second value applies while C is not sure.
const CAPACITY_EVERY: u32 = 4;
const CAPACITY_EVERY_UNSURE: u32 = 2;
/// Minimum number of packets in a train, and in a train that measures the capacity.
const LEAST_PACKETS: u16 = 12;
const CAPACITY_PACKETS: u16 = 16;
/// Minimum time that a train for the capacity takes on the link in ms, because times may be coarse.
const CAPACITY_MS: u128 = 2;
/// The same while the capacity is not sure, because more packets are more likely to find a gap on a
/// busy link.
const CAPACITY_PACKETS_UNSURE: u16 = 32;
const CAPACITY_MS_UNSURE: u128 = 20;
/// Time between small packets: between the first trains, and later.
const FIRST_DELAY_GAP: Duration = Duration::from_millis(10);
const DELAY_GAP: Duration = Duration::from_millis(20);
/// Minimum and maximum number of small packets per request, and the maximum time that they may
/// take, ns. No router sends a train that takes longer than twice this time.
const LEAST_DELAYS: u64 = 4;
const MOST_DELAYS: u64 = 100;
const MOST_DELAY_SPAN: u64 = 2_000_000_000;
/// If more bytes of own traffic are counted at once, the count comes in lumps, because a header
/// covers several packets.
const LUMP: u64 = 3000;
/// If foreign traffic is below minus the capacity divided by this number, own traffic took
/// another path.
const ELSEWHERE: u64 = 16;
/// Above this multiple of the capacity, the count of own traffic doesn't show foreign traffic.
const MOST_OWN: u64 = 4;
/// Maximum size of a queue that a variation of delays between packets may hide, ns.
const MOST_SCATTER: u64 = 2_000_000;
/// There is no estimate if delays vary by more than the time of this many packets and by more
/// than `WILD` ns.
const WILD_PACKETS: u64 = 8;
const WILD: u64 = 3_000_000;
/// An estimate is valid for this multiple of the time that it took.
const HOLDS: u32 = 3;

/// Estimates a cloud, as described in the module.
#[derive(Clone, Debug)]
pub struct Estimator {
    /// UDP payload of packets in trains.
    packet: u16,
    /// Headers in front of the payload, in bytes.
    headers: u64,
    /// The start, and the duration of the first estimate.
    began: Instant,
    took: Option<Duration>,
    arrivals: Arrivals,
    capacity: Capacity,
    load: Load,
    delay: Delay,
    doubt: Doubt,
    scattered: Scattered,
    /// Mean delay of reading packets over several trains, ns.
    late: u64,
    /// Number of requested trains, excluding small packets.
    asked: u32,
    /// Number of packets in the next train, and its earliest time.
    packets: u16,
    next_train: Instant,
    last_probe: Instant,
    /// Bytes of own traffic at the last estimate, and its time.
    own: (u64, Instant),
    /// The same at the end of the last train.
    own_at_train: (u64, Instant),
    /// Minimum bytes of own traffic that are counted at once, averaged over several trains.
    lump: u64,
    /// True if the count of own traffic exceeds `MOST_OWN` times the capacity.
    flooded: bool,
    turns: Turns,
}

impl Estimator {
    /// Creates an estimator that starts now, with trains of packets of `packet` bytes of UDP
    /// payload over IPv4.
    pub fn new(now: Instant, packet: u16) -> Self {
        Self {
            packet: packet.max(LEAST_PROBE),
            headers: HEADERS,
            began: now,
            took: None,
            arrivals: Arrivals::default(),
            capacity: Capacity::default(),
            load: Load::default(),
            delay: Delay::default(),
            doubt: Doubt::default(),
            scattered: Scattered::default(),
            late: 0,
            asked: 0,
            packets: CAPACITY_PACKETS,
            next_train: now,
            last_probe: now,
            own: (0, now),
            own_at_train: (0, now),
            lump: 0,
            flooded: false,
            turns: Turns::default(),
        }
    }

    /// Expects trains over IPv6.
    #[must_use]
    pub const fn over_ipv6(mut self) -> Self {
        self.headers = HEADERS + MORE_V6;
        self
    }

    /// The first train to request: as fast as possible.
    pub const fn first_train(packet: u16) -> Train {
        Train {
            packets: CAPACITY_PACKETS,
            bytes: if packet < LEAST_PROBE {
                LEAST_PROBE
            } else {
                packet
            },
            gap: 0,
        }
    }

    /// Records that a train is coming, and returns the next request.
    pub fn coming(&mut self, now: Instant, number: u32, train: &Train, rtt: Duration) -> Ask {
        if train.bytes > LEAST_PROBE {
            let lost = self.arrivals.begin(number, train.packets);
            self.asked += 1;
            self.turns.begin();
            self.size(lost);
            self.next_train = now + self.pause(train);
            return Ask {
                train: self.small(),
                at: now,
            };
        }
        // The next train is requested early enough to arrive when this train ends, unless it is not
        // due yet on a thin link.
        let end = now + Duration::from_nanos(train.span());
        let due = end >= self.next_train;
        Ask {
            train: if due { self.next() } else { self.small() },
            at: now.max(end - rtt),
        }
    }

    /// Sets the number of packets in the next train. It is reduced after a train that exceeded a
    /// queue on the way.
    fn size(&mut self, lost: bool) {
        let each = u64::from(self.packet) + self.headers;
        let capacity = self.capacity.get().unwrap_or(0);
        let first = capacity * FIRST_SHARE_MS / 1000 / u64::from(FIRST_TRAINS + 2) / each;
        // The share of the capacity over a quarter of a second.
        let later = capacity * LOAD_PPM / 1_000_000 / 4 / each;
        let fits = if self.asked < FIRST_TRAINS {
            first
        } else {
            later
        };
        let fits = u16::try_from(fits).unwrap_or(u16::MAX);
        let fits = fits.clamp(LEAST_PACKETS, MOST_PACKETS);
        self.packets = if lost {
            (self.packets / 2).clamp(LEAST_PACKETS / 3, fits)
        } else {
            self.packets.saturating_add(fits / 4).min(fits)
        };
    }

    fn next(&self) -> Train {
        let each = u128::from(self.packet) + u128::from(self.headers);
        let capacity = self.capacity.get();
        let every = if self.capacity.is_sure() {
            CAPACITY_EVERY
        } else {
            CAPACITY_EVERY_UNSURE
        };
        if capacity.is_none() || self.turns.is_next() || self.asked.is_multiple_of(every) {
            let lasting = |millis| {
                let lasting = u128::from(capacity.unwrap_or(0)) * millis / 1000 / each;
                u16::try_from(lasting).unwrap_or(u16::MAX)
            };
            let least = if self.capacity.is_sure() {
                CAPACITY_PACKETS.min(self.packets)
            } else {
                lasting(CAPACITY_MS_UNSURE).clamp(CAPACITY_PACKETS, CAPACITY_PACKETS_UNSURE)
            };
            let packets = if self.packets < LEAST_PACKETS {
                // Trains exceeded a queue on the way.
                self.packets
            } else {
                lasting(CAPACITY_MS).min(self.packets).max(least)
            };
            return Train {
                packets,
                ..Self::first_train(self.packet)
            };
        }
        let capacity = capacity.unwrap_or(0);
        let rate = u128::from(capacity) * u128::from(FASTER_PPM) / 1_000_000;
        let gap = each * 1_000_000_000 / rate.max(1);
        Train {
            packets: self.packets,
            bytes: self.packet,
            gap: u32::try_from(gap).unwrap_or(u32::MAX).min(1_000_000_000),
        }
    }

    /// Time for which a train uses up the share of all trains, after the first ones.
    fn pause(&self, train: &Train) -> Duration {
        if self.asked < FIRST_TRAINS {
            return Duration::ZERO;
        }
        let bytes = (u64::from(train.bytes) + self.headers) * u64::from(train.packets);
        let share = self.capacity.get().unwrap_or(0) * LOAD_PPM / 1_000_000;
        Duration::from_nanos(bytes * 1_000_000_000 / share.max(1))
    }

    /// Returns all or some of the small packets until the next train may follow.
    fn small(&self) -> Train {
        let (gap, packets) = if self.asked < FIRST_TRAINS {
            (FIRST_DELAY_GAP, LEAST_DELAYS)
        } else {
            let each = u64::from(self.packet) + self.headers;
            let capacity = self.capacity.get().unwrap_or(0);
            let share = capacity * LOAD_PPM / 1_000_000;
            let wait = each * u64::from(self.packets) * 1_000_000_000 / share.max(1);
            // Further apart on thin links.
            let bytes = u64::from(LEAST_PROBE) + self.headers;
            let share = capacity * DELAY_PPM / 1_000_000;
            let gap = Duration::from_nanos(bytes * 1_000_000_000 / share.max(1));
            let longest = Duration::from_nanos(MOST_DELAY_SPAN / LEAST_DELAYS);
            let gap = gap.clamp(DELAY_GAP, longest);
            let packets = u128::from(wait.min(MOST_DELAY_SPAN)).div_ceil(gap.as_nanos());
            let packets = u64::try_from(packets).unwrap_or(u64::MAX);
            (gap, packets.clamp(LEAST_DELAYS, MOST_DELAYS))
        };
        Train {
            packets: u16::try_from(packets).unwrap_or(MOST_PACKETS),
            bytes: LEAST_PROBE,
            gap: u32::try_from(gap.as_nanos()).unwrap_or(u32::MAX),
        }
    }

    /// Records a packet of a train that arrived after `own` bytes of own traffic from this
    /// router.
    pub fn on_probe(&mut self, now: Instant, number: u32, probe: &Probe, bytes: usize, own: u64) {
        self.last_probe = now;
        let small = bytes <= usize::from(LEAST_PROBE);
        // Later packets of a train wait behind its own.
        if small || probe.index == 0 {
            self.delay.on_probe(now, probe.sent, own);
        }
        if small {
            self.correct(now);
            return;
        }
        let arrived = Arrived {
            at: now,
            sent: probe.sent,
            index: probe.index,
            bytes: bytes as u64 + self.headers,
            own,
        };
        self.arrivals.on_packet(number, arrived);
        if probe.index + 1 == probe.packets {
            self.finish(now, own);
        }
    }

    fn finish(&mut self, now: Instant, own: u64) {
        let before = self.capacity.get();
        if let Some(rate) = self.arrivals.fastest() {
            self.capacity.note(rate);
            self.look_again(now, rate);
        }
        if let (Some(before), Some(now)) = (before, self.capacity.get())
            && before.abs_diff(now) > before / 8
        {
            // Either trains encountered other traffic, or the link changed. A link that became
            // faster and has no queue is another link, so foreign traffic computed with the old
            // capacity is meaningless.
            let faster = now > before && self.delay.waiting(self.noise(now)).is_none();
            if self.took.is_none() || faster {
                self.load.forget();
            } else {
                self.load.recount(before, now);
            }
        }
        let Some(capacity) = self.capacity.get() else {
            return;
        };
        let late = self.arrivals.lateness(capacity);
        self.late = self.late - self.late / 4 + late / 4;
        self.scattered.note(late, self.arrivals.took());
        if let Some(least) = self.arrivals.least_own() {
            self.lump = self.lump - self.lump / 4 + least / 4;
        }
        let own_rate = self.own_rate(now, own);
        // Packets on another path are not held up by the train.
        let elsewhere = self.load.foreign() < -(capacity / ELSEWHERE).cast_signed();
        let at_mean = (self.lump > LUMP || elsewhere).then_some(own_rate);
        self.flooded = own_rate / MOST_OWN > capacity;
        if let Some(met) = self.arrivals.met(capacity, at_mean) {
            let foreign = self.load.finish(capacity, met);
            if self.arrivals.is_whole() {
                self.doubt(now, capacity, foreign, own);
            }
        }
        let known = self.load.samples() >= TRAINS_FOR_ESTIMATE && self.capacity.is_sure();
        if self.took.is_none() && known {
            self.took = Some(now - self.began);
        }
    }

    /// Lets the next train follow immediately if this one's `rate` shows a faster link. With
    /// jitter, rates prove nothing.
    fn look_again(&mut self, now: Instant, rate: u64) {
        if self.took.is_some()
            && !self.scattered.somewhat()
            && let Some(capacity) = self.capacity.get()
            && self.turns.on_rate(rate, capacity)
        {
            self.next_train = now;
        }
    }

    /// Own traffic since the end of the last train, in bytes per second.
    fn own_rate(&mut self, now: Instant, own: u64) -> u64 {
        let (before, since) = core::mem::replace(&mut self.own_at_train, (own, now));
        let bytes = u128::from(own.saturating_sub(before)) * 1_000_000_000;
        let rate = bytes.checked_div((now - since).as_nanos()).unwrap_or(0);
        u64::try_from(rate).unwrap_or(u64::MAX)
    }

    /// Compares the foreign traffic of a whole train with the queue that follows from the delay.
    fn doubt(&mut self, now: Instant, capacity: u64, foreign: i64, own: u64) {
        let Some(waits) = self.delay.waiting(self.noise(capacity)) else {
            return;
        };
        let off = self.load.scatter();
        let found = Found {
            foreign,
            own,
            waits,
        };
        if self.doubt.on_train(now, capacity, off, found) {
            self.delay.reset_base();
            self.load.was_not_full();
        }
    }

    /// While the link is full, computes foreign traffic from the queue and the own traffic.
    fn correct(&mut self, now: Instant) {
        let Some(capacity) = self.capacity.get() else {
            return;
        };
        let noise = self.noise(capacity);
        if self.delay.waiting(noise).is_none() {
            self.doubt.clear();
        }
        if let Some(full) = self.delay.full(now, capacity, noise) {
            self.load.correct(capacity, &full);
        }
    }

    /// A delay below this value does not count as a queue, ns. It is the time of two packets and
    /// the imprecision of clocks and schedulers; with jitter, it is three times the mean
    /// variation between packets.
    fn noise(&self, capacity: u64) -> u64 {
        let packet = u64::from(self.packet) + self.headers;
        let packets = 2 * packet * 1_000_000_000 / capacity.max(1);
        let scatter = if self.scattered.somewhat() {
            self.delay.scatter().saturating_mul(3).min(MOST_SCATTER)
        } else {
            0
        };
        packets.max(200_000).max(2 * self.late).max(scatter)
    }

    /// Returns true if times are too inaccurate, either for trains or for small packets, whose
    /// delays then vary more than a queue would cause.
    fn is_jittery(&self, capacity: u64) -> bool {
        let packet = u64::from(self.packet) + self.headers;
        let packets = WILD_PACKETS * packet * 1_000_000_000 / capacity.max(1);
        self.scattered.is_so() || self.delay.scatter() > packets.max(WILD)
    }

    /// Returns the cloud's unused capacity over the time since the last call, if `own` bytes of
    /// own traffic have arrived. `None` if it is not known, or no longer.
    pub fn estimate(&mut self, now: Instant, own: u64) -> Option<CloudEstimate> {
        let (before, since) = self.own;
        let elapsed = u64::try_from((now - since).as_nanos()).unwrap_or(u64::MAX);
        self.own = (own, now);
        let took = self.took?;
        let capacity = self.capacity.get()?;
        let until = self.last_probe + self.holds(took, capacity);
        if now >= until || elapsed == 0 || self.flooded || self.is_jittery(capacity) {
            return None;
        }
        let bytes = u128::from(own.saturating_sub(before));
        let own = bytes * 1_000_000_000 / u128::from(elapsed);
        let own = i64::try_from(own).unwrap_or(i64::MAX);
        let all = i64::try_from(capacity).unwrap_or(i64::MAX);
        let noise = self.noise(capacity);
        let left = all.saturating_sub(self.load.foreign()).saturating_sub(own);
        let available = match self.delay.full(now, capacity, noise) {
            // The bytes that the link carries minus those that arrive.
            Some(full) => full.drain,
            // A link whose queue drains carries more than arrives.
            None => left.clamp(0, all),
        };
        Some(CloudEstimate {
            available,
            capacity,
            queue: self.delay.queue(capacity, noise),
            valid_for: until - now,
        })
    }

    /// The validity of an estimate: three times as long as it took, which is either the duration
    /// of the first one or the time between the later trains.
    fn holds(&self, took: Duration, capacity: u64) -> Duration {
        let each = u64::from(self.packet) + self.headers;
        let share = (capacity * LOAD_PPM / 1_000_000).max(1);
        let between = each * u64::from(self.packets) * 1_000_000_000 / share;
        took.max(Duration::from_nanos(between))
            .min(Duration::from_secs(5))
            * HOLDS
    }

    /// Foreign traffic in bytes per second, if known.
    pub fn foreign(&self) -> Option<i64> {
        self.took.map(|_| self.load.foreign())
    }

    /// Capacity of the narrow link in bytes per second, if known.
    pub fn capacity(&self) -> Option<u64> {
        self.capacity.get()
    }

    /// Duration of the first estimate, once there is one.
    pub const fn took(&self) -> Option<Duration> {
        self.took
    }
}

#[cfg(test)]
mod load_tests;
