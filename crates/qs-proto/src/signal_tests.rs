use pathmark_cc::{Duration, QuickStartAnswer, QuickStartRequest};

use super::*;
use crate::answer::{Outcome, answer_payload};
use crate::support::{arrived, sent};

fn asking(rate: u64) -> Request {
    let mut request = Request::default();
    request.quick_start = Some(QuickStartRequest {
        rate,
        purpose: QuickStartPurpose::Start,
        ttl_difference: 9,
        nonce: 0x1234_5678_9ABC,
        rtt: Some(Duration::from_millis(60)),
    });
    request
}

#[test]
fn a_request_goes_round() {
    let signal = QuickStartSignal::new();
    let mut shim = [0; LEN];
    signal.fill(&asking(125_000_000), &mut shim);
    let answer = QuickStartAnswer {
        approved: 100_000_000,
        random: 0,
    };
    for _ in 0..2 {
        assert_eq!(answer_payload(&mut shim, &answer, 1), Outcome::Answered);
    }
    // A hop without Quick-Start only decrements the IP TTL.
    for (ttl, difference) in [(62, 9), (61, 8)] {
        let mut meter = signal.meter();
        meter.on_packet(&arrived(None, ttl));
        assert_eq!(meter.counters(), None, "a packet without a request");
        meter.on_packet(&arrived(Some(&shim), ttl));
        let counters = meter.counters().unwrap();
        let feedback = signal.difference(None, &counters, &sent(1, 1200));
        let Ok(Feedback::QuickStart(feedback)) = feedback else {
            panic!("not Quick-Start: {feedback:?}");
        };
        assert_eq!(feedback.ttl_difference, Some(difference));
        assert_eq!(feedback.rate, Rate::floor(100_000_000).bytes_per_second());
        let kept = (1 << feedback.nonce_bits) - 1;
        assert_eq!(feedback.nonce & kept, 0x1234_5678_9ABC & kept);
        let unsent = signal.difference(None, &counters, &sent(0, 1200));
        assert!(unsent.is_err());
    }
}

#[test]
fn who_asks_nothing_reports_nothing() {
    let mut shim = [0; LEN];
    QuickStartSignal::new().fill(&Request::default(), &mut shim);
    let repr = Repr::parse(&shim).unwrap();
    let report = (repr.function, repr.rate);
    assert_eq!(report, (Function::Report, Rate::default()));
    QuickStartSignal::new().fill(&asking(1), &mut [0; 3]);
}
