//! Ids on the wire: of streams, which encode the initiator and the direction (RFC 9000 §2.1), and
//! of connections (RFC 9000 §5.1, §17.2).

use core::fmt;

use super::varint;

/// An endpoint's role.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Side {
    /// The one that connects.
    Client,
    /// The one that accepts.
    Server,
}

impl Side {
    /// Returns the other role.
    #[must_use]
    pub const fn peer(self) -> Self {
        match self {
            Self::Client => Self::Server,
            Self::Server => Self::Client,
        }
    }

    /// Returns true for the client.
    pub const fn is_client(self) -> bool {
        matches!(self, Self::Client)
    }

    /// Returns true for the server.
    pub const fn is_server(self) -> bool {
        matches!(self, Self::Server)
    }
}

/// The direction in which a stream carries data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Dir {
    /// Bidirectional.
    Bi,
    /// Unidirectional, from the initiator to the peer.
    Uni,
}

/// A stream id below 2^62.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId(u64);

impl StreamId {
    /// Maximum number of streams of one kind, 2^60 (RFC 9000 §4.6).
    pub const MAX_STREAMS: u64 = 1 << 60;

    /// Returns the id of the `index`-th stream (from 0) that `initiator` opens in direction
    /// `dir`, or `None` from 2^60 on.
    pub const fn new(initiator: Side, dir: Dir, index: u64) -> Option<Self> {
        if index >= Self::MAX_STREAMS {
            return None;
        }
        Some(Self(
            index << 2 | (matches!(dir, Dir::Uni) as u64) << 1 | initiator.is_server() as u64,
        ))
    }

    /// Converts an id from its representation in frames. Returns `None` above 2^62 − 1.
    pub const fn from_u64(id: u64) -> Option<Self> {
        if id > varint::MAX {
            return None;
        }
        Some(Self(id))
    }

    /// Converts a value that was read as a varint, which is always in range.
    pub(super) const fn from_varint(id: u64) -> Self {
        Self(id & varint::MAX)
    }

    /// Returns the id as represented in frames.
    pub const fn as_u64(self) -> u64 {
        self.0
    }

    /// Returns the role of the endpoint that opened the stream.
    pub const fn initiator(self) -> Side {
        if self.0 & 1 == 0 {
            Side::Client
        } else {
            Side::Server
        }
    }

    /// Returns the direction of the stream.
    pub const fn dir(self) -> Dir {
        if self.0 & 2 == 0 { Dir::Bi } else { Dir::Uni }
    }

    /// Returns its index among the streams of its kind, from 0.
    pub const fn index(self) -> u64 {
        self.0 >> 2
    }
}

impl fmt::Display for StreamId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for StreamId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "StreamId({:?} {:?} {})",
            self.initiator(),
            self.dir(),
            self.index()
        )
    }
}

/// Error for a connection id of more than 20 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a connection id of {0} bytes: QUIC v1 allows 20")]
pub struct IdTooLong(pub usize);

/// A connection id of 0 to 20 bytes, stored inline.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId {
    // Bytes after `len` are zero, so that the derived comparisons and hash are correct.
    bytes: [u8; Self::MAX_LEN],
    len: u8,
}

impl ConnectionId {
    /// Maximum length in QUIC v1, bytes (RFC 9000 §17.2).
    pub const MAX_LEN: usize = 20;

    /// The connection id of length zero.
    pub const EMPTY: Self = Self {
        bytes: [0; Self::MAX_LEN],
        len: 0,
    };

    /// Creates a connection id from `bytes`.
    ///
    /// # Errors
    /// [`IdTooLong`] for more than 20 bytes.
    pub fn new(bytes: &[u8]) -> Result<Self, IdTooLong> {
        let mut id = Self::EMPTY;
        match (id.bytes.get_mut(..bytes.len()), u8::try_from(bytes.len())) {
            (Some(place), Ok(len)) => {
                place.copy_from_slice(bytes);
                id.len = len;
                Ok(id)
            }
            // [9000 17.2 id-length]
            _ => Err(IdTooLong(bytes.len())),
        }
    }

    /// Returns its bytes.
    pub fn as_slice(&self) -> &[u8] {
        self.bytes.get(..self.len()).unwrap_or(&[])
    }

    /// Returns the length, 0 to 20 bytes.
    pub const fn len(&self) -> usize {
        self.len as usize
    }

    /// Returns true for the connection id of length zero.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }
}

impl TryFrom<&[u8]> for ConnectionId {
    type Error = IdTooLong;
    fn try_from(bytes: &[u8]) -> Result<Self, IdTooLong> {
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
    fn low_bits_are_those_of_table_1() {
        for (bits, initiator, dir) in [
            (0, Side::Client, Dir::Bi),
            (1, Side::Server, Dir::Bi),
            (2, Side::Client, Dir::Uni),
            (3, Side::Server, Dir::Uni),
        ] {
            let id = StreamId::new(initiator, dir, 5).unwrap();
            assert_eq!(id.as_u64(), 20 + bits);
            assert_eq!((id.initiator(), id.dir(), id.index()), (initiator, dir, 5));
        }
        let most = StreamId::MAX_STREAMS;
        let last = StreamId::new(Side::Server, Dir::Uni, most - 1).unwrap();
        assert_eq!(last.as_u64(), varint::MAX);
        assert_eq!(StreamId::new(Side::Client, Dir::Bi, most), None);
        assert_eq!(StreamId::from_u64(varint::MAX), Some(last));
        assert_eq!(StreamId::from_u64(varint::MAX + 1), None);
    }

    #[test]
    fn twenty_bytes_and_no_more() {
        // [9000 17.2 id-length]
        let bytes: Vec<u8> = (1..=21).collect();
        for n in 0..=20 {
            let id = ConnectionId::new(&bytes[..n]).unwrap();
            assert_eq!((id.as_slice(), id.len()), (&bytes[..n], n));
        }
        assert_eq!(ConnectionId::new(&bytes), Err(IdTooLong(21)));
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
