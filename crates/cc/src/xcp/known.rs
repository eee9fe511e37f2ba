//! Which flows were here in the last intervals, so that headers made up for one packet each count for little.
//!
//! A header's inter-packet time is its sender's word. What it may count for is bounded by flow: one that was seen in one of the intervals before
//! counts up to the time that has passed; the first headers of any other count for nothing in the sums, and together they may have a
//! quarter of what is given. A newcomer waits for one interval at most; a thousand forged flows of one packet each change no mean.
//!
//! Flows are told apart by a hash in a table of fixed size; flows in one slot count together, and where flows are many, slots allow as much more.

/// Slots; a power of two.
const SLOTS: usize = 1 << SLOT_BITS;
const SLOT_BITS: u32 = 13;
/// Inter-packet times per slot are kept in 1/256 of an interval.
const UNITS: u64 = 256;
/// A flow may count for a quarter more than an interval, and three times the mean of all slots.
const MOST: u64 = UNITS + UNITS / 4;
const SPREAD: u64 = 3;

/// A flow of few packets need not have one in each interval.
const REMEMBERED: u32 = 4;

/// One slot: the sum of the running interval, in units, and whether there was one lately.
#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    interval: u32,
    now: u16,
    before: bool,
}

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct Known {
    slots: Box<[Slot]>,
    interval: u32,
    /// Inter-packet time of an interval, in 2^-40 s.
    whole: u64,
    /// What one slot may count for.
    most: u64,
}

/// What a header may count for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// Its flow was here before and is within its time.
    Known,
    /// It was not.
    New,
    /// It was, and has had its time.
    Spent,
}

impl Known {
    pub(crate) fn new() -> Self {
        Self {
            slots: vec![Slot::default(); SLOTS].into_boxed_slice(),
            interval: 1,
            whole: 1,
            most: MOST,
        }
    }

    #[inline]
    fn index(flow_hash: u32) -> usize {
        usize::try_from(flow_hash.wrapping_mul(0x9E37_79B1) >> (32 - SLOT_BITS)).unwrap_or(0)
    }

    /// An interval begins in which a flow that is there all the time counts for `whole`; in the last, headers added up to `sum`.
    pub(crate) fn begin(&mut self, whole: u64, sum: u128) {
        self.interval = self.interval.wrapping_add(1);
        self.whole = whole.max(1);
        let flows = crate::arith::saturate(sum / u128::from(self.whole));
        let mean = flows.saturating_mul(UNITS) / SLOTS as u64;
        self.most = MOST.saturating_add(mean.saturating_mul(SPREAD));
    }

    /// A header of the flow arrives with inter-packet time `x`.
    #[inline]
    pub(crate) fn count(&mut self, flow_hash: u32, x: u64) -> Standing {
        let interval = self.interval;
        let units = crate::arith::mul_div(x, UNITS, self.whole);
        let Some(slot) = self.slots.get_mut(Self::index(flow_hash)) else {
            return Standing::New;
        };
        if slot.interval != interval {
            let recent = interval.wrapping_sub(slot.interval) <= REMEMBERED && slot.interval > 0;
            slot.before = recent;
            slot.now = 0;
            slot.interval = interval;
        }
        let sum = u64::from(slot.now).saturating_add(units);
        slot.now = u16::try_from(sum).unwrap_or(u16::MAX);
        match slot.before {
            false => Standing::New,
            true if sum > self.most => Standing::Spent,
            true => Standing::Known,
        }
    }

    /// The flow's header leaves.
    #[inline]
    pub(crate) fn is_known(&self, flow_hash: u32) -> bool {
        self.slots.get(Self::index(flow_hash)).is_some_and(|slot| {
            match self.interval.wrapping_sub(slot.interval) {
                0 => slot.before,
                age => age <= REMEMBERED && slot.interval > 0,
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flow_counts_from_its_second_interval_on_and_for_its_time() {
        let mut known = Known::new();
        known.begin(1 << 38, 0);
        assert_eq!(known.count(7, 1 << 30), Standing::New);
        assert!(!known.is_known(7));
        known.begin(1 << 38, 0);
        assert!(known.is_known(7));
        for n in 0..320u32 {
            let standing = known.count(7, 1 << 30);
            assert_eq!(standing, Standing::Known, "{n}");
        }
        assert_eq!(known.count(7, 1 << 30), Standing::Spent);
        assert_eq!(known.count(8, 1 << 30), Standing::New);
        // Away for some intervals.
        for _ in 0..5 {
            known.begin(1 << 38, 0);
        }
        assert_eq!(known.count(7, 1 << 30), Standing::New);
    }
}
