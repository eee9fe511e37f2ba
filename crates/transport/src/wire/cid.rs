//! Connection ids of QUIC v1 packets (RFC 9000 §5.1, §17.2).

use core::fmt;

/// Maximum length of a connection id in QUIC v1, bytes (RFC 9000 §17.2).
pub const MAX_LEN: usize = 20;

/// Error for a connection id of more than 20 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a connection id of {0} bytes: QUIC v1 allows 20")]
pub struct TooLong(pub usize);

/// A connection id of 0 to 20 bytes, stored inline.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId {
    // Bytes after `len` are zero, so that the derived comparisons and hash are correct.
    bytes: [u8; MAX_LEN],
    len: u8,
}

impl ConnectionId {
    /// The connection id of length zero.
    pub const EMPTY: Self = Self {
        bytes: [0; MAX_LEN],
        len: 0,
    };

    /// Creates a connection id from `bytes`.
    ///
    /// # Errors
    /// [`TooLong`] for more than 20 bytes.
    #[inline]
    pub fn new(bytes: &[u8]) -> Result<Self, TooLong> {
        let mut id = Self::EMPTY;
        match (id.bytes.get_mut(..bytes.len()), u8::try_from(bytes.len())) {
            (Some(place), Ok(len)) => {
                place.copy_from_slice(bytes);
                id.len = len;
                Ok(id)
            }
            // [9000 17.2 id-length]
            _ => Err(TooLong(bytes.len())),
        }
    }

    /// Returns its bytes.
    #[inline]
    pub fn as_slice(&self) -> &[u8] {
        self.bytes.get(..self.len()).unwrap_or(&[])
    }

    /// Returns the length, 0 to 20 bytes.
    #[inline]
    pub const fn len(&self) -> usize {
        self.len as usize
    }

    /// Returns true for the connection id of length zero.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }
}

impl TryFrom<&[u8]> for ConnectionId {
    type Error = TooLong;
    fn try_from(bytes: &[u8]) -> Result<Self, TooLong> {
        Self::new(bytes)
    }
}

impl AsRef<[u8]> for ConnectionId {
    fn as_ref(&self) -> &[u8] {
        self.as_slice()
    }
}

impl fmt::Display for ConnectionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_slice()
            .iter()
            .try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for ConnectionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ConnectionId({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn twenty_bytes_and_no_more() {
        // [9000 17.2 id-length]
        let bytes: Vec<u8> = (1..=21).collect();
        for n in 0..=20 {
            let id = ConnectionId::new(&bytes[..n]).unwrap();
            assert_eq!((id.as_slice(), id.len()), (&bytes[..n], n));
        }
        assert_eq!(ConnectionId::new(&bytes), Err(TooLong(21)));
        assert_eq!(ConnectionId::new(&bytes[..0]), Ok(ConnectionId::EMPTY));
    }

    #[test]
    fn a_trailing_zero_makes_another_id() {
        assert_ne!(ConnectionId::new(&[1]), ConnectionId::new(&[1, 0]));
    }

    #[test]
    fn people_read_hexadecimal() {
        let id = ConnectionId::new(&[0x83, 0x94, 0x0c]).unwrap();
        assert_eq!(format!("{id} {id:?}"), "83940c ConnectionId(83940c)");
    }
}
