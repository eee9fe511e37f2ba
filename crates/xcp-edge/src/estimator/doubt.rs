//! Decides whether packets take longer because they wait, or because the path became longer.
//!
//! While packets always wait, the link is full, and it drains the queue at its unused rate. A train
//! also measures the unused rate, but independently of delays. If trains repeatedly find an unused
//! rate above the queue's drain rate, there cannot be a queue. Instead, the path became longer, or
//! a clock was set. Because single trains have errors of a fraction of the capacity, their excess
//! over an allowance is summed up. The sum must reach several times the error of one train (a CUSUM
//! test: Page, "Continuous inspection schemes", 1954). A queue that other traffic keeps full grows
//! and shrinks, and each such change resets the sum. Trains that lost packets do not count, because
//! foreign traffic lost packets as well.

use pathmark_cc::Instant;

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
        assert_eq!(
            sure_after(0, |train| (500_000, own(train), 3_000_000)),
            None
        );
        let off = |train: u64| {
            if train.is_multiple_of(2) {
                0
            } else {
                1_000_000
            }
        };
        assert_eq!(
            sure_after(500_000, |train| (off(train), own(train), 3_000_000)),
            None
        );
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
