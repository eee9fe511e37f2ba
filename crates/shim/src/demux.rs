//! Classifies datagrams by their first byte.
//!
//! ```text
//!   first byte     RFC 9443               here
//!   0 …3           STUN                   Other
//!   4 …7           unassigned             Other
//!   8 …15          unassigned             Shim: 0b0000_1kkk
//!   16…63          ZRTP, DTLS             Other
//!   64…127         TURN channel, QUIC     QuicShort: 0b01xx_xxxx (RFC 9000 §17.3)
//!   128…255        RTP, QUIC              QuicLong: 0b1xxx_xxxx (RFC 8999 §5.1)
//! ```
//!
//! A QUIC v1 packet always has one of the two top bits set, unless both sides agreed to grease the
//! fixed bit (RFC 9287), which endpoints that offer shims do not offer.

use crate::Kind;

/// The class of a datagram by its first byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Datagram {
    /// Possibly a shim of this kind, depending on its prefix and check ([`crate::Framed::parse`]).
    Shim(Kind),
    /// A QUIC packet with a long header, of any version (version negotiation may clear the fixed
    /// bit).
    QuicLong,
    /// A QUIC packet with a short header.
    QuicShort,
    /// Something else, or empty.
    Other,
}

impl Datagram {
    /// Classifies a UDP payload.
    #[inline]
    pub const fn classify(payload: &[u8]) -> Self {
        let Some(&first) = payload.first() else {
            return Self::Other;
        };
        match first {
            0x80.. => Self::QuicLong,
            0x40..=0x7F => Self::QuicShort,
            _ => match Kind::from_first_byte(first) {
                Some(kind) => Self::Shim(kind),
                None => Self::Other,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_first_byte() {
        for first in 0..=255u8 {
            let expected = match first {
                0..=7 | 16..=63 => Datagram::Other,
                8..=15 => Datagram::Shim(Kind::new(first - 8).unwrap()),
                64..=127 => Datagram::QuicShort,
                128..=255 => Datagram::QuicLong,
            };
            assert_eq!(Datagram::classify(&[first, 0xAA]), expected, "{first}");
        }
        assert_eq!(Datagram::classify(&[]), Datagram::Other);
    }
}
