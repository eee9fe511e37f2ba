//! Packet types that carry frames, and the number spaces that they share (RFC 9000 §12.3).

/// A packet number space.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SpaceId {
    /// Initial packets.
    Initial = 0,
    /// Handshake packets.
    Handshake = 1,
    /// 0-RTT and 1-RTT packets.
    Data = 2,
}

impl SpaceId {
    /// All three, in the order in which a connection uses them.
    pub const ALL: [Self; 3] = [Self::Initial, Self::Handshake, Self::Data];

    /// Returns the index: 0, 1 or 2.
    #[inline]
    pub const fn index(self) -> usize {
        self as usize
    }

    /// Returns the type of packets with these numbers, which is 1-RTT rather than 0-RTT.
    #[inline]
    pub const fn packet_type(self) -> PacketType {
        match self {
            Self::Initial => PacketType::Initial,
            Self::Handshake => PacketType::Handshake,
            Self::Data => PacketType::OneRtt,
        }
    }
}

/// A type of packet that is protected and carries frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PacketType {
    /// Protected with keys from the client's first destination connection id; contains CRYPTO
    /// frames and a token.
    Initial,
    /// Early data from the client.
    ZeroRtt,
    /// The rest of the handshake.
    Handshake,
    /// 1-RTT, with a short header.
    OneRtt,
}

impl PacketType {
    /// Returns the number space of packets of this type.
    #[inline]
    pub const fn space(self) -> SpaceId {
        match self {
            Self::Initial => SpaceId::Initial,
            Self::Handshake => SpaceId::Handshake,
            Self::ZeroRtt | Self::OneRtt => SpaceId::Data,
        }
    }

    /// Returns true for packets with a long header.
    #[inline]
    pub const fn is_long(self) -> bool {
        !matches!(self, Self::OneRtt)
    }
}
