//! Acknowledgement of received packets.
//!
//! [`ReceivedRanges`] stores the packet numbers received, [`AckDelay`] decides when an ACK is
//! due (RFC 9000 §13.2), and [`AckRequest`] requests a schedule for the peer's ACKs
//! (draft-ietf-quic-ack-frequency).

mod delay;
mod ranges;
mod request;

pub use delay::AckDelay;
pub use ranges::ReceivedRanges;
pub use request::AckRequest;
