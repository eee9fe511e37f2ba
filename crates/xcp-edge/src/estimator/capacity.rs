//! What the narrow link carries, from the fastest arrivals of each train.
//!
//! Foreign packets between those of a train make it slower, so most errors are downwards, and the
//! highest of several trains is nearest. Packets that are delivered in one go make it faster, so it
//! is the second highest.

/// Trains that are remembered.
const KEPT: usize = 12;
/// From so many on, the second highest counts.
const ENOUGH: usize = 4;

/// See the module.
#[derive(Clone, Debug, Default)]
pub(crate) struct Capacity {
    rates: [u64; KEPT],
    next: usize,
    best: Option<u64>,
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
        let place = usize::from(self.next >= ENOUGH);
        self.best = sorted.get(place).copied().filter(|rate| *rate > 0);
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
        assert_eq!(capacity.get(), Some(50));
    }
}
