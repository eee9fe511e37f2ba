//! Transport parameters: ours from the configuration, the peer's checked against what its packets
//! said.

use crate::cid::LOCAL_ID_LEN;
use crate::config::TransportConfig;
use crate::crypto::{Random, ResetToken, Side};
use crate::streams::PeerLimits;
use crate::wire::cid::MAX_LEN;
use crate::wire::packet::TAG_LEN;
use crate::wire::transport_parameters::{EarlyLimits, Grease, HandshakeIds, SignalKinds};
use crate::wire::{ConnectionId, TransportError, TransportErrorCode, TransportParameters};
use crate::wire::{StreamId, varint};

/// Unit of ACK delays that we send: 2^3 µs, the default, which is not sent (RFC 9000 §18.2).
pub(in crate::connection) const ACK_DELAY_EXPONENT: u8 =
    TransportParameters::DEFAULT.ack_delay_exponent;

/// Ids that led to the server, in its parameters alone.
#[derive(Clone, Copy, Debug)]
pub(in crate::connection) struct ServerIds {
    pub(in crate::connection) original_destination: ConnectionId,
    pub(in crate::connection) retry_source: Option<ConnectionId>,
    pub(in crate::connection) reset_token: ResetToken,
}

/// Parameters and connection ids of the handshake.
#[derive(Clone, Debug)]
pub(in crate::connection) struct Parameters {
    /// The peer's, once they are read.
    pub(in crate::connection) peer: Option<TransportParameters>,
    /// Ids that the peer's parameters must name.
    pub(in crate::connection) seen: HandshakeIds,
    /// The peer's packets carry its own choice of id from its first on.
    pub(in crate::connection) peer_id_known: bool,
    /// Token for Initial packets: from a Retry, or of an earlier connection. Clients only.
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

    /// Reads and checks the peer's.
    ///
    /// # Errors
    /// TRANSPORT_PARAMETER_ERROR.
    pub(in crate::connection) fn read(
        &mut self,
        bytes: &[u8],
        peer: Side,
    ) -> Result<&TransportParameters, TransportError> {
        let parameters = TransportParameters::decode(bytes, peer)?;
        parameters.authenticate(peer, &self.seen)?;
        Ok(self.peer.insert(parameters))
    }

    /// The peer's unit of ACK delays, as a power of two in microseconds.
    #[inline]
    pub(in crate::connection) fn peer_ack_delay_exponent(&self) -> u32 {
        self.peer
            .as_ref()
            .map_or(3, |p| p.ack_delay_exponent.into())
    }
}

/// Bytes that each Initial packet of a client keeps for frames: CRYPTO, and an ACK before it.
const INITIAL_ROOM: usize = 64;
/// Bytes of an Initial packet without token and frames, at most: first byte, version, both ids with
/// their lengths (the server chooses one of any length), two lengths, packet number, tag.
const INITIAL_OVERHEAD: usize = 1 + 4 + (1 + MAX_LEN) + (1 + LOCAL_ID_LEN) + 2 + 2 + 4 + TAG_LEN;

/// The longest token that leaves a client's Initial packets room for the handshake. All of them
/// carry it (RFC 9000 §8.1.2).
pub(in crate::connection) fn longest_token(config: &TransportConfig) -> usize {
    let datagram = config.full_datagram();
    datagram.saturating_sub(INITIAL_OVERHEAD + INITIAL_ROOM)
}

/// The parameters that this side sends.
///
/// # Errors
/// TRANSPORT_PARAMETER_ERROR, if the configuration holds a value that cannot be sent.
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
        // Peers refuse one that is shorter than the least that they may ask for.
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

/// The least delay of acknowledgements that a peer may ask of us (draft-ietf-quic-ack-frequency
/// §3).
pub(in crate::connection) const MIN_ACK_DELAY: core::time::Duration =
    core::time::Duration::from_millis(1);

/// The shortest and the longest idle timeout that can be encoded: zero is none (RFC 9000 §18.2).
const SHORTEST_IDLE: core::time::Duration = core::time::Duration::from_millis(1);
const LONGEST_IDLE: core::time::Duration = core::time::Duration::from_millis(varint::MAX);

/// The idle timeout of this side, as its transport parameters advertise it; `None`: none.
pub(in crate::connection) fn idle_timeout(
    config: &TransportConfig,
) -> Option<core::time::Duration> {
    let timeout = config.max_idle_timeout.filter(|timeout| !timeout.is_zero());
    timeout.map(|timeout| timeout.clamp(SHORTEST_IDLE, LONGEST_IDLE))
}

/// What an acknowledgement may be delayed at most, less than 2^14 ms (RFC 9000 §18.2).
pub(in crate::connection) const MAX_ACK_DELAY: core::time::Duration =
    core::time::Duration::from_millis((1 << 14) - 1);

/// The limits of early data as the streams want them.
pub(in crate::connection) const fn early_limits(limits: &EarlyLimits) -> PeerLimits {
    PeerLimits {
        max_data: limits.max_data,
        max_stream_data_bidi_local: limits.max_stream_data_bidi_local,
        max_stream_data_bidi_remote: limits.max_stream_data_bidi_remote,
        max_stream_data_uni: limits.max_stream_data_uni,
        max_streams_bidi: limits.max_streams_bidi,
        max_streams_uni: limits.max_streams_uni,
    }
}

/// The peer's limits as the streams want them.
pub(in crate::connection) fn peer_limits(peer: &TransportParameters) -> PeerLimits {
    early_limits(&EarlyLimits::from(peer))
}
