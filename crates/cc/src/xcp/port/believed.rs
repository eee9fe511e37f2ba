//! Plausibility levels of header fields. At most a few percent of the bytes exceed a level.
//!
//! Anyone can write a header, so a header counts according to its bytes, which cost its sender
//! something: X per byte and RTT count up to a multiple of a level that nearly all bytes stay
//! below. A level is computed from the header fields *before* anything is cut off, so that cutting
//! never influences itself. It doubles at most once per interval, while more than one part in 32 of
//! the bytes exceeds it, and shrinks by a quarter when as few bytes exceed three quarters of the
//! level.

/// One part in `FEW` of the bytes may exceed a level.
const FEW: u64 = 32;
const SHRINKS: (u64, u64) = (3, 4);

/// A level, in any unit, and the bytes of the current interval that exceed the level (`above`) or
/// three quarters of the level (`near`).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Level {
    at: u64,
    above: u64,
    near: u64,
}

impl Level {
    pub(crate) const fn new(at: u64) -> Self {
        Self {
            at,
            above: 0,
            near: 0,
        }
    }

    #[inline]
    pub(crate) const fn at(&self) -> u64 {
        self.at
    }

    /// Counts a header that carries `value` and stands for `bytes`. The level in the same unit is
    /// `at`.
    #[inline]
    pub(crate) const fn count(&mut self, value: u64, at: u64, bytes: u64) {
        if value > at - at / 4 {
            self.near = self.near.saturating_add(bytes);
            if value > at {
                self.above = self.above.saturating_add(bytes);
            }
        }
    }

    /// Ends the interval, whose headers stood for `bytes`, and adapts the level.
    pub(crate) fn turn(&mut self, bytes: u64, least: u64) {
        let few = bytes / FEW;
        let at = if self.above > few {
            self.at.saturating_mul(2)
        } else if self.near <= few && bytes > 0 {
            crate::base::arith::mul_div(self.at, SHRINKS.0, SHRINKS.1)
        } else {
            self.at
        };
        *self = Self::new(at.max(least));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A level after `intervals` intervals, each with all `values` and their bytes.
    fn settle(mut level: Level, values: &[(u64, u64)], intervals: u32) -> Level {
        for _ in 0..intervals {
            let at = level.at();
            for (value, bytes) in values {
                level.count(*value, at, *bytes);
            }
            level.turn(values.iter().map(|(_, bytes)| bytes).sum(), 1);
        }
        level
    }

    #[test]
    fn few_bytes_move_no_level_whatever_they_say() {
        let honest = settle(Level::new(50_000), &[(20_000, 97_000)], 40);
        let values = [(20_000, 97_000), (u64::MAX, 3_000)];
        let lied_to = settle(Level::new(50_000), &values, 40);
        assert_eq!(honest.at(), lied_to.at());
        let lied_to = settle(lied_to, &[(20_000, 97_000), (u64::MAX, 4_000)], 1);
        assert_eq!(lied_to.at(), 2 * honest.at(), "twice per interval");
    }

    proptest! {
        /// From any start, the level converges to between the value and a third more.
        #[test]
        fn finds_the_value(value in 1_000u64..1 << 40, start in 1u64..1 << 50) {
            let level = settle(Level::new(start), &[(value, 1500)], 140);
            prop_assert!(level.at() >= value && level.at() <= value * 4 / 3 + 2, "{}", level.at());
        }
    }
}
