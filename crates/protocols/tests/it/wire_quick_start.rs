//! Checks that the code and Quick-Start's test vectors of `docs/wire.md` agree.

use pathmark_cc::{Duration, QuickStartAnswer, QuickStartPurpose, QuickStartRequest, Request};
use pathmark_shim::quick_start::{LEN, Rate, Repr};
use pathmark_transport::{
    Signal,
    wire::{Frame, Frames, Writer, frame::feedback},
};
use qs_proto::QuickStartSignal;
use qs_proto::answer::{Outcome, answer_payload};
use qs_proto::counters::Totals;

use crate::vectors::vector;

fn fresh() -> [u8; LEN] {
    let mut request = Request::default();
    request.quick_start = Some(QuickStartRequest {
        rate: 125_000_000,
        purpose: QuickStartPurpose::Start,
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
    let shim = fresh();
    assert_eq!(shim[..], vector("quick-start"));
    let rate = Repr::parse(&shim).unwrap().rate;
    assert_eq!(rate.bytes_per_second(), 125_009_920);

    let answer = |approved| {
        let mut shim = fresh();
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
    let mut request = Request::default();
    request.quick_start = Some(QuickStartRequest {
        rate: 31_244_288,
        purpose: QuickStartPurpose::Keep,
        ttl_difference: 0,
        nonce: 0x0102_0304_0506,
        rtt: Some(Duration::from_millis(60)),
    });
    let mut shim = [0; LEN];
    QuickStartSignal::new().fill(&request, &mut shim);
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
    let frame = vector("quick-start-feedback");
    let mut totals = Totals::default();
    let approved = Repr::parse(&vector("quick-start-approved")).unwrap();
    assert_eq!(approved.rate, Rate::floor(31_250_000));
    totals.count(&approved, 1472, Some(63));
    let counters =
        totals
            .encode()
            .into_iter()
            .fold(pathmark_transport::Counters::new(), |mut all, one| {
                assert!(all.push(one));
                all
            });
    let mut bytes = vec![0; 100];
    let mut w = Writer::new(&mut bytes);
    feedback::encode(&mut w, 2, 0, 12_345_678, &counters).unwrap();
    let len = w.position();
    assert_eq!(bytes[..len], frame);
    match Frames::new(&frame).next() {
        Some(Ok(Frame::Feedback(read))) => {
            assert_eq!(Totals::decode(read.counters().as_slice()), Ok(totals));
        }
        other => panic!("{other:?}"),
    }
}
