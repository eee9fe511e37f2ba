//! Where frames are permitted, and their effects (RFC 9000 §12.4, table 3).

use super::{Frame, FrameType, types};
use crate::wire::{Dir, PacketType, Side};

impl Frame<'_> {
    /// Returns the type as a number. STREAM and DATAGRAM have their base types, without the
    /// bits that depend on the encoding.
    pub const fn ty(&self) -> FrameType {
        match self {
            Self::Padding(_) => types::PADDING,
            Self::Ping => types::PING,
            Self::Ack(ack) if ack.ecn.is_some() => types::ACK_ECN,
            Self::Ack(_) => types::ACK,
            Self::ResetStream(_) => types::RESET_STREAM,
            Self::StopSending(_) => types::STOP_SENDING,
            Self::Crypto(_) => types::CRYPTO,
            Self::NewToken(_) => types::NEW_TOKEN,
            Self::Stream(_) => types::STREAM,
            Self::MaxData(_) => types::MAX_DATA,
            Self::MaxStreamData(_) => types::MAX_STREAM_DATA,
            Self::MaxStreams(frame) => match frame.dir {
                Dir::Bi => types::MAX_STREAMS_BIDI,
                Dir::Uni => types::MAX_STREAMS_UNI,
            },
            Self::DataBlocked(_) => types::DATA_BLOCKED,
            Self::StreamDataBlocked(_) => types::STREAM_DATA_BLOCKED,
            Self::StreamsBlocked(frame) => match frame.dir {
                Dir::Bi => types::STREAMS_BLOCKED_BIDI,
                Dir::Uni => types::STREAMS_BLOCKED_UNI,
            },
            Self::NewConnectionId(_) => types::NEW_CONNECTION_ID,
            Self::RetireConnectionId(_) => types::RETIRE_CONNECTION_ID,
            Self::PathChallenge(_) => types::PATH_CHALLENGE,
            Self::PathResponse(_) => types::PATH_RESPONSE,
            Self::ConnectionClose(_) => types::CONNECTION_CLOSE,
            Self::ApplicationClose(_) => types::APPLICATION_CLOSE,
            Self::HandshakeDone => types::HANDSHAKE_DONE,
            Self::Datagram(_) => types::DATAGRAM,
            Self::AckFrequency(_) => types::ACK_FREQUENCY,
            Self::ImmediateAck => types::IMMEDIATE_ACK,
            Self::Feedback(_) => types::FEEDBACK,
        }
    }

    /// Returns true if the frame makes its packet ack-eliciting (RFC 9002 §2). Like ACK,
    /// FEEDBACK does not, because feedback about feedback would never end.
    #[inline]
    pub const fn is_ack_eliciting(&self) -> bool {
        !matches!(
            self,
            Self::Padding(_)
                | Self::Ack(_)
                | Self::ConnectionClose(_)
                | Self::ApplicationClose(_)
                // [9000 19.21 counted]
                | Self::Feedback(_)
        )
    }

    /// Returns true for frames that probe a path without migrating the connection to it (RFC
    /// 9000 §9.1).
    #[inline]
    pub const fn is_probing(&self) -> bool {
        matches!(
            self,
            Self::Padding(_)
                | Self::NewConnectionId(_)
                | Self::PathChallenge(_)
                | Self::PathResponse(_)
        )
    }

    /// Returns true if packets of type `packet` may contain it; otherwise, it is a
    /// PROTOCOL_VIOLATION. For 0-RTT, this is the stricter list of RFC 9000 §12.5, which
    /// excludes RETIRE_CONNECTION_ID. Extensions whose parameters aren't remembered for 0-RTT
    /// are excluded as well.
    #[inline]
    pub const fn allowed_in(&self, packet: PacketType) -> bool {
        match self {
            Self::Padding(_) | Self::Ping | Self::ConnectionClose(_) => true,
            // [9001 8.3 early-crypto]
            Self::Ack(_) | Self::Crypto(_) => !matches!(packet, PacketType::ZeroRtt),
            Self::NewToken(_)
            | Self::RetireConnectionId(_)
            | Self::PathResponse(_)
            | Self::HandshakeDone
            | Self::AckFrequency(_)
            | Self::ImmediateAck
            | Self::Feedback(_) => matches!(packet, PacketType::OneRtt),
            _ => matches!(packet, PacketType::ZeroRtt | PacketType::OneRtt),
        }
    }

    /// Returns true if an endpoint in the role of `sender` may send it; otherwise, it is a
    /// PROTOCOL_VIOLATION. Only servers send NEW_TOKEN and HANDSHAKE_DONE (RFC 9000 §19.7,
    /// §19.20).
    #[inline]
    pub const fn allowed_from(&self, sender: Side) -> bool {
        match self {
            Self::NewToken(_) | Self::HandshakeDone => sender.is_server(),
            _ => true,
        }
    }
}
