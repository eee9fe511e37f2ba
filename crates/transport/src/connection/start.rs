//! Beginning of connections, and the consequences of the handshake's progress: keys are installed
//! and discarded, parameters are applied, and early data is accepted or refused.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use super::control::Control;
use super::handshake::{self, EarlyDecision, Handshake, Parameters, ServerIds};
use super::lifecycle::Lifecycle;
use super::outbox::Outbox;
use super::paths::Paths;
use super::sources::Sources;
use super::spaces::PacketSpaces;
use super::timers::Timer;
use super::{Connection, Event};
use crate::Instant;
use crate::cid::{LocalIds, RemoteIds, fresh_id};
use crate::config::TransportConfig;
use crate::crypto::{
    ClientCrypto, InitialCrypto, Keys, Random, ResetToken, ServerCrypto, Session,
    SharedEndpointKey, Side, StartError,
};
use crate::datagrams::Datagrams;
use crate::observe::{Bounds, Stats, Tracing};
use crate::streams::{PeerLimits, Streams};
use crate::wire::transport_parameters::HandshakeIds;
use crate::wire::{ConnectionId, SpaceId, TransportError, TransportErrorCode};

/// Everything that a client connection needs to begin.
#[derive(Debug)]
pub struct ClientStart {
    /// Transport configuration.
    pub config: Arc<TransportConfig>,
    /// Cryptographic configuration.
    pub crypto: Arc<dyn ClientCrypto>,
    /// Name of the server, which must match its certificate.
    pub server_name: String,
    /// Address of the server.
    pub remote: SocketAddr,
    /// Local address to send from, if one is bound.
    pub local: Option<IpAddr>,
    /// A token of an earlier connection to the server
    /// ([`Event::NewToken`]), or empty. A token so long that an Initial
    /// packet would have no room for the handshake isn't sent.
    pub token: Vec<u8>,
    /// The endpoint's key, for stateless reset tokens.
    pub endpoint_key: SharedEndpointKey,
    /// Source of all random numbers of the connection.
    pub random: Random,
}

/// Everything that a server connection needs to begin, derived from the client's first Initial
/// packet.
#[derive(Debug)]
pub struct ServerStart {
    /// Transport configuration.
    pub config: Arc<TransportConfig>,
    /// Cryptographic configuration.
    pub crypto: Arc<dyn ServerCrypto>,
    /// Address of the client.
    pub remote: SocketAddr,
    /// Local address that the client reached.
    pub local: Option<IpAddr>,
    /// Destination connection ID of this Initial, from which its keys are derived.
    pub destination: ConnectionId,
    /// Source connection ID of this Initial.
    pub source: ConnectionId,
    /// Destination connection ID of the client's very first Initial. It is the same unless there
    /// was a Retry.
    pub original_destination: ConnectionId,
    /// Source connection ID of our Retry, if there was one.
    pub retry_source: Option<ConnectionId>,
    /// Whether a token has proved the client's address.
    pub validated: bool,
    /// The endpoint's key, for stateless reset tokens.
    pub endpoint_key: SharedEndpointKey,
    /// Source of all random numbers of the connection.
    pub random: Random,
}

/// Why a connection couldn't begin.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// The handshake couldn't begin.
    #[error(transparent)]
    Crypto(#[from] StartError),
    /// The transport configuration contains an invalid value.
    #[error("the transport configuration cannot be sent: {0}")]
    Config(#[from] TransportError),
}

/// The parts that both ends need.
struct Parts {
    side: Side,
    config: Arc<TransportConfig>,
    session: Box<dyn Session>,
    initial: Arc<dyn InitialCrypto>,
    /// Keys of Initial packets.
    initial_keys: Keys,
    local_id: ConnectionId,
    remote_id: ConnectionId,
    original_destination: ConnectionId,
    parameters: Parameters,
    remote: SocketAddr,
    local: Option<IpAddr>,
    validated: bool,
    endpoint_key: SharedEndpointKey,
    random: Random,
}

/// Begins a connection to a server.
pub(super) fn client(now: Instant, start: ClientStart) -> Result<Box<Connection>, ConnectError> {
    let mut random = start.random;
    let local_id = fresh_id(&mut random);
    // At least 8 unpredictable bytes (RFC 9000 §7.2).
    // [9000 7.2 eight-bytes]
    let remote_id = fresh_id(&mut random);
    let parameters = handshake::local(&start.config, local_id, None, &mut random)?;
    let session = start
        .crypto
        .start(&start.server_name, parameters, random.next_u64())?;
    let seen = HandshakeIds {
        initial_source: ConnectionId::EMPTY,
        original_destination: remote_id,
        retry_source: None,
    };
    let mut token = start.token;
    if token.len() > handshake::longest_token(&start.config) {
        // The token would only save a round trip.
        token.clear();
    }
    let mut connection = assemble(
        now,
        Parts {
            side: Side::Client,
            config: start.config,
            session,
            initial_keys: start
                .crypto
                .initial_keys(remote_id.as_slice(), Side::Client),
            initial: start.crypto,
            local_id,
            remote_id,
            original_destination: remote_id,
            parameters: Parameters::new(seen, false, token),
            remote: start.remote,
            local: start.local,
            validated: true,
            endpoint_key: start.endpoint_key,
            random,
        },
    );
    let mut receiving = connection.receiving(now);
    receiving.levels().drive()?;
    receiving.levels().begin_early_data();
    Ok(connection)
}

/// Begins a connection that a client requested, with the keys of Initial packets if they were
/// already derived.
pub(crate) fn server(
    now: Instant,
    start: ServerStart,
    keys: Option<Keys>,
) -> Result<Box<Connection>, ConnectError> {
    let mut random = start.random;
    let local_id = fresh_id(&mut random);
    let ids = ServerIds {
        original_destination: start.original_destination,
        retry_source: start.retry_source,
        reset_token: ResetToken::derive(&*start.endpoint_key, local_id.as_slice()),
    };
    let parameters = handshake::local(&start.config, local_id, Some(&ids), &mut random)?;
    let session = start.crypto.start(parameters, random.next_u64())?;
    let seen = HandshakeIds {
        initial_source: start.source,
        original_destination: start.original_destination,
        retry_source: start.retry_source,
    };
    let initial_keys = keys.unwrap_or_else(|| {
        let id = start.destination.as_slice();
        start.crypto.initial_keys(id, Side::Server)
    });
    Ok(assemble(
        now,
        Parts {
            side: Side::Server,
            config: start.config,
            session,
            initial_keys,
            initial: start.crypto,
            local_id,
            remote_id: start.source,
            original_destination: start.original_destination,
            parameters: Parameters::new(seen, true, Vec::new()),
            remote: start.remote,
            local: start.local,
            validated: start.validated,
            endpoint_key: start.endpoint_key,
            random,
        },
    ))
}

fn assemble(now: Instant, parts: Parts) -> Box<Connection> {
    let Parts { side, config, .. } = parts;
    let mut random = parts.random;
    let max_ack_delay = config.max_ack_delay.min(handshake::MAX_ACK_DELAY);
    let remote_ids = RemoteIds::new(parts.remote_id, config.active_connection_id_limit);
    let handshake = Handshake::new(side, parts.session, parts.initial, parts.parameters);
    let paths = Paths::new(
        now,
        side,
        Arc::clone(&config),
        parts.remote,
        parts.local,
        parts.local_id,
        parts.validated,
    );
    let idle_timeout = handshake::idle_timeout(&config);
    let mut lifecycle = Lifecycle::new(idle_timeout, config.keep_alive);
    let timers = &mut lifecycle.timers;
    timers.on_poll(now);
    timers.set(Timer::Handshake, now + config.handshake_timeout);
    let spaces = PacketSpaces::new(
        now,
        side,
        parts.initial_keys,
        &config,
        max_ack_delay,
        (idle_timeout, lifecycle.longest_pto()),
        &mut random,
    );
    Box::new(Connection {
        side,
        sources: Sources {
            handshake,
            control: Control::new(
                parts.local_id,
                LocalIds::new(parts.local_id),
                remote_ids,
                parts.endpoint_key,
            ),
            streams: Streams::new(side, config.streams),
            datagrams: Datagrams::new(config.datagrams),
        },
        spaces,
        paths,
        lifecycle,
        bounds: Bounds::new(now),
        stats: Stats::default(),
        tracing: Tracing::new(config.trace.as_ref(), now, side, parts.original_destination),
        outbox: Outbox::new(parts.local_id),
        random,
        config,
    })
}

/// The parts that progress of the handshake changes, for one pass.
pub(super) struct Levels<'a> {
    pub(super) now: Instant,
    /// Number of packets after which 1-RTT keys are updated.
    pub(super) update_after: u64,
    pub(super) sources: &'a mut Sources,
    pub(super) spaces: &'a mut PacketSpaces,
    pub(super) paths: &'a mut Paths,
    pub(super) lifecycle: &'a mut Lifecycle,
    pub(super) outbox: &'a mut Outbox,
    pub(super) random: &'a mut Random,
}

impl Levels<'_> {
    /// Lets the session write messages, installs its keys, and applies the parameters that it has
    /// received.
    ///
    /// # Errors
    /// Returns the error of the peer's handshake.
    pub(super) fn drive(&mut self) -> Result<(), TransportError> {
        let handshake = &mut self.sources.handshake;
        handshake.write(|change| self.spaces.install(change, self.update_after))?;
        // A server decides on early data as soon as it has read the ClientHello.
        if self.spaces.keys.has(SpaceId::Handshake)
            && let Some(keys) = handshake.take_early_keys()
        {
            self.spaces.keys.set_early(keys);
        }
        if handshake.read_parameters()? {
            self.settle_early_data()?;
            self.on_peer_parameters();
            self.outbox.push(Event::HandshakeDataReady);
        }
        // [9000 19.20 complete-first]
        if self.sources.handshake.complete_now()? {
            self.on_complete()?;
        }
        Ok(())
    }

    fn on_peer_parameters(&mut self) {
        let Some(peer) = self.sources.handshake.peer() else {
            return;
        };
        self.sources.streams.set_peer_limits(peer.into());
        let silence = self.lifecycle.on_peer_timeout(peer.max_idle_timeout);
        self.spaces.recovery.set_idle_timeout(silence);
        self.paths.set_peer_mtu(self.now, peer.max_udp_payload_size);
        self.spaces
            .on_peer_parameters(peer.max_ack_delay, peer.min_ack_delay);
        self.sources.control.on_peer_parameters(peer);
        let feedback = &mut self.paths.path.feedback;
        if feedback.offered() {
            // A peer that doesn't list any kinds doesn't read any, regardless of an earlier
            // connection.
            let kinds = peer.explicit_feedback.as_ref();
            feedback.negotiate(kinds.map_or(&[], |kinds| kinds.as_slice()));
        }
    }

    fn on_complete(&mut self) -> Result<(), TransportError> {
        let now = self.now;
        // [9001 8.2 missing-parameters]
        if self.sources.handshake.peer().is_none() {
            // The alert is missing_extension (RFC 9001 §8.2).
            return Err(TransportError::new(
                TransportErrorCode::crypto(109),
                "the peer sent no transport parameters",
            ));
        }
        if let Some(srtt) = self.spaces.recovery.rtt().srtt() {
            self.paths.path.route.on_handshake_rtt(now, srtt);
        }
        self.lifecycle.timers.stop(Timer::Handshake);
        self.outbox.push(Event::Connected);
        let control = &mut self.sources.control;
        control.issue_ids(self.random, self.outbox, 0);
        if self.sources.handshake.side().is_server() {
            // The keys of early data are discarded after packets in flight have arrived (RFC 9001
            // §4.9.3).
            // [9001 4.9.3 early-keys]
            let drop_at = now + self.spaces.pto().saturating_mul(3);
            self.spaces.keys.end_early(drop_at);
            // [9001 4.1.2 handshake-done]
            self.sources.control.send_handshake_done();
            self.on_confirmed();
        }
        Ok(())
    }

    /// Processes the confirmation of the handshake (RFC 9001 §4.1.2).
    pub(super) fn on_confirmed(&mut self) {
        if !self.sources.handshake.confirm() {
            return;
        }
        // [9001 4.9.2 handshake-keys]
        self.sources
            .discard(self.now, SpaceId::Handshake, self.spaces);
        self.spaces.on_confirmed();
        self.outbox.push(Event::Confirmed);
    }

    /// Client: permits early data if the resumed session does. This must be called at the start.
    pub(super) fn begin_early_data(&mut self) {
        let Some(start) = self.sources.handshake.begin_early_data() else {
            return;
        };
        if let Some(kinds) = &start.kinds {
            let feedback = &mut self.paths.path.feedback;
            feedback.remember(Some(kinds));
        }
        // [9000 7.4.1 remembered-only]
        self.sources.streams.set_peer_limits(start.limits);
        self.spaces.keys.set_early(start.keys);
    }

    /// Client: applies the server's decision on early data, once its parameters are available.
    ///
    /// # Errors
    /// Returns PROTOCOL_VIOLATION if the server accepts early data but has lowered its limits (RFC
    /// 9000 §7.4.1).
    fn settle_early_data(&mut self) -> Result<(), TransportError> {
        let next = self.spaces.next_number();
        let decision = self.sources.handshake.settle_early_data(next);
        if decision != EarlyDecision::None {
            // [9001 5.6 no-more-early-packets]
            self.spaces.keys.discard_early();
        }
        match decision {
            EarlyDecision::None | EarlyDecision::Accepted => return Ok(()),
            EarlyDecision::Lowered => {
                return Err(TransportError::violation(
                    "the server took early data and lowered its limits",
                ));
            }
            EarlyDecision::Refused => {}
        }
        let Some(peer) = self.sources.handshake.peer() else {
            return Ok(());
        };
        let limits = PeerLimits::from(peer);
        if peer.max_datagram_frame_size == 0 {
            self.sources.datagrams.drop_unsent();
        }
        let path = &mut self.paths.path;
        self.sources
            .take_back_early_data(self.now, self.spaces, path);
        path.feedback.remember(None);
        // [9001 4.6.2 start-over]
        self.sources.streams.start_over(limits);
        Ok(())
    }
}
