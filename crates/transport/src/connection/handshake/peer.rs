//! What the two ends tell each other in the handshake: connection IDs, a Retry, and transport
//! parameters, of which ours are derived from the configuration, and the peer's are checked against
//! its packets.

use super::Handshake;
use crate::cid::LOCAL_ID_LEN;
use crate::config::TransportConfig;
use crate::connection::Received;
use crate::crypto::{Keys, Random, ResetToken, Side};
use crate::wire::packet::{Protected, Retry, TAG_LEN, VersionNegotiation, version};
use crate::wire::transport_parameters::{Grease, HandshakeIds, SignalKinds};
use crate::wire::{
    ConnectionId, PacketType, StreamId, TransportError, TransportErrorCode, TransportParameters,
    varint,
};

/// The response to a Retry.
pub(in crate::connection) enum RetryAnswer {
    /// The Retry is dropped.
    Drop,
    /// Its token of this many bytes leaves no room in Initial packets, and packets without it would
    /// be answered with another Retry.
    TooLong(usize),
    /// Initial packets begin again with these keys, to this ID.
    Again(Keys, ConnectionId),
}

impl Handshake {
    /// Returns the peer's parameters, once they were read.
    pub(in crate::connection) const fn peer(&self) -> Option<&TransportParameters> {
        self.parameters.peer.as_ref()
    }

    /// Returns true if this side must never [`migrate`](crate::Connection::migrate), because it is
    /// a server or its server is known to have sent `disable_active_migration` (RFC 9000 §9,
    /// §18.2).
    pub fn is_migration_forbidden(&self) -> bool {
        let peer = self.parameters.peer.as_ref();
        !self.side.is_client() || peer.is_some_and(|p| p.disable_active_migration)
    }

    /// Returns the peer's unit of ACK delays, as a power of two in microseconds.
    pub(in crate::connection) fn peer_ack_delay_exponent(&self) -> u32 {
        self.parameters.peer_ack_delay_exponent()
    }

    /// Reads and checks the peer's parameters, if the session has them. Returns true only once.
    ///
    /// # Errors
    /// Returns TRANSPORT_PARAMETER_ERROR if they are invalid.
    pub(in crate::connection) fn read_parameters(&mut self) -> Result<bool, TransportError> {
        if self.parameters.peer.is_some() {
            return Ok(false);
        }
        let Some(bytes) = self.session.peer_transport_parameters() else {
            return Ok(false);
        };
        self.parameters.read(bytes, self.side.peer())?;
        Ok(true)
    }

    /// Returns the token of Initial packets.
    pub(in crate::connection) fn token(&self) -> &[u8] {
        &self.parameters.token
    }

    /// Returns true if a long header has the source ID of the first, as it must (RFC 9000 §7.2).
    pub(in crate::connection) fn is_from_peer(&self, source: &ConnectionId) -> bool {
        // [9000 7.2 client-drops-other-source] [9000 7.2 server-follows-first]
        !self.parameters.peer_id_known || *source == self.parameters.seen.initial_source
    }

    /// Returns true if a packet with this header may be decrypted now.
    pub(in crate::connection) fn accepts(&self, found: &Protected) -> bool {
        match found.ty {
            // A server must not read 1-RTT packets before it has received the client's Finished
            // (RFC 9001 §5.7).
            // [9001 5.7 not-before-complete]
            PacketType::OneRtt => self.is_complete(),
            // [9001 5.6 client-opens-none]
            PacketType::ZeroRtt => self.side.is_server() && self.is_from_peer(&found.scid),
            // A server's Initial packets must not contain a token (RFC 9000 §17.2.2).
            // [9000 17.2.2 no-server-token]
            PacketType::Initial => {
                (self.side.is_server() || found.token.is_empty()) && self.is_from_peer(&found.scid)
            }
            PacketType::Handshake => self.is_from_peer(&found.scid),
        }
    }

    /// Processes the source ID of a decrypted packet with a long header. Returns true if the peer
    /// has chosen its ID with this packet.
    pub(in crate::connection) fn on_source(&mut self, source: ConnectionId) -> bool {
        // [9000 7.2 one-change]
        let chosen = self.side.is_client() && !self.parameters.peer_id_known;
        if chosen {
            self.parameters.peer_id_known = true;
            self.parameters.seen.initial_source = source;
        }
        chosen
    }

    /// Returns true if a client's first Initial is the only packet that can have been answered.
    fn is_first(&self) -> bool {
        self.side.is_client()
            && !self.parameters.peer_id_known
            && self.parameters.seen.retry_source.is_none()
    }

    /// Returns true if the server doesn't support any of our versions. This is only accepted in
    /// response to the first Initial, and only if the packet has its IDs and doesn't list our
    /// version (RFC 9000 §6.2). `ids` are ours.
    pub(in crate::connection) fn is_refusal<'a>(
        &self,
        packet: &VersionNegotiation<'_>,
        mut ids: impl Iterator<Item = &'a ConnectionId>,
    ) -> bool {
        let server = self.parameters.seen.original_destination;
        let ours = packet.scid == server.as_slice() && ids.any(|id| id.as_slice() == packet.dcid);
        // [9000 6.2 late-negotiation] [9000 6.2 own-version-listed]
        ours && self.is_first() && packet.versions().all(|v| v != version::V1)
    }

    /// Processes a Retry. Tokens may have at most `longest` bytes.
    pub(in crate::connection) fn on_retry(
        &mut self,
        datagram: &[u8],
        retry: &Retry,
        longest: usize,
    ) -> Option<RetryAnswer> {
        let body = datagram.get(..retry.tag.start)?;
        let tag = datagram.get(retry.tag.clone())?;
        let token = datagram.get(retry.token.clone())?;
        let original = self.parameters.seen.original_destination;
        // [9000 17.2.5.2 first-retry]
        if !self.is_first()
            // [9000 17.2.5.2 retry-without-token]
            || token.is_empty()
            // [9000 17.2.5.1 other-id]
            || retry.scid == original
            // [9000 17.2.5.2 retry-tag]
            || self.initial_crypto.retry_tag(original.as_slice(), body) != tag
        {
            return Some(RetryAnswer::Drop);
        }
        if token.len() > longest {
            return Some(RetryAnswer::TooLong(token.len()));
        }
        self.parameters.seen.retry_source = Some(retry.scid);
        // [9000 8.1.3 retry-token-once]
        self.parameters.token = token.to_vec();
        let id = retry.scid.as_slice();
        let keys = self.initial_crypto.initial_keys(id, self.side);
        Some(RetryAnswer::Again(keys, retry.scid))
    }

    /// Keeps a datagram that arrives before it can be read, as long as there's room. Returns false
    /// for any other.
    pub(in crate::connection) fn keep(&mut self, received: &Received, datagram: &[u8]) -> bool {
        !self.is_complete()
            && (self.early.keep(received, datagram) || self.zero_rtt.keep(received, datagram))
    }

    /// Returns a datagram that was kept, once it can be read.
    pub(in crate::connection) fn take_kept(&mut self) -> Option<(Received, Vec<u8>)> {
        let complete = self.is_complete();
        let early = complete.then(|| self.early.take()).flatten();
        early.or_else(|| self.zero_rtt.take_kept())
    }

    #[cfg(test)]
    pub(in crate::connection) const fn parameters_mut(&mut self) -> &mut super::Parameters {
        &mut self.parameters
    }
}

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
