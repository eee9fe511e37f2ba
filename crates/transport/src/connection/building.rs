//! A datagram and a packet while they are being built, and what a packet carried.

use super::control::ControlFrame;
use super::paths::ShimUse;
use crate::Ecn;
use crate::streams::SentFrames;
use crate::wire::packet::{MIN_INITIAL_DATAGRAM, Started};
use crate::wire::{SpaceId, Writer};
use std::ops::Range;

/// A datagram with less room than this doesn't get another packet.
pub(super) const MIN_PACKET_ROOM: usize = 128;

/// A 1-RTT packet that ends this close to the end of its datagram is padded, so that the batch can
/// continue.
const FILL_UP: usize = 64;

/// The packets that the path permits in the next datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Permit {
    /// All packets.
    All,
    /// Only acknowledgements, because the window is full or the pacer requires a pause.
    AcksOnly,
}

/// A datagram under construction.
#[derive(Debug)]
pub(super) struct PacketBuilder<'a> {
    pub(super) w: Writer<'a>,
    pub(super) permit: Permit,
    /// The shim at its front.
    pub(super) shim: ShimUse,
    /// Whether it contains an Initial packet that requires full size (RFC 9000 §14.1).
    pub(super) initial: bool,
    /// Whether it contains a packet with a long header.
    pub(super) long: bool,
    /// Whether it contains an ack-eliciting packet.
    pub(super) eliciting: bool,
    /// The ECN field with which it is sent.
    pub(super) ecn: Ecn,
}

impl<'a> PacketBuilder<'a> {
    pub(super) const fn new(room: &'a mut [u8], permit: Permit) -> Self {
        Self {
            w: Writer::new(room),
            permit,
            shim: ShimUse::Nothing,
            initial: false,
            long: false,
            eliciting: false,
            ecn: Ecn::NotEct,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.w.position()
    }

    /// Sets the ECN field for the current contents of the datagram. `mark` is the path's.
    pub(super) const fn mark(&mut self, mark: Ecn) {
        self.ecn = if self.long || !self.eliciting {
            Ecn::NotEct
        } else {
            mark
        };
    }

    /// Adds padding at the end of the datagram's last packet. `has_more` tests whether there's more
    /// data to send.
    pub(super) fn pad(
        &mut self,
        open: &Open,
        contents: &mut Contents,
        has_more: impl FnOnce() -> bool,
    ) {
        let w = &mut self.w;
        let full = MIN_INITIAL_DATAGRAM.min(open.end) - open.tag_len;
        // [9001 9.3 padded-hello] [9002 6.2.2.1 client-probe-space]
        let missing = if self.initial || contents.padded {
            full.saturating_sub(w.position())
        } else if matches!(self.shim, ShimUse::Question(_)) {
            // A question has the size of the packets for whose rate it asks.
            w.remaining()
        } else if open.space == SpaceId::Data
            && w.remaining() <= FILL_UP
            && contents.eliciting
            && has_more()
        {
            w.remaining()
        } else {
            0
        };
        contents.padded = missing > 0 && w.put_zeros(missing).is_ok();
    }
}

/// A packet that was started.
#[derive(Debug)]
pub(super) struct Open {
    pub(super) space: SpaceId,
    pub(super) number: u64,
    pub(super) started: Started,
    /// End of the datagram's room. The writer's limit leaves the tag free.
    pub(super) end: usize,
    pub(super) tag_len: usize,
}

/// The contents of a packet.
#[derive(Debug, Default)]
pub(super) struct Contents {
    pub(super) carried: Carried,
    pub(super) eliciting: bool,
    pub(super) padded: bool,
    pub(super) mtu_probe: bool,
    pub(super) off_path: bool,
    pub(super) shim: ShimUse,
    pub(super) ecn: Ecn,
}

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::ConnectionId;
    use crate::wire::packet::{Header, TAG_LEN, TruncatedNumber};

    /// Builds a 1-RTT packet with `payload` bytes and padding, and returns the datagram's size.
    fn padded(builder: &mut PacketBuilder<'_>, payload: usize, contents: &mut Contents) -> usize {
        let header = Header::OneRtt {
            dcid: ConnectionId::new(&[1; 8]).unwrap(),
            number: TruncatedNumber::new(0, None),
            key_phase: false,
            spin: false,
        };
        let end = builder.w.limit();
        let started = header.encode(&mut builder.w).unwrap();
        builder.w.set_limit(end - TAG_LEN);
        let open = Open {
            space: SpaceId::Data,
            number: 0,
            started,
            end,
            tag_len: TAG_LEN,
        };
        builder.w.put_zeros(payload).unwrap();
        builder.pad(&open, contents, || true);
        builder.len() + TAG_LEN
    }

    #[test]
    fn a_datagram_is_padded_as_its_packets_need() {
        let mut room = [0; 1400];
        let mut size = |eliciting, payload, initial, shim| {
            let mut contents = Contents {
                eliciting,
                ..Contents::default()
            };
            let mut builder = PacketBuilder::new(&mut room, Permit::All);
            (builder.initial, builder.shim) = (initial, shim);
            (
                padded(&mut builder, payload, &mut contents),
                contents.padded,
            )
        };
        let small = size(true, 100, false, ShimUse::Nothing);
        assert!(small.0 < 200 && !small.1);
        let initial = size(true, 100, true, ShimUse::Nothing);
        assert_eq!(initial, (MIN_INITIAL_DATAGRAM, true));
        assert_eq!(size(true, 100, false, ShimUse::Question(8)).0, 1400);
        // The datagram is nearly full, and there's more data to send.
        assert_eq!(size(true, 1320, false, ShimUse::Nothing).0, 1400);
        assert!(size(false, 1320, false, ShimUse::Nothing).0 < 1400);
    }

    #[test]
    fn only_datagrams_of_short_headers_that_are_acknowledged_are_marked() {
        let mut room = [0; 100];
        let mut builder = PacketBuilder::new(&mut room, Permit::All);
        builder.mark(Ecn::Ect0);
        assert_eq!(builder.ecn, Ecn::NotEct);
        builder.eliciting = true;
        builder.mark(Ecn::Ect0);
        assert_eq!(builder.ecn, Ecn::Ect0);
        builder.long = true;
        builder.mark(Ecn::Ect0);
        assert_eq!(builder.ecn, Ecn::NotEct);
    }
}
