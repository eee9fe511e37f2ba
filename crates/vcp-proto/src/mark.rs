//! The marking rule: what a router writes into a VCP shim.
//!
//! Every field is combined with the packet's present one, so that the order of two routers
//! matters only where both report the same load:
//!
//! | field | becomes |
//! |---|---|
//! | code | the higher of both; 0 stays 0, such a packet is not VCP |
//! | BISE | cleared by a router without it |
//! | hops | more by what this router's box takes off the IP TTL, up to 255 |
//! | router, load, translated | this router's, if its load is not below the one found |
//! | r | the lower of both, if the shim carries r |
//! | t_ρ | the longer of both, rounded up to a millisecond |
//! | corruption | the class of what it stands for and what this router declares, together |
//!
//! The sender's RTT class stays as it is.

use pathmark_cc::VcpAnswer;
use pathmark_shim::{
    FramingError,
    checksum::{Delta, update_udp},
    corruption, frame,
    udp::{ChecksumState, Datagram},
};

use crate::header::{self, LEN, Packet};

// Where the fields are in the shim's words behind the prefix, first byte least significant: in the
// first,
const CODE: u32 = header::CODE_MASK as u32;
const FLAGS: u32 = !(header::CODE_MASK | corruption::MASK) as u32;
const CORRUPTION: u32 = corruption::MASK as u32;
const BISE: u32 = header::BISE as u32;
const CARRIES_R: u32 = header::CARRIES_R as u32;
const TRANSLATED: u32 = header::TRANSLATED as u32;
const HOPS: u32 = 0xFF00;
const ONE_HOP: u32 = 0x0100;
const ROUTER: u32 = 0xFFFF_0000;
// in the second, once its bytes are swapped,
const R: u32 = 0xFFFF_0000;
const T_RHO: u32 = 0xFFFF;
// and in the third.
const LOAD: u32 = 0xFF;

/// A router as marks name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Router {
    /// Its identity, chosen by its operator; not 0.
    pub id: u16,
    /// What its box takes off the IP TTL: 1, and more where the kernel of the box forwards its
    /// packets as well.
    pub hops: u8,
}

impl From<u16> for Router {
    /// A router that takes one off the IP TTL.
    fn from(id: u16) -> Self {
        Self { id, hops: 1 }
    }
}

/// What became of a packet that was to be marked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Outcome {
    /// The answer is written.
    Marked,
    /// No sound VCP shim where one was expected, or its code is 0: untouched.
    Untouched,
}

/// The shim with `answer` of the router with this identity combined in, sealed. `None` if its code
/// is 0.
// On whole words: fields taken out and put together byte by byte would cost as much again as all
// the rest.
#[inline(always)]
#[must_use]
pub fn combine(
    packet: &Packet<'_>,
    answer: &VcpAnswer,
    router: impl Into<Router>,
) -> Option<[u8; LEN]> {
    let router = router.into();
    let [first, second, third] = frame::words(packet.bytes());
    let found = first & CODE;
    if found == 0 {
        return None;
    }
    let code = found.max((answer.code as u32) << CODE.trailing_zeros());
    let mut flags = first & FLAGS;
    let swapped = second.swap_bytes();
    let mut r = swapped & R;
    match answer.r {
        None => flags &= !BISE,
        Some(mine) if first & CARRIES_R != 0 => r = r.min(u32::from(mine) << R.trailing_zeros()),
        Some(_) => {}
    }
    let mut corrupted = first & CORRUPTION;
    if answer.corruption_ppm > 0 {
        let class = packet.corruption();
        corrupted = u32::from(corruption::add(class, answer.corruption_ppm));
    }
    let hops = ((first & HOPS) + ONE_HOP * u32::from(router.hops)).min(HOPS);
    let (mut load, mut by) = (third & LOAD, first & ROUTER);
    let mine = u32::from(answer.load_128);
    if mine >= load {
        load = mine;
        by = u32::from(router.id.swap_bytes()) << ROUTER.trailing_zeros();
        let translated = u32::from(answer.translated) << TRANSLATED.trailing_zeros();
        flags = flags & !TRANSLATED | translated;
    }
    let t_rho = (swapped & T_RHO).max(u32::from(answer.t_rho_ms));
    let change = [
        first ^ (code | flags | corrupted | hops | by),
        second ^ (r | t_rho).swap_bytes(),
        (third ^ load) & LOAD,
    ];
    Some(frame::change_fields(packet.bytes(), change))
}

/// Marks the shim at the start of `payload` in place. For payloads that no checksum covers yet.
#[inline]
pub fn mark_payload(payload: &mut [u8], answer: &VcpAnswer, router: impl Into<Router>) -> Outcome {
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

/// Marks rows of packets that mostly bear the same shim and get the same answer, as those of a
/// super-packet do.
#[derive(Clone, Copy, Debug, Default)]
pub struct Row {
    /// The last shim that was marked, by which router with which answer, and what it became.
    last: Option<([u8; LEN], Router, VcpAnswer, [u8; LEN])>,
}

impl Row {
    /// What [`mark_payload`] does.
    #[inline]
    pub fn mark_payload(
        &mut self,
        payload: &mut [u8],
        answer: &VcpAnswer,
        router: impl Into<Router>,
    ) -> Outcome {
        let router = router.into();
        let Some(shim) = payload.first_chunk_mut::<LEN>() else {
            return Outcome::Untouched;
        };
        if let Some((found, by, said, marked)) = &self.last
            && found == shim
            && *by == router
            && said == answer
        {
            *shim = *marked;
            return Outcome::Marked;
        }
        let found = *shim;
        let outcome = mark_payload(shim, answer, router);
        if outcome == Outcome::Marked {
            self.last = Some((found, router, *answer, *shim));
        }
        outcome
    }
}

/// Marks the shim at `offset` of a UDP payload inside an IP packet, and renews the UDP checksum as
/// `state` allows. `offset` is 0, or the start of a later segment in a packet that offload will cut
/// up.
///
/// A first fragment is marked if it holds the whole shim; a [`Datagram`] is never found in a later
/// one.
#[inline]
pub fn mark_packet(
    bytes: &mut [u8],
    udp: &Datagram,
    offset: usize,
    answer: &VcpAnswer,
    router: impl Into<Router>,
    state: ChecksumState,
) -> Outcome {
    let router = router.into();
    if udp.rewrite(bytes, offset, state, |shim| marked(shim, answer, router)) {
        Outcome::Marked
    } else {
        Outcome::Untouched
    }
}

/// A shim as it came in a packet, stored next to the packet while that waits: to mark it, nothing
/// needs to be fetched from memory again, only written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lifted {
    /// Where the shim is, in bytes from the start of the packet.
    at: u16,
    checksum: [u8; 2],
    shim: [u8; LEN],
}

impl Lifted {
    /// The sound shim at the start of a UDP payload inside an IP packet.
    ///
    /// # Errors
    /// [`FramingError`].
    #[inline]
    pub fn find(bytes: &[u8], udp: &Datagram) -> Result<Self, FramingError> {
        let shim = *Packet::parse(udp.payload(bytes))?.bytes();
        let at = udp.payload_offset();
        let checksum = bytes.get(..at).and_then(|headers| headers.last_chunk());
        match (u16::try_from(at), checksum) {
            (Ok(at), Some(&checksum)) => Ok(Self { at, checksum, shim }),
            _ => Err(FramingError::Truncated),
        }
    }

    /// The shim as it was found.
    #[inline]
    #[must_use]
    pub const fn packet(&self) -> Packet<'_> {
        Packet::checked(&self.shim)
    }

    /// Where the UDP payload starts, in bytes from the start of the packet.
    #[inline]
    #[must_use]
    pub const fn payload_offset(&self) -> usize {
        self.at as usize
    }

    /// [`mark_packet`] for the packet that the shim was found in, unchanged since then (but for
    /// its IP header).
    #[inline]
    pub fn mark(
        &self,
        bytes: &mut [u8],
        answer: &VcpAnswer,
        router: impl Into<Router>,
        state: ChecksumState,
    ) -> Outcome {
        let Some((headers, payload)) = bytes.split_at_mut_checked(self.payload_offset()) else {
            return Outcome::Untouched;
        };
        let (Some(checksum), Some(shim)) = (headers.last_chunk_mut(), payload.first_chunk_mut())
        else {
            return Outcome::Untouched;
        };
        let Some(marked) = combine(&self.packet(), answer, router) else {
            return Outcome::Untouched;
        };
        *shim = marked;
        if state == ChecksumState::Complete {
            let change = Delta::between(&self.shim, &marked);
            *checksum = update_udp(u16::from_be_bytes(self.checksum), change).to_be_bytes();
        }
        Outcome::Marked
    }
}

#[inline]
fn marked(payload: &[u8], answer: &VcpAnswer, router: impl Into<Router>) -> Option<[u8; LEN]> {
    combine(&Packet::parse(payload).ok()?, answer, router)
}

#[cfg(test)]
#[path = "mark_tests.rs"]
mod tests;
