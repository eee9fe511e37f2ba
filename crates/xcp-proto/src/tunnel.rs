//! Prepares a copy of an XCP shim in front of a tunnel's packet, and merges it into the inner shim.
//!
//! | inner field | becomes |
//! |---|---|
//! | stamped | set, if it is set in the copy |
//! | feedback, corruption | the lower feedback, the higher class |
//! | xcp_ttl | as far from the IP TTL as in the copy, so that hops without XCP routers show |
//! | format | 3, if it is 3 in one of both |
//! | last router | the copy's |
//! | router, translated | those of the copy, if its feedback is not above the inner one |
//!
//! The sender's fields stay unchanged. No field of the copy can raise the inner feedback.

use core::mem;

use crate::header::{Body, Format, Full, Packet, Repr};
use crate::window::Compact;

/// Prepares the copy at the start of `shim` for a packet whose IP TTL is `shift` higher,
/// modulo 256. If it is not a valid shim that routers answer, returns false without changing
/// anything.
pub fn shift_ttl(shim: &mut [u8], shift: u8) -> bool {
    asking(shim).is_some_and(|repr| {
        let xcp_ttl = repr.xcp_ttl.wrapping_add(shift);
        Repr { xcp_ttl, ..repr }.emit(shim).is_some()
    })
}

/// Merges the result of a copy at the start of `outer` into the shim at the start of `inner`.
/// The outer IP TTL is `shift` above the inner one, modulo 256. Returns false without changing
/// anything if either is not a valid shim that routers answer, or their forms differ.
pub fn merge(inner: &mut [u8], outer: &[u8], shift: u8) -> bool {
    asking(inner)
        .zip(asking(outer))
        .and_then(|(mine, theirs)| merged(&mine, &theirs, shift))
        .is_some_and(|merged| merged.emit(inner).is_some())
}

fn merged(inner: &Repr, outer: &Repr, shift: u8) -> Option<Repr> {
    let (body, bounds) = match (inner.body, outer.body) {
        (Body::Full(mine), Body::Full(theirs))
            if mem::discriminant(&mine.last) == mem::discriminant(&theirs.last) =>
        {
            let body = Full {
                delta: mine.delta.min(theirs.delta),
                corruption: mine.corruption.max(theirs.corruption),
                last: theirs.last,
                ..mine
            };
            (Body::Full(body), theirs.delta <= mine.delta)
        }
        (Body::Compact(mine), Body::Compact(theirs)) => {
            let bounds = theirs.feedback_q12() <= mine.feedback_q12();
            let feedback = if bounds { theirs } else { mine }.feedback;
            (Body::Compact(Compact { feedback, ..mine }), bounds)
        }
        _ => return None,
    };
    let named = if bounds { outer } else { inner };
    Some(Repr {
        format: match [inner.format, outer.format].contains(&Format::Uncounted) {
            true => Format::Uncounted,
            false => Format::Standard,
        },
        stamped: inner.stamped || outer.stamped,
        translated: named.translated,
        xcp_ttl: outer.xcp_ttl.wrapping_sub(shift),
        router: named.router,
        body,
    })
}

/// The fields of a valid shim that routers answer.
fn asking(payload: &[u8]) -> Option<Repr> {
    let repr = Packet::parse(payload).ok()?.repr();
    repr.format.asks().then_some(repr)
}

#[cfg(test)]
#[path = "tunnel_tests.rs"]
mod tests;
