//! Bytes of QUIC v1 (RFC 9000): varints, packet headers, frames, transport parameters, and the
//! error codes with which they end a connection.
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

use core::fmt;
use std::borrow::Cow;

mod cursor;
pub mod frame;
mod ids;
pub mod packet;
pub mod transport_parameters;
pub mod varint;

pub use cursor::{Reader, UnexpectedEnd, WriteError, Writer};
pub use frame::{Frame, FrameError, Frames};
pub use ids::{ConnectionId, Dir, IdTooLong, Side, StreamId};
pub use packet::{PacketType, PartialDecode, SpaceId};
pub use transport_parameters::TransportParameters;
pub use varint::VarInt;

/// A transport error code, as in CONNECTION_CLOSE frames of type 0x1c.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct TransportErrorCode(pub u64);

macro_rules! codes {
    ($($(#[doc = $doc:literal])* $name:ident = $value:literal;)*) => {
        impl TransportErrorCode {
            $($(#[doc = $doc])* pub const $name: Self = Self($value);)*

            /// The name in RFC 9000 §20.1; `None` for CRYPTO_ERROR codes and unknown codes.
            pub const fn name(self) -> Option<&'static str> {
                match self.0 {
                    $($value => Some(stringify!($name)),)*
                    _ => None,
                }
            }
        }
    };
}

codes! {
    /// Closed without an error.
    NO_ERROR = 0x00;
    /// Something failed inside the endpoint.
    INTERNAL_ERROR = 0x01;
    /// The server refuses this connection.
    CONNECTION_REFUSED = 0x02;
    /// More data than advertised limits allow.
    FLOW_CONTROL_ERROR = 0x03;
    /// More streams than the advertised limit.
    STREAM_LIMIT_ERROR = 0x04;
    /// A frame for a stream in a state that does not permit it.
    STREAM_STATE_ERROR = 0x05;
    /// Data beyond the final size, or a final size that changed.
    FINAL_SIZE_ERROR = 0x06;
    /// A malformed frame.
    FRAME_ENCODING_ERROR = 0x07;
    /// Transport parameters that are malformed, forbidden or missing.
    TRANSPORT_PARAMETER_ERROR = 0x08;
    /// More connection ids than the advertised limit.
    CONNECTION_ID_LIMIT_ERROR = 0x09;
    /// Any other violation of the protocol.
    PROTOCOL_VIOLATION = 0x0a;
    /// A client's Initial contained an invalid token.
    INVALID_TOKEN = 0x0b;
    /// The application or its protocol ended the connection during the handshake.
    APPLICATION_ERROR = 0x0c;
    /// More CRYPTO data than the endpoint buffers.
    CRYPTO_BUFFER_EXCEEDED = 0x0d;
    /// A key update that violates the rules.
    KEY_UPDATE_ERROR = 0x0e;
    /// The confidentiality or integrity limit of a key was reached.
    AEAD_LIMIT_REACHED = 0x0f;
    /// No path that can carry QUIC.
    NO_VIABLE_PATH = 0x10;
}

impl TransportErrorCode {
    /// Returns the code for a TLS alert: CRYPTO_ERROR, 0x0100 + alert (RFC 9001 §4.8).
    pub const fn crypto(alert: u8) -> Self {
        Self(0x100 + alert as u64)
    }

    /// Returns the TLS alert in a CRYPTO_ERROR code.
    pub fn alert(self) -> Option<u8> {
        self.0
            .checked_sub(0x100)
            .and_then(|alert| u8::try_from(alert).ok())
    }
}

impl fmt::Display for TransportErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.name(), self.alert()) {
            (Some(name), _) => f.write_str(name),
            (None, Some(alert)) => write!(f, "CRYPTO_ERROR (TLS alert {alert})"),
            (None, None) => write!(f, "transport error {:#x}", self.0),
        }
    }
}

impl fmt::Debug for TransportErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// An error that closes the connection with a CONNECTION_CLOSE frame of type 0x1c.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{code}: {reason}")]
pub struct TransportError {
    /// The error code.
    pub code: TransportErrorCode,
    /// Type of the frame that caused the error; 0 if none or unknown.
    pub frame_type: u64,
    /// Human-readable reason, which is sent to the peer.
    pub reason: Cow<'static, str>,
}

impl TransportError {
    /// Creates an error that no particular frame caused.
    pub fn new(code: TransportErrorCode, reason: impl Into<Cow<'static, str>>) -> Self {
        Self {
            code,
            frame_type: 0,
            reason: reason.into(),
        }
    }

    /// Creates a PROTOCOL_VIOLATION that no particular frame caused.
    pub fn violation(reason: impl Into<Cow<'static, str>>) -> Self {
        Self::new(TransportErrorCode::PROTOCOL_VIOLATION, reason)
    }

    /// Sets the type of the frame that caused the error.
    #[must_use]
    pub fn in_frame(mut self, frame_type: u64) -> Self {
        self.frame_type = frame_type;
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tls_alerts_map_to_crypto_errors() {
        // handshake_failure (40), no_application_protocol (120): RFC 9001 §4.8, §8.1.
        assert_eq!(TransportErrorCode::crypto(40).0, 0x128);
        assert_eq!(TransportErrorCode::crypto(120).0, 0x178);
        assert_eq!(TransportErrorCode(0x1ff).alert(), Some(255));
        assert_eq!(TransportErrorCode(0x200).alert(), None);
        assert_eq!(TransportErrorCode::NO_VIABLE_PATH.alert(), None);
    }

    #[test]
    fn people_read_names() {
        let error = TransportError::new(TransportErrorCode::PROTOCOL_VIOLATION, "empty packet");
        assert_eq!(error.to_string(), "PROTOCOL_VIOLATION: empty packet");
        let code = TransportErrorCode::crypto(40);
        assert_eq!(code.to_string(), "CRYPTO_ERROR (TLS alert 40)");
        let code = TransportErrorCode(0x4000);
        assert_eq!(code.to_string(), "transport error 0x4000");
    }
}
