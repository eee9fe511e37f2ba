//! Frames with a few simple fields.

use core::time::Duration;

use super::ResetToken;
use crate::wire::{ConnectionId, Dir, StreamId, TransportErrorCode};

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
