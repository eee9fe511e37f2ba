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

/// The sender's RTT class in a shim's second word.
const RTT_CLASS: u64 = 0x00FF_0000;

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
// Returned through memory, the shim would be written in words and read back whole, which stalls for as long as all
// of this takes.
#[inline(always)]
#[must_use]
pub fn combine(packet: &Packet<'_>, answer: &VcpAnswer, router: u16) -> Option<[u8; LEN]> {
    if packet.code() == VcpCode::None {
        return None;
    }
    let [high, low] = packet.words();
    let [_, _, _, _, found, ..] = *packet.bytes();

    let mut first = found & !CODE_MASK | (packet.code().max(answer.code) as u8) << CODE_SHIFT;
    let mut r = packet.r();
    match answer.r {
        None => first &= !BISE,
        Some(mine) if found & CARRIES_R != 0 => r = r.min(mine),
        Some(_) => {}
    }
    let (router, load) = if answer.load_128 >= packet.load_128() {
        (router, answer.load_128)
    } else {
        (packet.router(), packet.load_128())
    };
    let hops = packet.hops().saturating_add(1);
    let t_rho = packet.t_rho_ms().max(whole_millis(answer.t_rho));

    let marked = [
        u64::from(first) << 24 | u64::from(hops) << 16 | u64::from(router),
        u64::from(r) << 48 | u64::from(t_rho) << 32 | u64::from(load) << 24 | low & RTT_CLASS,
    ];
    Some(frame::replace_fields([high, low], marked))
}

/// Rounded up, so that nobody acts faster than the router measures; at most 65 535.
#[inline]
fn whole_millis(t_rho: Duration) -> u16 {
    let Ok(seconds @ 0..=65) = u32::try_from(t_rho.as_secs()) else {
        return u16::MAX;
    };
    let millis = seconds * 1000 + t_rho.subsec_nanos().div_ceil(1_000_000);
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
    if udp.rewrite(bytes, offset, state, |shim| marked(shim, answer, router)) {
        Outcome::Marked
    } else {
        Outcome::Untouched
    }
}

#[inline]
fn marked(payload: &[u8], answer: &VcpAnswer, router: u16) -> Option<[u8; LEN]> {
    combine(&Packet::parse(payload).ok()?, answer, router)
}

#[cfg(test)]
#[path = "mark_tests.rs"]
mod tests;
