//! Frames (RFC 9000 §19), with DATAGRAM (RFC 9221), ACK_FREQUENCY and IMMEDIATE_ACK
//! (draft-ietf-quic-ack-frequency) and FEEDBACK.

pub mod ack;
mod control;
mod decode;
mod encode;
pub mod feedback;
mod rules;
mod stream;
pub mod types;

#[cfg(test)]
mod tests;

pub use ack::{Ack, AckRanges, EcnCounts};
pub use control::{
    AckFrequency, ApplicationClose, ConnectionClose, MaxStreamData, MaxStreams, NewConnectionId,
    ResetStream, StopSending, StreamDataBlocked, StreamsBlocked,
};
pub use decode::{FrameError, Frames};
pub use encode::datagram_len;
pub use feedback::Feedback;
pub use stream::{Crypto, Fit, Stream, StreamHeader};
pub use types::FrameType;

/// A stateless reset token (RFC 9000 §10.3).
pub type ResetToken = [u8; 16];

/// A frame, borrowed from the payload of its packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frame<'a> {
    /// A run of PADDING frames: how many.
    Padding(usize),
    /// Asks for an acknowledgement.
    Ping,
    /// Packets that arrived.
    Ack(Ack<'a>),
    /// The sending part of a stream ends abruptly.
    ResetStream(ResetStream),
    /// The receiver of a stream wants no more of it.
    StopSending(StopSending),
    /// Handshake data.
    Crypto(Crypto<'a>),
    /// A token for a later connection; not empty.
    NewToken(&'a [u8]),
    /// Stream data.
    Stream(Stream<'a>),
    /// The connection's flow control limit, bytes.
    MaxData(u64),
    /// A stream's flow control limit.
    MaxStreamData(MaxStreamData),
    /// How many streams the peer may open in all.
    MaxStreams(MaxStreams),
    /// The sender is blocked at this connection limit, bytes.
    DataBlocked(u64),
    /// The sender is blocked at a stream's limit.
    StreamDataBlocked(StreamDataBlocked),
    /// The sender would open more streams.
    StreamsBlocked(StreamsBlocked),
    /// Another connection id of the peer's.
    NewConnectionId(NewConnectionId),
    /// The peer no longer uses our connection id of this sequence number.
    RetireConnectionId(u64),
    /// Data to be sent back.
    PathChallenge([u8; 8]),
    /// Data of a PATH_CHALLENGE, sent back.
    PathResponse([u8; 8]),
    /// The connection ends by the transport (type 0x1c).
    ConnectionClose(ConnectionClose<'a>),
    /// The connection ends by the application (type 0x1d).
    ApplicationClose(ApplicationClose<'a>),
    /// The handshake is confirmed.
    HandshakeDone,
    /// An unreliable datagram.
    Datagram(&'a [u8]),
    /// How the peer should pace its acknowledgements.
    AckFrequency(AckFrequency),
    /// Asks for an acknowledgement at once.
    ImmediateAck,
    /// The receiver's counters of a signal, cumulative.
    Feedback(Feedback<'a>),
}
