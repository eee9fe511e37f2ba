//! Frames (RFC 9000 §19), with DATAGRAM (RFC 9221), ACK_FREQUENCY and IMMEDIATE_ACK
//! (draft-ietf-quic-ack-frequency) and FEEDBACK: those with a few simple fields, where each is
//! permitted, and its effects (RFC 9000 §12.4, table 3).

use core::time::Duration;

pub mod ack;
mod codec;
pub mod feedback;
mod stream;
pub mod types;

#[cfg(test)]
mod tests;

pub use ack::{Ack, AckRanges, EcnCounts};
pub use codec::{Frames, datagram_len};
pub use feedback::Feedback;
pub use stream::{Crypto, Fit, Stream, StreamHeader};
pub use types::FrameType;

use super::{ConnectionId, Dir, PacketType, Side, StreamId, TransportError, TransportErrorCode};

/// A stateless reset token (RFC 9000 §10.3).
pub type ResetToken = [u8; 16];

/// A frame, borrowed from the payload of its packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frame<'a> {
    /// A run of PADDING frames of this length.
    Padding(usize),
    /// Requests an acknowledgement.
    Ping,
    /// Acknowledges packets.
    Ack(Ack<'a>),
    /// Abruptly terminates the sending part of a stream.
    ResetStream(ResetStream),
    /// Requests that the peer stop sending on a stream.
    StopSending(StopSending),
    /// Handshake data.
    Crypto(Crypto<'a>),
    /// A token for a future connection; not empty.
    NewToken(&'a [u8]),
    /// Stream data.
    Stream(Stream<'a>),
    /// The connection's flow control limit, bytes.
    MaxData(u64),
    /// A stream's flow control limit.
    MaxStreamData(MaxStreamData),
    /// The total number of streams that the peer may open.
    MaxStreams(MaxStreams),
    /// The sender is blocked at this connection limit, bytes.
    DataBlocked(u64),
    /// The sender is blocked at a stream's limit.
    StreamDataBlocked(StreamDataBlocked),
    /// The sender is blocked at the limit on streams.
    StreamsBlocked(StreamsBlocked),
    /// Another connection id that the sender issues.
    NewConnectionId(NewConnectionId),
    /// The sender no longer uses the connection id with this sequence number.
    RetireConnectionId(u64),
    /// Data that the peer must return.
    PathChallenge([u8; 8]),
    /// Data of a PATH_CHALLENGE, returned.
    PathResponse([u8; 8]),
    /// The transport closes the connection (type 0x1c).
    ConnectionClose(ConnectionClose<'a>),
    /// The application closes the connection (type 0x1d).
    ApplicationClose(ApplicationClose<'a>),
    /// The handshake is confirmed.
    HandshakeDone,
    /// An unreliable datagram.
    Datagram(&'a [u8]),
    /// How often the peer should send acknowledgements.
    AckFrequency(AckFrequency),
    /// Requests an immediate acknowledgement.
    ImmediateAck,
    /// The receiver's cumulative counters of a signal.
    Feedback(Feedback<'a>),
}

/// RESET_STREAM (RFC 9000 §19.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResetStream {
    /// The stream.
    pub id: StreamId,
    /// Application error code.
    pub error_code: u64,
    /// Total bytes sent on the stream.
    pub final_size: u64,
}

/// STOP_SENDING (RFC 9000 §19.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StopSending {
    /// The stream.
    pub id: StreamId,
    /// Application error code.
    pub error_code: u64,
}

/// MAX_STREAM_DATA (RFC 9000 §19.10).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MaxStreamData {
    /// The stream.
    pub id: StreamId,
    /// The limit, bytes from the start of the stream.
    pub max: u64,
}

/// MAX_STREAMS (RFC 9000 §19.11).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MaxStreams {
    /// The direction of the streams.
    pub dir: Dir,
    /// Total number of streams, at most 2^60.
    pub max: u64,
}

/// STREAM_DATA_BLOCKED (RFC 9000 §19.13).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamDataBlocked {
    /// The stream.
    pub id: StreamId,
    /// The limit at which it is blocked, bytes.
    pub limit: u64,
}

/// STREAMS_BLOCKED (RFC 9000 §19.14).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamsBlocked {
    /// The direction of the streams.
    pub dir: Dir,
    /// The limit at which the sender is blocked, at most 2^60.
    pub limit: u64,
}

/// NEW_CONNECTION_ID (RFC 9000 §19.15).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewConnectionId {
    /// Sequence number of the connection id.
    pub sequence: u64,
    /// Connection ids with lower sequence numbers must be retired; at most `sequence`.
    pub retire_prior_to: u64,
    /// The connection id, 1 to 20 bytes.
    pub id: ConnectionId,
    /// The stateless reset token for this connection id.
    pub reset_token: ResetToken,
}

/// CONNECTION_CLOSE of type 0x1c (RFC 9000 §19.19).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionClose<'a> {
    /// The error.
    pub error_code: TransportErrorCode,
    /// Type of the frame that caused the error; 0 if unknown.
    pub frame_type: u64,
    /// Human-readable reason; should be UTF-8.
    pub reason: &'a [u8],
}

/// CONNECTION_CLOSE of type 0x1d (RFC 9000 §19.19).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ApplicationClose<'a> {
    /// Application error code.
    pub error_code: u64,
    /// Human-readable reason; should be UTF-8.
    pub reason: &'a [u8],
}

/// ACK_FREQUENCY (draft-ietf-quic-ack-frequency §4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AckFrequency {
    /// Sequence number. A frame is ignored if a newer frame was received before.
    pub sequence: u64,
    /// Acknowledge after more than this many ack-eliciting packets.
    pub ack_eliciting_threshold: u64,
    /// The maximum delay of an acknowledgement, below 2^14 ms.
    pub max_ack_delay: Duration,
    /// Reordering, in packets, that requires an immediate acknowledgement; 0: never.
    pub reordering_threshold: u64,
}

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
    pub const fn allowed_from(&self, sender: Side) -> bool {
        match self {
            Self::NewToken(_) | Self::HandshakeDone => sender.is_server(),
            _ => true,
        }
    }
}

/// A malformed frame, because of which the connection must be closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{code} in frame {frame_type:#x}: {reason}")]
pub struct FrameError {
    /// The code to close with.
    pub code: TransportErrorCode,
    /// The frame's type; 0 if the payload ends inside it.
    pub frame_type: FrameType,
    /// Human-readable reason.
    pub reason: &'static str,
}

impl From<FrameError> for TransportError {
    fn from(error: FrameError) -> Self {
        Self::new(error.code, error.reason).in_frame(error.frame_type)
    }
}
