//! What packets of registered protocols carry. The protocol alone knows what the words mean.

use crate::base::Duration;

/// The fields of a header in a packet, of a port's answer, or of a sender's request.
///
/// A [`Request`](super::Request) has what the sender asks, [`Carried`](super::Carried) what a port
/// reads, [`Answer`](super::Answer) what the port writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OwnWords {
    /// The protocol's number, 0 to 7, as in its shims.
    pub kind: u8,
    /// Its fields.
    pub words: [u64; 3],
}

/// What headers of a registered protocol brought to the receiver since the previous feedback.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OwnFeedback {
    /// The protocol's number, 0 to 7.
    pub kind: u8,
    /// Packets with its header.
    pub packets: u64,
    /// Bytes of UDP payload of these packets.
    pub bytes: u64,
    /// Identity of the router that limits the flow. 0: none.
    pub router: u16,
    /// The time between two decisions of that router's port. 0: unknown.
    pub interval: Duration,
    /// The protocol's fields.
    pub words: [u64; 3],
}
