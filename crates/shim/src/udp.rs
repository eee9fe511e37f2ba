//! UDP datagrams inside IP packets: finding the payload, and rewriting parts of it.

use crate::{
    checksum::{self, Delta},
    ip::{Fragment, Layout, protocol},
};

/// Bytes of a UDP header.
pub const HEADER_LEN: usize = 8;

/// The contents of the UDP checksum field while a packet is inside a host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ChecksumState {
    /// A complete checksum, or 0 for none, as on a wire.
    #[default]
    Complete,
    /// The pseudo-header's sum only, to which checksum offload will add the payload. Because it
    /// does not depend on the payload, rewriting leaves it unchanged.
    Partial,
}

/// The position of a UDP datagram inside an IP packet. Like [`Layout`], it does not borrow the
/// packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Datagram {
    header: usize,
    end: usize,
}

impl Datagram {
    /// Finds the UDP datagram of a packet that was walked.
    ///
    /// Returns `None` if there is none that may be rewritten: another protocol, a later fragment, a
    /// payload under an Authentication Header, or an impossible UDP length. In a first fragment,
    /// the payload is the part that the fragment contains.
    #[inline]
    pub fn locate(bytes: &[u8], ip: &Layout) -> Option<Self> {
        if ip.protocol() != protocol::UDP || ip.authenticated() || ip.fragment() == Fragment::Later
        {
            return None;
        }
        let upper = ip.upper(bytes);
        let &[_, _, _, _, l0, l1, _, _] = upper.first_chunk::<HEADER_LEN>()?;
        let length = usize::from(u16::from_be_bytes([l0, l1]));
        if length < HEADER_LEN || (length > upper.len() && ip.fragment() == Fragment::Whole) {
            return None;
        }
        let header = ip.upper_offset();
        Some(Self {
            header,
            end: header + length.min(upper.len()),
        })
    }

    /// Source and destination port.
    #[inline]
    pub fn ports(&self, bytes: &[u8]) -> Option<(u16, u16)> {
        let &[s0, s1, d0, d1] = bytes.get(self.header..)?.first_chunk::<4>()?;
        Some((u16::from_be_bytes([s0, s1]), u16::from_be_bytes([d0, d1])))
    }

    /// Offset of the payload in bytes from the start of the packet.
    pub const fn payload_offset(&self) -> usize {
        self.header + HEADER_LEN
    }

    /// The payload.
    #[inline]
    pub fn payload<'b>(&self, bytes: &'b [u8]) -> &'b [u8] {
        bytes.get(self.payload_offset()..self.end).unwrap_or(&[])
    }

    /// Replaces `N` bytes of the payload at `offset` (in bytes from the start of the payload) with
    /// the result of `rewrite`, and updates a complete UDP checksum. If some of the bytes are
    /// missing, or `rewrite` returns `None`, returns false without changing anything.
    ///
    /// The update is incremental, so damage to the rest of the datagram remains detectable.
    #[inline]
    pub fn rewrite<const N: usize>(
        &self,
        bytes: &mut [u8],
        offset: usize,
        state: ChecksumState,
        rewrite: impl FnOnce(&[u8; N]) -> Option<[u8; N]>,
    ) -> bool {
        let Some((checksum, old)) = bytes
            .get_mut(..self.end)
            .and_then(|packet| packet.split_at_mut_checked(self.payload_offset()))
            .and_then(|(headers, payload)| {
                let old = payload.get_mut(offset..)?.first_chunk_mut::<N>()?;
                Some((headers.last_chunk_mut::<2>()?, old))
            })
        else {
            return false;
        };
        let Some(new) = rewrite(old) else {
            return false;
        };
        if state == ChecksumState::Complete {
            let mut change = Delta::between(old, &new);
            if !offset.is_multiple_of(2) {
                change = change.at_odd_offset();
            }
            *checksum = checksum::update_udp(u16::from_be_bytes(*checksum), change).to_be_bytes();
        }
        *old = new;
        true
    }

    /// Replaces bytes of the payload at `offset` (in bytes from the start of the payload) with
    /// `new`, and updates the complete UDP checksum incrementally. If some of the bytes are
    /// missing, or `new` has an odd length, returns false without changing anything.
    pub fn replace(&self, bytes: &mut [u8], offset: usize, new: &[u8]) -> bool {
        let old = self.payload(bytes).get(offset..).unwrap_or_default();
        let (pairs, rest) = new.as_chunks::<2>();
        if old.len() < new.len() || !rest.is_empty() {
            return false;
        }
        (offset..)
            .step_by(2)
            .zip(pairs)
            .all(|(at, pair)| self.rewrite(bytes, at, ChecksumState::Complete, |_| Some(*pair)))
    }

    /// Computes the checksum of the whole datagram (0 is returned as 0xFFFF). Only for packets that
    /// are not fragments.
    pub fn compute_checksum(&self, bytes: &[u8], ip: &Layout) -> u16 {
        let datagram = bytes.get(self.header..self.end).unwrap_or(&[]);
        let Some((&[s0, s1, d0, d1, l0, l1, _, _], payload)) =
            datagram.split_first_chunk::<HEADER_LEN>()
        else {
            return 0xFFFF;
        };
        let sum = ip
            .pseudo_header(bytes, u32::from(u16::from_be_bytes([l0, l1])))
            .bytes(&[s0, s1, d0, d1, l0, l1])
            .bytes(payload);
        match sum.finish() {
            0 => 0xFFFF,
            checksum => checksum,
        }
    }
}

#[cfg(test)]
#[path = "udp_tests.rs"]
mod tests;
