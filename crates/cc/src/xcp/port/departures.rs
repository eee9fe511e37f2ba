//! Compensates for the rate that flows take with them when they end.
//!
//! α·(C − y) gives the free capacity to flows. If short flows start and end all the time, however,
//! the rate of those that end is missing again an interval later. Positive feedback then never
//! fills the link, so flows pile up and each gets little. Therefore the port compares the arrivals
//! with the rates given to flows, and gives the mean difference in addition, as far as there is
//! room.

use super::newcomers::YOUNG_INTERVALS;
use crate::base::ablate::{Mechanism, without};

/// Each interval moves the mean by this part of the difference.
const PART: i128 = 4;
/// Limits the effect of one interval to this part of the capacity.
const MOST: i128 = 4;
/// Grants leave this part of the capacity free.
const FREE: i128 = 50;

/// Number of intervals after a start in which nothing is added, because flows that started together
/// are all young, and none has ended.
const WAIT: u32 = YOUNG_INTERVALS;

/// The mean missing rate over intervals; rates in 2^-16 bytes per second.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DepartureCompensation {
    mean: i128,
    /// The input of the current interval if no flow ends.
    expected: Option<i128>,
    /// Total given minus total taken at the end of the last interval.
    net: i128,
    wait: u32,
}

impl DepartureCompensation {
    /// Starts with new traffic; `net` is the total given minus the total taken before.
    pub(crate) const fn new(net: i128) -> Self {
        Self {
            mean: 0,
            expected: None,
            net,
            wait: WAIT,
        }
    }

    /// Ends an interval with `input` at a port of `capacity`, with `net` given minus taken so far.
    pub(crate) fn on_interval(&mut self, input: u64, capacity: u64, net: i128, total: i64) -> i64 {
        let (input, capacity) = (i128::from(input), i128::from(capacity));
        let given = net - core::mem::replace(&mut self.net, net);
        let most = capacity / MOST;
        if let Some(expected) = self.expected.replace(input + given) {
            let missing = (expected - input).clamp(-most, most);
            self.mean += (missing - self.mean) / PART;
        }
        self.wait = self.wait.saturating_sub(1);
        if total < 0 || self.wait > 0 {
            return 0;
        }
        // The additional grant adds to the grants of this interval, minus the flows that end.
        let room = capacity - capacity / FREE - input - given + self.mean - i128::from(total);
        match i64::try_from(self.mean.min(room)).unwrap_or(0) {
            more if more > 0 && !without(Mechanism::Departures) => more,
            _ => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CAPACITY: u64 = 1_000_000;

    /// Simulates a port that gives 0.4 of the free capacity, plus the compensation if `helped`, for
    /// `intervals`. The rate given in one interval arrives in the next, minus `ends`. Returns the
    /// final input and whether something was added.
    fn run(intervals: u32, ends: i64, helped: bool) -> (i64, bool) {
        let mut leaving = DepartureCompensation::new(0);
        let (mut input, mut net, mut coming, mut added) = (500_000_i64, 0_i128, 0, false);
        for _ in 0..intervals {
            let total = (1_000_000 - input) * 2 / 5;
            let more = leaving.on_interval(input.unsigned_abs(), CAPACITY, net, total);
            added |= more > 0;
            let given = if helped { total + more } else { total };
            net += i128::from(given);
            input += coming - ends;
            coming = given;
        }
        (input, added)
    }

    #[test]
    fn what_ends_is_given_anew() {
        let (input, _) = run(100, 100_000, false);
        assert!((749_990..=750_010).contains(&input), "{input}");
        let (input, _) = run(100, 100_000, true);
        assert!((860_000..=990_000).contains(&input), "{input}");
    }

    #[test]
    fn where_nobody_ends_nothing_is_added() {
        assert_eq!(run(100, 0, true), (1_000_000, false));
    }

    #[test]
    fn never_more_than_there_is_room_for() {
        let mut leaving = DepartureCompensation::new(0);
        let _ = leaving.on_interval(900_000, CAPACITY, 0, 0);
        for _ in 0..20 {
            // All arrivals disappear and return.
            let _ = leaving.on_interval(0, CAPACITY, 0, 0);
            let more = leaving.on_interval(970_000, CAPACITY, 0, 0);
            assert!((0..=250_000).contains(&more), "{more}");
        }
        assert_eq!(leaving.on_interval(1_200_000, CAPACITY, 0, -1), 0);
    }
}
