//! Checks that the code and Quick-Start's test vectors of `docs/wire.md` agree.

use pathmark_cc::{Duration, QuickStartAnswer, QuickStartPurpose, QuickStartRequest, Request};
use pathmark_shim::quick_start::{LEN, Rate, Repr};
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
fn a_request_and_two_answers() {
    let shim = fresh(125_000_000, QuickStartPurpose::Start);
    assert_eq!(shim[..], vector("quick-start"));
    let rate = Repr::parse(&shim).unwrap().rate;
    assert_eq!(rate.bytes_per_second(), 125_009_920);

    let answer = |approved| {
        let mut shim = fresh(125_000_000, QuickStartPurpose::Start);
        let answer = QuickStartAnswer {
            approved,
            random: 0xFFFF_FFFF_FFFF,
        };
        assert_eq!(answer_payload(&mut shim, &answer, 1), Outcome::Answered);
        shim
    };
    assert_eq!(answer(31_250_000)[..], vector("quick-start-approved"));
    assert_eq!(answer(0)[..], vector("quick-start-denied"));
}

#[test]
fn a_question_for_what_was_granted() {
    let mut shim = fresh(31_244_288, QuickStartPurpose::Keep);
    assert_eq!(shim[..], vector("quick-start-keep"));
    let answer = QuickStartAnswer {
        approved: 15_625_000,
        random: 0xFFFF_FFFF_FFFF,
    };
    assert_eq!(answer_payload(&mut shim, &answer, 1), Outcome::Answered);
    assert_eq!(shim[..], vector("quick-start-kept"));
}

#[test]
fn a_feedback_frame() {
    let mut totals = Totals::default();
    let approved = Repr::parse(&vector("quick-start-approved")).unwrap();
    assert_eq!(approved.rate, Rate::floor(31_250_000));
    totals.count(&approved, 1472, Some(63));
    let kind = QuickStartSignal::new().kind();
    check_feedback("quick-start-feedback", kind, |counters| {
        assert_eq!(Totals::decode(counters), Ok(totals));
        totals.encode().to_vec()
    });
}
