//! Share of granted rates that is used.
//!
//! Anyone can send a request with any source address. Therefore grants only count as input of the
//! port's law in proportion to the share that flows have recently used. A source that asks without
//! ever sending keeps others from getting grants, but only reduces their rates for a few requests.

use crate::base::arith::mul_div;

/// One in 10^-6.
const ALL: u64 = 1_000_000;
/// Each grant moves the mean by this part of the difference.
const PART: u64 = 4;

#[derive(Clone, Copy, Debug)]
pub(crate) struct GrantUtilization {
    ppm: u64,
}

impl GrantUtilization {
    pub(crate) const fn new() -> Self {
        Self { ppm: ALL }
    }

    pub(crate) fn part(&self, rate: u64) -> u64 {
        mul_div(rate, self.ppm, ALL)
    }

    pub(crate) const fn on_used(&mut self) {
        self.ppm += (ALL - self.ppm) / PART;
    }

    pub(crate) const fn on_unused(&mut self) {
        self.ppm -= self.ppm / PART;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_used_counts_and_what_is_not_soon_does_not() {
        let mut kept = GrantUtilization::new();
        assert_eq!(kept.part(1000), 1000);
        for _ in 0..20 {
            kept.on_unused();
        }
        assert!(kept.part(1000) < 5);
        for _ in 0..20 {
            kept.on_used();
        }
        assert!(kept.part(1000) > 990);
    }
}
