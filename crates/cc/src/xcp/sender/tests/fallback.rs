//! A sender's report of the reason why routers do not rule.

use super::*;
use crate::metrics::FallbackReason;

/// While CUBIC has the window, reports contain the reason.
#[test]
fn why_routers_do_not_rule() {
    let first = |loss, feedback: XcpFeedback| {
        let mut sender = sender(XcpParams {
            loss,
            ..XcpParams::default()
        });
        assert_eq!(
            sender.metrics().fallback,
            Some(FallbackReason::NoAnswer),
            "nothing has come back"
        );
        let state = sender.on_sent(Instant::ZERO, &sent(0, 1500));
        let acked = Acked {
            state,
            ..acked(0, 1500, ms(100))
        };
        let feedback = Feedback::Xcp(XcpFeedback {
            packets: 1,
            bytes: 1500,
            ..feedback
        });
        sender.on_feedback(Instant::from_millis(100), &feedback, &acked);
        sender.on_ack(Instant::from_millis(100), &acked);
        sender
    };
    let stamped = XcpFeedback {
        stamped: 1,
        unmarked_hop: Some(false),
        ..XcpFeedback::default()
    };
    let shown = XcpFeedback {
        unmarked_hop: Some(true),
        ..stamped
    };
    let uncounted = XcpFeedback {
        uncounted: true,
        ..shown
    };
    let unstamped = XcpFeedback::default();
    for (feedback, expected) in [
        (stamped, None),
        (unstamped, Some(FallbackReason::NoAnswer)),
        (shown, Some(FallbackReason::PlainHop)),
        (uncounted, Some(FallbackReason::NoEstimate)),
    ] {
        let metrics = first(XcpLoss::Hybrid, feedback).metrics();
        assert_eq!(metrics.fallback, expected, "{feedback:?}");
        assert_eq!(metrics.explicit, expected.is_none());
    }
    let mut sender = first(XcpLoss::Fallback, stamped);
    sender.on_loss(Instant::from_millis(100), &lost(1, 9, ms(100)));
    assert_eq!(sender.metrics().fallback, Some(FallbackReason::Loss));
    let mut sender = first(XcpLoss::Hybrid, stamped);
    let now = Instant::from_millis(100);
    sender.on_congestion_experienced(now, Instant::ZERO, 1);
    assert_eq!(sender.metrics().fallback, Some(FallbackReason::EcnMark));
    for (ttl_rewritten, expected) in [
        (true, FallbackReason::TtlRewritten),
        (false, FallbackReason::HiddenHop),
    ] {
        let rewritten = XcpFeedback {
            unmarked_hop: None,
            ttl_rewritten,
            ..stamped
        };
        let mut sender = first(XcpLoss::Hybrid, rewritten);
        // Every second packet is lost: more than any trial could attest.
        for number in 0..400 {
            let now = Instant::from_millis(100 + 10 * number);
            let _ = sender.on_sent(now, &sent(2 * number + 1, 1500));
            let _ = sender.on_sent(now, &sent(2 * number + 2, 1500));
            sender.on_ack(now, &acked(2 * number + 1, 1500, ms(100)));
            sender.on_loss(now, &lost(2 * number + 2, 2 * number + 2, ms(100)));
            let feedback = Feedback::Xcp(XcpFeedback {
                packets: 1,
                bytes: 1500,
                ..rewritten
            });
            sender.on_feedback(now, &feedback, &acked(2 * number + 1, 1500, ms(100)));
        }
        assert_eq!(sender.metrics().fallback, Some(expected));
    }
}
