use pathmark_cc::Carried;
use pathmark_shim::quick_start::RttOctave;
use proptest::prelude::*;

use pathmark_shim::quick_start::Function;

use super::*;
use crate::support::changed;

fn request(rate: u64) -> Repr {
    Repr {
        function: Function::Request,
        rate: Rate::ceil(rate),
        qs_ttl: 200,
        rtt: RttOctave::ceil(60_000),
        nonce: 0xAAAA_AAAA_AAAA,
    }
}

fn approved(rate: u64) -> QuickStartAnswer {
    QuickStartAnswer {
        approved: rate,
        random: 0x5555_5555_5555_5555,
    }
}

fn after(repr: &Repr, answer: &QuickStartAnswer, hops: u8) -> Repr {
    let mut shim = repr.emit();
    assert_eq!(answer_payload(&mut shim, answer, hops), Outcome::Answered);
    Repr::parse(&shim).unwrap()
}

#[test]
fn a_rate_that_is_free_passes_unchanged_but_for_the_ttl() {
    let repr = request(125_000_000);
    let mut expected = repr;
    (expected.qs_ttl, expected.function) = (199, Function::Answered);
    assert_eq!(after(&repr, &approved(200_000_000), 1), expected);
    // The QS TTL wraps around, like the difference of both.
    let last = Repr { qs_ttl: 0, ..repr };
    assert_eq!(after(&last, &approved(u64::MAX), 1).qs_ttl, 255);
    assert_eq!(after(&last, &approved(u64::MAX), 0).qs_ttl, 0);
}

#[test]
fn a_lower_rate_spoils_the_nonce_beyond_its_bits() {
    let after = after(&request(125_000_000), &approved(30_000_000), 1);
    assert_eq!(after.rate, Rate::floor(30_000_000));
    let bits = after.rate.nonce_bits();
    assert_eq!(bits, 14);
    let kept = (1u64 << bits) - 1;
    assert_eq!(after.nonce & kept, 0xAAAA_AAAA_AAAA & kept);
    assert_eq!(after.nonce & !kept, 0x5555_5555_5555 & !kept);
}

#[test]
fn a_denial_ends_the_request() {
    let denied = after(&request(125_000_000), &approved(0), 1);
    let left = (denied.rate, denied.qs_ttl, denied.nonce);
    assert_eq!(left, (Rate::default(), 0, 0));
    let mut shim = denied.emit();
    let before = shim;
    let outcome = answer_payload(&mut shim, &approved(u64::MAX), 1);
    assert_eq!((outcome, shim), (Outcome::Untouched, before));
}

#[test]
fn a_question_for_what_was_granted_is_answered_alike() {
    let keep = changed(request(1_000_000), |repr| repr.function = Function::Keep);
    let kept = after(&keep, &approved(5_000_000), 1);
    assert_eq!(kept.function, Function::Kept);
    let lowered = after(&keep, &approved(500_000), 1);
    assert_eq!(lowered.function, Function::Kept);
    assert_eq!(lowered.rate, Rate::floor(500_000));
    let Carried::QuickStart(carried) = from_payload(&lowered.emit(), 3) else {
        panic!("no question");
    };
    assert!(carried.keeps);
}

#[test]
fn reports_and_strangers_are_left_alone() {
    for function in [Function::Report, Function::Unknown(4)] {
        let repr = changed(request(1_000_000), |repr| repr.function = function);
        let mut shim = repr.emit();
        assert_eq!(from_payload(&shim, 0), Carried::Foreign);
        let outcome = answer_payload(&mut shim, &approved(1), 1);
        assert_eq!((outcome, shim), (Outcome::Untouched, repr.emit()));
    }
    let mut damaged = request(1_000_000).emit();
    damaged[5] ^= 1;
    for other in [&mut damaged[..], &mut [0; 3]] {
        let outcome = answer_payload(other, &approved(1), 1);
        assert_eq!(outcome, Outcome::Untouched);
    }
}

proptest! {
    /// Along any path, the rate never increases, and the nonce proves it down to its exponent.
    #[test]
    fn rates_never_rise(
        code: u16,
        nonce in 0..1u64 << 48,
        path in prop::collection::vec((0..1u64 << 42, any::<u64>()), 1..6),
    ) {
        let mut repr = request(0);
        (repr.rate, repr.nonce) = (Rate::from_code(code), nonce);
        for (approved, random) in path {
            let before = repr;
            let mut shim = repr.emit();
            let outcome = answer_payload(&mut shim, &QuickStartAnswer { approved, random }, 1);
            repr = Repr::parse(&shim).unwrap();
            prop_assert_eq!(outcome == Outcome::Answered, before.rate > Rate::default());
            if outcome == Outcome::Untouched {
                prop_assert_eq!(repr, before);
                continue;
            }
            prop_assert_eq!((repr.function, repr.rtt), (Function::Answered, before.rtt));
            prop_assert!(repr.rate <= before.rate);
            prop_assert!(repr.rate.bytes_per_second() <= approved || repr.rate == before.rate);
            if repr.rate == Rate::default() {
                prop_assert_eq!((repr.qs_ttl, repr.nonce), (0, 0));
            } else {
                prop_assert_eq!(repr.qs_ttl, before.qs_ttl.wrapping_sub(1));
                let kept = (1u64 << repr.rate.nonce_bits()) - 1;
                prop_assert_eq!(repr.nonce & kept, nonce & kept);
            }
        }
    }
}
