//! Contents of packets of registered protocols. Only the protocol knows the meaning of their words.

use crate::base::Duration;

/// Fields of a header in a packet, in a port's answer, or in a sender's request.
///
/// In a [`Request`](super::Request), these are written by the sender. In
/// [`Carried`](super::Carried), they are read by a port, and in an [`Answer`](super::Answer), they
/// are written by the port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OwnWords {
    /// The protocol's number, from 0 to 7, as in its shims.
    pub kind: u8,
    /// The protocol's fields.
    pub words: [u64; 3],
}

/// Contents of a registered protocol's headers received since the previous feedback.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OwnFeedback {
    /// The protocol's number, from 0 to 7.
    pub kind: u8,
    /// Packets with its header.
    pub packets: u64,
    /// Bytes of UDP payload of these packets.
    pub bytes: u64,
    /// Identity of the router that limits the flow, or 0 if there is none.
    pub router: u16,
    /// Time between two decisions of this router's port, or 0 if unknown.
    pub interval: Duration,
    /// The protocol's fields.
    pub words: [u64; 3],
}
