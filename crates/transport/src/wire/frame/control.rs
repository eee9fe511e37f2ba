//! Frames of a few fixed fields.

use core::time::Duration;

use super::ResetToken;
use crate::wire::{ConnectionId, Dir, StreamId, TransportErrorCode};

/// RESET_STREAM (RFC 9000 §19.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResetStream {
    /// The stream.
    pub id: StreamId,
    /// Why, in the application's terms.
    pub error_code: u64,
    /// Bytes that the stream took in all.
    pub final_size: u64,
}

/// STOP_SENDING (RFC 9000 §19.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StopSending {
    /// The stream.
    pub id: StreamId,
    /// Why, in the application's terms.
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
    /// Which kind of streams.
    pub dir: Dir,
    /// How many in all, at most 2^60.
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
    /// Which kind of streams.
    pub dir: Dir,
    /// The limit at which the sender is blocked, at most 2^60.
    pub limit: u64,
}

/// NEW_CONNECTION_ID (RFC 9000 §19.15).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewConnectionId {
    /// Its number.
    pub sequence: u64,
    /// Ids below this number are to be retired; at most `sequence`.
    pub retire_prior_to: u64,
    /// The id, 1 to 20 bytes.
    pub id: ConnectionId,
    /// The token that resets packets sent to it.
    pub reset_token: ResetToken,
}

/// CONNECTION_CLOSE of type 0x1c (RFC 9000 §19.19).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionClose<'a> {
    /// What went wrong.
    pub error_code: TransportErrorCode,
    /// The type of the frame that triggered it; 0 if unknown.
    pub frame_type: u64,
    /// For people; should be UTF-8.
    pub reason: &'a [u8],
}

/// CONNECTION_CLOSE of type 0x1d (RFC 9000 §19.19).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ApplicationClose<'a> {
    /// Why, in the application's terms.
    pub error_code: u64,
    /// For people; should be UTF-8.
    pub reason: &'a [u8],
}

/// ACK_FREQUENCY (draft-ietf-quic-ack-frequency §4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AckFrequency {
    /// Later frames have larger numbers; older ones are ignored.
    pub sequence: u64,
    /// Acknowledge after more than this many ack-eliciting packets.
    pub ack_eliciting_threshold: u64,
    /// The largest delay of an acknowledgement, below 2^14 ms.
    pub max_ack_delay: Duration,
    /// Reordering, in packets, that calls for an acknowledgement at once; 0: never.
    pub reordering_threshold: u64,
}
