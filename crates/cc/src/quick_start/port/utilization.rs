//! The part of the granted rates that is used.
//!
//! Anyone can write a request, with any source address. A grant counts as input of the port's law
//! only by the part of grants that flows have used lately: a source that asks and never sends keeps
//! others from grants, and reduces their rates only for some requests.

use crate::base::arith::mul_div;

/// One, in 10^-6.
const ALL: u64 = 1_000_000;
/// Each grant moves the mean by this part of the way.
const PART: u64 = 4;

/// A mean over the latest grants.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GrantUtilization {
    ppm: u64,
}

impl GrantUtilization {
    /// Nothing was granted yet: all of it counts.
    pub(crate) const fn new() -> Self {
        Self { ppm: ALL }
    }

    /// The part of `rate` that counts.
    pub(crate) fn part(&self, rate: u64) -> u64 {
        mul_div(rate, self.ppm, ALL)
    }

    /// A flow has used its grant.
    pub(crate) const fn on_used(&mut self) {
        self.ppm += (ALL - self.ppm) / PART;
    }

    /// A grant was not used.
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
