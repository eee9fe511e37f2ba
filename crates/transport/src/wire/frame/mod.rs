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
