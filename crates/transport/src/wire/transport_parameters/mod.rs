//! Transport parameters (RFC 9000 §7.4, §18), with max_datagram_frame_size (RFC 9221),
//! min_ack_delay (draft-ietf-quic-ack-frequency), grease_quic_bit (RFC 9287) and explicit_feedback.

mod authenticate;
mod decode;
mod encode;
mod kinds;
mod peer_limits;
mod preferred_address;

#[cfg(test)]
mod tests;

use core::time::Duration;

pub use authenticate::HandshakeIds;
pub use decode::ParameterError;
pub use encode::Grease;
pub use kinds::{BadKinds, SignalKinds};
pub use peer_limits::PeerLimits;
pub use preferred_address::PreferredAddress;

use super::ConnectionId;
use super::frame::ResetToken;

/// The transport parameters of one endpoint. Each field contains the value that applies:
/// parameters that are absent have their defaults, and defaults aren't written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransportParameters {
    /// Destination connection id of the client's first Initial. Servers only.
    pub original_destination_connection_id: Option<ConnectionId>,
    /// Idle time after which the sender closes silently, whole milliseconds; zero: never.
    pub max_idle_timeout: Duration,
    /// Stateless reset token for the connection id of the handshake. Servers only.
    pub stateless_reset_token: Option<ResetToken>,
    /// Maximum UDP payload that the sender can receive, bytes, including a shim; at least 1200.
    pub max_udp_payload_size: u64,
    /// Flow control for the connection, bytes.
    pub initial_max_data: u64,
    /// Flow control for bidirectional streams that the sender opens, bytes.
    pub initial_max_stream_data_bidi_local: u64,
    /// Flow control for bidirectional streams that the receiver opens, bytes.
    pub initial_max_stream_data_bidi_remote: u64,
    /// Flow control for unidirectional streams that the receiver opens, bytes.
    pub initial_max_stream_data_uni: u64,
    /// Bidirectional streams that the receiver may open; at most 2^60.
    pub initial_max_streams_bidi: u64,
    /// Unidirectional streams that the receiver may open; at most 2^60.
    pub initial_max_streams_uni: u64,
    /// The sender's ACK delays are in units of 2^this µs; at most 20.
    pub ack_delay_exponent: u8,
    /// Maximum delay of the sender's acknowledgements, whole milliseconds below 2^14.
    pub max_ack_delay: Duration,
    /// Whether migration from the handshake's addresses is forbidden.
    pub disable_active_migration: bool,
    /// The address that the server prefers. Servers only.
    pub preferred_address: Option<PreferredAddress>,
    /// Maximum number of the receiver's connection ids that the sender stores; at least 2.
    pub active_connection_id_limit: u64,
    /// Source connection id of the sender's first Initial.
    pub initial_source_connection_id: Option<ConnectionId>,
    /// Source connection id of the Retry, if there was one. Servers only.
    pub retry_source_connection_id: Option<ConnectionId>,
    /// Maximum DATAGRAM frame that the sender accepts, bytes, including type and length; 0:
    /// none.
    pub max_datagram_frame_size: u64,
    /// If present, the sender supports ACK_FREQUENCY, and its minimum ACK delay is this, whole
    /// microseconds.
    pub min_ack_delay: Option<Duration>,
    /// Whether the sender accepts packets whose fixed bit isn't set. Must not be combined with
    /// `explicit_feedback`, because this bit distinguishes shims from packets.
    pub grease_quic_bit: bool,
    /// Kinds of signals that the sender reads and writes; `None`: it doesn't support them.
    pub explicit_feedback: Option<SignalKinds>,
}

impl TransportParameters {
    /// The values of absent parameters (RFC 9000 §18.2).
    pub const DEFAULT: Self = Self {
        original_destination_connection_id: None,
        max_idle_timeout: Duration::ZERO,
        stateless_reset_token: None,
        max_udp_payload_size: 65_527,
        initial_max_data: 0,
        initial_max_stream_data_bidi_local: 0,
        initial_max_stream_data_bidi_remote: 0,
        initial_max_stream_data_uni: 0,
        initial_max_streams_bidi: 0,
        initial_max_streams_uni: 0,
        ack_delay_exponent: 3,
        max_ack_delay: Duration::from_millis(25),
        disable_active_migration: false,
        preferred_address: None,
        active_connection_id_limit: 2,
        initial_source_connection_id: None,
        retry_source_connection_id: None,
        max_datagram_frame_size: 0,
        min_ack_delay: None,
        grease_quic_bit: false,
        explicit_feedback: None,
    };
}

impl Default for TransportParameters {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// Parameter ids.
pub mod id {
    /// original_destination_connection_id.
    pub const ORIGINAL_DESTINATION_CONNECTION_ID: u64 = 0x00;
    /// max_idle_timeout.
    pub const MAX_IDLE_TIMEOUT: u64 = 0x01;
    /// stateless_reset_token.
    pub const STATELESS_RESET_TOKEN: u64 = 0x02;
    /// max_udp_payload_size.
    pub const MAX_UDP_PAYLOAD_SIZE: u64 = 0x03;
    /// initial_max_data.
    pub const INITIAL_MAX_DATA: u64 = 0x04;
    /// initial_max_stream_data_bidi_local.
    pub const INITIAL_MAX_STREAM_DATA_BIDI_LOCAL: u64 = 0x05;
    /// initial_max_stream_data_bidi_remote.
    pub const INITIAL_MAX_STREAM_DATA_BIDI_REMOTE: u64 = 0x06;
    /// initial_max_stream_data_uni.
    pub const INITIAL_MAX_STREAM_DATA_UNI: u64 = 0x07;
    /// initial_max_streams_bidi.
    pub const INITIAL_MAX_STREAMS_BIDI: u64 = 0x08;
    /// initial_max_streams_uni.
    pub const INITIAL_MAX_STREAMS_UNI: u64 = 0x09;
    /// ack_delay_exponent.
    pub const ACK_DELAY_EXPONENT: u64 = 0x0a;
    /// max_ack_delay.
    pub const MAX_ACK_DELAY: u64 = 0x0b;
    /// disable_active_migration.
    pub const DISABLE_ACTIVE_MIGRATION: u64 = 0x0c;
    /// preferred_address.
    pub const PREFERRED_ADDRESS: u64 = 0x0d;
    /// active_connection_id_limit.
    pub const ACTIVE_CONNECTION_ID_LIMIT: u64 = 0x0e;
    /// initial_source_connection_id.
    pub const INITIAL_SOURCE_CONNECTION_ID: u64 = 0x0f;
    /// retry_source_connection_id.
    pub const RETRY_SOURCE_CONNECTION_ID: u64 = 0x10;
    /// max_datagram_frame_size (RFC 9221 §3).
    pub const MAX_DATAGRAM_FRAME_SIZE: u64 = 0x20;
    /// grease_quic_bit (RFC 9287 §3).
    pub const GREASE_QUIC_BIT: u64 = 0x2ab2;
    /// explicit_feedback: a sequence of at most 16 different one-byte signal kinds.
    pub const EXPLICIT_FEEDBACK: u64 = 0x7061_746d;
    /// min_ack_delay (draft-ietf-quic-ack-frequency §3).
    pub const MIN_ACK_DELAY: u64 = 0xff04_de1b;

    /// Returns true for ids that are reserved so that receivers ignore them: 31 N + 27 (RFC
    /// 9000 §18.1).
    pub const fn is_reserved(id: u64) -> bool {
        id % 31 == 27
    }
}
