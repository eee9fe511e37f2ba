//! Tracks the recent rate of each flow, which determines its own r and whether OVER applies to it.
//!
//! Under MI each flow grows in proportion to its rate, so the shares of the first round trips would
//! persist until many cuts have evened them out. A port that carries r in the shim can send each
//! flow its own r: multiplied by the mean of all flows' bytes over the flow's bytes (at most twice
//! and at least an eighth), then scaled so that all flows together grow as with the port's r.
//! Within these limits all flows grow by equal amounts, as under AI, but as fast as the load
//! allows.
//!
//! OVER is for flows that have about their share or more. A flow with less than seven eighths of
//! the level receives HIGH instead. Otherwise, a flow over several bottlenecks would be cut once
//! for each bottleneck, and would starve next to flows that cross only one. The level is the mean
//! over bytes, not over flows: the share of the average byte's flow. A large number of small flows
//! does not lower it.
//!
//! A flow with less than a quarter of the level, which is short or young, does not need to wait for
//! AI either. Unless the load of the port is far above OVER, it receives LOW with an r that lets it
//! grow as in slow start, as long as all these flows together add little.
//!
//! A hash in a table of fixed size identifies a flow. Flows in the same slot count as one flow with
//! the bytes of both. AI and MD still even out the growth that MI then withholds from these flows.

use crate::base::ablate::{Mechanism, without};
use crate::base::arith::{PPM, mul_div, saturate};
use crate::base::flow_table::FlowTable;

/// The highest ten bits of the mixed hash select a slot.
type Slots = FlowTable<Slot, 1024, 1, 22>;

/// A factor of one.
const ONE_Q8: u16 = 1 << 8;

/// Limits of factors before they are scaled to the same total growth. More than twice would keep a
/// new flow under MI when AI would help it more.
const LEAST_Q8: u64 = 1 << 5;
const MOST_Q8: u64 = 1 << 9;

/// Flows with less than this share of the level are spared OVER. A larger share lets flows come
/// closer to each other, but near 1, noise in the counters would decide which flow is cut.
const SPARED_BELOW: (u64, u64) = (7, 8);

/// Flows with less than 1/`SMALL` of the level are small.
const SMALL: u64 = 4;

/// Largest growth of a small flow per interval, in 10^-6 of its bytes: 2^2.5 − 1, as in slow start
/// over two and a half round trips.
const MOST_GROWTH_PPM: u64 = 4_656_854;

/// All small flows together grow by at most 1/`GROWTH_TOGETHER` of all bytes per interval.
const GROWTH_TOGETHER: u64 = 8;

/// Part of the earlier bytes that remains: three quarters. An interval contains two and a half
/// round trips, so it can contain two bursts of one flow and three of another. A mean over several
/// intervals avoids this effect.
const KEPT: (u64, u64) = (3, 4);

/// Upper limit of a slot's bytes, so that sums cannot overflow.
const MOST_BYTES: u64 = 1 << 44;

#[derive(Clone, Copy, Debug)]
struct Slot {
    /// Recent bytes.
    bytes: u64,
    /// The factor for r, in 2^-8.
    factor_q8: u16,
    /// A packet arrived since the last interval.
    active: bool,
    /// It has less than seven eighths of the level, so OVER does not apply to it.
    spared: bool,
    /// It has less than a quarter of the level, so it may grow faster.
    small: bool,
}

const EMPTY: Slot = Slot {
    bytes: 0,
    active: false,
    factor_q8: ONE_Q8,
    spared: false,
    small: false,
};

#[derive(Clone, Debug)]
pub(crate) struct Shares {
    slots: Slots,
    /// The ε in 10^-6 with which senders follow r.
    epsilon_ppm: u64,
    /// Bytes in all slots, and in those of small flows.
    total: u64,
    small: u64,
    /// The smallest r of small flows, in 2^-16.
    lift: u16,
}

impl Shares {
    /// Creates an empty table, for senders that follow r with this ε.
    pub(crate) fn new(epsilon_ppm: u64) -> Self {
        Self {
            slots: Slots::new(EMPTY),
            epsilon_ppm,
            total: 0,
            small: 0,
            lift: 0,
        }
    }

    pub(crate) fn count(&mut self, flow_hash: u32, bytes: u32) {
        let slot = self.slots.get_mut(flow_hash);
        slot.bytes = (slot.bytes + u64::from(bytes)).min(MOST_BYTES);
        slot.active = true;
        self.total = self.total.saturating_add(u64::from(bytes));
        if slot.small {
            self.small = self.small.saturating_add(u64::from(bytes));
        }
    }

    /// Counts a packet without a request if its flow is in the table.
    pub(crate) fn count_silent(&mut self, flow_hash: u32, bytes: u32) {
        if self.slots.get(flow_hash).bytes > 0 {
            self.count(flow_hash, bytes);
        }
    }

    /// The r of a flow, computed from the port's r; both in 2^-16, with 65 535 for 1.
    pub(crate) fn grant(&self, flow_hash: u32, r: u16) -> u16 {
        let factor = self.slots.get(flow_hash).factor_q8;
        let granted = (u32::from(r) * u32::from(factor)) >> 8;
        let granted = u16::try_from(granted).unwrap_or(u16::MAX);
        if granted != r && without(Mechanism::Factor) {
            r
        } else {
            granted
        }
    }

    /// True if OVER does not apply to this flow, because it has less than seven eighths of the
    /// level, or no bytes yet.
    pub(crate) fn spares(&self, flow_hash: u32) -> bool {
        self.slots.get(flow_hash).spared && !without(Mechanism::Spared)
    }

    /// The minimum r of a small flow, in 2^-16; 0 for all other flows.
    pub(crate) fn lift(&self, flow_hash: u32) -> u16 {
        let small = self.slots.get(flow_hash).small && !without(Mechanism::Lift);
        if small { self.lift } else { 0 }
    }

    /// Sets the growth of small flows from the bytes so far.
    #[cold]
    pub(crate) fn set_lift(&mut self) {
        let growth_ppm = match self.small {
            0 => MOST_GROWTH_PPM,
            small => mul_div(self.total, PPM, small.saturating_mul(GROWTH_TOGETHER)),
        };
        let lift = match self.epsilon_ppm {
            0 => 0,
            epsilon => mul_div(growth_ppm.min(MOST_GROWTH_PPM), 1 << 16, epsilon),
        };
        self.lift = u16::try_from(lift).unwrap_or(u16::MAX);
    }

    pub(crate) fn clear(&mut self) {
        self.slots.all_mut().fill(EMPTY);
        (self.total, self.small, self.lift) = (0, 0, 0);
    }

    /// Ends an interval and computes the factors of the next interval.
    #[cold]
    pub(crate) fn settle(&mut self) {
        // Ignores flows that sent nothing in this interval.
        for slot in self.slots.all_mut().iter_mut().filter(|slot| !slot.active) {
            slot.bytes = 0;
        }
        self.weigh();
        for slot in self.slots.all_mut() {
            slot.bytes = slot.bytes * KEPT.0 / KEPT.1;
            slot.active = false;
        }
        self.total = self.total * KEPT.0 / KEPT.1;
        self.small = self.small * KEPT.0 / KEPT.1;
    }

    /// Computes factors, and the spared and small flows, from the bytes so far.
    #[cold]
    pub(crate) fn weigh(&mut self) {
        let (mut sum, mut squares, mut count) = (0, 0, 0);
        for slot in self.slots.all().iter().filter(|slot| slot.bytes > 0) {
            sum += slot.bytes;
            squares += u128::from(slot.bytes) * u128::from(slot.bytes);
            count += 1;
        }
        let level = saturate(squares / u128::from(sum.max(1)));
        let Some(mean) = u64::checked_div(sum, count) else {
            return;
        };
        let (mut weighed, mut small) = (0, 0);
        for slot in self.slots.all_mut() {
            slot.small = slot.bytes * SMALL < level;
            if slot.small {
                small += slot.bytes;
            }
            slot.spared = slot.bytes * SPARED_BELOW.1 < level * SPARED_BELOW.0;
            let factor = ((mean << 8) / slot.bytes.max(1)).clamp(LEAST_Q8, MOST_Q8);
            weighed += (slot.bytes * factor) >> 8;
            slot.factor_q8 = u16::try_from(factor).unwrap_or(ONE_Q8);
        }
        (self.total, self.small) = (sum, small);
        self.set_lift();
        let scale_q8 = (sum << 8) / weighed.max(1);
        for slot in self.slots.all_mut() {
            let factor = (u64::from(slot.factor_q8) * scale_q8) >> 8;
            slot.factor_q8 = u16::try_from(factor).unwrap_or(u16::MAX);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn whoever_has_less_is_told_more() {
        let mut shares = Shares::new(10 * PPM);
        shares.settle();
        assert_eq!(shares.grant(1, 1000), 1000);
        shares.count(1, 30_000);
        shares.count(2, 10_000);
        shares.weigh();
        // The mean is 20 000: factors of two thirds and two make 20 000 + 20 000 bytes grow like 40
        // 000.
        assert_eq!(shares.grant(1, 3000), 1992);
        assert_eq!(shares.grant(2, 3000), 6000);
        // A new flow gets the maximum factor of two.
        assert_eq!(shares.grant(3, 3000), 6000);
        assert_eq!(shares.grant(2, u16::MAX), u16::MAX);
        shares.clear();
        assert_eq!(shares.grant(2, 3000), 3000);
    }

    #[test]
    fn alone_a_flow_has_what_the_port_says() {
        let mut shares = Shares::new(10 * PPM);
        for bytes in [1, 777, 1_000_000, u32::MAX] {
            shares.count(9, bytes);
            shares.settle();
            assert_eq!(shares.grant(9, 12_345), 12_345);
        }
    }

    #[test]
    fn packets_that_ask_nothing_count_for_flows_that_ask() {
        let mut shares = Shares::new(10 * PPM);
        shares.count(1, 1000);
        for _ in 0..63 {
            shares.count_silent(1, 1000);
            shares.count_silent(3, 1000);
            shares.count(2, 1000);
        }
        shares.weigh();
        assert!(!shares.spares(1) && !shares.spares(2));
        assert_eq!(shares.total, 127_000);
    }

    #[test]
    fn over_is_for_those_who_have_their_share() {
        let mut shares = Shares::new(10 * PPM);
        // An empty table spares no flow.
        assert!(!shares.spares(1) && !shares.spares(4));
        for (flow, bytes) in [(1, 40_000), (2, 30_000), (3, 38_000)] {
            shares.count(flow, bytes);
        }
        shares.weigh();
        // The level is 36 518, of which seven eighths are 31 953.
        let spared = |shares: &Shares| [1, 2, 3].map(|flow| shares.spares(flow));
        assert_eq!(spared(&shares), [false, true, false]);
        // A new flow has less than this.
        assert!(shares.spares(4));
        // Several hundred small flows hardly lower the level.
        for flow in 100..600 {
            shares.count(flow, 10);
        }
        shares.weigh();
        assert_eq!(spared(&shares), [false, true, false]);
        // All that share no slot with a large one.
        let small = (100..600).filter(|flow| shares.spares(*flow)).count();
        assert!(small >= 498, "{small}");
        shares.clear();
        assert!(!shares.spares(2));
    }

    #[test]
    fn small_flows_grow_as_in_slow_start_while_they_are_few() {
        let mut shares = Shares::new(10 * PPM);
        shares.set_lift();
        assert_eq!(shares.lift(3), 0, "no flow is small in an empty table");
        shares.count(1, 900_000);
        shares.count(2, 2_000);
        shares.settle();
        // (2^2.5 − 1) / ε, also for a flow that arrives now.
        let most = 30_519;
        assert_eq!([1, 2, 3].map(|flow| shares.lift(flow)), [0, most, most]);
        // Many new flows arrive, and together they grow by an eighth of all bytes. Three quarters
        // of the earlier bytes count.
        let before = 902_000 * 3 / 4;
        let crowd = 200_000;
        for flow in 1000..1100 {
            shares.count(flow, crowd / 100);
        }
        shares.set_lift();
        let small = f64::from(crowd) + 1500.0;
        let growth = (f64::from(before) + f64::from(crowd)) / 8.0 / small;
        let lift = f64::from(shares.lift(1050)) / 65_536.0;
        assert!((lift * 10.0 / growth - 1.0).abs() < 3e-2, "{lift} {growth}");
        shares.clear();
        assert_eq!(shares.lift(2), 0);
        // If no sender follows r, there is no lift.
        let mut shares = Shares::new(0);
        shares.count(1, 900_000);
        shares.settle();
        assert_eq!(shares.lift(2), 0);
    }

    #[test]
    fn the_silent_are_forgotten() {
        let mut shares = Shares::new(10 * PPM);
        for flow in 3..30 {
            shares.count(flow, 10);
        }
        for _ in 0..2 {
            shares.count(1, 30_000);
            shares.count(2, 10_000);
            shares.settle();
        }
        assert_eq!(shares.grant(2, 3000), 6000);
        assert_eq!(shares.grant(1, 3000), 1992);
    }

    proptest! {
        /// At least one flow always receives OVER, and so does each flow with more bytes than a
        /// flow that receives it.
        #[test]
        fn the_largest_are_never_spared(bytes in prop::collection::vec(1u32..100_000_000, 1..40)) {
            let mut shares = Shares::new(10 * PPM);
            for (flow, bytes) in (0..).zip(&bytes) {
                shares.count(flow, *bytes);
            }
            shares.settle();
            let slots = shares.slots.all().iter();
            let mut slots: Vec<_> = slots.filter(|slot| slot.bytes > 0).collect();
            slots.sort_by_key(|slot| slot.bytes);
            prop_assert!(!slots[slots.len() - 1].spared);
            for pair in slots.windows(2) {
                prop_assert!(pair[0].spared || !pair[1].spared);
            }
        }

        /// All flows together grow as with one r for all, and a flow with more bytes gets no larger
        /// r.
        #[test]
        fn the_sum_stays(bytes in prop::collection::vec(1000u32..100_000_000, 1..40)) {
            let mut shares = Shares::new(10 * PPM);
            let mut slots = std::collections::BTreeSet::new();
            let mut is_new = |flow: &u32| slots.insert(Slots::index(*flow));
            let flows: Vec<(u32, u32)> = (0..).filter(|flow| is_new(flow)).zip(bytes).collect();
            for (flow, bytes) in &flows {
                shares.count(*flow, *bytes);
            }
            shares.weigh();
            let r = 4000;
            let granted = |(flow, bytes): &(u32, u32)| {
                (f64::from(*bytes), f64::from(shares.grant(*flow, r)))
            };
            let mut flows: Vec<(f64, f64)> = flows.iter().map(granted).collect();
            flows.sort_by(|a, b| a.0.total_cmp(&b.0));
            let sum: f64 = flows.iter().map(|(bytes, _)| bytes).sum();
            let granted: f64 = flows.iter().map(|(bytes, r)| bytes * r).sum();
            let off = granted / (sum * f64::from(r)) - 1.0;
            prop_assert!((-0.05..0.01).contains(&off), "{off}");
            for (a, b) in flows.iter().zip(&flows[1..]) {
                prop_assert!(a.1 >= b.1);
            }
        }
    }
}
