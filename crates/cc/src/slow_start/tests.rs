//! HyStart++ round by round.

use super::hystart::rtt_threshold;
use super::*;
use crate::testing::{acked, ms};

/// One round of `samples` acknowledgements, `first` the first packet number; returns bytes grown and whether it left.
fn round(rule: &mut HyStart, first: u64, samples: u64, rtt: u64) -> (u64, bool) {
    let mut grown = 0;
    let mut left = false;
    for n in 0..samples {
        let growth = rule.on_ack(&acked(first + n, 1000, ms(rtt)), first + samples - 1 + n);
        grown += growth.bytes;
        left |= growth.leave;
    }
    (grown, left)
}

#[test]
fn threshold_is_an_eighth_within_bounds() {
    for (last, expected) in [(10, 4), (40, 5), (80, 10), (200, 16)] {
        assert_eq!(rtt_threshold(ms(last)), ms(expected));
    }
}

#[test]
fn steady_rtt_never_leaves() {
    let mut rule = HyStart::default();
    for n in 0..20 {
        assert_eq!(round(&mut rule, n * 20, 20, 100), (20_000, false));
    }
}

#[test]
fn rising_rtt_slows_down_and_leaves_after_five_rounds() {
    let mut rule = HyStart::default();
    round(&mut rule, 0, 20, 100);
    round(&mut rule, 20, 20, 100);
    // The eighth sample of the round tells; from it on a quarter of the growth.
    assert_eq!(round(&mut rule, 40, 20, 113), (7_000 + 13 * 250, false));
    let mut rounds = 0;
    for n in 3..20 {
        rounds += 1;
        let (grown, left) = round(&mut rule, n * 20, 20, 113);
        if left {
            break;
        }
        assert_eq!(grown, 5_000);
    }
    assert_eq!(rounds, 5);
}

#[test]
fn jitter_resumes_slow_start() {
    let mut rule = HyStart::default();
    round(&mut rule, 0, 20, 100);
    round(&mut rule, 20, 20, 100);
    round(&mut rule, 40, 20, 120);
    round(&mut rule, 60, 20, 100);
    assert_eq!(round(&mut rule, 80, 20, 100), (20_000, false));
}

#[test]
fn few_samples_say_nothing() {
    let mut rule = HyStart::default();
    for n in 0..30 {
        let (grown, left) = round(&mut rule, n * 7, 7, 100 + 50 * n);
        assert_eq!((grown, left), (7_000, false));
    }
}
