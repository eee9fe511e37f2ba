//! A packet in a buffer of the pool.

use pathmark_link::queue::Popped;
use pathmark_protocols::shim::Carrier;

use super::account::Account;
use crate::offload::{GsoKind, Offload};

/// A packet in a buffer of the pool.
#[derive(Debug)]
pub struct Frame {
    pub(super) buffer: Box<[u8]>,
    len: u32,
    /// Who answers for the buffer.
    pub(super) account: Account,
    /// What is left undone in it.
    pub offload: Offload,
    /// Where its feedback is.
    pub carrier: Carrier,
    /// What the box takes off its TTL: the router one, and its kernel what it forwards.
    pub hops: u8,
}

impl Frame {
    /// A packet of `len` bytes at the start of `buffer`.
    #[must_use]
    pub fn new(buffer: Box<[u8]>, len: usize, offload: Offload) -> Self {
        Self {
            len: u32::try_from(len.min(buffer.len())).unwrap_or(0),
            buffer,
            account: Account::NONE,
            offload,
            carrier: Carrier::None,
            hops: 1,
        }
    }

    /// The packet.
    #[inline]
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        self.buffer.get(..self.len as usize).unwrap_or(&[])
    }

    /// IP packets that it stands for.
    #[inline]
    #[must_use]
    pub fn packets(&self) -> u32 {
        let Some(gso) = self.offload.gso else {
            return 1;
        };
        let payload = self.len.saturating_sub(self.header_len().into());
        payload.div_ceil(gso.size.max(1).into()).max(1)
    }

    /// Bytes of headers of a super-packet up to its payload of UDP or TCP; 0 of another packet.
    #[must_use]
    pub fn header_len(&self) -> u16 {
        let Some(gso) = self.offload.gso else {
            return 0;
        };
        let start = self.offload.checksum.map_or(0, |partial| partial.start);
        let own = match gso.kind {
            GsoKind::Udp => 8,
            GsoKind::TcpV4 | GsoKind::TcpV6 => self
                .bytes()
                .get(usize::from(start) + 12)
                .map_or(20, |words| u16::from(words >> 4) * 4),
        };
        start + own
    }

    /// The packet, to be rewritten.
    #[inline]
    #[must_use]
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        self.buffer.get_mut(..self.len as usize).unwrap_or(&mut [])
    }
}

/// A packet's record is moved several times on its way: beyond 128 bytes each move is a call of
/// `memcpy`.
const _: () = assert!(size_of::<Popped<Frame>>() <= 128);
