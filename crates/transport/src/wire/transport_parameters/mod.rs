//! Transport parameters (RFC 9000 §7.4, §18), with max_datagram_frame_size (RFC 9221),
//! min_ack_delay (draft-ietf-quic-ack-frequency), grease_quic_bit (RFC 9287) and explicit_feedback:
//! their values, the limits that a client remembers for early data (RFC 9000 §7.4.1), and the
//! connection ids that they authenticate (RFC 9000 §7.3).

use core::fmt;
use core::net::{Ipv4Addr, Ipv6Addr, SocketAddrV4, SocketAddrV6};
use core::time::Duration;

mod codec;

#[cfg(test)]
mod tests;

pub use codec::{Grease, ParameterError};

use super::frame::ResetToken;
use super::{
    ConnectionId, Reader, Side, TransportError, TransportErrorCode, UnexpectedEnd, WriteError,
    Writer,
};

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

/// At most 16 different kinds of signals, in the order of preference in which they were
/// offered.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct SignalKinds {
    kinds: [u8; Self::MAX],
    len: u8,
}

/// An invalid list of kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadKinds {
    /// More than 16.
    #[error("more than 16 signal kinds")]
    TooMany,
    /// A duplicate kind.
    #[error("signal kind {0} twice")]
    Twice(u8),
}

impl SignalKinds {
    /// Maximum number of kinds in a list.
    pub const MAX: usize = 16;

    /// Creates a list of these kinds.
    ///
    /// # Errors
    /// [`BadKinds`] if there are more than 16, or if one is duplicated.
    pub fn new(kinds: &[u8]) -> Result<Self, BadKinds> {
        let mut new = Self::default();
        for &kind in kinds {
            if new.contains(kind) {
                return Err(BadKinds::Twice(kind));
            }
            *new.kinds
                .get_mut(usize::from(new.len))
                .ok_or(BadKinds::TooMany)? = kind;
            new.len += 1;
        }
        Ok(new)
    }

    /// Returns the kinds, in order.
    pub fn as_slice(&self) -> &[u8] {
        self.kinds.get(..usize::from(self.len)).unwrap_or(&[])
    }

    /// Returns true if the list contains `kind`.
    pub fn contains(&self, kind: u8) -> bool {
        self.as_slice().contains(&kind)
    }
}

impl fmt::Debug for SignalKinds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_slice().fmt(f)
    }
}

/// The address that a server prefers, and the connection id (sequence number 1) for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PreferredAddress {
    /// IPv4 address, if any.
    pub v4: Option<SocketAddrV4>,
    /// IPv6 address, if any.
    pub v6: Option<SocketAddrV6>,
    /// 1 to 20 bytes.
    pub connection_id: ConnectionId,
    /// Stateless reset token for this connection id.
    pub reset_token: ResetToken,
}

impl PreferredAddress {
    /// Decodes the value. Returns `None` if the connection id is empty or too long.
    fn decode(r: &mut Reader<'_>) -> Result<Option<Self>, UnexpectedEnd> {
        let v4 = (Ipv4Addr::from(r.get_array::<4>()?), r.get_u16()?);
        let v6 = (Ipv6Addr::from(r.get_array::<16>()?), r.get_u16()?);
        let n = usize::from(r.get_u8()?);
        let connection_id = ConnectionId::new(r.get_slice(n)?);
        let reset_token = r.get_array()?;
        let Some(connection_id) = connection_id.ok().filter(|id| !id.is_empty()) else {
            return Ok(None);
        };
        // All zeros mean that there is no address of this family.
        let absent = |zero: bool, port: u16| zero && port == 0;
        Ok(Some(Self {
            v4: (!absent(v4.0.is_unspecified(), v4.1)).then(|| SocketAddrV4::new(v4.0, v4.1)),
            v6: (!absent(v6.0.is_unspecified(), v6.1)).then(|| SocketAddrV6::new(v6.0, v6.1, 0, 0)),
            connection_id,
            reset_token,
        }))
    }

    const fn len(&self) -> usize {
        4 + 2 + 16 + 2 + 1 + self.connection_id.len() + 16
    }

    fn encode(&self, w: &mut Writer<'_>) -> Result<(), WriteError> {
        let v4 = self
            .v4
            .map_or((Ipv4Addr::UNSPECIFIED, 0), |a| (*a.ip(), a.port()));
        let v6 = self
            .v6
            .map_or((Ipv6Addr::UNSPECIFIED, 0), |a| (*a.ip(), a.port()));
        w.put_slice(&v4.0.octets())?;
        w.put_u16(v4.1)?;
        w.put_slice(&v6.0.octets())?;
        w.put_u16(v6.1)?;
        w.put_id(self.connection_id.as_slice())?;
        w.put_slice(&self.reset_token)
    }
}

/// The peer's limits, from its transport parameters (RFC 9000 §18.2). Local and remote are meant
/// from the peer's viewpoint: the peer opens the "local" streams.
///
/// Those of an earlier connection limit early data. A server that accepts early data must not have
/// lowered them since. No other parameters are remembered for data, in particular not
/// `explicit_feedback`: until the new handshake has negotiated it, it is used for at most one
/// question for a starting rate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PeerLimits {
    /// `initial_max_data`, bytes.
    pub max_data: u64,
    /// `initial_max_stream_data_bidi_local`, bytes.
    pub max_stream_data_bidi_local: u64,
    /// `initial_max_stream_data_bidi_remote`, bytes.
    pub max_stream_data_bidi_remote: u64,
    /// `initial_max_stream_data_uni`, bytes.
    pub max_stream_data_uni: u64,
    /// `initial_max_streams_bidi`.
    pub max_streams_bidi: u64,
    /// `initial_max_streams_uni`.
    pub max_streams_uni: u64,
    /// `active_connection_id_limit`.
    pub active_connection_ids: u64,
    /// `max_datagram_frame_size`, bytes (RFC 9221 §3).
    pub max_datagram_frame_size: u64,
}

// [9000 7.4.1 fresh-values] [9000 7.4.1 remembered]
impl From<&TransportParameters> for PeerLimits {
    fn from(parameters: &TransportParameters) -> Self {
        Self {
            max_data: parameters.initial_max_data,
            max_stream_data_bidi_local: parameters.initial_max_stream_data_bidi_local,
            max_stream_data_bidi_remote: parameters.initial_max_stream_data_bidi_remote,
            max_stream_data_uni: parameters.initial_max_stream_data_uni,
            max_streams_bidi: parameters.initial_max_streams_bidi,
            max_streams_uni: parameters.initial_max_streams_uni,
            active_connection_ids: parameters.active_connection_id_limit,
            max_datagram_frame_size: parameters.max_datagram_frame_size,
        }
    }
}

impl PeerLimits {
    const fn values(&self) -> [u64; 8] {
        [
            self.max_data,
            self.max_stream_data_bidi_local,
            self.max_stream_data_bidi_remote,
            self.max_stream_data_uni,
            self.max_streams_bidi,
            self.max_streams_uni,
            self.active_connection_ids,
            self.max_datagram_frame_size,
        ]
    }

    /// Returns true if data that respects `other` respects these limits as well.
    pub fn include(&self, other: &Self) -> bool {
        let mut pairs = self.values().into_iter().zip(other.values());
        pairs.all(|(these, others)| these >= others)
    }
}

/// The connection ids that an endpoint received and sent during the handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HandshakeIds {
    /// Source connection id of the peer's first Initial.
    pub initial_source: ConnectionId,
    /// For a client: destination connection id of its very first Initial, before any Retry.
    pub original_destination: ConnectionId,
    /// For a client: source connection id of the Retry that it accepted.
    pub retry_source: Option<ConnectionId>,
}

impl TransportParameters {
    /// Checks the connection ids in the parameters of the peer, in the role of `sender`,
    /// against those in its packets.
    ///
    /// # Errors
    /// TRANSPORT_PARAMETER_ERROR if one is missing, unexpected, or different.
    pub fn authenticate(&self, sender: Side, seen: &HandshakeIds) -> Result<(), TransportError> {
        let wrong = |reason| {
            Err(TransportError::new(
                TransportErrorCode::TRANSPORT_PARAMETER_ERROR,
                reason,
            ))
        };
        // [9000 7.3 ids-match] [9000 7.3 ids-present]
        if self.initial_source_connection_id != Some(seen.initial_source) {
            return wrong("initial_source_connection_id is not that of the packets");
        }
        if sender.is_client() {
            return Ok(());
        }
        if self.original_destination_connection_id != Some(seen.original_destination) {
            return wrong("original_destination_connection_id is not the one we chose");
        }
        if self.retry_source_connection_id != seen.retry_source {
            return wrong("retry_source_connection_id is not that of the Retry");
        }
        // [9000 18.2 preferred-with-id]
        if self.preferred_address.is_some() && seen.initial_source.is_empty() {
            return wrong("preferred_address of a server whose connection id has length zero");
        }
        Ok(())
    }
}
