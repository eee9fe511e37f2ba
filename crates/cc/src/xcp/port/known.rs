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
use crate::base::arith::saturate;
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
#[inline]
fn tick(now: Instant) -> u32 {
    let ticks = (now.as_nanos() >> TICK_BITS) & u64::from(u32::MAX);
    u32::try_from(ticks).unwrap_or(1).max(1)
}

/// True if `tick` is before `other`. Ticks wrap after 13 days.
#[inline]
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
    #[inline]
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
    #[inline]
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
