//! Stream ids, which encode a stream's initiator and direction (RFC 9000 §2.1).

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
    #[inline]
    #[must_use]
    pub const fn peer(self) -> Self {
        match self {
            Self::Client => Self::Server,
            Self::Server => Self::Client,
        }
    }

    /// Returns true for the client.
    #[inline]
    pub const fn is_client(self) -> bool {
        matches!(self, Self::Client)
    }

    /// Returns true for the server.
    #[inline]
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
    #[inline]
    pub const fn new(initiator: Side, dir: Dir, index: u64) -> Option<Self> {
        if index >= Self::MAX_STREAMS {
            return None;
        }
        Some(Self(
            index << 2 | (matches!(dir, Dir::Uni) as u64) << 1 | initiator.is_server() as u64,
        ))
    }

    /// Converts an id from its representation in frames. Returns `None` above 2^62 − 1.
    #[inline]
    pub const fn from_u64(id: u64) -> Option<Self> {
        if id > varint::MAX {
            return None;
        }
        Some(Self(id))
    }

    /// Converts a value that was read as a varint, which is always in range.
    #[inline]
    pub(super) const fn from_varint(id: u64) -> Self {
        Self(id & varint::MAX)
    }

    /// Returns the id as represented in frames.
    #[inline]
    pub const fn as_u64(self) -> u64 {
        self.0
    }

    /// Returns the role of the endpoint that opened the stream.
    #[inline]
    pub const fn initiator(self) -> Side {
        if self.0 & 1 == 0 {
            Side::Client
        } else {
            Side::Server
        }
    }

    /// Returns the direction of the stream.
    #[inline]
    pub const fn dir(self) -> Dir {
        if self.0 & 2 == 0 { Dir::Bi } else { Dir::Uni }
    }

    /// Returns its index among the streams of its kind, from 0.
    #[inline]
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
}
