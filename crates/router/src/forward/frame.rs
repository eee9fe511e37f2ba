//! Packet buffers: a packet in a buffer of its size class, and the pool that buffers come from.

use vcp_proto::mark::Lifted;

use crate::offload::Offload;

/// Room for any packet that an interface with offloads hands over.
pub const LARGE: usize = 65_600;
/// Room for a packet of the usual MTU.
pub const USUAL: usize = 2_048;
/// Buffer sizes. A packet takes the smallest that holds it, so that a queue of small packets does not pin large
/// buffers.
const CLASSES: [usize; 4] = [256, USUAL, 10_240, LARGE];

/// Which part of a packet carries feedback.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Carrier {
    /// None.
    #[default]
    None,
    /// A VCP shim at the start of the UDP payload; of a super-packet, the first one.
    Vcp(Lifted),
    /// Another shim at the start of the UDP payload.
    Shim {
        /// Where that payload starts, in bytes from the start of the packet.
        payload: u16,
    },
    /// The IP ECN field.
    Ecn,
}

/// A packet in a buffer of the pool.
#[derive(Debug)]
pub struct Frame {
    buffer: Box<[u8]>,
    len: u32,
    /// What is left undone in it.
    pub offload: Offload,
    /// Where its feedback is.
    pub carrier: Carrier,
}

impl Frame {
    /// A packet of `len` bytes at the start of `buffer`.
    #[must_use]
    pub fn new(buffer: Box<[u8]>, len: usize, offload: Offload) -> Self {
        Self {
            len: u32::try_from(len.min(buffer.len())).unwrap_or(0),
            buffer,
            offload,
            carrier: Carrier::None,
        }
    }

    /// The packet.
    #[inline]
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        self.buffer.get(..self.len as usize).unwrap_or(&[])
    }

    /// The packet, to be rewritten.
    #[inline]
    #[must_use]
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        self.buffer.get_mut(..self.len as usize).unwrap_or(&mut [])
    }
}

/// Buffers of a few sizes, allocated on first use up to a limit and kept.
#[derive(Debug)]
pub struct Pool {
    free: [Vec<Box<[u8]>>; CLASSES.len()],
    allocated: usize,
    limit: usize,
}

impl Pool {
    /// An empty pool that will hold no more than `limit` bytes.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self {
            free: Default::default(),
            allocated: 0,
            limit,
        }
    }

    /// A buffer of at least `len` bytes; `None` at the limit, or beyond the largest class.
    #[inline]
    pub fn take(&mut self, len: usize) -> Option<Box<[u8]>> {
        let class = CLASSES.iter().position(|size| *size >= len)?;
        if let Some(buffer) = self.free.get_mut(class)?.pop() {
            return Some(buffer);
        }
        self.allocate(*CLASSES.get(class)?)
    }

    #[cold]
    fn allocate(&mut self, size: usize) -> Option<Box<[u8]>> {
        if self.allocated + size > self.limit {
            // Spare buffers of other sizes make room.
            for buffer in self.free.iter_mut().flat_map(std::mem::take) {
                self.allocated -= buffer.len();
            }
        }
        if self.allocated + size > self.limit {
            return None;
        }
        self.allocated += size;
        Some(vec![0; size].into_boxed_slice())
    }

    /// The packet at the start of `buffer`: in that buffer, which is replaced by another of its size, if it has the size that the
    /// packet needs, else in a copy. `None` at the limit.
    #[inline]
    pub fn keep(&mut self, buffer: &mut Box<[u8]>, len: usize, offload: Offload) -> Option<Frame> {
        let needed = CLASSES.iter().find(|size| **size >= len)?;
        if *needed == buffer.len() {
            self.swap(buffer, len, offload)
        } else {
            self.copy(buffer.get(..len)?, offload)
        }
    }

    /// The packet at the start of `buffer` in that buffer, which is replaced by another of its size. `None` at the limit.
    #[inline]
    pub fn swap(&mut self, buffer: &mut Box<[u8]>, len: usize, offload: Offload) -> Option<Frame> {
        let other = self.take(buffer.len())?;
        Some(Frame::new(std::mem::replace(buffer, other), len, offload))
    }

    /// A copy of a packet; `None` at the limit.
    #[inline]
    pub fn copy(&mut self, bytes: &[u8], offload: Offload) -> Option<Frame> {
        let mut buffer = self.take(bytes.len())?;
        buffer.get_mut(..bytes.len())?.copy_from_slice(bytes);
        Some(Frame::new(buffer, bytes.len(), offload))
    }

    /// Takes a buffer back.
    #[inline]
    pub fn give(&mut self, frame: Frame) {
        self.give_buffer(frame.buffer);
    }

    /// Takes a bare buffer back.
    #[inline]
    pub fn give_buffer(&mut self, buffer: Box<[u8]>) {
        let class = CLASSES.iter().position(|size| *size == buffer.len());
        match class.and_then(|class| self.free.get_mut(class)) {
            Some(free) => free.push(buffer),
            None => debug_assert!(false, "a buffer of no class came back"),
        }
    }

    /// Bytes held, in use or not.
    #[must_use]
    pub fn allocated(&self) -> usize {
        self.allocated
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn never_holds_more_than_its_limit() {
        let mut pool = Pool::new(3 * 2_048);
        let taken: Vec<_> = std::iter::from_fn(|| pool.take(1500)).collect();
        assert_eq!(taken.len(), 3);
        for buffer in taken {
            pool.give_buffer(buffer);
        }
        // Spare buffers make room for other sizes.
        assert_eq!(std::iter::from_fn(|| pool.take(100)).count(), 24);
        assert_eq!(pool.allocated(), 24 * 256);
        assert!(pool.take(LARGE + 1).is_none());
    }

    #[test]
    fn a_packet_stays_in_a_buffer_of_its_size() {
        let mut pool = Pool::new(2 * USUAL + 256);
        let mut buffer = vec![7; USUAL].into_boxed_slice();
        let kept = pool.keep(&mut buffer, 300, Offload::default()).unwrap();
        assert_eq!(kept.bytes(), &[7; 300]);
        assert_eq!(buffer[..], [0; USUAL]);
        buffer.fill(8);
        let copied = pool.keep(&mut buffer, 200, Offload::default()).unwrap();
        assert_eq!(copied.bytes(), &[8; 200]);
        assert_eq!(buffer[..], [8; USUAL]);
        assert_eq!(pool.allocated(), USUAL + 256);
        pool.give(kept);
        let again = pool.keep(&mut buffer, 400, Offload::default()).unwrap();
        assert_eq!(again.bytes(), &[8; 400]);
        // At the limit the packet is lost, and the buffer stays.
        let mut pool = Pool::new(0);
        buffer.fill(9);
        assert!(pool.keep(&mut buffer, 400, Offload::default()).is_none());
        assert_eq!(buffer[..], [9; USUAL]);
    }

    #[test]
    fn buffers_are_used_again() {
        let mut pool = Pool::new(LARGE);
        let frame = pool.copy(&[7; 300], Offload::default()).unwrap();
        assert_eq!(frame.bytes(), &[7; 300]);
        pool.give(frame);
        for _ in 0..100 {
            let frame = pool.copy(&[8; 2_000], Offload::default()).unwrap();
            pool.give(frame);
        }
        assert_eq!(pool.allocated(), 2_048);
    }
}
