//! Transport parameters: ours are derived from the configuration, and the peer's are checked
//! against its packets.

use crate::cid::LOCAL_ID_LEN;
use crate::config::TransportConfig;
use crate::crypto::{Random, ResetToken, Side};
use crate::wire::packet::TAG_LEN;
use crate::wire::transport_parameters::{Grease, HandshakeIds, SignalKinds};
use crate::wire::{ConnectionId, TransportError, TransportErrorCode, TransportParameters};
use crate::wire::{StreamId, varint};

/// Unit of the ACK delays that we send: 2^3 µs. This is the default, so it isn't sent (RFC 9000
/// §18.2).
pub(in crate::connection) const ACK_DELAY_EXPONENT: u8 =
    TransportParameters::DEFAULT.ack_delay_exponent;

/// IDs that only a server's parameters contain.
#[derive(Clone, Copy, Debug)]
pub(in crate::connection) struct ServerIds {
    pub(in crate::connection) original_destination: ConnectionId,
    pub(in crate::connection) retry_source: Option<ConnectionId>,
    pub(in crate::connection) reset_token: ResetToken,
}

/// Parameters and connection IDs of the handshake.
#[derive(Clone, Debug)]
pub(in crate::connection) struct Parameters {
    /// The peer's parameters, once they were read.
    pub(in crate::connection) peer: Option<TransportParameters>,
    /// IDs that the peer's parameters must contain.
    pub(in crate::connection) seen: HandshakeIds,
    /// Whether the peer has chosen its ID, which it does with its first packet.
    pub(in crate::connection) peer_id_known: bool,
    /// Client: token for Initial packets, from a Retry or an earlier connection.
    pub(in crate::connection) token: Vec<u8>,
}

impl Parameters {
    pub(in crate::connection) const fn new(
        seen: HandshakeIds,
        peer_id_known: bool,
        token: Vec<u8>,
    ) -> Self {
        Self {
            peer: None,
            seen,
            peer_id_known,
            token,
        }
    }

    /// Reads and checks the peer's parameters.
    ///
    /// # Errors
    /// Returns TRANSPORT_PARAMETER_ERROR if they are invalid.
    pub(in crate::connection) fn read(
        &mut self,
        bytes: &[u8],
        peer: Side,
    ) -> Result<&TransportParameters, TransportError> {
        let parameters = TransportParameters::decode(bytes, peer)?;
        parameters.authenticate(peer, &self.seen)?;
        Ok(self.peer.insert(parameters))
    }

    /// Returns the peer's unit of ACK delays, as a power of two in microseconds.
    #[inline]
    pub(in crate::connection) fn peer_ack_delay_exponent(&self) -> u32 {
        self.peer
            .as_ref()
            .map_or(3, |p| p.ack_delay_exponent.into())
    }
}

/// Room for frames that each Initial packet of a client needs, in bytes: a CRYPTO frame, and an ACK
/// before it.
const INITIAL_ROOM: usize = 64;
/// Maximum size of an Initial packet without token and frames, in bytes: first byte, version, both
/// IDs with their lengths (the server's may have any length), two lengths, packet number, and tag.
const INITIAL_OVERHEAD: usize =
    1 + 4 + (1 + ConnectionId::MAX_LEN) + (1 + LOCAL_ID_LEN) + 2 + 2 + 4 + TAG_LEN;

/// Returns the size of the longest token that leaves room for the handshake in a client's Initial
/// packets, all of which contain it (RFC 9000 §8.1.2).
pub(in crate::connection) fn longest_token(config: &TransportConfig) -> usize {
    let datagram = config.full_datagram();
    datagram.saturating_sub(INITIAL_OVERHEAD + INITIAL_ROOM)
}

/// Encodes the parameters that this side sends.
///
/// # Errors
/// Returns TRANSPORT_PARAMETER_ERROR if the configuration contains a value that can't be sent.
pub(in crate::connection) fn local(
    config: &TransportConfig,
    source: ConnectionId,
    server: Option<&ServerIds>,
    random: &mut Random,
) -> Result<Vec<u8>, TransportError> {
    let streams = &config.streams;
    let kinds: Vec<u8> = config.signals.iter().map(|s| s.kind()).collect();
    let invalid =
        |reason: String| TransportError::new(TransportErrorCode::TRANSPORT_PARAMETER_ERROR, reason);
    let explicit_feedback = if kinds.is_empty() {
        None
    } else {
        Some(SignalKinds::new(&kinds).map_err(|e| invalid(e.to_string()))?)
    };
    let parameters = TransportParameters {
        original_destination_connection_id: server.map(|s| s.original_destination),
        max_idle_timeout: idle_timeout(config).unwrap_or_default(),
        stateless_reset_token: server.map(|s| *s.reset_token.as_bytes()),
        max_udp_payload_size: u64::from(config.max_udp_payload_size.max(1200)),
        initial_max_data: streams.initial_connection_window.min(varint::MAX),
        initial_max_stream_data_bidi_local: streams.initial_stream_window.min(varint::MAX),
        initial_max_stream_data_bidi_remote: streams.initial_stream_window.min(varint::MAX),
        initial_max_stream_data_uni: streams.initial_stream_window.min(varint::MAX),
        initial_max_streams_bidi: streams.max_bidi_streams.min(StreamId::MAX_STREAMS),
        initial_max_streams_uni: streams.max_uni_streams.min(StreamId::MAX_STREAMS),
        // Peers refuse a delay below the minimum that they may request.
        max_ack_delay: config.max_ack_delay.clamp(MIN_ACK_DELAY, MAX_ACK_DELAY),
        disable_active_migration: server.is_some() && !config.migration,
        active_connection_id_limit: config.active_connection_id_limit.clamp(2, 64),
        initial_source_connection_id: Some(source),
        retry_source_connection_id: server.and_then(|s| s.retry_source),
        max_datagram_frame_size: config.datagrams.max_frame_size(),
        min_ack_delay: Some(MIN_ACK_DELAY),
        explicit_feedback,
        ..TransportParameters::DEFAULT
    };
    let grease = Grease {
        entropy: random.next_u64(),
        value: random.bytes(),
        len: u8::try_from(random.below(9)).unwrap_or(0),
    };
    parameters
        .to_vec(Some(&grease))
        .map_err(|e| invalid(e.to_string()))
}

/// The minimum acknowledgement delay that a peer may request (draft-ietf-quic-ack-frequency §3).
pub(in crate::connection) const MIN_ACK_DELAY: core::time::Duration =
    core::time::Duration::from_millis(1);

/// The shortest and longest idle timeouts that can be encoded. Zero means that there is none (RFC
/// 9000 §18.2).
const SHORTEST_IDLE: core::time::Duration = core::time::Duration::from_millis(1);
const LONGEST_IDLE: core::time::Duration = core::time::Duration::from_millis(varint::MAX);

/// Returns the idle timeout that this side advertises, if it has one.
pub(in crate::connection) fn idle_timeout(
    config: &TransportConfig,
) -> Option<core::time::Duration> {
    let timeout = config.max_idle_timeout.filter(|timeout| !timeout.is_zero());
    timeout.map(|timeout| timeout.clamp(SHORTEST_IDLE, LONGEST_IDLE))
}

/// The maximum delay of an acknowledgement, which must be below 2^14 ms (RFC 9000 §18.2).
pub(in crate::connection) const MAX_ACK_DELAY: core::time::Duration =
    core::time::Duration::from_millis((1 << 14) - 1);
