//! What a cloud leaves, from trains of packets that crossed it.
//!
//! Three things are measured:
//!
//! - **Capacity** C of the narrow link ([`capacity`]): packets that wait together in front of it
//!   leave it one after the other, so the shortest time that a few of them take to arrive is that
//!   of their bytes at C (packet pairs; here four packets in a row, more where times are coarse:
//!   [`arrivals`]).
//! - **Foreign traffic** X ([`load`]): a train sent at a little more than C keeps the link busy
//!   from its first packet to its last. What the link carried in between and was neither the train
//!   nor traffic that router k knows for its own came from others (trains that load the path
//!   themselves, as in pathload and pathChirp; with one train at the rate of the link instead of
//!   a search, as in Spruce: Strauss, Katabi, Kaashoek, "A measurement study of available bandwidth
//!   estimation tools", 2003).
//! - **Queue** ([`delay`]): the delay of small packets in between, less the shortest recent delay,
//!   gives the queue. While the queue never drains, the link is full. Its growth then gives what is
//!   available without any model, the link's rate less the arrival rate, and that also corrects X.
//!
//! Router k's own traffic through the cloud, known at no cost, is the part of the link's traffic
//! that is not foreign: this is the passive half of the estimate.
//!
//! Trains take [`LOAD_PPM`] of C over time, and 0.1 s of C for the first estimate. An estimate
//! holds for three times as long as it took.

mod arrivals;
mod capacity;
mod delay;
mod doubt;
mod load;
mod scattered;
mod turns;

use pathmark_cc::{CloudEstimate, Duration, Instant};

use crate::message::{LEAST_PROBE, MOST_PACKETS, Probe, Train};
use crate::requester::Ask;
use arrivals::{Arrivals, Arrived};
use capacity::Capacity;
use delay::Delay;
use doubt::{Doubt, Found};
use load::Load;
use scattered::Scattered;
use turns::Turns;

/// Headers of IPv4 and UDP, and what an IPv6 header has more.
const HEADERS: u64 = 28;
const MORE_V6: u64 = 20;
/// Part of the capacity that trains take over time, in 10^-6, and most that small packets take.
const LOAD_PPM: u64 = 8_000;
const DELAY_PPM: u64 = 2_000;
/// Trains for the first estimate, and the least number before there is one.
const FIRST_TRAINS: u32 = 8;
const TRAINS_FOR_ESTIMATE: u32 = 3;
/// Time that the first trains take on the link together: 5 % of 2 s.
const FIRST_SHARE_MS: u64 = 100;
/// Rate of a train, in 10^-6 of the capacity, so that a packet of it always waits at the link.
const FASTER_PPM: u64 = 1_050_000;
/// One train in this many is sent back to back; the second value holds while C is not known.
const CAPACITY_EVERY: u32 = 4;
const CAPACITY_EVERY_UNSURE: u32 = 2;
/// Least packets of a train, and those of one for the capacity.
const LEAST_PACKETS: u16 = 12;
const CAPACITY_PACKETS: u16 = 16;
/// Least time that the latter take on the link, ms, so that times may be coarse.
const CAPACITY_MS: u128 = 2;
/// The same while the capacity is not sure: more of them find a gap in the traffic of a busy link.
const CAPACITY_PACKETS_UNSURE: u16 = 32;
const CAPACITY_MS_UNSURE: u128 = 20;
/// Time between small packets, between the first trains and later.
const FIRST_DELAY_GAP: Duration = Duration::from_millis(10);
const DELAY_GAP: Duration = Duration::from_millis(20);
/// Least small packets that are asked for at once, most, and the longest time that they may take,
/// ns: no router sends a train for longer than twice that.
const LEAST_DELAYS: u64 = 4;
const MOST_DELAYS: u64 = 100;
const MOST_DELAY_SPAN: u64 = 2_000_000_000;
/// Own traffic of which more bytes are counted at once is counted in lumps: a header stands for
/// several packets.
const LUMP: u64 = 3000;
/// Foreign traffic below minus this part of the capacity, as a divisor, shows own traffic that came
/// another way.
const ELSEWHERE: u64 = 16;
/// Above this multiple of the capacity, the count of own traffic says little about foreign traffic.
const MOST_OWN: u64 = 4;
/// Times that differ from packet to packet hide no queue of more than this, ns.
const MOST_SCATTER: u64 = 2_000_000;
/// There is no estimate if they differ by more than the time of this many packets and by more than
/// `WILD` ns.
const WILD_PACKETS: u64 = 8;
const WILD: u64 = 3_000_000;
/// An estimate holds for this multiple of the time that it took.
const HOLDS: u32 = 3;

/// See the module.
#[derive(Clone, Debug)]
pub struct Estimator {
    /// UDP payload of trains' packets.
    packet: u16,
    /// Headers in front of it, bytes.
    headers: u64,
    /// When it began, and how long the first estimate took.
    began: Instant,
    took: Option<Duration>,
    arrivals: Arrivals,
    capacity: Capacity,
    load: Load,
    delay: Delay,
    doubt: Doubt,
    scattered: Scattered,
    /// By how much packets are read late, on average over some trains, ns.
    late: u64,
    /// Trains that were asked for, small packets excluded.
    asked: u32,
    /// Packets of the next train, which does not come before this.
    packets: u16,
    next_train: Instant,
    last_probe: Instant,
    /// Bytes of own traffic at the last estimate, and its time.
    own: (u64, Instant),
    /// The same when the last train ended.
    own_at_train: (u64, Instant),
    /// Least bytes of it that are counted at once, on average over some trains.
    lump: u64,
    /// The count of own traffic is more than `MOST_OWN` times the capacity.
    flooded: bool,
    turns: Turns,
}

impl Estimator {
    /// One that begins now, with trains of packets of `packet` bytes of UDP payload over IPv4.
    #[must_use]
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

    /// Trains come over IPv6.
    #[must_use]
    pub const fn over_ipv6(mut self) -> Self {
        self.headers = HEADERS + MORE_V6;
        self
    }

    /// The train that is asked for first: as fast as it can.
    #[must_use]
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

    /// A train is coming: what to ask for next.
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
        // The next train is asked for so early that it comes when this one ends. On a thin link it
        // is not time for it yet.
        let end = now + Duration::from_nanos(train.span());
        let due = end >= self.next_train;
        Ask {
            train: if due { self.next() } else { self.small() },
            at: now.max(end - rtt),
        }
    }

    /// Packets of the next train: fewer after one that was too much for a queue on the way.
    fn size(&mut self, lost: bool) {
        let each = u64::from(self.packet) + self.headers;
        let capacity = self.capacity.get().unwrap_or(0);
        let first = capacity * FIRST_SHARE_MS / 1000 / u64::from(FIRST_TRAINS + 2) / each;
        // A quarter of a second's part of the capacity.
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

    /// The next train.
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
                // Trains were too much for a queue on the way.
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

    /// Time that a train takes of what all of them may take together, once there were the first.
    fn pause(&self, train: &Train) -> Duration {
        if self.asked < FIRST_TRAINS {
            return Duration::ZERO;
        }
        let bytes = (u64::from(train.bytes) + self.headers) * u64::from(train.packets);
        let share = self.capacity.get().unwrap_or(0) * LOAD_PPM / 1_000_000;
        Duration::from_nanos(bytes * 1_000_000_000 / share.max(1))
    }

    /// The small packets until the next train may follow, or some of them.
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

    /// A packet of a train came, when `own` bytes had come through the cloud from that router that
    /// are its own traffic's.
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

    /// The last packet of a train came.
    fn finish(&mut self, now: Instant, own: u64) {
        let before = self.capacity.get();
        if let Some(rate) = self.arrivals.fastest() {
            self.capacity.note(rate);
            self.look_again(now, rate);
        }
        if let (Some(before), Some(now)) = (before, self.capacity.get())
            && before.abs_diff(now) > before / 8
        {
            // Trains on a busy link, or another link. A link that became faster and has no queue is
            // another one: what was foreign by the former capacity says nothing.
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
        // What came another way is not held up by the train.
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

    /// Lets the next train follow at once if this one's `rate` shows a faster link. With jitter,
    /// rates show nothing.
    fn look_again(&mut self, now: Instant, rate: u64) {
        if self.took.is_some()
            && !self.scattered.somewhat()
            && let Some(capacity) = self.capacity.get()
            && self.turns.on_rate(rate, capacity)
        {
            self.next_train = now;
        }
    }

    /// Bytes per second of its own traffic since the last train ended.
    fn own_rate(&mut self, now: Instant, own: u64) -> u64 {
        let (before, since) = core::mem::replace(&mut self.own_at_train, (own, now));
        let bytes = u128::from(own.saturating_sub(before)) * 1_000_000_000;
        let rate = bytes.checked_div((now - since).as_nanos()).unwrap_or(0);
        u64::try_from(rate).unwrap_or(u64::MAX)
    }

    /// Compares the foreign traffic of a whole train with the queue that the delay shows.
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

    /// A delay below this is no queue, ns: the time of two packets, what clocks and schedulers do,
    /// or where there is jitter three times what packets' times differ by from one to the next.
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

    /// Times are off by too much to tell anything: those of trains, or those of small packets, from
    /// one to the next by more than a queue changes by.
    fn is_jittery(&self, capacity: u64) -> bool {
        let packet = u64::from(self.packet) + self.headers;
        let packets = WILD_PACKETS * packet * 1_000_000_000 / capacity.max(1);
        self.scattered.is_so() || self.delay.scatter() > packets.max(WILD)
    }

    /// What the cloud leaves now, when `own` bytes have come that are its own traffic's. It is for
    /// the time since it was asked last. `None`: that is not known, or not any more.
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
            // What the link carries, less what comes.
            Some(full) => full.drain,
            // A link whose queue drains carries more than comes.
            None => left.clamp(0, all),
        };
        Some(CloudEstimate {
            available,
            capacity,
            queue: self.delay.queue(capacity, noise),
            valid_for: until - now,
        })
    }

    /// For how long an estimate holds: three times as long as it took, the first one, or the trains
    /// that follow on one another since.
    fn holds(&self, took: Duration, capacity: u64) -> Duration {
        let each = u64::from(self.packet) + self.headers;
        let share = (capacity * LOAD_PPM / 1_000_000).max(1);
        let between = each * u64::from(self.packets) * 1_000_000_000 / share;
        took.max(Duration::from_nanos(between))
            .min(Duration::from_secs(5))
            * HOLDS
    }

    /// Bytes per second that are neither its own traffic's nor free, as far as that is known.
    #[must_use]
    pub fn foreign(&self) -> Option<i64> {
        self.took.map(|_| self.load.foreign())
    }

    /// What the narrow link carries, bytes per second, as far as that is known.
    #[must_use]
    pub fn capacity(&self) -> Option<u64> {
        self.capacity.get()
    }

    /// How long the first estimate took, once there was one.
    #[must_use]
    pub const fn took(&self) -> Option<Duration> {
        self.took
    }
}

#[cfg(test)]
mod load_tests;
