//! What the watch makes of a queue of its own, packet by packet.

use super::*;
use crate::testing::{acked, ms};

const MTU: u64 = 1500;
const RTT: Duration = Duration::from_millis(100);

/// A hop takes 100 packets per second of what XCP routers behind it would grant: its queue, and not
/// the path, makes round trips longer.
#[test]
fn a_queue_that_stands_is_no_reason_for_a_larger_window() {
    let step = Step {
        partly: 4,
        unknown: Some(8),
    };
    let mut watch = HiddenHop::new(Instant::ZERO, MTU, step);
    let mut arrive = |from: u64, to: u64, queued: fn(u64) -> u64| {
        for number in from..to {
            let now = Instant::from_millis(100 + 10 * number);
            let queued = ms(queued(number));
            let mut ack = acked(number, MTU, RTT + queued);
            (ack.min_rtt, ack.srtt, ack.forward_delay) = (RTT, RTT + queued, Some(queued));
            ack.sent_at = Instant::from_millis(10 * number);
            // No trial of delay meanwhile.
            watch.on_ack(now, &ack, ms(1 << 20), 1000 * MTU);
        }
        watch.cap() / MTU
    };
    assert_eq!(arrive(1, 100, |_| 0), 80, "eight times ten packets");
    // Up to 130 packets arrive in a round trip of 1.3 s.
    let held = arrive(100, 600, |number| (10 * (number - 100)).min(1200));
    assert!(held <= 130 * 5 / 4 + 1, "{held}");
}
