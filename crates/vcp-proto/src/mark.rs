//! What a router does with a packet of VCP: it reads the fields for its law, and writes its answer
//! into the shim or, if it is configured so, into the IP ECN field.
//!
//! In the shim, every field is combined with its current value in the packet, so that the order of
//! two routers matters only if both report the same load:
//!
//! | field | becomes |
//! |---|---|
//! | code | the higher of both; 0 stays 0, because such a packet is not VCP |
//! | BISE | cleared by a router without it |
//! | hops | plus the hops that this router's machine subtracts from the IP TTL, up to 255 |
//! | router, load, translated | this router's, if its load is not below the present one |
//! | r | the lower of both, if the shim carries r |
//! | t_ρ | the longer of both, rounded up to a millisecond |
//! | corruption | the class of the total of its present value and this router's declared loss |
//!
//! The sender's RTT class stays unchanged.
//!
//! The ECN field is for paths that preserve nothing else (a tunnel that copies only DSCP and ECN):
//!
//! | field | RFC 3168 | here |
//! |---|---|---|
//! | 00 | Not-ECT | not VCP |
//! | 01 | ECT(1) | LOW |
//! | 10 | ECT(0) | HIGH |
//! | 11 | CE | OVER |
//!
//! Because this redefines a field with a standard meaning (RFC 3168, RFC 9331), it is only
//! suitable for networks under one administration: both ends must choose it, and a router's
//! configuration must select the packets that use it by DSCP, port or prefix. The functions here
//! trust this classification and must not be called for other packets. There is no hop count, so
//! an unchanged 01 counts as LOW.

use super::header::{self, LEN, Packet};
use pathmark_cc::{Carried, VcpAnswer, VcpCarried, VcpCode};
use pathmark_shim::checksum::{Delta, update_udp};
use pathmark_shim::ip::Layout;
use pathmark_shim::udp::{ChecksumState, Datagram};
use pathmark_shim::{FramingError, corruption, frame};

// Positions of the fields in the shim's words after the prefix, with the first byte least
// significant: in the first word,
const CODE: u32 = header::CODE_MASK as u32;
const FLAGS: u32 = !(header::CODE_MASK | corruption::MASK) as u32;
const CORRUPTION: u32 = corruption::MASK as u32;
const BISE: u32 = header::BISE as u32;
const CARRIES_R: u32 = header::CARRIES_R as u32;
const TRANSLATED: u32 = header::TRANSLATED as u32;
const HOPS: u32 = 0xFF00;
const ONE_HOP: u32 = 0x0100;
const ROUTER: u32 = 0xFFFF_0000;
// in the second word, after swapping its bytes,
const R: u32 = 0xFFFF_0000;
const T_RHO: u32 = 0xFFFF;
// and in the third word.
const LOAD: u32 = 0xFF;

/// The identity of a router in marks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Router {
    /// Its number, chosen by the operator; not 0.
    pub id: u16,
    /// The hops that its machine subtracts from the IP TTL: 1, or more if the kernel forwards
    /// its packets as well.
    pub hops: u8,
}

impl From<u16> for Router {
    /// Creates a router that subtracts one hop from the IP TTL.
    fn from(id: u16) -> Self {
        Self { id, hops: 1 }
    }
}

/// The result of marking a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Outcome {
    /// The answer is written.
    Marked,
    /// There was no valid VCP shim, or its code is 0, so nothing was changed.
    Untouched,
}

/// Combines `answer` of this router with a shim, and seals the result. `None` if its code is 0.
// Works on whole words, because extracting and reassembling fields byte by byte would double the
// cost.
#[inline(always)]
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

/// Marks the shim at the start of `payload` in place, for payloads that no checksum covers yet.
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

/// Marks sequences of packets that mostly have the same shim and answer, such as those of a
/// super-packet.
#[derive(Clone, Copy, Debug, Default)]
pub struct Row {
    /// The last marked shim, with its router, answer and result.
    last: Option<([u8; LEN], Router, VcpAnswer, [u8; LEN])>,
}

impl Row {
    /// Marks like the function [`mark_payload`].
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

/// Marks the shim at `offset` of a UDP payload inside an IP packet, and updates the UDP checksum
/// as `state` allows. `offset` is 0, or the start of a later segment in a packet that offload
/// will cut.
///
/// A first fragment is marked if it contains the whole shim. A [`Datagram`] is never found in later
/// fragments.
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

/// A packet's shim on arrival, stored next to the waiting packet. Marking then only writes to
/// the packet's memory, without reading it again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lifted {
    /// Offset of the shim from the start of the packet.
    at: u16,
    checksum: [u8; 2],
    shim: [u8; LEN],
}

impl Lifted {
    /// Finds the valid shim at the start of a UDP payload inside an IP packet.
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

    /// The shim on arrival.
    #[inline]
    pub const fn packet(&self) -> Packet<'_> {
        Packet::checked(&self.shim)
    }

    /// Offset of the UDP payload from the start of the packet.
    #[inline]
    pub const fn payload_offset(&self) -> usize {
        self.at as usize
    }

    /// Marks like [`mark_packet`] the packet in which the shim was found. Except for its IP
    /// header, the packet must be unchanged since then.
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

/// Reads the shim in front of a UDP payload. Returns [`Carried::Foreign`] if there is no valid
/// VCP shim, or its code is 0.
#[inline]
pub fn from_payload(payload: &[u8]) -> Carried {
    match Packet::parse(payload) {
        Ok(packet) => from_packet(&packet),
        Err(_) => Carried::Foreign,
    }
}

/// Reads a valid shim. Returns [`Carried::Foreign`] if its code is 0.
#[inline]
pub fn from_packet(packet: &Packet<'_>) -> Carried {
    match packet.code() {
        VcpCode::None => Carried::Foreign,
        code => Carried::Vcp(VcpCarried {
            code,
            min_rtt: packet.min_rtt(),
            bise: packet.bise(),
            carries_r: packet.carries_r(),
        }),
    }
}

/// Reads the ECN field of a packet that is known to use it for VCP. Returns [`Carried::Foreign`]
/// if it is 00.
#[inline]
pub fn from_ecn(bytes: &[u8], ip: &Layout) -> Carried {
    match read_ecn(bytes, ip) {
        VcpCode::None => Carried::Foreign,
        code => Carried::Vcp(VcpCarried {
            code,
            min_rtt: None,
            bise: false,
            carries_r: false,
        }),
    }
}

/// The code in a packet's ECN field.
#[inline]
pub fn read_ecn(bytes: &[u8], ip: &Layout) -> VcpCode {
    ip.ecn(bytes).map_or(VcpCode::None, VcpCode::from_bits)
}

/// Raises the code in a packet's ECN field to at least `code`, and updates IPv4's header
/// checksum. 00 stays 00.
#[inline]
pub fn mark_ecn(bytes: &mut [u8], ip: &Layout, code: VcpCode) -> Outcome {
    match read_ecn(bytes, ip) {
        VcpCode::None => Outcome::Untouched,
        found if found >= code => Outcome::Marked,
        _ if ip.set_ecn(bytes, code as u8) => Outcome::Marked,
        _ => Outcome::Untouched,
    }
}

#[cfg(test)]
#[path = "mark_tests.rs"]
mod tests;

#[cfg(test)]
mod ecn_tests {
    use super::*;

    #[test]
    fn all_pairs() {
        for found in 0..4u8 {
            for mine in 0..4u8 {
                let mut packet = [0u8; 20];
                packet[0] = 0x45;
                packet[1] = 0xB8 | found;
                packet[3] = 20;
                packet[10..12]
                    .copy_from_slice(&(!(0x45B8u16 + u16::from(found) + 20)).to_be_bytes());
                let ip = Layout::walk(&packet).unwrap();
                assert!(ip.header_checksum_ok(&packet));
                let outcome = mark_ecn(&mut packet, &ip, VcpCode::from_bits(mine));
                let expected = if found == 0 { 0 } else { found.max(mine) };
                assert_eq!(packet[1], 0xB8 | expected);
                assert_eq!(outcome == Outcome::Marked, found != 0);
                assert!(ip.header_checksum_ok(&packet));
            }
        }
    }
}
