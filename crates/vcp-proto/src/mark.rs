//! The marking rule: what a router writes into a VCP shim.
//!
//! Every field is combined with what the packet already says, so that the order of two routers matters only where both
//! report the same load:
//!
//! | field | becomes |
//! |---|---|
//! | code | the higher of both; 0 stays 0, such a packet is not VCP |
//! | BISE | cleared by a router without it |
//! | hops | one more, up to 255 |
//! | router, load | this router's, if its load is not below the one found |
//! | r | the lower of both, if the shim carries r |
//! | t_ρ | the longer of both, rounded up to a millisecond |
//!
//! Reserved bits and the sender's RTT class stay as they are.

use core::time::Duration;

use pathmark_cc::{VcpAnswer, VcpCode};
use pathmark_shim::{
    frame,
    udp::{ChecksumState, Datagram},
};

use crate::header::{BISE, CARRIES_R, CODE_MASK, CODE_SHIFT, LEN, Packet};

/// What became of a packet that was to be marked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Outcome {
    /// The answer is written.
    Marked,
    /// No sound VCP shim where one was expected, or its code is 0: untouched.
    Untouched,
}

/// The shim with `answer` of the router with this identity combined in, sealed. `None` if its code is 0.
#[inline]
#[must_use]
pub fn combine(packet: &Packet<'_>, answer: &VcpAnswer, router: u16) -> Option<[u8; LEN]> {
    if packet.code() == VcpCode::None {
        return None;
    }
    let mut shim = *packet.bytes();
    let code = packet.code().max(answer.code);
    let mut first = shim[4] & !CODE_MASK | (code as u8) << CODE_SHIFT;
    match answer.r {
        None => first &= !BISE,
        Some(r) if first & CARRIES_R != 0 => {
            [shim[8], shim[9]] = packet.r().min(r).to_be_bytes();
        }
        Some(_) => {}
    }
    shim[4] = first;
    shim[5] = packet.hops().saturating_add(1);
    if answer.load_128 >= packet.load_128() {
        [shim[6], shim[7]] = router.to_be_bytes();
        shim[12] = answer.load_128;
    }
    [shim[10], shim[11]] = packet
        .t_rho_ms()
        .max(whole_millis(answer.t_rho))
        .to_be_bytes();
    frame::renew_check(&mut shim);
    Some(shim)
}

/// Rounded up, so that nobody acts faster than the router measures; at most 65 535.
#[inline]
fn whole_millis(t_rho: Duration) -> u16 {
    // `as_millis` would divide 128-bit numbers.
    let below = t_rho.subsec_nanos().div_ceil(1_000_000);
    let millis = t_rho
        .as_secs()
        .saturating_mul(1000)
        .saturating_add(u64::from(below));
    u16::try_from(millis).unwrap_or(u16::MAX)
}

/// Marks the shim at the start of `payload` in place. For payloads that no checksum covers yet.
#[inline]
pub fn mark_payload(payload: &mut [u8], answer: &VcpAnswer, router: u16) -> Outcome {
    let Some(marked) = marked(payload, answer, router) else {
        return Outcome::Untouched;
    };
    match payload.first_chunk_mut::<LEN>() {
        Some(shim) => {
            *shim = marked;
            Outcome::Marked
        }
        None => Outcome::Untouched,
    }
}

/// Marks the shim at `offset` of a UDP payload inside an IP packet, and renews the UDP checksum as
/// `state` allows. `offset` is 0, or the start of a later segment in a packet that offload will cut up.
///
/// A first fragment is marked if it holds the whole shim; a [`Datagram`] is never found in a later one.
#[inline]
pub fn mark_packet(
    bytes: &mut [u8],
    udp: &Datagram,
    offset: usize,
    answer: &VcpAnswer,
    router: u16,
    state: ChecksumState,
) -> Outcome {
    let marked = udp
        .payload(bytes)
        .get(offset..)
        .and_then(|segment| marked(segment, answer, router));
    match marked {
        Some(marked) if udp.rewrite(bytes, offset, &marked, state) => Outcome::Marked,
        _ => Outcome::Untouched,
    }
}

#[inline]
fn marked(payload: &[u8], answer: &VcpAnswer, router: u16) -> Option<[u8; LEN]> {
    combine(&Packet::parse(payload).ok()?, answer, router)
}

#[cfg(test)]
#[path = "mark_tests.rs"]
mod tests;
