//! A bounds-checked cursor over received bytes.

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
    #[inline]
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self {
            rest: bytes,
            total: bytes.len(),
        }
    }

    /// Returns the number of bytes not yet read.
    #[inline]
    pub const fn remaining(&self) -> usize {
        self.rest.len()
    }

    /// Returns true once all bytes are read.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// Returns the number of bytes read so far.
    #[inline]
    pub const fn position(&self) -> usize {
        self.total - self.rest.len()
    }

    /// Returns the bytes not yet read, without reading them.
    #[inline]
    pub const fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Reads all remaining bytes.
    #[inline]
    pub const fn take_rest(&mut self) -> &'a [u8] {
        let rest = self.rest;
        self.rest = &[];
        rest
    }

    /// Reads one byte.
    ///
    /// # Errors
    /// [`UnexpectedEnd`] if nothing is left.
    #[inline]
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
    #[inline]
    pub fn get_u16(&mut self) -> Result<u16, UnexpectedEnd> {
        self.get_array().map(u16::from_be_bytes)
    }

    /// Reads four bytes.
    ///
    /// # Errors
    /// [`UnexpectedEnd`] if fewer are left.
    #[inline]
    pub fn get_u32(&mut self) -> Result<u32, UnexpectedEnd> {
        self.get_array().map(u32::from_be_bytes)
    }

    /// Reads `N` bytes.
    ///
    /// # Errors
    /// [`UnexpectedEnd`] if fewer are left.
    #[inline]
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
    #[inline]
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
    #[inline]
    pub fn get_prefixed(&mut self) -> Result<&'a [u8], UnexpectedEnd> {
        let mut ahead = *self;
        let n = usize::try_from(ahead.get_varint()?).map_err(|_| UnexpectedEnd)?;
        let slice = ahead.get_slice(n)?;
        *self = ahead;
        Ok(slice)
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
}
