//! The queue in a cloud, from the delay of small packets.
//!
//! Because only differences count, the two routers' clocks need not agree. The shortest delay of
//! the last 8 to 16 s, the *base*, is assumed to mean an empty queue. During this time, clocks may
//! drift: 100 ppm result in about 1 ms. Trains detect whether the path has become longer
//! ([`Doubt`]); the base is then computed again from the last packets. A router that
//! restarts may reset its clock, so that a packet has a sending time more than 1 s before that of
//! an earlier arrival. All samples are then discarded.

use pathmark_cc::{Duration, Instant};

/// Number of samples that are evaluated together.
const LOOKED_AT: usize = 5;
/// The shortest delay is remembered for one to two of these periods.
const REMEMBERED: Duration = Duration::from_secs(8);

/// The difference between the delays of consecutive packets is averaged with a weight of 1 /
/// `SCATTER_WEIGHT`.
const SCATTER_WEIGHT: u64 = 16;

/// A sending time that is this much before that of an earlier arrival shows that the sender has
/// reset its clock, ns. Reordering is shorter.
const CLOCK_BACK: u64 = 1_000_000_000;

/// The one-way delay of a packet.
#[derive(Clone, Copy, Debug)]
struct Sample {
    at: Instant,
    /// Measured by two clocks, so that only differences are meaningful. ns.
    delay: i64,
    own: u64,
}

/// A period in which the link was busy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Full {
    /// The bytes that it carried minus those that arrived, per second.
    pub(crate) drain: i64,
    /// Own traffic that arrived, bytes per second.
    pub(crate) own: i64,
    /// True if none of its packets belongs to the previous period.
    pub(crate) is_new: bool,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Delay {
    samples: [Option<Sample>; LOOKED_AT],
    count: u64,
    /// Shortest delays of the current period and the previous one.
    shortest: [Option<i64>; 2],
    since: Instant,
    /// Sending time of the last packet by its sender's clock, ns.
    sent: u64,
    /// Mean difference between the delays of consecutive packets, ns.
    scatter: u64,
}

impl Delay {
    pub(crate) fn on_probe(&mut self, now: Instant, sent: u64, own: u64) {
        if self.sent > sent.saturating_add(CLOCK_BACK) {
            *self = Self {
                since: now,
                ..Self::default()
            };
        }
        self.sent = sent;
        let delay = now.as_nanos().wrapping_sub(sent).cast_signed();
        if now - self.since >= REMEMBERED {
            self.shortest = [None, self.shortest[0]];
            self.since = now;
        }
        let [shortest, _] = &mut self.shortest;
        *shortest = Some(shortest.map_or(delay, |before| before.min(delay)));
        if let [.., Some(last)] = &self.samples {
            let differs = last.delay.abs_diff(delay);
            self.scatter = self.scatter - self.scatter / SCATTER_WEIGHT + differs / SCATTER_WEIGHT;
        }
        self.samples.rotate_left(1);
        if let Some(place) = self.samples.last_mut() {
            *place = Some(Sample {
                at: now,
                delay,
                own,
            });
        }
        self.count += 1;
    }

    /// Mean difference between the delays of consecutive packets, ns.
    pub(crate) const fn scatter(&self) -> u64 {
        self.scatter
    }

    /// Resets the base to the shortest of the last samples, because the path has become longer.
    pub(crate) fn reset_base(&mut self) {
        let samples = || self.samples.iter().flatten();
        self.shortest = [samples().map(|sample| sample.delay).min(), None];
        self.since = samples().last().map_or(self.since, |last| last.at);
    }

    fn base(&self) -> Option<i64> {
        self.shortest.iter().flatten().min().copied()
    }

    /// Minimum waiting time of the last packets, ns; 0 if it is within the noise.
    fn waits(&self, packets: usize, noise: u64) -> i64 {
        let Some(base) = self.base() else {
            return 0;
        };
        let samples = self.samples.iter().rev().take(packets).flatten();
        let least = samples
            .map(|sample| sample.delay.saturating_sub(base))
            .min();
        let noise = i64::try_from(noise).unwrap_or(i64::MAX);
        least.filter(|waits| *waits > noise).unwrap_or(0)
    }

    /// Minimum waiting time of the last packets, ns; `None` if a packet did not wait.
    pub(crate) fn waiting(&self, noise: u64) -> Option<u64> {
        let waits = self.waits(LOOKED_AT, noise);
        (waits > 0).then(|| waits.unsigned_abs())
    }

    /// Bytes that are queued without draining.
    pub(crate) fn queue(&self, capacity: u64, noise: u64) -> u64 {
        let waits = u128::from(self.waits(3, noise).unsigned_abs());
        u64::try_from(waits * u128::from(capacity) / 1_000_000_000).unwrap_or(0)
    }

    /// Returns whether the link was busy over the last packets, with its rates. If no packet has
    /// arrived since for as long as this period, it is too old.
    pub(crate) fn full(&self, now: Instant, capacity: u64, noise: u64) -> Option<Full> {
        let [Some(first), .., Some(last)] = self.samples else {
            return None;
        };
        let took = last.at - first.at;
        if self.waits(LOOKED_AT, noise) == 0 || now - last.at > took {
            return None;
        }
        let took = i128::try_from(took.as_nanos()).ok()?;
        if took == 0 {
            return None;
        }
        // An additional packet of delay is an additional packet in the queue.
        let grew = i128::from(last.delay) - i128::from(first.delay);
        let drain = -(i128::from(capacity) * grew / took);
        let own = i128::from(last.own.saturating_sub(first.own)) * 1_000_000_000 / took;
        Some(Full {
            drain: i64::try_from(drain).ok()?,
            own: i64::try_from(own).ok()?,
            is_new: self.count.is_multiple_of(LOOKED_AT as u64),
        })
    }
}

/// The unused rate that trains may find on a full link: the capacity divided by this number.
const ALLOWED: i128 = 16;
/// Maximum contribution of one train: the capacity divided by this number.
const MOST: i128 = 2;
/// A wait counts as unchanged if it differs by at most its value divided by this number, or by
/// at most `STANDS_TIME` ns.
const STANDS: u64 = 8;
const STANDS_TIME: u64 = 1_000_000;
/// The sum must reach the capacity divided by this number, plus `SURE_OFF` times the mean error
/// of a train.
const SURE: i128 = 4;
const SURE_OFF: i128 = 4;

/// The findings of a train that arrived while packets waited.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Found {
    /// Foreign traffic that it met, bytes per second.
    pub(crate) foreign: i64,
    /// Total bytes of own traffic.
    pub(crate) own: u64,
    /// Waiting time of packets, ns.
    pub(crate) waits: u64,
}

/// Decides whether packets take longer because they wait, or because the path became longer.
///
/// While packets always wait, the link is full, and it drains the queue at its unused rate. A train
/// also measures the unused rate, but independently of delays. If trains repeatedly find an unused
/// rate above the queue's drain rate, there cannot be a queue. Instead, the path became longer, or
/// a clock was set. Because single trains have errors of a fraction of the capacity, their excess
/// over an allowance is summed up. The sum must reach several times the error of one train (a CUSUM
/// test: Page, "Continuous inspection schemes", 1954). A queue that other traffic keeps full grows
/// and shrinks, and each such change resets the sum. Trains that lost packets do not count, because
/// foreign traffic lost packets as well.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Doubt {
    /// The previous train, if packets have waited since.
    before: Option<(Instant, Found)>,
    /// Waiting time of packets when the sum started, ns.
    first: u64,
    /// The sum, in bytes per second.
    sum: i128,
}

impl Doubt {
    /// Records a packet that did not wait.
    pub(crate) const fn clear(&mut self) {
        self.before = None;
        self.sum = 0;
    }

    /// Records the end of a train; `off` is the mean error of such trains in bytes per second.
    /// Returns true if there is no queue.
    pub(crate) fn on_train(&mut self, now: Instant, capacity: u64, off: u64, found: Found) -> bool {
        let before = self.before.replace((now, found));
        let stands = found.waits.abs_diff(self.first) <= (self.first / STANDS).max(STANDS_TIME);
        let Some((then, before)) = before.filter(|_| stands) else {
            self.first = found.waits;
            self.sum = 0;
            return false;
        };
        let Some(elapsed) = i128::try_from((now - then).as_nanos())
            .ok()
            .filter(|elapsed| *elapsed > 0)
        else {
            return false;
        };
        let capacity = i128::from(capacity);
        let own = i128::from(found.own.saturating_sub(before.own)) * 1_000_000_000 / elapsed;
        let drained = i128::from(before.waits) - i128::from(found.waits);
        let drains = capacity * drained / elapsed;
        let left = capacity - i128::from(found.foreign) - own;
        let more = (left - drains - capacity / ALLOWED).min(capacity / MOST);
        self.sum = (self.sum + more).max(0);
        let sure = self.sum >= capacity / SURE + SURE_OFF * i128::from(off);
        if sure {
            self.clear();
        }
        sure
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Five packets 20 ms apart wait longer and longer, so the link is full. This remains valid
    /// for another 80 ms without a packet.
    #[test]
    fn a_full_link_is_not_full_for_ever() {
        let mut delay = Delay::default();
        for packet in 0..6 {
            let sent = Instant::from_millis(1000 + 20 * packet);
            let waits = Duration::from_millis(if packet == 0 { 0 } else { 10 + packet });
            delay.on_probe(sent + waits, sent.as_nanos(), 0);
        }
        let last = Instant::from_millis(1000 + 100 + 15);
        let full = |after| delay.full(last + Duration::from_millis(after), 1_000_000, 1_000_000);
        assert!(full(0).is_some_and(|full| full.drain < 0));
        assert_eq!((full(80).is_some(), full(90)), (true, None));
    }

    const CAPACITY: u64 = 1_000_000;

    /// Sends trains every 400 ms, and returns after how many of at most a hundred it is sure.
    fn sure_after(off: u64, mut found: impl FnMut(u64) -> (i64, u64, u64)) -> Option<u64> {
        let mut doubt = Doubt::default();
        (0..100).find(|train| {
            let (foreign, own, waits) = found(*train);
            let found = Found {
                foreign,
                own,
                waits,
            };
            doubt.on_train(Instant::from_millis(400 * train), CAPACITY, off, found)
        })
    }

    /// Without foreign traffic, and with own traffic of half the capacity, packets take 3 ms
    /// longer: there is no queue. If trains find the other half used by foreign traffic, there
    /// is one, even if each train has an error of one half.
    #[test]
    fn trains_that_find_more() {
        let own = |train| 200_000 * train;
        let no_queue = sure_after(0, |train| (0, own(train), 3_000_000));
        assert_eq!(no_queue, Some(1));
        let sure = sure_after(0, |train| (500_000, own(train), 3_000_000));
        assert_eq!(sure, None);
        let off = |train: u64| {
            if train.is_multiple_of(2) {
                0
            } else {
                1_000_000
            }
        };
        let sure = sure_after(500_000, |train| (off(train), own(train), 3_000_000));
        assert_eq!(sure, None);
    }

    /// A queue of a second that drains at a quarter of the link's rate must be recognized as a
    /// queue.
    #[test]
    fn a_queue_that_drains() {
        let waits = |train: u64| 1_000_000_000u64.saturating_sub(100_000_000 * train);
        let drained = sure_after(0, |train| (250_000, 200_000 * train, waits(train).max(1)));
        assert!(drained.is_none_or(|train| train > 10), "{drained:?}");
    }
}
