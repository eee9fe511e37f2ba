//! A datagram and a packet while they are being built.

use super::carried::Carried;
use super::paths::ShimUse;
use crate::Ecn;
use crate::wire::packet::Started;
use crate::wire::{SpaceId, Writer};

/// A datagram with less room than this gets no further packet.
pub(super) const MIN_PACKET_ROOM: usize = 128;

/// What the path lets the next datagram carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Permit {
    /// Anything.
    All,
    /// Acknowledgements only: the window is full, or the pacer wants a pause.
    AcksOnly,
}

/// A datagram under construction.
#[derive(Debug)]
pub(super) struct Building<'a> {
    pub(super) w: Writer<'a>,
    pub(super) permit: Permit,
    /// The shim at its front.
    pub(super) shim: ShimUse,
    /// It has an Initial packet that wants it to be of full size (RFC 9000 §14.1).
    pub(super) initial: bool,
    /// It has a packet with a long header.
    pub(super) long: bool,
    /// It has something ack-eliciting.
    pub(super) eliciting: bool,
    /// The ECN field that it leaves with.
    pub(super) ecn: Ecn,
}

impl<'a> Building<'a> {
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
}

/// A packet that was started.
pub(super) struct Open {
    pub(super) space: SpaceId,
    pub(super) number: u64,
    pub(super) started: Started,
    /// Where the datagram's room ends; the writer's limit keeps the tag free.
    pub(super) end: usize,
    pub(super) tag_len: usize,
}

/// What went into a packet.
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
