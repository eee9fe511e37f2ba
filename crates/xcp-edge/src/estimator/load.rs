//! The average foreign traffic that trains encountered.
//!
//! Between the arrivals of a train's first and last packet, the narrow link was always busy, and
//! carried C · (time between them) bytes of the train, of own traffic, and of foreign traffic.
//! The foreign bytes arrived at the link along with the train ([`arrivals`](super::arrivals)).
//!
//! Own traffic is the port's count of bytes from the upstream router. Packets that name this
//! router but took another path were not on the link. In this case foreign traffic becomes
//! negative by the same amount, but the unused rate, C minus foreign traffic minus own traffic,
//! is still correct.

use super::arrivals::Met;
use super::delay::Full;

/// A train has a weight of 1 / `WEIGHT` in the average.
const WEIGHT: i64 = 12;
/// The same for a period in which the link was full, which is much longer than a train.
const FULL_WEIGHT: i64 = 4;

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
}
