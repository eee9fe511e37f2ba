//! Reads requests for a port, and writes the router's answer into them.
//!
//! | field | approved | denied |
//! |---|---|---|
//! | rate | the router's, rounded down, if lower; never raised | 0 |
//! | QS TTL | minus the hops that this router's machine subtracts from the IP TTL, modulo 256 | 0 |
//! | function | 1 (for a query about a grant: 3): a router has answered | the same |
//! | nonce | if the rate is lowered, random outside the bits that belong to it | 0 |
//!
//! All other fields stay unchanged. Reports, unknown functions and requests that were denied
//! before are not changed at all.

use pathmark_cc::{Carried, Duration, QuickStartAnswer, QuickStartCarried};
use pathmark_shim::quick_start::{Function, LEN, Rate, Repr};
use pathmark_shim::udp::{ChecksumState, Datagram};

/// The result of answering a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Outcome {
    /// The answer is written.
    Answered,
    /// There was no valid request, so nothing was changed.
    Untouched,
}

/// Mask of a nonce.
const NONCE: u64 = (1 << 48) - 1;

/// Answers the request at the start of a UDP payload. `hops` is the number of hops that this
/// router's machine subtracts from the IP TTL: usually 1, more if its kernel forwards the packet as
/// well, or 0 at a host's own port.
#[inline]
pub fn answer_payload(payload: &mut [u8], answer: &QuickStartAnswer, hops: u8) -> Outcome {
    match payload.first_chunk_mut::<LEN>() {
        Some(shim) => match answered(shim, answer, hops) {
            Some(new) => {
                *shim = new;
                Outcome::Answered
            }
            None => Outcome::Untouched,
        },
        None => Outcome::Untouched,
    }
}

/// Answers the request at `offset` of a UDP payload inside an IP packet, and updates the UDP
/// checksum as `state` allows. `offset` is 0, or the start of a later segment in a packet that
/// offload will cut.
#[inline]
pub fn answer_packet(
    packet: &mut [u8],
    udp: &Datagram,
    offset: usize,
    answer: &QuickStartAnswer,
    hops: u8,
    state: ChecksumState,
) -> Outcome {
    let write = |shim: &[u8; LEN]| answered(shim, answer, hops);
    if udp.rewrite(packet, offset, state, write) {
        Outcome::Answered
    } else {
        Outcome::Untouched
    }
}

fn answered(shim: &[u8; LEN], answer: &QuickStartAnswer, hops: u8) -> Option<[u8; LEN]> {
    let mut repr = Repr::parse(shim).ok()?;
    let function = repr.function.answered()?;
    if repr.rate == Rate::default() {
        return None;
    }
    let rate = repr.rate.min(Rate::floor(answer.approved));
    if rate == Rate::default() {
        repr.qs_ttl = 0;
        repr.nonce = 0;
    } else {
        repr.qs_ttl = repr.qs_ttl.wrapping_sub(hops);
        if rate < repr.rate {
            let kept = (1 << rate.nonce_bits()) - 1;
            repr.nonce = repr.nonce & kept | answer.random & NONCE & !kept;
        }
    }
    repr.rate = rate;
    repr.function = function;
    Some(repr.emit())
}

/// Reads the shim in front of a UDP payload; `source` is a hash of its sender's address. Returns
/// [`Carried::Foreign`] if there is no valid request, because routers must not change reports
/// and unknown functions.
#[inline]
pub fn from_payload(payload: &[u8], source: u32) -> Carried {
    match Repr::parse(payload) {
        Ok(repr) if repr.function.answered().is_some() => Carried::QuickStart(QuickStartCarried {
            rate: repr.rate.bytes_per_second(),
            rtt: repr.rtt.micros().map(Duration::from_micros),
            source,
            keeps: matches!(repr.function, Function::Keep | Function::Kept),
        }),
        _ => Carried::Foreign,
    }
}

#[cfg(test)]
#[path = "answer_tests.rs"]
mod tests;
