//! Tests how a sender reports why routers do not rule.

use super::*;
use crate::metrics::FallbackReason;
use crate::names::Algorithm;
use crate::testing::{at, stamped};

/// While CUBIC controls the window, reports contain the reason.
#[test]
fn why_routers_do_not_rule() {
    let first = |loss, feedback: XcpFeedback| {
        let mut sender = with_loss(loss);
        // Nothing has come back yet.
        let fallback = sender.metrics().fallback;
        assert_eq!(fallback, Some(FallbackReason::NoAnswer));
        round_with(&mut sender, Instant::ZERO, 0, &Feedback::Xcp(feedback));
        sender
    };
    let silent = stamped(0);
    let stamped = XcpFeedback {
        unmarked_hop: Some(false),
        ..silent
    };
    let shown = XcpFeedback {
        unmarked_hop: Some(true),
        ..stamped
    };
    let uncounted = XcpFeedback {
        uncounted: true,
        ..shown
    };
    let unstamped = XcpFeedback {
        stamped: 0,
        ..silent
    };
    for (feedback, expected) in [
        (stamped, None),
        (unstamped, Some(FallbackReason::NoAnswer)),
        // This hop may not be the bottleneck.
        (shown, None),
        (uncounted, None),
    ] {
        let metrics = first(XcpLoss::Hybrid, feedback).metrics();
        assert_eq!(metrics.fallback, expected, "{feedback:?}");
        assert_eq!(metrics.explicit, expected.is_none());
    }
    let mut sender = first(XcpLoss::Fallback, stamped);
    sender.on_loss(at(100), &lost(1, 9, ms(100)));
    assert_eq!(sender.metrics().fallback, Some(FallbackReason::Loss));
    let mut sender = first(XcpLoss::Hybrid, stamped);
    let now = at(100);
    sender.on_congestion_experienced(now, Instant::ZERO, 1);
    assert_eq!(sender.metrics().fallback, Some(FallbackReason::EcnMark));
    let rewritten = XcpFeedback {
        ttl_rewritten: true,
        ..silent
    };
    for (feedback, expected) in [
        (rewritten, FallbackReason::TtlRewritten),
        (shown, FallbackReason::PlainHop),
        (uncounted, FallbackReason::NoEstimate),
        (silent, FallbackReason::HiddenHop),
    ] {
        let mut sender = first(XcpLoss::Hybrid, feedback);
        // Every second packet is lost, which is more than any trial could attest.
        for number in 0..400 {
            let now = at(100 + 10 * number);
            let _ = sender.on_sent(now, &sent(2 * number + 1, 1500));
            let _ = sender.on_sent(now, &sent(2 * number + 2, 1500));
            sender.on_ack(now, &acked(2 * number + 1, 1500, ms(100)));
            sender.on_loss(now, &lost(2 * number + 2, 2 * number + 2, ms(100)));
            let next = acked(2 * number + 1, 1500, ms(100));
            sender.on_feedback(now, &Feedback::Xcp(feedback), &next);
        }
        assert_eq!(sender.metrics().fallback, Some(expected));
    }
}

/// BBR instead of routers behaves like `bbr` until the first stamp. A mark on a path whose routers
/// answer hands the window to CUBIC, and the end of answers hands it to BBR.
#[test]
fn bbr_rules_where_it_is_the_fallback() {
    for name in ["xcp", "auto"] {
        let algorithm = |text: &str| {
            let mut law = Algorithm::parse(text)
                .unwrap()
                .controller(Instant::ZERO, MTU);
            law.on_handshake_rtt(Instant::ZERO, ms(100));
            law
        };
        let mut sender = algorithm(&format!("{name}[fallback=bbr]"));
        let mut bbr = algorithm("bbr");
        assert_eq!(sender.pacing_rate(), bbr.pacing_rate());
        // One packet, acknowledged 100 ms later.
        let step = |law: &mut dyn Controller, now: u64, feedback: Option<&Feedback>| {
            let state = law.on_sent(at(now), &sent(now, 1500));
            let mut ack = acked(now, 1500, ms(100));
            (ack.state, ack.sent_at) = (state, at(now));
            if let Some(feedback) = feedback {
                law.on_feedback(at(now + 100), feedback, &ack);
            }
            law.on_ack(at(now + 100), &ack);
        };
        for now in 0..20 {
            step(&mut *sender, now, None);
            step(&mut *bbr, now, None);
            assert_eq!(sender.window(), bbr.window(), "{name}");
            assert_eq!(sender.pacing_rate(), bbr.pacing_rate(), "{name}");
        }
        assert_eq!(sender.metrics().ruling, "bbr");
        // The request in the packet's header is stored separately from BBR's state, so its grant
        // counts.
        let window = sender.window();
        step(&mut *sender, 20, Some(&granted(100_000 << 16, 1)));
        assert_eq!(sender.metrics().ruling, "xcp", "{name}");
        let grown = sender.window();
        assert!(grown > window + 5_000, "{name}: {grown} of {window}");
        sender.on_congestion_experienced(at(130), at(20), 20);
        assert_eq!(sender.metrics().ruling, "cubic", "{name}");
        let unstamped = Feedback::Xcp(XcpFeedback {
            stamped: 0,
            ..stamped(0)
        });
        for now in 0..100 {
            step(&mut *sender, 320 + 10 * now, Some(&unstamped));
        }
        assert_eq!(sender.metrics().fallback, Some(FallbackReason::NoAnswer));
        assert_eq!(sender.metrics().ruling, "bbr", "{name}");
    }
}
