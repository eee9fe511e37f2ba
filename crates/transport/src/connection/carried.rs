//! The contents of a packet, kept until it is acknowledged or lost.

use std::ops::Range;

use super::control::ControlFrame;
use crate::streams::SentFrames;

/// The record of one packet. Bulk packets contain only stream data, so their records need no heap
/// allocation.
#[derive(Debug, Default)]
pub(super) struct Carried {
    /// Frames of the streams.
    pub(super) streams: SentFrames,
    /// The largest number that the packet's ACK frame acknowledged. When this packet is
    /// acknowledged, the peer is known to have received acknowledgements up to this number.
    pub(super) acked: Option<u64>,
    rest: Option<Box<Rest>>,
}

#[derive(Debug, Default)]
struct Rest {
    crypto: Vec<Range<u64>>,
    control: Vec<ControlFrame>,
}

impl Carried {
    pub(super) fn add_crypto(&mut self, range: Range<u64>) {
        self.rest.get_or_insert_default().crypto.push(range);
    }

    pub(super) fn add_control(&mut self, frame: ControlFrame) {
        self.rest.get_or_insert_default().control.push(frame);
    }

    /// Returns the ranges of the CRYPTO stream of the packet's level.
    pub(super) fn crypto(&self) -> &[Range<u64>] {
        self.rest.as_ref().map_or(&[], |rest| &rest.crypto)
    }

    /// Returns the frames about the connection.
    pub(super) fn control(&self) -> &[ControlFrame] {
        self.rest.as_ref().map_or(&[], |rest| &rest.control)
    }
}
