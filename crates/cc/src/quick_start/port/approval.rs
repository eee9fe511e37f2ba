//! Rate that a router approves (RFC 4782 §3.3 and appendix D).
//!
//! As in ns-2, the RFC's two limits have the same share: on the rate in use when a request is
//! examined, and on the total approved rate.

use crate::base::arith::mul_div;
use crate::quick_start::params::SHARE;

/// Returns the approved rate for a request of `asked`, or 0. `used` is the rate used at the busiest
/// recent time, and `pending` has been approved but not seen yet. All rates are in bytes per
/// second.
pub(crate) fn approve(capacity: u64, used: u64, pending: u64, asked: u64) -> u64 {
    let taken = used.saturating_add(pending);
    asked.min(mul_div(capacity, SHARE.0, SHARE.1).saturating_sub(taken))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Returns the rate of RFC 4782's code N in bits per second (§3.1).
    fn rate(n: u32) -> u64 {
        if n == 0 { 0 } else { 40_000 << n }
    }

    /// Returns the largest code whose rate is at most `bits`.
    fn down(bits: u64) -> u32 {
        (0..=15).rev().find(|&n| rate(n) <= bits).unwrap_or(0)
    }

    /// Returns the smallest code whose rate is at least `bits`, or the largest code.
    fn up(bits: u64) -> u32 {
        (0..=15).find(|&n| rate(n) >= bits).unwrap_or(15)
    }

    #[test]
    fn the_code_of_the_rfc() {
        for (bits, floor, ceiling) in [
            (79_999, 0, 1),
            (80_000, 1, 1),
            (80_001, 1, 2),
            (100_000_000, 11, 12),
            (1_000_000_000, 14, 15),
            (1_310_720_000, 15, 15),
            (u64::MAX, 15, 15),
        ] {
            assert_eq!((down(bits), up(bits)), (floor, ceiling), "{bits}");
        }
    }

    /// The values are capacity, percentage in use, bits per second approved recently, requested
    /// code, and approved code.
    #[test]
    fn known_answers() {
        for (capacity, percent, recent, asked, approved) in [
            (1_000_000_000, 0, 0, 15, 14),
            (1_000_000_000, 20, 0, 15, 13),
            (1_000_000_000, 20, 327_680_000, 15, 12),
            (1_000_000_000, 20, 655_360_000, 15, 0),
            (100_000_000, 50, 0, 10, 9),
            (100_000_000, 50, 20_000_000, 10, 8),
        ] {
            let used = capacity / 100 * percent;
            let got = approve(capacity / 8, used / 8, recent / 8, rate(asked) / 8);
            assert_eq!(down(got * 8), approved, "{capacity} {percent} {recent}");
        }
    }

    #[test]
    fn a_port_at_the_threshold_denies() {
        assert_eq!(approve(1000, 850, 0, 500), 0);
        assert_eq!(approve(1000, 849, 0, 500), 1);
        assert_eq!(approve(1000, 0, 850, 500), 0);
        assert_eq!(approve(0, 0, 0, 500), 0);
    }

    proptest! {
        #[test]
        fn never_above_what_is_asked_or_free(
            capacity in 0..1u64 << 40,
            used: u64,
            pending: u64,
            asked: u64,
        ) {
            let got = approve(capacity, used, pending, asked);
            prop_assert!(got <= asked);
            if got > 0 {
                let all = u128::from(used) + u128::from(pending) + u128::from(got);
                prop_assert!(all * 100 <= u128::from(capacity) * 85);
            }
        }
    }
}
