//! Prepares a copy of a request in front of a tunnel's packet, and merges it into the inner
//! request.
//!
//! | inner field | becomes |
//! |---|---|
//! | function | answered, if the copy is answered |
//! | rate | the copy's; nothing is merged if it is above the inner rate |
//! | QS TTL | as far from the IP TTL as in the copy; 0 if the rate is 0 |
//! | nonce | bits that belong to the rate stay; others become the copy's if its rate is lower |
//!
//! The sender's round trip stays unchanged. Hops of the tunnel that do not answer become visible in
//! the QS TTL.

use pathmark_shim::quick_start::{LEN, Rate, Repr};

/// Prepares the copy at the start of `shim` for a packet whose IP TTL is `shift` higher,
/// modulo 256. If it is not a valid request, returns false without changing anything.
pub fn shift_ttl(shim: &mut [u8], shift: u8) -> bool {
    let shifted = Repr::parse(shim).ok().and_then(|repr| {
        repr.function.answered()?;
        let qs_ttl = shifted(&repr, shift);
        Some(Repr { qs_ttl, ..repr })
    });
    write(shim, shifted)
}

/// Merges the result of a copy at the start of `outer` into the request at the start of `inner`.
/// The outer IP TTL is `shift` above the inner one, modulo 256. Returns false without changing
/// anything if either is not a valid request, if they differ in function, or if the rate was raised
/// outside.
pub fn merge(inner: &mut [u8], outer: &[u8], shift: u8) -> bool {
    let merged = merged(inner, outer, 0u8.wrapping_sub(shift));
    write(inner, merged)
}

fn merged(inner: &[u8], outer: &[u8], shift: u8) -> Option<Repr> {
    let (inner, outer) = (Repr::parse(inner).ok()?, Repr::parse(outer).ok()?);
    let answered = inner.function.answered()?;
    let known = outer.function == inner.function || outer.function == answered;
    if !known || outer.rate > inner.rate {
        return None;
    }
    let kept = match outer.rate < inner.rate {
        true => (1u64 << outer.rate.nonce_bits()) - 1,
        false => u64::MAX,
    };
    Some(Repr {
        function: outer.function,
        rate: outer.rate,
        qs_ttl: shifted(&outer, shift),
        nonce: inner.nonce & kept | outer.nonce & !kept,
        ..inner
    })
}

/// The QS TTL for a packet whose IP TTL is `shift` higher.
fn shifted(repr: &Repr, shift: u8) -> u8 {
    match repr.rate == Rate::default() {
        true => 0,
        false => repr.qs_ttl.wrapping_add(shift),
    }
}

fn write(shim: &mut [u8], repr: Option<Repr>) -> bool {
    match shim.first_chunk_mut::<LEN>().zip(repr) {
        Some((shim, repr)) => {
            *shim = repr.emit();
            true
        }
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use pathmark_cc::QuickStartAnswer;
    use pathmark_shim::quick_start::{Function, RttOctave};
    use proptest::prelude::*;

    use super::*;
    use crate::answer::{Outcome, answer_payload};
    use crate::support::changed;

    const NONCE: u64 = (1 << 48) - 1;

    fn request() -> Repr {
        Repr {
            function: Function::Request,
            rate: Rate::ceil(125_000_000),
            qs_ttl: 40,
            rtt: RttOctave::ceil(60_000),
            nonce: 0x0102_0304_0506,
        }
    }

    fn merge_of(inner: &Repr, outer: &Repr, shift: u8) -> Option<Repr> {
        let mut shim = inner.emit();
        let done = merge(&mut shim, &outer.emit(), shift);
        assert!(done || shim == inner.emit());
        done.then(|| Repr::parse(&shim).unwrap())
    }

    /// A router outside must answer as it would have answered the inner request.
    #[test]
    fn a_router_outside_answers_as_one_inside() {
        let (inner_ttl, outer_ttl) = (60u8, 255u8);
        let shift = outer_ttl - inner_ttl;
        for approved in [u64::MAX, 31_250_000, 100, 0] {
            for function in [Function::Request, Function::Answered, Function::Keep] {
                let inner = changed(request(), |repr| repr.function = function);
                let answer = QuickStartAnswer {
                    approved,
                    random: 0x00FF_FFFF_FFFF_FFFF,
                };
                let mut copy = inner.emit();
                assert!(shift_ttl(&mut copy, shift));
                let _: Outcome = answer_payload(&mut copy, &answer, 1);
                // Only the outer IP TTL decreases, not the inner one.
                let left = merge_of(&inner, &Repr::parse(&copy).unwrap(), shift - 1).unwrap();
                let mut expected = inner.emit();
                let _: Outcome = answer_payload(&mut expected, &answer, 0);
                let expected = Repr::parse(&expected).unwrap();
                assert_eq!(left, expected, "{approved} {function:?}");
            }
        }
        let fewer = changed(request(), |repr| repr.qs_ttl = 37);
        let left = merge_of(&request(), &fewer, 250).unwrap();
        assert_eq!(left.qs_ttl, 43, "hops that take no part");
    }

    #[test]
    fn what_was_raised_or_is_no_request_is_not_merged() {
        let raised = changed(request(), |repr| {
            (repr.function, repr.rate) = (Function::Answered, Rate::MAX);
        });
        assert_eq!(merge_of(&request(), &raised, 0), None);
        let of = |function| changed(request(), |repr| repr.function = function);
        use Function::{Answered, Keep, Kept, Report, Unknown};
        for function in [Keep, Kept, Report, Unknown(7)] {
            assert_eq!(merge_of(&request(), &of(function), 0), None, "{function:?}");
        }
        for other in [Report, Unknown(7)].map(of) {
            assert_eq!(merge_of(&other, &other, 0), None, "{other:?}");
            assert!(!shift_ttl(&mut other.emit(), 1));
        }
        let withdrawn = merge_of(&of(Answered), &request(), 0);
        assert_eq!(withdrawn, None, "an answer that was withdrawn");
        let mut damaged = request().emit();
        damaged[4] ^= 1;
        assert!(!shift_ttl(&mut damaged.clone(), 1));
        assert!(!merge(&mut request().emit(), &damaged, 0));
        assert!(!merge(&mut damaged, &request().emit(), 0));
    }

    prop_compose! {
        fn any_repr()(
            function in 0..4u8,
            code: u16,
            qs_ttl: u8,
            rtt in 0..16_384_000u64,
            nonce in 0..=NONCE,
        ) -> Repr {
            let function = match function {
                0 => Function::Request,
                1 => Function::Answered,
                2 => Function::Keep,
                _ => Function::Kept,
            };
            let (rate, rtt) = (Rate::from_code(code), RttOctave::ceil(rtt));
            Repr { function, rate, qs_ttl, rtt, nonce }
        }
    }

    proptest! {
        #[test]
        fn no_request_outside_raises_the_rate(inner in any_repr(), outer in any_repr(), shift: u8) {
            match merge_of(&inner, &outer, shift) {
                Some(left) => {
                    prop_assert_eq!(left.rate, outer.rate.min(inner.rate));
                    prop_assert_eq!(left.rtt, inner.rtt);
                    let kept = (1u64 << left.rate.nonce_bits()) - 1;
                    prop_assert_eq!(left.nonce & kept, inner.nonce & kept);
                    prop_assert_eq!(merge_of(&left, &outer, shift), Some(left), "merged twice");
                }
                None => {
                    let (asked, came) = (inner.function.answered(), outer.function.answered());
                    let raised = outer.rate > inner.rate;
                    prop_assert!(raised || asked != came || inner.function.is_answered());
                }
            }
        }
    }
}
