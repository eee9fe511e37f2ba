//! Checks that the code and Quick-Start's test vectors of `docs/wire.md` agree.

use pathmark_cc::{Duration, QuickStartAnswer, QuickStartPurpose, QuickStartRequest, Request};
use pathmark_shim::quick_start::{LEN, Repr};
use pathmark_transport::Signal;
use qs_proto::QuickStartSignal;
use qs_proto::answer::{Outcome, answer_payload};
use qs_proto::counters::Totals;

use crate::vectors::{check_feedback, vector};

fn fresh(rate: u64, purpose: QuickStartPurpose) -> [u8; LEN] {
    let mut request = Request::default();
    request.quick_start = Some(QuickStartRequest {
        rate,
        purpose,
        ttl_difference: 0,
        nonce: 0x0102_0304_0506,
        rtt: Some(Duration::from_millis(60)),
    });
    let mut shim = [0; LEN];
    QuickStartSignal::new().fill(&request, &mut shim);
    shim
}

#[test]
fn requests_and_their_answers() {
    use QuickStartPurpose::{Keep, Start};
    let asked = [(31_250_000, "approved"), (0, "denied")];
    let kept = [(15_625_000, "kept")];
    for (name, rate, purpose, answers) in [
        ("quick-start", 125_000_000, Start, &asked[..]),
        ("quick-start-keep", 31_244_288, Keep, &kept),
    ] {
        let fresh = fresh(rate, purpose);
        assert_eq!(fresh[..], vector(name), "{name}");
        for &(approved, after) in answers {
            let mut shim = fresh;
            let answer = QuickStartAnswer {
                approved,
                random: 0xFFFF_FFFF_FFFF,
            };
            assert_eq!(answer_payload(&mut shim, &answer, 1), Outcome::Answered);
            assert_eq!(shim[..], vector(&format!("quick-start-{after}")), "{after}");
        }
    }
}

#[test]
fn a_feedback_frame() {
    let mut totals = Totals::default();
    let approved = Repr::parse(&vector("quick-start-approved")).unwrap();
    assert_eq!(approved.rate.bytes_per_second(), 31_244_288);
    totals.count(&approved, 1472, Some(63));
    let kind = QuickStartSignal::new().kind();
    check_feedback("quick-start-feedback", kind, |counters| {
        assert_eq!(Totals::decode(counters), Ok(totals));
        totals.encode().to_vec()
    });
}
