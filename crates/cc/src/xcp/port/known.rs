//! Recognizes flows seen before, and limits how much time their headers can account for, so that
//! headers forged for one packet each have little effect.
//!
//! The sender of a header states its inter-packet time, which counts within a limit per flow. A
//! flow seen before the current interval counts up to the time that has passed since then. The
//! first headers of any other flow do not count in the sums, and all such headers together may get
//! a quarter of the positive feedback. A new flow waits for one interval at most, and a thousand
//! forged flows of one packet each do not change the means. Credit accumulates with time and not
//! per interval, so that a flow whose packets are further apart than an interval counts for the
//! time between them.
//!
//! A hash in a table of fixed size identifies a flow. Flows in the same slot count together, and
//! the allowance per slot grows with the number of flows.

use crate::base::Instant;
use crate::base::ablate::{Mechanism, without};
use crate::base::arith::{PPM, saturate};
use crate::base::flow_table::FlowTable;

const SLOTS: usize = 1 << 13;
/// The highest 13 bits of the mixed hash select a slot.
type Slots = FlowTable<Slot, SLOTS, 1, 19>;

/// Time is in ticks of 2^18 ns, credit in 2^-26 s.
const TICK_BITS: u32 = 18;
/// Shift that converts inter-packet times in 2^-40 s to credit.
const CREDIT_BITS: u32 = 14;
/// Credit per tick of a flow with true headers: 2^18 ns in 2^-26 s.
const PER_TICK: u64 = 17_592;
/// In addition, a slot may count for three times the mean of all slots.
const SPREAD: u64 = 3;

/// One slot, with times in ticks since the port started.
#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    /// Ticks of the first and of the last packet; 0: never.
    first: u32,
    last: u32,
    credit: u32,
}

#[derive(Clone, Debug)]
pub(crate) struct Known {
    slots: Slots,
    /// Start of the current interval, in ticks.
    began: u32,
    /// Number of ticks after which a flow is forgotten.
    remembered: u32,
    /// Credit per tick, and the largest credit.
    per_tick: u64,
    most: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    /// The flow was seen before the current interval and has credit left.
    Known,
    /// The flow was not seen before.
    New,
    /// The flow was seen before, but has used up its credit.
    Exhausted,
}

/// Instants before the first tick count as the first, so that 0 can stand for never.
fn tick(now: Instant) -> u32 {
    let ticks = (now.as_nanos() >> TICK_BITS) & u64::from(u32::MAX);
    u32::try_from(ticks).unwrap_or(1).max(1)
}

/// True if `tick` is before `other`. Ticks wrap after 13 days.
const fn before(tick: u32, other: u32) -> bool {
    let age = other.wrapping_sub(tick);
    age > 0 && age < 1 << 31
}

impl Known {
    pub(crate) fn new() -> Self {
        Self {
            slots: Slots::new(Slot::default()),
            began: 1,
            remembered: 1,
            per_tick: PER_TICK,
            most: 0,
        }
    }

    /// Starts an interval at `now`. In the last interval, headers added up to `flows` flows. A flow
    /// may use up to `burst` of inter-packet times at once, in 2^-40 s, and may pause for as long.
    pub(crate) fn begin(&mut self, now: Instant, flows: u64, burst: u64) {
        self.began = tick(now);
        // A flow is forgotten after a pause twice as long.
        let ticks = (burst >> CREDIT_BITS) / (PER_TICK / 2);
        self.remembered = u32::try_from(ticks).unwrap_or(u32::MAX).saturating_add(2);
        let spread =
            saturate(u128::from(flows) * u128::from(PER_TICK * SPREAD) / u128::from(SLOTS as u64));
        self.per_tick = (PER_TICK + PER_TICK / 4).saturating_add(spread);
        self.most = (burst >> CREDIT_BITS).max(1);
    }

    /// Counts a header of the flow with inter-packet time `x`, in 2^-40 s.
    pub(crate) fn count(&mut self, now: Instant, flow_hash: u32, x: u64) -> Admission {
        let now = tick(now);
        let (began, remembered, per_tick, most) =
            (self.began, self.remembered, self.per_tick, self.most);
        let slot = self.slots.get_mut(flow_hash);
        let passed = now.wrapping_sub(slot.last);
        let away = slot.last == 0 || passed > remembered;
        if away {
            slot.first = now;
        }
        slot.last = now;
        let more = per_tick.saturating_mul(u64::from(passed));
        let credit = if away {
            most
        } else {
            u64::from(slot.credit).saturating_add(more).min(most)
        };
        // Rounded up, so that less than a unit is not free.
        let cost = (x >> CREDIT_BITS) + 1;
        let left = credit.checked_sub(cost).unwrap_or(credit);
        slot.credit = u32::try_from(left).unwrap_or(u32::MAX);
        if !before(slot.first, began) && !without(Mechanism::Known) {
            return Admission::New;
        }
        // Kept close to `began`, so that ticks may wrap.
        slot.first = began.wrapping_sub(1);
        if cost > credit {
            Admission::Exhausted
        } else {
            Admission::Known
        }
    }

    /// True if the flow of a departing header was seen before the current interval.
    pub(crate) fn is_known(&self, flow_hash: u32) -> bool {
        let slot = self.slots.get(flow_hash);
        let away =
            before(slot.last, self.began) && self.began.wrapping_sub(slot.last) > self.remembered;
        slot.last > 0 && before(slot.first, self.began) && !away
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::at;

    const MS: u64 = (1 << 40) / 1000;

    #[test]
    fn a_flow_counts_from_its_second_interval_on_and_for_its_time() {
        let mut known = Known::new();
        known.begin(at(0), 0, 200 * MS);
        assert_eq!(known.count(at(1), 7, MS), Admission::New);
        assert!(!known.is_known(7));
        known.begin(at(100), 0, 200 * MS);
        assert!(known.is_known(7));
        // As much as the time that passes, and a quarter more.
        let mut counted = 0;
        for n in 0..1000 {
            let standing = known.count(at(100 + n), 7, 2 * MS);
            counted += 2 * u32::from(standing == Admission::Known);
        }
        assert!((1250..=1500).contains(&counted), "{counted} ms");
        assert_eq!(known.count(at(1100), 8, MS), Admission::New);
        // After a long pause.
        known.begin(at(2000), 0, 200 * MS);
        assert_eq!(known.count(at(2001), 7, MS), Admission::New);
    }

    #[test]
    fn packets_further_apart_than_an_interval_count_for_what_they_are_apart() {
        let mut known = Known::new();
        let mut standings = Vec::new();
        for n in 0..100 {
            known.begin(at(20 * n), 1, 200 * MS);
            if n % 6 == 0 {
                standings.push(known.count(at(20 * n), 7, 120 * MS));
            }
        }
        assert_eq!(standings[0], Admission::New);
        let known = standings[1..].iter().all(|s| *s == Admission::Known);
        assert!(known, "{standings:?}");
    }
}

// Limits grants to new flows, and shuffles more for them.

/// All new flows together may get this part of the positive feedback.
const PART: u64 = 4;
/// New flows count as young if they send this part of the bytes.
const BYTES: u64 = 64;
/// Number of intervals during which flows count as young.
pub(super) const YOUNG_INTERVALS: u32 = 8;
/// While flows are young, this multiple of the usual share is shuffled.
const YOUNG_SHUFFLE: u64 = 3;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Newcomers {
    /// Positive feedback left for new flows in the current interval, in 2^-16 bytes per second.
    left: u64,
    /// Bytes that new flows sent in this interval.
    bytes: u64,
    /// Number of intervals for which flows still count as young.
    young: u32,
}

impl Newcomers {
    pub(crate) const fn new() -> Self {
        Self {
            left: u64::MAX,
            bytes: 0,
            young: 0,
        }
    }

    /// Starts an interval that may give `positive`; `None`: all flows are new.
    pub(crate) const fn begin(&mut self, positive: Option<u64>) {
        self.left = match positive {
            Some(positive) => positive / PART,
            None => u64::MAX,
        };
    }

    pub(crate) const fn left(&self) -> u64 {
        self.left
    }

    /// Records that a new flow was given `delta`.
    pub(crate) const fn take(&mut self, delta: i64) {
        if delta > 0 {
            self.left = self.left.saturating_sub(delta.unsigned_abs());
        }
    }

    pub(crate) fn count(&mut self, bytes: u32) {
        self.bytes = self.bytes.saturating_add(u64::from(bytes));
    }

    pub(crate) const fn are_young(&self) -> bool {
        self.young > 0
    }

    /// The part of the traffic to shuffle after an interval of `bytes`, in 10^-6; normally `usual`.
    /// It is larger while new flows send part of the traffic, so that short flows get a fair share
    /// before they end.
    pub(crate) fn shuffle_ppm(&mut self, bytes: u64, usual: u64) -> u64 {
        self.young = self.young.saturating_sub(1);
        let new = core::mem::take(&mut self.bytes);
        if new > 0 && new >= bytes / BYTES && !without(Mechanism::Newcomers) {
            self.young = YOUNG_INTERVALS;
        }
        if self.young > 0 {
            usual.max((usual * YOUNG_SHUFFLE).min(PPM / 2))
        } else {
            usual
        }
    }
}

#[cfg(test)]
mod newcomers_tests {
    use super::*;

    #[test]
    fn more_is_dealt_out_anew_while_flows_are_young() {
        let mut newcomers = Newcomers::new();
        assert_eq!(newcomers.shuffle_ppm(100_000, 100_000), 100_000);
        newcomers.count(1500);
        assert_eq!(newcomers.shuffle_ppm(100_000, 100_000), 100_000, "too few");
        newcomers.count(15_000);
        for _ in 0..YOUNG_INTERVALS {
            assert_eq!(newcomers.shuffle_ppm(100_000, 100_000), 300_000);
        }
        assert_eq!(newcomers.shuffle_ppm(100_000, 100_000), 100_000);
    }
}

// Compensates for the rate that flows take with them when they end.
//
// α·(C − y) gives the free capacity to flows. If short flows start and end all the time, however,
// the rate of those that end is missing again an interval later. Positive feedback then never
// fills the link, so flows pile up and each gets little. Therefore the port compares the arrivals
// with the rates given to flows, and gives the mean difference in addition, as far as there is
// room.

/// Each interval moves the mean by this part of the difference.
const DEPARTURES_PART: i128 = 4;
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
            self.mean += (missing - self.mean) / DEPARTURES_PART;
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
mod departures_tests {
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
