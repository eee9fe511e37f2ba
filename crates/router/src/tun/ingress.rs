//! Reads each packet into a buffer in which it can stay.

use std::io;

use super::device::Device;
use crate::forward::{LARGE, USUAL};
use crate::offload::Offload;

/// A packet that was read: the buffer that it starts in, which the router may keep and replace,
/// its length, and its remaining offload work.
pub(super) type Read<'a> = (&'a mut Box<[u8]>, usize, Offload);

/// Buffers for reading.
#[derive(Debug)]
pub(super) struct Ingress {
    usual: Box<[u8]>,
    large: Box<[u8]>,
    /// True if the last packet exceeded the usual buffer.
    in_large: bool,
}

impl Ingress {
    pub(super) fn new() -> Self {
        Self {
            usual: vec![0; USUAL].into_boxed_slice(),
            large: vec![0; LARGE].into_boxed_slice(),
            in_large: false,
        }
    }

    /// Reads the next packet of an interface; `None` if there is none.
    ///
    /// Because super-packets usually follow each other, the packet after one is read into a
    /// large buffer, in which it can stay. Others are read into a buffer of the usual size, and
    /// continue in the large one if they are longer.
    ///
    /// # Errors
    /// See [`Device::read`].
    #[inline]
    pub(super) fn read(&mut self, device: &Device) -> io::Result<Option<Read<'_>>> {
        if self.in_large {
            let Some((len, offload)) = device.read(&mut self.large, None)? else {
                return Ok(None);
            };
            self.in_large = len > USUAL;
            return Ok(Some((&mut self.large, len, offload)));
        }
        let (start, rest) = self.large.split_at_mut(USUAL);
        let Some((len, offload)) = device.read(&mut self.usual, Some(rest))? else {
            return Ok(None);
        };
        if len <= USUAL {
            return Ok(Some((&mut self.usual, len, offload)));
        }
        start.copy_from_slice(&self.usual);
        self.in_large = true;
        Ok(Some((&mut self.large, len, offload)))
    }
}
