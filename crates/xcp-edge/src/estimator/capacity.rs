//! What the narrow link carries, from the fastest arrivals of each train.
//!
//! Foreign packets between those of a train make it slower, so most errors are downwards, and the
//! highest of several trains is nearest. Packets that are delivered in one go make it faster, so it
//! is the second highest. A busy link lets few rows of packets through undisturbed, and one that
//! seems slower than it is seems to have more left: so it is the highest until the two highest have
//! been about the same.

/// Trains that are remembered.
const KEPT: usize = 12;
/// Least trains for the two highest rates to be compared.
const ENOUGH: usize = 4;
/// Trains after which the capacity counts as known even if the two highest rates differ.
const MANY: usize = 8;
/// Rates that differ by less than this part, as a divisor, are about the same.
const SAME: u64 = 8;
/// A rate above this multiple of the second highest is that of packets delivered in one batch.
const BATCH: u64 = 3;

/// See the module.
#[derive(Clone, Debug, Default)]
pub(crate) struct Capacity {
    rates: [u64; KEPT],
    next: usize,
    best: Option<u64>,
    is_sure: bool,
}

impl Capacity {
    /// A train's fastest packets came at this rate, bytes per second.
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

    /// The two highest rates have been about the same, or `MANY` trains have arrived.
    pub(crate) const fn is_sure(&self) -> bool {
        self.is_sure
    }

    /// Bytes per second.
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
        // A link that became slower is found once the others are forgotten.
        for _ in 0..12 {
            capacity.note(50);
        }
        assert_eq!((capacity.get(), capacity.is_sure()), (Some(50), true));
    }

    /// Three trains of four met foreign packets in between.
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
