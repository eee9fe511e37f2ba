//! Holds the code to Quick-Start's test vectors of `docs/wire.md`, and that file to the code.

#![cfg(feature = "transport")]

use std::collections::BTreeMap;

use pathmark_cc::{Duration, QuickStartAnswer, QuickStartPurpose, QuickStartRequest, Request};
use pathmark_shim::quick_start::{LEN, Rate, Repr};
use pathmark_transport::{
    Signal,
    wire::{Frame, Frames, Writer, frame::feedback},
};
use qs_proto::QuickStartSignal;
use qs_proto::answer::{Outcome, answer_payload};
use qs_proto::counters::Totals;

/// Quick-Start's vectors of the document by name.
fn vectors() -> BTreeMap<String, Vec<u8>> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/wire.md");
    let text = std::fs::read_to_string(path).unwrap();
    let mut vectors = BTreeMap::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let Some(name) = line.strip_prefix("```hex quick-start") else {
            continue;
        };
        let bytes = lines
            .by_ref()
            .take_while(|line| *line != "```")
            .flat_map(|line| line.split('#').next().unwrap_or("").split_whitespace())
            .map(|byte| u8::from_str_radix(byte, 16).unwrap())
            .collect();
        assert!(
            vectors.insert(name.to_owned(), bytes).is_none(),
            "{name} twice"
        );
    }
    vectors
}

fn vector(name: &str) -> Vec<u8> {
    vectors()
        .remove(name)
        .unwrap_or_else(|| panic!("no vector {name}"))
}

#[test]
fn every_vector_is_used() {
    let names: Vec<String> = vectors().into_keys().collect();
    assert_eq!(
        names,
        ["", "-approved", "-denied", "-feedback", "-keep", "-kept"]
    );
}

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
    assert_eq!(shim[..], vector(""));
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
    assert_eq!(answer(31_250_000)[..], vector("-approved"));
    assert_eq!(answer(0)[..], vector("-denied"));
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
    assert_eq!(shim[..], vector("-keep"));
    let answer = QuickStartAnswer {
        approved: 15_625_000,
        random: 0xFFFF_FFFF_FFFF,
    };
    assert_eq!(answer_payload(&mut shim, &answer, 1), Outcome::Answered);
    assert_eq!(shim[..], vector("-kept"));
}

#[test]
fn a_feedback_frame() {
    let frame = vector("-feedback");
    let mut totals = Totals::default();
    let approved = Repr::parse(&vector("-approved")).unwrap();
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
