//! Fuzz targets for the answering rule and the counters.

use pathmark_cc::{Carried, QuickStartAnswer};
use pathmark_shim::quick_start::{Function, Rate, Repr};
use pathmark_shim::{Kind, frame};
use qs_proto::answer;
use qs_proto::answer::{Outcome, answer_payload};
use qs_proto::counters::Totals;

use crate::counters;

/// The input consists of an answer of 16 bytes and a datagram. The datagram is answered if and only
/// if it starts with a valid request that was not denied yet, and the request can only be lowered.
/// The same is tested after correcting prefix and check.
fn shim(input: &[u8]) {
    let Some((answer, datagram)) = input.split_first_chunk::<16>() else {
        return;
    };
    let numbers = u128::from_be_bytes(*answer);
    let answer = QuickStartAnswer {
        approved: (numbers >> 64) as u64 >> (numbers & 63),
        random: numbers as u64,
    };
    answer_one(&answer, datagram);
    let mut sealed = datagram.to_vec();
    if let Some(shim) = sealed.first_chunk_mut::<16>() {
        shim[7] &= 0x8F;
        frame::seal(Kind::QUICK_START, shim);
        answer_one(&answer, &sealed);
    }
}

fn answer_one(answer: &QuickStartAnswer, datagram: &[u8]) {
    let mut answered = datagram.to_vec();
    let outcome = answer_payload(&mut answered, answer, 1);
    let asked = match answer::from_payload(datagram, 3) {
        Carried::QuickStart(asked) => asked.rate,
        _ => 0,
    };
    assert_eq!(outcome == Outcome::Answered, asked > 0);
    if outcome == Outcome::Untouched {
        assert_eq!(answered, datagram);
        return;
    }
    let before = Repr::parse(datagram).expect("it was answered");
    let after = Repr::parse(&answered).expect("it was sealed");
    assert_eq!(answered[16..], datagram[16..]);
    assert_eq!(after.function, Function::Answered);
    assert_eq!(after.rtt, before.rtt);
    assert!(after.rate <= before.rate);
    let got = after.rate.bytes_per_second();
    assert!(got <= answer.approved || after.rate == before.rate);
    if after.rate == Rate::default() {
        assert_eq!((after.qs_ttl, after.nonce), (0, 0));
    } else {
        assert_eq!(after.qs_ttl, before.qs_ttl.wrapping_sub(1));
        let kept = (1u64 << after.rate.nonce_bits()) - 1;
        assert_eq!(after.nonce & kept, before.nonce & kept);
    }
}

/// If two sets of counters are accepted, their difference is consistent.
fn feedback(input: &[u8]) {
    let Some((sent, older, newer)) = counters::read(input) else {
        return;
    };
    let Ok(newer) = Totals::decode(&newer) else {
        return;
    };
    assert_eq!(Totals::decode(&newer.encode()), Ok(newer));
    let older = Totals::decode(&older).unwrap_or_default();
    if let Ok(feedback) = newer.since(&older, &sent) {
        assert!(feedback.packets <= sent.packets && feedback.bytes <= sent.bytes);
        assert!(feedback.bytes <= feedback.packets.saturating_mul(sent.longest));
        assert!(feedback.nonce < 1 << 48);
    }
}

target!(shims, shim, 256);

target!(counters, feedback, 256);
