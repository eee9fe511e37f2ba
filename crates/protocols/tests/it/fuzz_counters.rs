//! Fuzz target for the counters of all protocols.

use pathmark_cc::{Countable, Feedback};
use pathmark_transport::{Counters, Signal};
use qs_proto::QuickStartSignal;
use vcp_proto::{VcpEcnSignal, VcpSignal};
use xcp_proto::{XcpSignal, counters::MOST};

/// The input consists of what was sent, and two sets of counters, with the older set first. If a
/// protocol accepts them, their difference is consistent.
fn feedback(input: &[u8]) {
    let (numbers, _) = input.as_chunks::<8>();
    let mut numbers = numbers.iter().map(|&bytes| u64::from_be_bytes(bytes));
    let mut next = || numbers.next();
    let (Some(packets), Some(bytes), Some(longest)) = (next(), next(), next()) else {
        return;
    };
    let sent = Countable {
        packets,
        bytes,
        longest,
    };
    let rest: Vec<u64> = numbers.collect();
    let (older, newer) = rest.split_at(rest.len() / 2);
    let counters = |numbers: &[u64]| {
        let mut counters = Counters::new();
        let all = numbers.iter().all(|&number| counters.push(number));
        all.then_some(counters)
    };
    let (Some(older), Some(newer)) = (counters(older), counters(newer)) else {
        return;
    };
    let (xcp, quick_start) = (XcpSignal::new(), QuickStartSignal::new());
    let signals: [&dyn Signal; 4] = [&VcpSignal::new(), &VcpEcnSignal, &xcp, &quick_start];
    for signal in signals {
        // Without an older set, these are the first counters.
        for older in [Some(&older), None] {
            if let Ok(feedback) = signal.difference(older, &newer, &sent) {
                is_consistent(&feedback, &sent);
            }
        }
    }
}

fn is_consistent(feedback: &Feedback, sent: &Countable) {
    let (packets, bytes) = feedback.counted();
    assert!(packets <= sent.packets && bytes <= sent.bytes);
    assert!(bytes <= packets.saturating_mul(sent.longest));
    match feedback {
        Feedback::Vcp(vcp) => {
            assert!(vcp.sum_r <= vcp.packets[1].saturating_mul(65_536));
            assert!(vcp.corruption_ppm <= 300_000);
        }
        Feedback::Xcp(xcp) => {
            assert!(xcp.stamped <= xcp.packets);
            let most = u128::from(xcp.stamped) * u128::from(MOST.unsigned_abs());
            assert!(u128::from(xcp.delta.unsigned_abs()) <= most);
        }
        Feedback::QuickStart(answer) => assert!(answer.nonce < 1 << 48),
        _ => panic!("of another protocol: {feedback:?}"),
    }
}

target!(counters, feedback, 256);
