//! Whether packets take longer because they wait, or because the path became longer.
//!
//! While packets wait all the time the link is full: it drains the queue by what is left of it. A
//! train measures what is left without any regard to how long packets take. Where trains find more
//! left than the queue drains by, again and again, there is no queue: the path became longer, or a
//! clock was set. Single trains are off by a part of the capacity, so what they find is summed up,
//! less what they may, and the sum has to reach several times what one is off by (a CUSUM test:
//! Page, "Continuous inspection schemes", 1954). A queue that other traffic keeps full grows and
//! shrinks, and each such change resets the sum. Trains that lost packets do not count: foreign
//! traffic lost packets, too.

use pathmark_cc::Instant;

/// The part of the capacity that trains may find left in a full link, as a divisor.
const ALLOWED: i128 = 16;
/// One train counts for at most this part of the capacity, as a divisor.
const MOST: i128 = 2;
/// A wait counts as unchanged if it differs by at most this part, as a divisor, or by at most
/// `STANDS_TIME` ns.
const STANDS: u64 = 8;
const STANDS_TIME: u64 = 1_000_000;
/// The sum has to reach this part of the capacity, as a divisor, plus `SURE_OFF` times the mean
/// error of a train.
const SURE: i128 = 4;
const SURE_OFF: i128 = 4;

/// What a train found that came while packets waited.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Found {
    /// Foreign bytes per second that it met.
    pub(crate) foreign: i64,
    /// Bytes of its own traffic in all.
    pub(crate) own: u64,
    /// Time that packets wait, ns.
    pub(crate) waits: u64,
}

/// See the module.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Doubt {
    /// The train before, if packets have waited since.
    before: Option<(Instant, Found)>,
    /// Time that packets waited when the sum began, ns.
    first: u64,
    /// The sum, in bytes per second.
    sum: i128,
}

impl Doubt {
    /// A packet did not wait.
    pub(crate) const fn clear(&mut self) {
        self.before = None;
        self.sum = 0;
    }

    /// A train is over; `off` is the mean error of such trains in bytes per second. True if there
    /// is no queue.
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

    /// Trains every 400 ms; after how many it is sure, of a hundred.
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

    /// Nothing is foreign and its own traffic takes a half, but packets take 3 ms longer: there is
    /// no queue. Where trains find the rest foreign there is one, also if each is off by a half.
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

    /// A queue of a second that drains by a quarter of the link is a queue.
    #[test]
    fn a_queue_that_drains() {
        let waits = |train: u64| 1_000_000_000u64.saturating_sub(100_000_000 * train);
        let drained = sure_after(0, |train| (250_000, 200_000 * train, waits(train).max(1)));
        assert!(drained.is_none_or(|train| train > 10), "{drained:?}");
    }
}
