//! Bounds-checked cursors: [`Reader`] over received bytes, and [`Writer`] over a send buffer, so
//! that packets are built in the buffer from which they are encrypted and sent.

use core::ops::Range;

use super::varint;

/// The bytes ended inside a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the bytes end inside a field")]
pub struct UnexpectedEnd;

/// Reads big-endian fields from the front of a slice. A failed read consumes nothing.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a> {
    rest: &'a [u8],
    total: usize,
}

impl<'a> Reader<'a> {
    /// Creates a reader at the start of `bytes`.
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self {
            rest: bytes,
            total: bytes.len(),
        }
    }

    /// Returns the number of bytes not yet read.
    pub const fn remaining(&self) -> usize {
        self.rest.len()
    }

    /// Returns true once all bytes are read.
    pub const fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// Returns the number of bytes read so far.
    pub const fn position(&self) -> usize {
        self.total - self.rest.len()
    }

    /// Returns the bytes not yet read, without reading them.
    pub const fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Reads all remaining bytes.
    pub const fn take_rest(&mut self) -> &'a [u8] {
        let rest = self.rest;
        self.rest = &[];
        rest
    }

    /// Reads one byte.
    ///
    /// # Errors
    /// [`UnexpectedEnd`] if nothing is left.
    pub const fn get_u8(&mut self) -> Result<u8, UnexpectedEnd> {
        match self.rest.split_first() {
            Some((&byte, rest)) => {
                self.rest = rest;
                Ok(byte)
            }
            None => Err(UnexpectedEnd),
        }
    }

    /// Reads two bytes.
    ///
    /// # Errors
    /// [`UnexpectedEnd`] if fewer are left.
    pub fn get_u16(&mut self) -> Result<u16, UnexpectedEnd> {
        self.get_array().map(u16::from_be_bytes)
    }

    /// Reads four bytes.
    ///
    /// # Errors
    /// [`UnexpectedEnd`] if fewer are left.
    pub fn get_u32(&mut self) -> Result<u32, UnexpectedEnd> {
        self.get_array().map(u32::from_be_bytes)
    }

    /// Reads `N` bytes.
    ///
    /// # Errors
    /// [`UnexpectedEnd`] if fewer are left.
    pub const fn get_array<const N: usize>(&mut self) -> Result<[u8; N], UnexpectedEnd> {
        match self.rest.split_first_chunk::<N>() {
            Some((chunk, rest)) => {
                self.rest = rest;
                Ok(*chunk)
            }
            None => Err(UnexpectedEnd),
        }
    }

    /// Reads `n` bytes, borrowed.
    ///
    /// # Errors
    /// [`UnexpectedEnd`] if fewer are left.
    pub const fn get_slice(&mut self, n: usize) -> Result<&'a [u8], UnexpectedEnd> {
        match self.rest.split_at_checked(n) {
            Some((slice, rest)) => {
                self.rest = rest;
                Ok(slice)
            }
            None => Err(UnexpectedEnd),
        }
    }

    /// Reads a varint (RFC 9000 §16), in its shortest form or not.
    ///
    /// # Errors
    /// [`UnexpectedEnd`] if it is incomplete.
    #[inline]
    pub const fn get_varint(&mut self) -> Result<u64, UnexpectedEnd> {
        match varint::decode(self.rest) {
            Some((value, n)) => match self.get_slice(n) {
                Ok(_) => Ok(value),
                Err(end) => Err(end),
            },
            None => Err(UnexpectedEnd),
        }
    }

    /// Reads a varint, followed by as many bytes as its value.
    ///
    /// # Errors
    /// [`UnexpectedEnd`] if either is incomplete.
    pub fn get_prefixed(&mut self) -> Result<&'a [u8], UnexpectedEnd> {
        let mut ahead = *self;
        let n = usize::try_from(ahead.get_varint()?).map_err(|_| UnexpectedEnd)?;
        let slice = ahead.get_slice(n)?;
        *self = ahead;
        Ok(slice)
    }
}

/// An error when writing a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WriteError {
    /// The buffer is full, or its limit is reached.
    #[error("no room in the packet")]
    NoRoom,
    /// The value doesn't fit its field.
    #[error("{0} does not fit its field")]
    Value(u64),
    /// The acknowledgement ranges aren't descending, overlap, touch, or are empty.
    #[error("acknowledgement ranges out of order")]
    AckRanges,
}

/// Writes big-endian fields into a slice. A failed write leaves the position unchanged.
#[derive(Debug)]
pub struct Writer<'a> {
    buffer: &'a mut [u8],
    position: usize,
    limit: usize,
}

impl<'a> Writer<'a> {
    /// Creates a writer at the start of `buffer`.
    pub const fn new(buffer: &'a mut [u8]) -> Self {
        let limit = buffer.len();
        Self {
            buffer,
            position: 0,
            limit,
        }
    }

    /// Returns the number of bytes written so far.
    pub const fn position(&self) -> usize {
        self.position
    }

    /// Returns the number of bytes that still fit before the limit.
    pub const fn remaining(&self) -> usize {
        self.limit.saturating_sub(self.position)
    }

    /// Returns the limit, a position in the buffer.
    pub const fn limit(&self) -> usize {
        self.limit
    }

    /// Moves the limit, to reserve room for an AEAD tag or to end a datagram. The
    /// limit is clamped to the written part and to the buffer.
    pub fn set_limit(&mut self, limit: usize) {
        self.limit = limit.clamp(self.position, self.buffer.len());
    }

    /// Discards everything written after `position`. Has no effect if `position` isn't written
    /// yet.
    pub fn truncate(&mut self, position: usize) {
        self.position = self.position.min(position);
    }

    /// Returns the written bytes.
    pub fn written(&self) -> &[u8] {
        self.buffer.get(..self.position).unwrap_or(&[])
    }

    /// Returns the written bytes, for encryption in place.
    #[must_use]
    pub fn written_mut(&mut self) -> &mut [u8] {
        self.buffer.get_mut(..self.position).unwrap_or(&mut [])
    }

    /// Returns a part of the written bytes, or `None` if the range isn't written yet.
    #[must_use]
    pub fn range_mut(&mut self, range: Range<usize>) -> Option<&mut [u8]> {
        self.written_mut().get_mut(range)
    }

    /// Returns the next `n` bytes, which count as written and which the caller must fill. They
    /// contain the previous contents of the buffer.
    ///
    /// # Errors
    /// [`WriteError::NoRoom`].
    pub fn take(&mut self, n: usize) -> Result<&mut [u8], WriteError> {
        if n > self.remaining() {
            return Err(WriteError::NoRoom);
        }
        let end = self.position + n;
        let slice = self
            .buffer
            .get_mut(self.position..end)
            .ok_or(WriteError::NoRoom)?;
        self.position = end;
        Ok(slice)
    }

    /// Writes one byte.
    ///
    /// # Errors
    /// [`WriteError::NoRoom`].
    pub fn put_u8(&mut self, value: u8) -> Result<(), WriteError> {
        self.put_slice(&[value])
    }

    /// Writes two bytes.
    ///
    /// # Errors
    /// [`WriteError::NoRoom`].
    pub fn put_u16(&mut self, value: u16) -> Result<(), WriteError> {
        self.put_slice(&value.to_be_bytes())
    }

    /// Writes four bytes.
    ///
    /// # Errors
    /// [`WriteError::NoRoom`].
    pub fn put_u32(&mut self, value: u32) -> Result<(), WriteError> {
        self.put_slice(&value.to_be_bytes())
    }

    /// Writes `bytes`.
    ///
    /// # Errors
    /// [`WriteError::NoRoom`].
    pub fn put_slice(&mut self, bytes: &[u8]) -> Result<(), WriteError> {
        self.take(bytes.len())?.copy_from_slice(bytes);
        Ok(())
    }

    /// Writes the length of a connection id as one byte, and the id. A failed write may leave the
    /// length.
    pub(super) fn put_id(&mut self, id: &[u8]) -> Result<(), WriteError> {
        let n = u8::try_from(id.len()).map_err(|_| WriteError::Value(id.len() as u64))?;
        self.put_u8(n)?;
        self.put_slice(id)
    }

    /// Writes `n` zero bytes: PADDING frames, or room for a tag.
    ///
    /// # Errors
    /// [`WriteError::NoRoom`].
    pub fn put_zeros(&mut self, n: usize) -> Result<(), WriteError> {
        self.take(n)?.fill(0);
        Ok(())
    }

    /// Writes a varint in its shortest form.
    ///
    /// # Errors
    /// [`WriteError::NoRoom`], or [`WriteError::Value`] above 2^62 − 1.
    pub fn put_varint(&mut self, value: u64) -> Result<(), WriteError> {
        let (bytes, n) =
            varint::encode(value).map_err(|too_large| WriteError::Value(too_large.0))?;
        match bytes.get(..n) {
            Some(bytes) => self.put_slice(bytes),
            None => Err(WriteError::Value(value)),
        }
    }

    /// Writes a length as a varint, followed by the bytes.
    ///
    /// # Errors
    /// [`WriteError::NoRoom`].
    pub fn put_prefixed(&mut self, bytes: &[u8]) -> Result<(), WriteError> {
        self.all_or_nothing(|w| {
            w.put_varint(bytes.len() as u64)?;
            w.put_slice(bytes)
        })
    }

    /// Overwrites the two bytes at `position` with `value` as a 2-byte varint, for a length
    /// that wasn't known earlier.
    ///
    /// # Errors
    /// [`WriteError::Value`] above 16 383, and [`WriteError::NoRoom`] if the position isn't
    /// written yet.
    pub fn patch_varint_2(&mut self, position: usize, value: usize) -> Result<(), WriteError> {
        let tagged = match u16::try_from(value) {
            Ok(short @ 0..=0x3fff) => short | 0x4000,
            _ => return Err(WriteError::Value(value as u64)),
        };
        let place = position
            .checked_add(2)
            .and_then(|end| self.range_mut(position..end))
            .ok_or(WriteError::NoRoom)?;
        place.copy_from_slice(&tagged.to_be_bytes());
        Ok(())
    }

    /// Calls `write`, and discards everything it wrote if it fails.
    ///
    /// # Errors
    /// The error that `write` returns.
    pub fn all_or_nothing<T>(
        &mut self,
        write: impl FnOnce(&mut Self) -> Result<T, WriteError>,
    ) -> Result<T, WriteError> {
        let start = self.position;
        let result = write(self);
        if result.is_err() {
            self.position = start;
        }
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_come_in_order_and_a_failed_read_consumes_nothing() {
        let mut r = Reader::new(&[1, 0, 2, 0x7b, 0xbd, 2, 9, 8, 5, 7]);
        assert_eq!(r.get_u8(), Ok(1));
        assert_eq!(r.get_u16(), Ok(2));
        assert_eq!(r.get_varint(), Ok(15_293));
        assert_eq!(r.get_prefixed(), Ok(&[9, 8][..]));
        assert_eq!((r.position(), r.remaining()), (8, 2));
        assert_eq!(r.get_prefixed(), Err(UnexpectedEnd));
        assert_eq!(r.get_u32(), Err(UnexpectedEnd));
        assert_eq!(r.get_slice(3), Err(UnexpectedEnd));
        assert_eq!(r.get_slice(usize::MAX), Err(UnexpectedEnd));
        assert_eq!(r.rest(), [5, 7]);
        assert_eq!(r.take_rest(), [5, 7]);
        assert!(r.is_empty());
        assert_eq!(r.get_u8(), Err(UnexpectedEnd));
        assert_eq!(r.get_varint(), Err(UnexpectedEnd));
    }

    #[test]
    fn fields_go_in_order_and_a_failed_write_leaves_nothing() {
        let mut buffer = [0xff; 12];
        let mut w = Writer::new(&mut buffer);
        w.put_u8(1).unwrap();
        w.put_varint(15_293).unwrap();
        w.put_u16(0).unwrap();
        w.put_prefixed(&[9, 8]).unwrap();
        assert_eq!(w.written(), [1, 0x7b, 0xbd, 0, 0, 2, 9, 8]);
        w.patch_varint_2(3, 37).unwrap();
        assert_eq!(w.written()[3..5], [0x40, 37]);
        assert_eq!(w.remaining(), 4);
        assert_eq!(w.put_prefixed(&[0; 4]), Err(WriteError::NoRoom));
        let large = varint::MAX + 1;
        assert_eq!(w.put_varint(large), Err(WriteError::Value(large)));
        assert_eq!(w.position(), 8);
        assert_eq!(w.put_slice(&[0; 5]), Err(WriteError::NoRoom));
        w.put_zeros(4).unwrap();
        assert_eq!(w.remaining(), 0);
        assert_eq!(w.take(1), Err(WriteError::NoRoom));
        assert_eq!(w.take(usize::MAX), Err(WriteError::NoRoom));
    }

    #[test]
    fn a_limit_holds_until_it_is_moved() {
        let mut buffer = [0; 8];
        let mut w = Writer::new(&mut buffer);
        w.put_u16(7).unwrap();
        w.set_limit(3);
        assert_eq!(w.remaining(), 1);
        assert_eq!(w.put_u16(7), Err(WriteError::NoRoom));
        w.set_limit(0);
        assert_eq!((w.limit(), w.remaining()), (2, 0));
        w.set_limit(usize::MAX);
        assert_eq!(w.remaining(), 6);
        w.truncate(1);
        w.truncate(5);
        assert_eq!(w.position(), 1);
    }

    #[test]
    fn only_a_written_place_is_patched_and_only_with_14_bits() {
        let mut buffer = [0; 8];
        let mut w = Writer::new(&mut buffer);
        w.put_u16(0).unwrap();
        assert_eq!(w.patch_varint_2(1, 1), Err(WriteError::NoRoom));
        assert_eq!(w.patch_varint_2(usize::MAX, 1), Err(WriteError::NoRoom));
        assert_eq!(w.patch_varint_2(0, 16_384), Err(WriteError::Value(16_384)));
        w.patch_varint_2(0, 16_383).unwrap();
        assert_eq!(w.written(), [0x7f, 0xff]);
    }
}
