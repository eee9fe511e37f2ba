//! What a router writes into a request.
//!
//! | field | approved | denied |
//! |---|---|---|
//! | rate | the router's, rounded down, if lower; never raised | 0 |
//! | QS TTL | less by what this router's box takes off the IP TTL, modulo 256 | 0 |
//! | function | 1 (of a question for what was granted: 3): a router has answered | the same |
//! | nonce | if the rate is lowered, random beyond the bits that belong to it | 0 |
//!
//! Everything else stays as it is. Reports, functions that are not known and requests that were
//! denied before are left alone.

use pathmark_cc::QuickStartAnswer;
use pathmark_shim::quick_start::{LEN, Rate, Repr};
use pathmark_shim::udp::{ChecksumState, Datagram};

/// What became of a request that was to be answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Outcome {
    /// The answer is written.
    Answered,
    /// No sound request where one was expected: untouched.
    Untouched,
}

/// Bits of a nonce.
const NONCE: u64 = (1 << 48) - 1;

/// Answers the request at the start of a UDP payload. `hops` is what this router's box takes off
/// the IP TTL: 1, more where its kernel forwards as well, or 0 at a host's own port.
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

/// Answers the request at `offset` of a UDP payload inside an IP packet, and renews the UDP
/// checksum as `state` allows. `offset` is 0, or the start of a later segment in a packet that
/// offload will cut up.
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

#[cfg(test)]
#[path = "answer_tests.rs"]
mod tests;
