//! Flows that go on with more than their fair share while the queue of feedback overflows.
//!
//! A shim in front of a packet does not show whether its sender obeys. Flows that obey leave the
//! queue of feedback short, so no flow is judged while it is. Where it overflows for
//! longer than obeying takes to show, and some flow there has less than half of a fair share, those
//! that go on with more than the max-min fair share (by the bytes that arrive, as in approximate
//! fair dropping; Pan, Breslau, Prabhakar and Shenker, ACM CCR 2003) are unresponsive (RFC 7567,
//! section 4.4) and are set aside: their packets are plain traffic, get no answers, do not count in
//! the law's load, and share the part of the link that no other flow uses. After a while they come
//! back, unless they still send more than what passes; the time doubles.
//!
//! Flows that were seen in few epochs only are judged together, as one flow, which includes senders
//! that change ports.

mod bucket;
mod judge;
mod record;

use pathmark_cc::{Duration, Instant};

use super::{Flows, Place, WAYS};
use bucket::Bucket;
pub(super) use judge::fair_share;
use record::Record;

/// How many of the law's intervals, each and what a full queue adds to a round trip, obeying takes
/// to show, and the least and most time for it.
const REACTION_INTERVALS: u32 = 8;
const LEAST_REACTION: Duration = Duration::from_millis(4_800);
const MOST_REACTION: Duration = Duration::from_secs(16);
/// Least and most epochs of it.
const LEAST_EPOCHS: u64 = 4;
const MOST_EPOCHS: u64 = 100;
/// The largest capacity of the last four to eight seconds counts, of those in which the port sent.
const CAPACITY_NANOS: u64 = 4_000_000_000;
/// The least part of the link that flows aside have: 1/33.
const LEAST_PART_OF_RATE: u64 = 33;
/// The part of what is left that flows aside leave, too.
const LEFT_UNUSED: u64 = 16;

/// Records of the flows that are suspected or set aside, and the port's state that they are judged
/// by.
#[derive(Debug)]
pub(crate) struct Watch {
    records: Box<[[Record; WAYS]]>,
    newcomers: Record,
    /// A flow is set aside.
    acting: bool,
    /// A flow has a record.
    busy: bool,
    /// The largest capacity, in bytes per second, of the running and the last stretch of time.
    capacity: [u64; 2],
    since: Instant,
    /// The law's least interval of the same stretches, while no flow was suspected, and how long a
    /// full queue takes to drain.
    interval: [Duration; 2],
    queueing: Duration,
    /// A round trip of those that obey, with a full queue, and how long obeying takes to show.
    round_trip: Duration,
    reaction: Duration,
    /// A flow seen in fewer epochs, as [`Flows::epochs`] counts them, is a newcomer.
    new_until: u8,
    /// Epochs judged.
    epochs: u32,
    bucket: Bucket,
    /// Flows were set aside that the law does not know of.
    fresh: bool,
    /// Flows, and times that newcomers were, set aside so far.
    times: u64,
}

/// The port's state at a look.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Look {
    /// What the law reckons with, and what flows aside may have, in bytes per second.
    pub(crate) capacity: u64,
    pub(crate) left: u64,
    /// The port's rate.
    pub(crate) rate: u64,
    /// Bytes that the queue of feedback has room for.
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

    /// True if a flow is set aside, so that packets must be matched to flows.
    #[inline]
    pub(super) const fn acts(&self) -> bool {
        self.acting
    }

    /// The law's interval: the time in which flows can obey. The least of some seconds counts, and
    /// none while a flow is suspected, for it depends on what flows declare.
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

    /// How many flows, and how often newcomers, were set aside.
    pub(crate) const fn times(&self) -> u64 {
        self.times
    }

    /// True, once, if flows were set aside that were not before.
    pub(crate) const fn has_set_aside(&mut self) -> bool {
        core::mem::replace(&mut self.fresh, false)
    }

    /// Takes down the port's state, some times per epoch.
    pub(crate) fn look(&mut self, now: Instant, look: Look) {
        if look.rate == 0 {
            // An outage says nothing about flows, and takes no time.
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
            // A little less than is left, so that no queue stands.
            let left = look.left - look.left / LEFT_UNUSED;
            self.bucket.rate = left.max(look.rate / LEAST_PART_OF_RATE);
        }
    }

    /// True if `bytes` of a flow that is aside may pass, where the queue has room for them or
    /// (`fits`) has not.
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

    /// A place is another flow's.
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

    /// A round trip of those that obey, with a full queue, in ns.
    pub(super) fn round_trip_nanos(&self) -> u64 {
        u64::try_from(self.round_trip.as_nanos()).unwrap_or(u64::MAX)
    }

    /// True if something is held against the flow at a place.
    pub(super) fn remembers(&self, set: usize, way: usize) -> bool {
        let record = self.records.get(set).and_then(|set| set.get(way));
        self.busy && record.is_some_and(|record| record.strikes > 0)
    }

    /// True if the flow at a place is set aside; `epochs` is its count by [`Flows::epochs`].
    pub(super) fn is_aside(&self, set: usize, way: usize, epochs: u8) -> bool {
        if !self.acting {
            return false;
        }
        let record = self.records.get(set).and_then(|set| set.get(way));
        record.is_some_and(|record| record.aside > 0)
            || (self.newcomers.aside > 0 && epochs < self.new_until)
    }

    /// Epochs of `nanos` that obeying takes to show.
    fn reaction_epochs(&self, nanos: u64) -> u64 {
        let reaction = u64::try_from(self.reaction.as_nanos()).unwrap_or(u64::MAX);
        reaction
            .div_ceil(nanos.max(1))
            .clamp(LEAST_EPOCHS, MOST_EPOCHS)
    }
}

impl Flows {
    /// True if a flow is aside: it at this place, or with all newcomers.
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
