//! Acknowledging what arrived: ranges, and when an ACK is due.
//!
//! [`ReceivedRanges`] knows what has arrived, [`AckDelay`] when an ACK is due (RFC 9000 §13.2), and
//! [`AckRequest`] what to ask of the peer's [`AckDelay`] (draft-ietf-quic-ack-frequency).

mod delay;
mod ranges;
mod request;

pub use delay::AckDelay;
pub use ranges::ReceivedRanges;
pub use request::AckRequest;
