//! The capacity of the narrow link, from the fastest arrivals of each train.
//!
//! Foreign packets between the packets of a train reduce its rate, so most errors are downwards,
//! and the highest rate of several trains is closest to the truth. However, packets delivered in
//! one batch increase the rate, so the second highest rate is used. On a busy link, few rows of
//! packets pass undisturbed. Because underestimating its capacity would make the unused part look
//! larger, the highest rate is used until the two highest rates have been about the same.

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
}
