//! A packet in a buffer of the pool.

use pathmark_link::queue::Popped;
use pathmark_protocols::shim::Carrier;

use crate::offload::{GsoKind, Offload};

/// Identifies the account of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Account(pub(super) u16);

impl Account {
    /// No account.
    pub(super) const NONE: Self = Self(u16::MAX);
}

/// A packet in a buffer of the pool.
#[derive(Debug)]
#[must_use = "a frame should be given back to the pool"]
pub struct Frame {
    pub(super) buffer: Box<[u8]>,
    len: u32,
    /// The account that the buffer is charged to.
    pub(super) account: Account,
    /// Offload work that is not done yet.
    pub offload: Offload,
    /// The place of the feedback.
    pub carrier: Carrier,
    /// Hops that this machine subtracts from the TTL: one for the router, and one each time the
    /// kernel forwards the packet too.
    pub hops: u8,
}

impl Frame {
    /// Creates a frame from a packet of `len` bytes at the start of `buffer`.
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

    /// Returns the packet's bytes.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        self.buffer.get(..self.len as usize).unwrap_or(&[])
    }

    /// Number of IP packets that the frame consists of.
    #[inline]
    pub fn packets(&self) -> u32 {
        let Some(gso) = self.offload.gso else {
            return 1;
        };
        let payload = self.len.saturating_sub(self.header_len().into());
        payload.div_ceil(gso.size.max(1).into()).max(1)
    }

    /// Length of a super-packet's headers, including UDP or TCP, and 0 for other packets.
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

    /// Returns the packet's bytes for rewriting.
    #[inline]
    #[must_use]
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        self.buffer.get_mut(..self.len as usize).unwrap_or(&mut [])
    }
}

/// A frame is moved several times on its way. Beyond 128 bytes, each move would be a call of
/// `memcpy`.
const _: () = assert!(size_of::<Popped<Frame>>() <= 128);
