//! The capacity of the narrow link, from the fastest arrivals of each train, and the foreign
//! traffic on it ([`Load`]).
//!
//! Foreign packets between the packets of a train reduce its rate, so most errors are downwards,
//! and the highest rate of several trains is closest to the truth. However, packets delivered in
//! one batch increase the rate, so the second highest rate is used. On a busy link, few rows of
//! packets pass undisturbed. Because underestimating its capacity would make the unused part look
//! larger, the highest rate is used until the two highest rates have been about the same. A train
//! that shows another capacity causes additional trains ([`Turns`]).

use super::arrivals::Met;
use super::delay::Full;

/// Number of trains that are remembered.
const KEPT: usize = 12;
/// Minimum number of trains for comparing the two highest rates.
const ENOUGH: usize = 4;
/// Number of trains after which the capacity counts as known even if the two highest rates
/// differ.
const MANY: usize = 8;
/// Rates are about the same if they differ by less than the higher one divided by this number.
const SAME: u64 = 8;
/// A rate above this multiple of the second highest belongs to packets delivered in one batch.
const BATCH: u64 = 3;

#[derive(Clone, Debug, Default)]
pub(crate) struct Capacity {
    rates: [u64; KEPT],
    next: usize,
    best: Option<u64>,
    is_sure: bool,
}

impl Capacity {
    /// Records the rate of a train's fastest packets, in bytes per second.
    pub(crate) fn note(&mut self, rate: u64) {
        if let Some(place) = self.rates.get_mut(self.next % KEPT) {
            *place = rate;
        }
        self.next += 1;
        let mut sorted = self.rates;
        sorted.sort_unstable_by(|a, b| b.cmp(a));
        let [highest, second, ..] = sorted;
        let same = self.next >= ENOUGH && highest - second <= highest / SAME;
        self.is_sure |= same || self.next >= MANY;
        let batch = self.next >= ENOUGH && highest > second.saturating_mul(BATCH);
        let best = if self.is_sure || batch {
            second
        } else {
            highest
        };
        self.best = Some(best).filter(|rate| *rate > 0);
    }

    /// Returns true once the two highest rates have been about the same, or `MANY` trains have
    /// arrived.
    pub(crate) const fn is_sure(&self) -> bool {
        self.is_sure
    }

    pub(crate) const fn get(&self) -> Option<u64> {
        self.best
    }
}

/// A train has a weight of 1 / `WEIGHT` in the average.
const WEIGHT: i64 = 12;
/// The same for a period in which the link was full, which is much longer than a train.
const FULL_WEIGHT: i64 = 4;

/// The average foreign traffic that trains encountered.
///
/// Between the arrivals of a train's first and last packet, the narrow link was always busy, and
/// carried C · (time between them) bytes of the train, of own traffic, and of foreign traffic.
/// The foreign bytes arrived at the link along with the train ([`arrivals`](super::arrivals)).
///
/// Own traffic is the port's count of bytes from the upstream router. Packets that name this
/// router but took another path were not on the link. In this case foreign traffic becomes
/// negative by the same amount, but the unused rate, C minus foreign traffic minus own traffic,
/// is still correct.
#[derive(Clone, Debug, Default)]
pub(crate) struct Load {
    foreign: i64,
    /// The average over trains only.
    trains: i64,
    /// Mean deviation of single trains from it.
    scatter: i64,
    samples: u32,
    /// Results of the last three trains. Their median is not affected by a single train that was
    /// held up.
    last: [i64; 3],
}

impl Load {
    /// Resets the average. The next train is its first sample.
    pub(crate) const fn forget(&mut self) {
        self.samples = 0;
    }

    /// Adjusts the average to a new estimate of the capacity. Its unused part stays the same
    /// until trains find another value, which then has more weight.
    pub(crate) fn recount(&mut self, before: u64, now: u64) {
        let bytes = |rate| i64::try_from(rate).unwrap_or(i64::MAX);
        let more = bytes(now).saturating_sub(bytes(before));
        let averages = [&mut self.foreign, &mut self.trains];
        for rate in self.last.iter_mut().chain(averages) {
            *rate = rate.saturating_add(more);
        }
        self.samples = self.samples.min(1);
    }

    /// Adds a train. Returns the traffic that it encountered, in bytes per second, which can be
    /// negative because of errors in times.
    pub(crate) fn finish(&mut self, capacity: u64, met: Met) -> i64 {
        let most = i64::try_from(capacity).unwrap_or(i64::MAX);
        let rate = met.foreign * 1_000_000_000 / i128::from(met.span.max(1));
        let rate = i64::try_from(rate).unwrap_or(0).min(2 * most);
        if self.samples == 0 {
            self.last = [rate; 3];
        }
        self.last = [self.last[1], self.last[2], rate];
        let mut sorted = self.last;
        sorted.sort_unstable();
        let [_, middle, _] = sorted;
        self.samples = self.samples.saturating_add(1);
        let off = i64::try_from(rate.abs_diff(self.trains)).unwrap_or(i64::MAX);
        let weight = i64::from(self.samples).min(WEIGHT);
        self.foreign += (middle - self.foreign) / weight;
        self.trains += (middle - self.trains) / weight;
        self.scatter += (off - self.scatter) / weight;
        rate
    }

    /// Mean deviation of single trains, bytes per second.
    pub(crate) fn scatter(&self) -> u64 {
        self.scatter.unsigned_abs()
    }

    /// Discards corrections, because the link was not really full.
    pub(crate) const fn was_not_full(&mut self) {
        self.foreign = self.trains;
    }

    /// Corrects the average by a period in which the link was full.
    pub(crate) fn correct(&mut self, capacity: u64, full: &Full) {
        let capacity = i64::try_from(capacity).unwrap_or(i64::MAX);
        let input = capacity.saturating_sub(full.drain);
        let foreign = input.saturating_sub(full.own);
        if full.is_new {
            self.foreign += (foreign - self.foreign) / FULL_WEIGHT;
        }
    }

    /// Foreign traffic in bytes per second, which can be negative because of errors in times, or as
    /// described in the module.
    pub(crate) const fn foreign(&self) -> i64 {
        self.foreign
    }

    pub(crate) const fn samples(&self) -> u32 {
        self.samples
    }
}

/// A rate shows another link if it exceeds the known rate by more than this rate divided by this
/// number. That is slightly more than half of the excess rate of trains.
const FASTER: u64 = 32;
/// An additional train costs the savings of this number of regular trains. Savings are limited to
/// two additional trains, because the second highest rate counts.
const COST: u32 = 8;
const MOST_SAVED: u32 = 2 * COST;

/// Additional trains, after a train has shown that the link changed.
///
/// A regular train is only sent slightly faster than the known capacity, and on a link that was
/// slow, seconds or minutes pass between two trains. Therefore, if a train arrives faster than the
/// known capacity, the next train follows immediately, as fast as possible. Regular trains save up
/// the cost of these additional trains.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Turns {
    /// True if the next train is an additional train.
    next: bool,
    saved: u32,
}

impl Default for Turns {
    fn default() -> Self {
        Self {
            next: false,
            saved: MOST_SAVED,
        }
    }
}

impl Turns {
    pub(crate) fn begin(&mut self) {
        if !core::mem::take(&mut self.next) {
            self.saved = (self.saved + 1).min(MOST_SAVED);
        }
    }

    /// Records that a train arrived at `rate`, on a link of known `capacity`, both in bytes per
    /// second. Returns true if the next train should follow immediately.
    pub(crate) fn on_rate(&mut self, rate: u64, capacity: u64) -> bool {
        if rate > capacity.saturating_add(capacity / FASTER) && self.saved >= COST {
            self.saved -= COST;
            self.next = true;
            return true;
        }
        false
    }

    /// Returns true if the next train is an additional train.
    pub(crate) const fn is_next(&self) -> bool {
        self.next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_highest_of_the_latest() {
        let mut capacity = Capacity::default();
        assert_eq!(capacity.get(), None);
        for (rate, best) in [(90, 90), (100, 100), (95, 100), (1000, 100), (97, 100)] {
            capacity.note(rate);
            assert_eq!(capacity.get(), Some(best));
        }
        // If a link becomes slower, this becomes visible once the older trains are forgotten.
        for _ in 0..12 {
            capacity.note(50);
        }
        assert_eq!((capacity.get(), capacity.is_sure()), (Some(50), true));
    }

    /// Three of four trains encountered foreign packets in between.
    #[test]
    fn one_high_rate_is_not_sure() {
        let mut capacity = Capacity::default();
        for (rate, sure) in [
            (50, false),
            (50, false),
            (48, false),
            (100, false),
            (52, false),
        ] {
            capacity.note(rate);
            assert_eq!(capacity.is_sure(), sure, "{rate}");
        }
        capacity.note(95);
        assert!(capacity.is_sure());
    }

    const RATE: u64 = 3_750_000;

    /// A train of a millisecond that met `rate` bytes per second.
    fn met(rate: i64) -> Met {
        Met {
            span: 1_000_000,
            foreign: i128::from(rate) * 1_000_000,
        }
    }

    /// Busy trains make a link of 30 Mbit/s look like one of 19, and back. The unused rate must
    /// stay the same, and a single outlier afterwards must have little effect.
    #[test]
    fn a_capacity_that_was_misread_leaves_what_is_left() {
        let mut load = Load::default();
        for _ in 0..40 {
            load.finish(RATE, met(0));
        }
        let less = RATE * 19 / 30;
        load.recount(RATE, less);
        assert_eq!(less.cast_signed() - load.foreign(), RATE.cast_signed());
        load.recount(less, RATE);
        assert_eq!(load.foreign(), 0);
        load.finish(RATE, met(-2_000_000));
        assert_eq!(load.foreign(), 0);
        // Two of three late trains count immediately, despite 40 earlier ones.
        load.finish(RATE, met(-2_000_000));
        assert!(load.foreign() <= -600_000, "{}", load.foreign());
    }

    #[test]
    fn rates_that_are_known_ask_for_none() {
        let mut turns = Turns::default();
        assert!(!turns.on_rate(3300, 3200) && !turns.is_next());
        assert!(turns.on_rate(3301, 3200) && turns.is_next());
        turns.begin();
        assert!(!turns.is_next(), "once");
    }

    /// If every train seems fast, two additional trains are sent at first, then one after eight
    /// regular ones.
    #[test]
    fn always_faster() {
        let mut turns = Turns::default();
        let mut extra = Vec::new();
        for train in 0..100 {
            if turns.is_next() {
                extra.push(train);
            }
            turns.begin();
            let _ = turns.on_rate(u64::MAX, 1000);
        }
        assert_eq!(extra[..4], [1, 2, 11, 20]);
        assert!(extra.len() <= 2 + 100 / 9, "{extra:?}");
    }
}
