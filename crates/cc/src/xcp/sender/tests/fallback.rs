//! Tests how a sender reports why routers do not rule.

use super::*;
use crate::metrics::FallbackReason;
use crate::names::Algorithm;

/// While CUBIC controls the window, reports contain the reason.
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
        // This hop may not be the bottleneck.
        (shown, None),
        (uncounted, None),
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
    let rewritten = XcpFeedback {
        unmarked_hop: None,
        ttl_rewritten: true,
        ..stamped
    };
    let silent = XcpFeedback {
        unmarked_hop: None,
        ..stamped
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
            let now = Instant::from_millis(100 + 10 * number);
            let _ = sender.on_sent(now, &sent(2 * number + 1, 1500));
            let _ = sender.on_sent(now, &sent(2 * number + 2, 1500));
            sender.on_ack(now, &acked(2 * number + 1, 1500, ms(100)));
            sender.on_loss(now, &lost(2 * number + 2, 2 * number + 2, ms(100)));
            let next = Feedback::Xcp(XcpFeedback {
                packets: 1,
                bytes: 1500,
                ..feedback
            });
            sender.on_feedback(now, &next, &acked(2 * number + 1, 1500, ms(100)));
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
        let at = Instant::from_millis;
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
        for now in 0..100 {
            let unstamped = Feedback::Xcp(XcpFeedback {
                packets: 1,
                bytes: 1500,
                ..XcpFeedback::default()
            });
            step(&mut *sender, 320 + 10 * now, Some(&unstamped));
        }
        assert_eq!(sender.metrics().fallback, Some(FallbackReason::NoAnswer));
        assert_eq!(sender.metrics().ruling, "bbr", "{name}");
    }
}
