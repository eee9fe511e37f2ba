//! Bytes of QUIC v1 (RFC 9000): varints, packet headers, frames, transport parameters.
//!
//! ```text
//!  datagram ─PartialDecode─► packet ─(header protection removed)─► PlainHeader
//!                                   ─(decrypted)─► Frames ─► Frame<'a>
//!  Frame::encode, StreamHeader::encode, ack::encode ─┬► Writer over the send batch
//!  Header::encode … Started::finish ─────────────────┘
//! ```
//!
//! This module has no keys, state or clocks. Decoding borrows from the input, never allocates, and
//! returns a value or a typed error for any input. Encoding writes into a caller's buffer through
//! [`Writer`]; a frame that doesn't fit leaves the buffer's position unchanged.

#![cfg_attr(
    not(test),
    deny(clippy::indexing_slicing, clippy::cast_possible_truncation)
)]

pub mod cid;
pub mod error;
pub mod frame;
pub mod packet;
mod reader;
mod stream_id;
pub mod transport_parameters;
pub mod varint;
pub mod version;
mod writer;

pub use cid::ConnectionId;
pub use error::{TransportError, TransportErrorCode};
pub use frame::{Frame, FrameError, Frames};
pub use packet::{PacketType, PartialDecode, SpaceId};
pub use reader::{Reader, UnexpectedEnd};
pub use stream_id::{Dir, Side, StreamId};
pub use transport_parameters::TransportParameters;
pub use varint::VarInt;
pub use writer::{WriteError, Writer};
