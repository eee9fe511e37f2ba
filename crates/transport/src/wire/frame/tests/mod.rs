mod ack;
mod fields;
mod fit;
mod rules;

use core::time::Duration;

use super::*;
use crate::wire::{
    ConnectionId, Dir, Side, StreamId, TransportErrorCode, WriteError, Writer, varint,
};

/// The frames of `payload`, all of which must be valid.
fn frames(payload: &[u8]) -> Vec<Frame<'_>> {
    Frames::new(payload).map(Result::unwrap).collect()
}

fn stream(id: StreamId, offset: u64, fin: bool, data: &[u8]) -> Stream<'_> {
    Stream {
        id,
        offset,
        fin,
        data,
    }
}

fn crypto(offset: u64, data: &[u8]) -> Crypto<'_> {
    Crypto { offset, data }
}

/// A CONNECTION_CLOSE frame of the transport.
fn close(error_code: TransportErrorCode, frame_type: u64, reason: &[u8]) -> ConnectionClose<'_> {
    ConnectionClose {
        error_code,
        frame_type,
        reason,
    }
}

/// A NEW_CONNECTION_ID frame.
fn new_id(sequence: u64, retire_prior_to: u64, id: &[u8], reset_token: [u8; 16]) -> Frame<'static> {
    let id = ConnectionId::new(id).unwrap();
    Frame::NewConnectionId(NewConnectionId {
        sequence,
        retire_prior_to,
        id,
        reset_token,
    })
}

/// An ACK_FREQUENCY frame: sequence, threshold of packets, and of reordering, and the delay in ms.
fn frequency([sequence, packets, reordering, ms]: [u64; 4]) -> Frame<'static> {
    Frame::AckFrequency(AckFrequency {
        sequence,
        ack_eliciting_threshold: packets,
        max_ack_delay: Duration::from_millis(ms),
        reordering_threshold: reordering,
    })
}

/// The error at the end of `payload`.
fn error(payload: &[u8]) -> FrameError {
    Frames::new(payload).last().unwrap().unwrap_err()
}
