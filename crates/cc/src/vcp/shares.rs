//! What each flow has had lately, and the r that it is told in return.
//!
//! Under MI each flow grows in proportion to what it has, so whatever shares the first round trips happened to give would last until many
//! cuts have evened them out. A port whose r travels in the shim can tell each flow an r of its own: multiplied with the mean of
//! all flows' bytes over its own, at most twice and at least an eighth, then such that together they grow as with the port's r. Within
//! those limits all flows grow by equal amounts, as under AI, but as fast as the load allows.
//!
//! Flows are told apart by a hash in a table of fixed size. Two in one slot count as one with the bytes of both: AI and MD still even out
//! what MI then withholds from them.

/// Slots; a power of two.
const SLOTS: usize = 1 << SLOT_BITS;
const SLOT_BITS: u32 = 10;

/// A factor of one.
const ONE_Q8: u16 = 1 << 8;

/// Factors before they are scaled to the same growth together. More than twice would keep a newcomer under MI while AI would help it more.
const LEAST_Q8: u64 = 1 << 5;
const MOST_Q8: u64 = 1 << 9;

/// What remains of earlier bytes: three quarters. An interval holds two and a half round trips, so one flow's bursts fall into it twice and
/// another's three times; a mean over some intervals does not see that.
const KEPT: (u64, u64) = (3, 4);

/// No slot counts further, so that sums cannot overflow.
const MOST_BYTES: u64 = 1 << 44;

#[derive(Clone, Copy, Debug)]
struct Slot {
    /// Bytes lately.
    bytes: u64,
    /// What r is multiplied with, in 2^-8.
    factor_q8: u16,
    /// Some of them since the last interval.
    active: bool,
}

const EMPTY: Slot = Slot {
    bytes: 0,
    active: false,
    factor_q8: ONE_Q8,
};

/// Bytes and factors of flows.
#[derive(Clone, Debug)]
pub(crate) struct Shares {
    slots: Box<[Slot]>,
}

impl Shares {
    pub(crate) fn new() -> Self {
        Self {
            slots: vec![EMPTY; SLOTS].into_boxed_slice(),
        }
    }

    #[inline]
    fn index(flow_hash: u32) -> usize {
        // Hashes may be weak in some bits: fold all of them in.
        usize::try_from(flow_hash.wrapping_mul(0x9E37_79B1) >> (32 - SLOT_BITS)).unwrap_or(0)
    }

    /// A packet of a flow arrived.
    #[inline]
    pub(crate) fn count(&mut self, flow_hash: u32, bytes: u32) {
        if let Some(slot) = self.slots.get_mut(Self::index(flow_hash)) {
            slot.bytes = (slot.bytes + u64::from(bytes)).min(MOST_BYTES);
            slot.active = true;
        }
    }

    /// The r of a flow, from the port's r; both in 2^-16, 65 535 standing for 1.
    #[inline]
    pub(crate) fn grant(&self, flow_hash: u32, r: u16) -> u16 {
        let factor = self
            .slots
            .get(Self::index(flow_hash))
            .map_or(ONE_Q8, |slot| slot.factor_q8);
        let granted = (u32::from(r) * u32::from(factor)) >> 8;
        u16::try_from(granted).unwrap_or(u16::MAX)
    }

    /// Nothing is known of any flow.
    pub(crate) fn clear(&mut self) {
        self.slots.fill(EMPTY);
    }

    /// An interval has passed: its bytes make the next one's factors.
    #[cold]
    pub(crate) fn settle(&mut self) {
        // Who sends no more is nobody to compare with.
        for slot in self.slots.iter_mut().filter(|slot| !slot.active) {
            slot.bytes = 0;
        }
        self.weigh();
        for slot in &mut self.slots {
            slot.bytes = slot.bytes * KEPT.0 / KEPT.1;
            slot.active = false;
        }
    }

    /// Factors from the bytes so far.
    #[cold]
    pub(crate) fn weigh(&mut self) {
        let (mut sum, mut count) = (0, 0);
        for slot in self.slots.iter().filter(|slot| slot.bytes > 0) {
            sum += slot.bytes;
            count += 1;
        }
        let Some(mean) = u64::checked_div(sum, count) else {
            return;
        };
        let mut weighed = 0;
        for slot in &mut self.slots {
            let factor = ((mean << 8) / slot.bytes.max(1)).clamp(LEAST_Q8, MOST_Q8);
            weighed += (slot.bytes * factor) >> 8;
            slot.factor_q8 = u16::try_from(factor).unwrap_or(ONE_Q8);
        }
        let scale_q8 = (sum << 8) / weighed.max(1);
        for slot in &mut self.slots {
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
        let mut shares = Shares::new();
        shares.settle();
        assert_eq!(shares.grant(1, 1000), 1000);
        shares.count(1, 30_000);
        shares.count(2, 10_000);
        shares.weigh();
        // Mean 20 000: two thirds and twice, which makes 20 000 + 20 000 bytes grow like 40 000.
        assert_eq!(shares.grant(1, 3000), 1992);
        assert_eq!(shares.grant(2, 3000), 6000);
        // One that nobody has seen yet: twice at most.
        assert_eq!(shares.grant(3, 3000), 6000);
        assert_eq!(shares.grant(2, u16::MAX), u16::MAX);
        shares.clear();
        assert_eq!(shares.grant(2, 3000), 3000);
    }

    #[test]
    fn alone_a_flow_has_what_the_port_says() {
        let mut shares = Shares::new();
        for bytes in [1, 777, 1_000_000, u32::MAX] {
            shares.count(9, bytes);
            shares.settle();
            assert_eq!(shares.grant(9, 12_345), 12_345);
        }
    }

    #[test]
    fn the_silent_are_forgotten() {
        let mut shares = Shares::new();
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
        /// Together flows grow as with one r for all, and nobody with more bytes is told more.
        #[test]
        fn the_sum_stays(bytes in prop::collection::vec(1000u32..100_000_000, 1..40)) {
            let mut shares = Shares::new();
            let mut slots = std::collections::BTreeSet::new();
            let flows: Vec<(u32, u32)> = (0..)
                .filter(|flow| slots.insert(Shares::index(*flow)))
                .zip(bytes)
                .collect();
            for (flow, bytes) in &flows {
                shares.count(*flow, *bytes);
            }
            shares.weigh();
            let r = 4000;
            let mut flows: Vec<(f64, f64)> = flows
                .iter()
                .map(|(flow, bytes)| (f64::from(*bytes), f64::from(shares.grant(*flow, r))))
                .collect();
            flows.sort_by(|a, b| a.0.total_cmp(&b.0));
            let sum: f64 = flows.iter().map(|(bytes, _)| bytes).sum();
            let told: f64 = flows.iter().map(|(bytes, r)| bytes * r).sum();
            let off = told / (sum * f64::from(r)) - 1.0;
            prop_assert!((-0.05..0.01).contains(&off), "{off}");
            for (a, b) in flows.iter().zip(&flows[1..]) {
                prop_assert!(a.1 >= b.1);
            }
        }
    }
}
