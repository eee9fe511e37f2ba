//! The content of a packet, kept until it is acknowledged or lost.

use std::ops::Range;

use super::control::ControlFrame;
use crate::streams::SentFrames;

/// The record of one packet. Bulk packets hold stream data and nothing else, and
/// cost no heap.
#[derive(Debug, Default)]
pub(super) struct Carried {
    /// Frames of the streams.
    pub(super) streams: SentFrames,
    /// The largest number that its ACK frame acknowledged: with the packet's own acknowledgement,
    /// the peer is known to have an acknowledgement of all up to there.
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

    /// Ranges of the CRYPTO stream of the packet's level.
    pub(super) fn crypto(&self) -> &[Range<u64>] {
        self.rest.as_ref().map_or(&[], |rest| &rest.crypto)
    }

    /// Frames about the connection.
    pub(super) fn control(&self) -> &[ControlFrame] {
        self.rest.as_ref().map_or(&[], |rest| &rest.control)
    }
}
