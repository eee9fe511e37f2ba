//! What foreign traffic trains met, on average.
//!
//! Between the arrivals of a train's first packet and its last the narrow link, always busy,
//! carried C · (time between them) bytes: the train's, its own traffic's, and the rest. The rest
//! had arrived at the link while the train did ([`arrivals`](super::arrivals)).
//!
//! Its own traffic is what the port counts from the upstream router. What names that router and
//! came another way was not on the link: then the rest is less than nothing by as much, and what is
//! left, C less the rest and less its own traffic, is right all the same.

use super::arrivals::Met;
use super::delay::Full;

/// A train's part in the average.
const WEIGHT: i64 = 12;
/// The part of a time in which the link was full: it is measured over much longer than a train.
const FULL_WEIGHT: i64 = 4;

/// See the module.
#[derive(Clone, Debug, Default)]
pub(crate) struct Load {
    foreign: i64,
    /// By trains alone.
    trains: i64,
    /// By how much single trains are off that, on average.
    scatter: i64,
    samples: u32,
    /// What the last three trains met: one that was held up shows in none of their medians.
    last: [i64; 3],
}

impl Load {
    /// Resets the average; the next train is its first sample.
    pub(crate) const fn forget(&mut self) {
        self.samples = 0;
    }

    /// The capacity was taken for `before`, and is now. What is left of it stays the same until
    /// trains find something else, which counts for more then.
    pub(crate) fn recount(&mut self, before: u64, now: u64) {
        let bytes = |rate| i64::try_from(rate).unwrap_or(i64::MAX);
        let more = bytes(now).saturating_sub(bytes(before));
        let averages = [&mut self.foreign, &mut self.trains];
        for rate in self.last.iter_mut().chain(averages) {
            *rate = rate.saturating_add(more);
        }
        self.samples = self.samples.min(1);
    }

    /// A train is over. What it met, bytes per second; below 0 by the errors of times.
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

    /// By how much single trains are off on average, bytes per second.
    pub(crate) fn scatter(&self) -> u64 {
        self.scatter.unsigned_abs()
    }

    /// The link was not full when it seemed so.
    pub(crate) const fn was_not_full(&mut self) {
        self.foreign = self.trains;
    }

    /// The link was full for a while.
    pub(crate) fn correct(&mut self, capacity: u64, full: &Full) {
        let capacity = i64::try_from(capacity).unwrap_or(i64::MAX);
        let input = capacity.saturating_sub(full.drain);
        let foreign = input.saturating_sub(full.own);
        if full.is_new {
            self.foreign += (foreign - self.foreign) / FULL_WEIGHT;
        }
    }

    /// Bytes per second; below nothing by the errors of times, or as the module says.
    pub(crate) const fn foreign(&self) -> i64 {
        self.foreign
    }

    /// Trains that were counted.
    pub(crate) const fn samples(&self) -> u32 {
        self.samples
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: u64 = 3_750_000;

    /// A train of a millisecond that met `rate` bytes per second.
    fn met(rate: i64) -> Met {
        Met {
            span: 1_000_000,
            foreign: i128::from(rate) * 1_000_000,
        }
    }

    /// Busy trains make a link of 30 Mbit/s look like one of 19 and back. What is left of it stays,
    /// and one train that is far off afterwards changes little.
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
        // Two of three late trains count at once: the 40 trains before do not.
        load.finish(RATE, met(-2_000_000));
        assert!(load.foreign() <= -600_000, "{}", load.foreign());
    }
}
