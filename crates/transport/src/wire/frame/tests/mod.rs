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

/// The error at the end of `payload`.
fn error(payload: &[u8]) -> FrameError {
    Frames::new(payload).last().unwrap().unwrap_err()
}
