//! Detects flows that continue to exceed their fair share while the queue of feedback overflows,
//! or although their answers tell them to slow down.
//!
//! A shim in front of a packet does not prove that its sender obeys. Because responsive flows keep
//! the queue of feedback short, no flow is judged while this queue is short. If it overflows for
//! longer than responsive flows need to react, while some flow there gets less than half of a fair
//! share, flows that still exceed the max-min fair share are unresponsive (RFC 7567, section 4.4)
//! and are set aside. (Shares are measured by arriving bytes, as in approximate fair dropping; Pan,
//! Breslau, Prabhakar and Shenker, ACM CCR 2003.) Packets of these flows are treated as foreign:
//! they get no answers, do not count in the law's load, and share the part of the link that no
//! other flow uses. They can return after a time that doubles each time, unless they still send
//! more than can pass.
//!
//! No queue overflows while responsive flows yield to one that does not respond. Therefore, the
//! changes of rate that an XCP port tells a flow are added up, too: a flow that should have given
//! up twice its rate, but still exceeds the mean while some flow gets less than half the mean, is
//! set aside as well.
//!
//! Because senders can change ports, flows seen in only a few epochs are judged together as one
//! flow.

mod judge;

use pathmark_cc::{Arrival, Duration, Instant, RateChange};

use super::{Flows, Place, WAYS};
pub(super) use judge::fair_share;

/// Number of the law's intervals, each extended by the delay of a full queue, that responsive
/// flows need to react, with lower and upper bounds of this time.
const REACTION_INTERVALS: u32 = 8;
const LEAST_REACTION: Duration = Duration::from_millis(4_800);
const MOST_REACTION: Duration = Duration::from_secs(16);
/// Lower and upper bounds of the same time in epochs.
const LEAST_EPOCHS: u64 = 4;
const MOST_EPOCHS: u64 = 100;
/// The largest capacity of the last four to eight seconds counts, excluding outages.
const CAPACITY_NANOS: u64 = 4_000_000_000;
/// The minimum part of the link for flows that are set aside: 1/33.
const LEAST_PART_OF_RATE: u64 = 33;
/// The fraction of the unused rate that flows set aside must also leave unused.
const LEFT_UNUSED: u64 = 16;

/// Records of suspected flows and of those set aside, and the state of the port for judging
/// them.
#[derive(Debug)]
pub(crate) struct Watch {
    records: Box<[[Record; WAYS]]>,
    newcomers: Record,
    /// True if a flow is set aside.
    acting: bool,
    /// True if a flow has a record, or defies its answers.
    busy: bool,
    /// The largest capacity, in bytes per second, in the current period and the last one.
    capacity: [u64; 2],
    since: Instant,
    /// The law's smallest interval in the same periods while no flow was suspected, and the time
    /// to drain a full queue.
    interval: [Duration; 2],
    queueing: Duration,
    /// A round trip of responsive flows with a full queue, and the time that they need to react.
    round_trip: Duration,
    reaction: Duration,
    /// Flows seen in fewer epochs, as counted in [`Flows::epochs`], are newcomers.
    new_until: u8,
    /// Number of epochs judged.
    epochs: u32,
    bucket: Bucket,
    /// True if flows were set aside that the law has not been notified of.
    fresh: bool,
    /// Number of flows set aside so far, plus the number of times that newcomers were.
    times: u64,
}

/// The port's state at the time of a look.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Look {
    /// The law's capacity, and the part left to flows that are set aside, in bytes per second.
    pub(crate) capacity: u64,
    pub(crate) left: u64,
    /// The port's rate.
    pub(crate) rate: u64,
    /// Room of the feedback queue in bytes.
    pub(crate) room: u64,
}

impl Watch {
    pub(super) fn new(sets: usize) -> Self {
        Self {
            records: vec![[Record::default(); WAYS]; sets].into_boxed_slice(),
            newcomers: Record::default(),
            acting: false,
            busy: false,
            capacity: [0; 2],
            since: Instant::ZERO,
            interval: [MOST_REACTION; 2],
            queueing: Duration::ZERO,
            round_trip: MOST_REACTION,
            reaction: LEAST_REACTION,
            new_until: 0,
            epochs: 0,
            bucket: Bucket::default(),
            fresh: false,
            times: 0,
        }
    }

    /// Whether any flow is set aside, so that packets must be matched to flows.
    pub(super) const fn acts(&self) -> bool {
        self.acting
    }

    /// Sets the law's interval, in which flows can react. The minimum over several seconds
    /// counts. Because the interval depends on values that flows declare, it is ignored while a
    /// flow is suspected.
    pub(crate) fn set_interval(&mut self, interval: Duration) {
        if !self.busy {
            self.interval[0] = self.interval[0].min(interval);
        }
        let [running, before] = self.interval;
        self.round_trip = running.min(before).saturating_add(self.queueing);
        self.reaction = self
            .round_trip
            .saturating_mul(REACTION_INTERVALS)
            .clamp(LEAST_REACTION, MOST_REACTION);
    }

    /// Number of flows set aside, plus the number of times that newcomers were.
    pub(crate) const fn times(&self) -> u64 {
        self.times
    }

    /// Returns true once after further flows were set aside.
    pub(crate) const fn has_set_aside(&mut self) -> bool {
        core::mem::replace(&mut self.fresh, false)
    }

    /// Records the port's state, several times per epoch.
    pub(crate) fn look(&mut self, now: Instant, look: Look) {
        if look.rate == 0 {
            // Flows cannot be judged by an outage, so this time does not count.
            self.since = now;
            return;
        }
        let queueing = u128::from(look.room) * 1_000_000_000 / u128::from(look.capacity.max(1));
        self.queueing = Duration::from_nanos(u64::try_from(queueing).unwrap_or(u64::MAX));
        if now.as_nanos().saturating_sub(self.since.as_nanos()) >= CAPACITY_NANOS {
            self.since = now;
            self.capacity = [0, self.capacity[0]];
            if !self.busy {
                self.interval = [MOST_REACTION, self.interval[0]];
            }
        }
        self.capacity[0] = self.capacity[0].max(look.capacity);
        if self.acting {
            self.bucket.refill(now);
            // Slightly less than the unused rate, so that no standing queue builds up.
            let left = look.left - look.left / LEFT_UNUSED;
            self.bucket.rate = left.max(look.rate / LEAST_PART_OF_RATE);
        }
    }

    /// Whether `bytes` of a flow that is set aside may pass. They also need room in the queue
    /// (`fits`).
    #[cold]
    pub(crate) fn passes(&mut self, now: Instant, bytes: u32, fits: bool) -> bool {
        self.bucket.refill(now);
        self.bucket.came = self.bucket.came.saturating_add(bytes.into());
        let left = self.bucket.bytes.checked_sub(u64::from(bytes));
        let left = left.filter(|_| fits);
        if let Some(left) = left {
            self.bucket.bytes = left;
        }
        left.is_some()
    }

    /// Clears the record of a place that another flow gets.
    pub(super) fn forget(&mut self, place: Place) {
        if let Some(record) = self.record(place) {
            *record = Record::default();
        }
    }

    /// Clears all records.
    pub(super) fn forget_all(&mut self) {
        self.records.fill([Record::default(); WAYS]);
        self.newcomers = Record::default();
        (self.acting, self.busy) = (false, false);
    }

    fn record(&mut self, place: Place) -> Option<&mut Record> {
        self.records.get_mut(place.set)?.get_mut(place.way)
    }

    /// A round trip of responsive flows with a full queue, in ns.
    pub(super) fn round_trip_nanos(&self) -> u64 {
        u64::try_from(self.round_trip.as_nanos()).unwrap_or(u64::MAX)
    }

    /// Whether the flow at this place was set aside before, and this has not been forgiven.
    pub(super) fn remembers(&self, set: usize, way: usize) -> bool {
        let record = self.records.get(set).and_then(|set| set.get(way));
        self.busy && record.is_some_and(|record| record.strikes > 0)
    }

    /// Whether the flow at this place is set aside; `epochs` is its count in [`Flows::epochs`].
    pub(super) fn is_aside(&self, set: usize, way: usize, epochs: u8) -> bool {
        if !self.acting {
            return false;
        }
        let record = self.records.get(set).and_then(|set| set.get(way));
        record.is_some_and(|record| record.aside > 0)
            || (self.newcomers.aside > 0 && epochs < self.new_until)
    }

    /// Compares an epoch's answers with the change of a flow's bytes per epoch.
    pub(super) fn compare(&mut self, place: Place, bytes: u32, nanos: u64) {
        let defies = self
            .record(place)
            .is_some_and(|record| record.compare(bytes, nanos));
        self.busy |= defies;
    }

    /// Number of epochs of `nanos` that responsive flows need to react.
    fn reaction_epochs(&self, nanos: u64) -> u64 {
        let reaction = u64::try_from(self.reaction.as_nanos()).unwrap_or(u64::MAX);
        reaction
            .div_ceil(nanos.max(1))
            .clamp(LEAST_EPOCHS, MOST_EPOCHS)
    }
}

impl Flows {
    /// Records the change of rate that an answer allows a flow.
    pub(in super::super) fn on_answer(&mut self, arrival: &Arrival, change: RateChange) {
        let place = self.find(arrival.flow_hash);
        if let Some(record) = place.and_then(|place| self.watch.record(place)) {
            record.on_answer(arrival.bytes, change);
        }
    }

    /// Whether a flow is set aside, either at its place or together with all newcomers.
    #[cold]
    pub(super) fn is_aside(&self, place: Option<Place>) -> bool {
        let Some(Place { set, way }) = place else {
            return self.watch.newcomers.aside > 0;
        };
        let epochs = self.epochs.get(set).and_then(|set| set.get(way).copied());
        self.watch.is_aside(set, way, epochs.unwrap_or(0))
    }
}

#[cfg(test)]
#[path = "unresponsive_tests.rs"]
mod tests;

/// The burst: the bytes of 50 ms, but at least a super-packet of `LEAST_BUCKET` bytes.
const BUCKET_NANOS: u64 = 50_000_000;
const LEAST_BUCKET: u64 = 1 << 16;

/// The bucket that all flows set aside share.
#[derive(Clone, Copy, Debug, Default)]
struct Bucket {
    bytes: u64,
    /// Bytes per second.
    rate: u64,
    since: Instant,
    /// Bytes that passed or could have passed in the current epoch.
    brought: u64,
    /// Bytes that arrived in this epoch.
    came: u64,
}

impl Bucket {
    fn refill(&mut self, now: Instant) {
        let nanos = now.as_nanos().saturating_sub(self.since.as_nanos());
        let brought = u128::from(self.rate) * u128::from(nanos.min(1 << 32)) / 1_000_000_000;
        let brought = u64::try_from(brought).unwrap_or(u64::MAX);
        if brought > 0 {
            self.since = now;
            self.brought = self.brought.saturating_add(brought);
            let most = self.rate / (1_000_000_000 / BUCKET_NANOS);
            self.bytes = self
                .bytes
                .saturating_add(brought)
                .min(most.max(LEAST_BUCKET));
        }
    }
}

/// A flow with one strike is set aside after half of the time, with more strikes after a
/// quarter.
const LEAST_PART: u8 = 2;
/// Number of epochs for which a flow is first set aside, and the maximum number of doublings:
/// from 2 to 64 s.
const FIRST_ASIDE: u16 = 10;
const MOST_STRIKES: u8 = 5;
/// This part of a flow's unmet reductions is forgiven per epoch, so that small differences, for
/// example because of lost answers, do not add up.
const FADES: u32 = 256;
/// Flows that obey were told to give up as much as their rate while a round trip passed.
const DEFIANT: u32 = 2;
/// A flow with at most this number of packets per round trip is not judged by its answers. Senders
/// use windows of whole packets, at least two, so they can't follow small changes there.
const LEAST_PACKETS: u128 = 4;
/// A flow that is set aside returns if its points are below this value.
const PERSISTS: u8 = 6;

/// A flow's record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Record {
    /// Points for epochs above its share: two or more up, one down.
    over: u8,
    /// Number of times that it was set aside, minus forgiven ones.
    strikes: u8,
    /// Remaining epochs for which it is set aside.
    aside: u16,
    /// The sum of this epoch's answers, in bytes per second.
    told: i32,
    /// Bytes in the previous epoch.
    last: u32,
    /// Bytes of the last packet with an answer, and the round trip that it stated, in µs.
    packet: u32,
    rtt_us: u32,
    /// By how much the flow should have slowed down but did not, in bytes per epoch.
    unmet: u32,
}

impl Record {
    fn on_answer(&mut self, packet: u32, change: RateChange) {
        let delta = (change.delta >> 16).clamp(i32::MIN.into(), i32::MAX.into());
        self.told = self.told.saturating_add(delta as i32);
        (self.packet, self.rtt_us) = (packet, change.rtt_us);
    }

    /// Compares an epoch's answers with the change of the flow's bytes per epoch. Returns true if
    /// the flow defies them. Rises are no concern, because requests at the start allow them, too.
    fn compare(&mut self, bytes: u32, nanos: u64) -> bool {
        let told = i128::from(core::mem::take(&mut self.told)) * i128::from(nanos) / 1_000_000_000;
        let fell = core::mem::replace(&mut self.last, bytes).saturating_sub(bytes);
        let in_round_trip = u128::from(bytes) * u128::from(self.rtt_us) * 1_000;
        let least = u128::from(self.packet) * LEAST_PACKETS * u128::from(nanos);
        if self.rtt_us > 0 && in_round_trip <= least {
            self.unmet = 0;
            return false;
        }
        let unmet = i128::from(self.unmet - self.unmet / FADES) - told - i128::from(fell);
        self.unmet = unmet.clamp(0, u32::MAX.into()) as u32;
        self.defies(bytes)
    }

    /// Returns true if answers told the flow to give up `DEFIANT` times its rate, `bytes` per
    /// epoch, in vain.
    const fn defies(&self, bytes: u32) -> bool {
        self.unmet / DEFIANT > bytes
    }

    /// Ends an epoch, with `over` points if it was above the share and 0 otherwise. Returns true
    /// if the flow reaches `limit` and is now set aside.
    fn turn(&mut self, over: u8, limit: u8) -> bool {
        self.over = match over {
            0 => self.over.saturating_sub(1),
            _ => self.over.saturating_add(over),
        };
        if self.aside == 0 {
            let limit = limit >> self.strikes.min(LEAST_PART);
            let set_aside = self.over >= limit.max(PERSISTS);
            if set_aside {
                self.set_aside();
            }
            return set_aside;
        }
        self.aside -= 1;
        if self.aside == 0 && self.over >= PERSISTS {
            self.set_aside();
        } else if self.aside == 0 {
            self.over = 0;
        }
        false
    }

    const fn set_aside(&mut self) {
        self.over = 0;
        self.aside = FIRST_ASIDE << self.strikes;
        if self.strikes < MOST_STRIKES {
            self.strikes += 1;
        }
    }

    fn forgive(&mut self) {
        if self.aside == 0 && self.over == 0 {
            self.strikes = self.strikes.saturating_sub(1);
        }
    }

    const fn is_clean(&self) -> bool {
        self.over == 0 && self.strikes == 0 && self.aside == 0
    }
}
