//! Fuzz target for the answering rule.

use pathmark_cc::{Carried, QuickStartAnswer};
use pathmark_shim::quick_start::Repr;
use pathmark_shim::{Kind, frame};
use qs_proto::answer;
use qs_proto::answer::{Outcome, answer_payload};

/// The input consists of an answer of 16 bytes and a datagram. The datagram is answered if and only
/// if it starts with a valid request that was not denied yet, and the request can only be lowered;
/// `qs_proto` tests each field. The same is tested after correcting prefix and check.
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
    assert!(after.rate <= before.rate);
}

target!(shims, shim, 256);
