//! Tests HyStart++ round by round.

use super::{rtt_threshold, *};
use crate::testing::{acked, at, ms};

/// One round of `samples` acknowledgements, beginning with packet number `first`. Returns the
/// growth in bytes, and whether slow start ended.
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
    // The eighth sample of the round decides; afterwards growth is a quarter.
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

/// One round with `rtts` in milliseconds, each sampled by an acknowledgement of `packets` packets.
fn sparse(rule: &mut HyStart, first: u64, packets: u64, rtts: &[u64]) -> (u64, bool) {
    let mut grown = 0;
    let mut left = false;
    let end = first + packets * rtts.len() as u64;
    let mut largest = first;
    for rtt in rtts {
        largest += packets;
        let mut acked = acked(largest - 1, packets * 1000, ms(*rtt));
        acked.packets = packets;
        let growth = rule.on_ack(&acked, end - 1);
        grown += growth.bytes;
        left |= growth.leave;
    }
    (grown, left)
}

#[test]
fn few_acknowledgements_of_many_packets_tell() {
    let mut rule = HyStart::default();
    sparse(&mut rule, 0, 10, &[100; 8]);
    sparse(&mut rule, 80, 10, &[100; 8]);
    // The fourth sample decides; afterwards growth is a quarter.
    let grown = sparse(&mut rule, 160, 10, &[113; 8]);
    assert_eq!(grown, (3 * 10_000 + 5 * 2_500, false));
}

#[test]
fn a_queue_that_grows_within_a_round_ends_slow_start() {
    let mut rule = HyStart::default();
    sparse(&mut rule, 0, 10, &[100; 10]);
    sparse(&mut rule, 100, 10, &[100; 10]);
    let rtts = [100, 100, 100, 100, 130, 135, 140, 145, 150, 155];
    assert!(sparse(&mut rule, 200, 10, &rtts).1);
}

#[test]
fn a_rise_that_each_round_has_does_not_end_slow_start() {
    let mut rule = HyStart::default();
    let rtts = [132, 130, 104, 129, 127, 131, 130, 133];
    for n in 0..20 {
        let grown = sparse(&mut rule, n * 80, 10, &rtts);
        assert_eq!(grown, (80_000, false), "round {n}");
    }
}

/// A longer route, or jitter that keeps packets in order: the RTT rises permanently, but no queue
/// is full.
#[test]
fn a_rise_without_a_queue_resumes_slow_start() {
    let mut rule = HyStart::default();
    let mut now = 0;
    let mut bytes = 1000;
    let mut left = false;
    let mut doubled = 0;
    for n in 0..20 {
        let rtt = if n < 3 { 100 } else { 115 };
        let mut grown = 0;
        for k in 0..20 {
            let mut acked = acked(n * 20 + k, bytes, ms(rtt));
            acked.sent_at = at(now);
            now += rtt / 20;
            let growth = rule.on_ack(&acked, n * 20 + 19);
            grown += growth.bytes;
            left |= growth.leave;
        }
        doubled += u32::from(grown == 20 * bytes);
        bytes += grown / 20;
    }
    assert!(!left);
    assert!(doubled >= 15, "{doubled}");
}
