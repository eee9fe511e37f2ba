//! A server's TLS configuration, and its store of sessions, from which each is resumed at most
//! once.

use core::fmt;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{NoServerSessionStorage, ProducesTickets, StoresServerSessions};
use rustls::{KeyLogFile, quic};

use super::client::any_client;
use super::{Initial, Pin, TlsConfigError, TlsSession};
use crate::crypto::{
    InitialCrypto, Keys, RETRY_TAG_LEN, ServerCrypto, Session, Side, StartError, provider,
};
use crate::wire::TransportParameters;
use crate::wire::transport_parameters::PeerLimits;

const V1: quic::Version = quic::Version::V1;

/// Session tickets per client, enough for two simultaneous connections.
const TICKETS: usize = 2;

/// Neither issues nor accepts tickets.
#[derive(Debug)]
struct NoTickets;

impl ProducesTickets for NoTickets {
    fn enabled(&self) -> bool {
        false
    }

    fn lifetime(&self) -> u32 {
        0
    }

    fn encrypt(&self, _: &[u8]) -> Option<Vec<u8>> {
        None
    }

    fn decrypt(&self, _: &[u8]) -> Option<Vec<u8>> {
        None
    }
}

/// A server's TLS configuration: its certificate and the application protocols that it accepts.
pub struct TlsServerConfig {
    config: Arc<rustls::ServerConfig>,
    initial: Initial,
    pin: Option<Pin>,
    /// Sessions that can be resumed with early data, if enabled.
    sessions: Option<Arc<Sessions>>,
}

impl TlsServerConfig {
    /// Creates a TLS 1.3 configuration from the certificate chain (end entity first) and
    /// private key in PEM format. It accepts the application protocols `protocols` (ALPN), in
    /// order of preference. QUIC requires at least one (RFC 9001 §8.1).
    ///
    /// # Errors
    /// [`TlsConfigError`].
    pub fn from_pem(chain: &[u8], key: &[u8], protocols: &[&[u8]]) -> Result<Self, TlsConfigError> {
        let chain = CertificateDer::pem_slice_iter(chain)
            .collect::<Result<Vec<_>, _>>()
            .map_err(|e| TlsConfigError::BadCertificate(e.to_string()))?;
        let key = PrivateKeyDer::from_pem_slice(key)
            .map_err(|e| TlsConfigError::BadKey(e.to_string()))?;
        Self::new(chain, key, protocols)
    }

    /// Does the same with the chain and the key in DER format.
    ///
    /// # Errors
    /// [`TlsConfigError`].
    pub fn new(
        chain: Vec<CertificateDer<'static>>,
        key: PrivateKeyDer<'static>,
        protocols: &[&[u8]],
    ) -> Result<Self, TlsConfigError> {
        let pin = chain.first().map(|c| Pin::of(c));
        if pin.is_none() {
            return Err(TlsConfigError::BadCertificate("it holds none".into()));
        }
        // [9001 5.3 unknown-suites]
        let mut config = rustls::ServerConfig::builder_with_provider(provider::tls_provider())
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(|e| TlsConfigError::Unusable(e.to_string()))?
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .map_err(|e| TlsConfigError::Unusable(e.to_string()))?;
        config.alpn_protocols = protocols.iter().map(|p| p.to_vec()).collect();
        config.key_log = Arc::new(KeyLogFile::new());
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.ticketer =
            provider::ticketer().map_err(|e| TlsConfigError::Unusable(e.to_string()))?;
        config.send_tls13_tickets = TICKETS;
        let mut this = Self::from_rustls(config)?;
        this.pin = pin;
        Ok(this)
    }

    /// Requests a certificate from clients and accepts any, or none. The handshake only proves
    /// that the client has the certificate's private key, so you must identify clients by their
    /// [`Pin`].
    ///
    /// # Errors
    /// [`TlsConfigError`].
    pub fn asking_clients(self) -> Result<Self, TlsConfigError> {
        let provider = provider::tls_provider();
        let verifier = any_client(&provider);
        let old = &self.config;
        let mut config = rustls::ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(|e| TlsConfigError::Unusable(e.to_string()))?
            .with_client_cert_verifier(verifier)
            .with_cert_resolver(Arc::clone(&old.cert_resolver));
        config.alpn_protocols.clone_from(&old.alpn_protocols);
        config.key_log = Arc::clone(&old.key_log);
        config.session_storage = Arc::clone(&old.session_storage);
        config.ticketer = Arc::clone(&old.ticketer);
        config.send_tls13_tickets = old.send_tls13_tickets;
        config.max_early_data_size = old.max_early_data_size;
        Ok(Self {
            config: Arc::new(config),
            ..self
        })
    }

    /// Disables session tickets, so that each connection requires a full handshake. By default,
    /// clients get two tickets, with which later connections to this configuration can be resumed
    /// for up to twelve hours without any state at the server. Other configurations, and this one
    /// after a restart, don't recognize the tickets and require a full handshake.
    #[must_use]
    pub fn without_resumption(mut self) -> Self {
        let config = Arc::make_mut(&mut self.config);
        config.send_tls13_tickets = 0;
        config.ticketer = Arc::new(NoTickets);
        self.sessions = None;
        config.max_early_data_size = 0;
        self
    }

    /// Accepts early data (0-RTT, RFC 9001 §4.6) from clients that resume a session of this
    /// configuration. Disabled by default.
    ///
    /// Stateless tickets could be used twice, so an attacker could replay a client's first
    /// packets and make the server accept its early data again. Therefore, the server stores
    /// the last `sessions` sessions instead, two for each connection. Each can be resumed once
    /// (RFC 8446 §8.1), within a day. A session takes about 300 bytes, more with a client
    /// certificate, and at most 4 KiB; larger sessions get no ticket. If more connections begin
    /// than can be stored, old sessions are dropped, and their clients need a full handshake.
    ///
    /// Early data is rejected, and the client sends it again after the handshake, if the ticket
    /// is unknown (used, expired, from another configuration or before a restart), or if a
    /// limit in the transport configuration was higher when the ticket was issued (RFC 9000
    /// §7.4.1).
    ///
    /// With the driver's `Connecting::into_0rtt`, an application reads early data before the
    /// client has proved that it is present. Other applications read this data after the
    /// handshake.
    #[must_use]
    pub fn with_early_data(mut self, sessions: usize) -> Self {
        let config = Arc::make_mut(&mut self.config);
        // Any amount, as QUIC requires, because flow control limits it (RFC 9001 §4.6.1).
        // [9001 4.6.1 ticket-size]
        config.max_early_data_size = u32::MAX;
        config.ticketer = Arc::new(NoTickets);
        config.send_tls13_tickets = TICKETS;
        self.sessions = Some(Arc::new(Sessions::new(sessions)));
        self
    }

    /// Shares the sessions of another configuration.
    #[cfg(test)]
    pub(crate) fn with_sessions_of(mut self, other: &Self) -> Self {
        self = self.with_early_data(0);
        self.sessions.clone_from(&other.sessions);
        self
    }

    /// Uses a configuration made with rustls directly, for features that [`new`](Self::new)
    /// doesn't offer (client authentication, certificates by name). It must allow TLS 1.3 and
    /// should include application protocols.
    ///
    /// # Errors
    /// [`TlsConfigError`].
    pub fn from_rustls(mut config: rustls::ServerConfig) -> Result<Self, TlsConfigError> {
        config.max_early_data_size = 0;
        Ok(Self {
            config: Arc::new(config),
            initial: Initial::new()?,
            pin: None,
            sessions: None,
        })
    }

    /// Returns the same configuration for TLS over TCP, with the application protocols `protocols`.
    /// It accepts no early data.
    pub fn over_tcp(&self, protocols: &[&[u8]]) -> rustls::ServerConfig {
        let mut config = rustls::ServerConfig::clone(&self.config);
        config.alpn_protocols = protocols.iter().map(|p| p.to_vec()).collect();
        config.max_early_data_size = 0;
        config
    }

    /// Returns the pin that clients can use, or `None` for configurations made by
    /// [`from_rustls`](Self::from_rustls).
    pub fn pin(&self) -> Option<Pin> {
        self.pin
    }
}

impl TryFrom<rustls::ServerConfig> for TlsServerConfig {
    type Error = TlsConfigError;

    /// If the configuration has a size for early data, it is accepted for up to 1000 sessions at a
    /// time.
    fn try_from(config: rustls::ServerConfig) -> Result<Self, TlsConfigError> {
        let early = config.max_early_data_size > 0;
        let this = Self::from_rustls(config)?;
        Ok(if early {
            this.with_early_data(1000)
        } else {
            this
        })
    }
}

impl fmt::Debug for TlsServerConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsServerConfig")
            .field("pin", &self.pin)
            .finish_non_exhaustive()
    }
}

impl InitialCrypto for TlsServerConfig {
    fn initial_keys(&self, client_dcid: &[u8], side: Side) -> Keys {
        self.initial.initial_keys(client_dcid, side)
    }

    fn retry_tag(&self, original_dcid: &[u8], packet: &[u8]) -> [u8; RETRY_TAG_LEN] {
        self.initial.retry_tag(original_dcid, packet)
    }
}

impl ServerCrypto for TlsServerConfig {
    fn start(&self, transport_parameters: Vec<u8>, _: u64) -> Result<Box<dyn Session>, StartError> {
        let unusable = |e: rustls::Error| StartError::Config(e.to_string());
        let Some(sessions) = &self.sessions else {
            let config = Arc::clone(&self.config);
            let connection = quic::ServerConnection::new(config, V1, transport_parameters);
            return Ok(Box::new(TlsSession::new(
                connection.map_err(unusable)?.into(),
            )));
        };
        let mut config = rustls::ServerConfig::clone(&self.config);
        let now = config.time_provider.current_time();
        let now = now.ok_or_else(|| StartError::Config("there is no time".into()))?;
        let sessions =
            ForConnection::new(Arc::clone(sessions), &transport_parameters, now.as_secs());
        let sessions = Arc::new(sessions);
        config.session_storage = Arc::clone(&sessions) as _;
        let config = Arc::new(config);
        let connection = quic::ServerConnection::new(config, V1, transport_parameters);
        let connection = connection.map_err(unusable)?;
        Ok(Box::new(TlsSession::with_early_data(connection, sessions)))
    }
}

/// Maximum size of a stored session, bytes. Only clients with long certificate chains exceed
/// it.
const LONGEST: usize = 4096;

/// Lifetime of a session in seconds, the same as rustls announces to clients for stored
/// sessions.
const LIFETIME: u64 = 24 * 3600;

#[derive(Debug)]
struct StoredSession {
    /// Its position in the order of arrival.
    serial: u64,
    /// When it was stored, in seconds since 1970.
    since: u64,
    /// The server's transport parameters that its client remembers.
    limits: PeerLimits,
    /// The data that rustls stores.
    secrets: Vec<u8>,
}

/// The most recent sessions of a server, of which each is resumed at most once. This protects early
/// data against replay (RFC 8446 §8.1).
///
/// rustls takes a session from the store before it verifies the binder (RFC 8446 §4.2.11.2),
/// which proves that the client has the session's secret. Since tickets are sent in the clear,
/// any observer could otherwise invalidate them. Therefore, a session that was taken but not
/// resumed is put back.
#[derive(Debug)]
pub(super) struct Sessions {
    most: usize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    by_id: BTreeMap<Vec<u8>, StoredSession>,
    /// Ids by serial number, oldest first.
    order: BTreeMap<u64, Vec<u8>>,
    next: u64,
}

impl State {
    fn insert(&mut self, id: Vec<u8>, session: StoredSession) {
        self.order.insert(session.serial, id.clone());
        self.by_id.insert(id, session);
    }

    fn remove(&mut self, id: &[u8]) -> Option<StoredSession> {
        let session = self.by_id.remove(id)?;
        self.order.remove(&session.serial);
        Some(session)
    }

    /// Removes expired sessions, and the oldest sessions beyond `most`.
    fn trim(&mut self, now: u64, most: usize) {
        while let Some((_, id)) = self.order.first_key_value() {
            let session = self.by_id.get(id);
            let is_old = session.is_none_or(|session| now.saturating_sub(session.since) > LIFETIME);
            if !is_old && self.by_id.len() <= most {
                return;
            }
            if let Some((_, id)) = self.order.pop_first() {
                self.by_id.remove(&id);
            }
        }
    }
}

impl Sessions {
    pub(super) fn new(most: usize) -> Self {
        Self {
            most,
            state: Mutex::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A panic elsewhere doesn't invalidate the sessions.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stores a session. Returns false if it is too long.
    fn put(&self, now: u64, id: Vec<u8>, limits: PeerLimits, secrets: Vec<u8>) -> bool {
        if self.most == 0 || id.len() + secrets.len() > LONGEST {
            return false;
        }
        let mut state = self.lock();
        state.remove(&id);
        let serial = state.next;
        state.next += 1;
        let session = StoredSession {
            serial,
            since: now,
            limits,
            secrets,
        };
        state.insert(id, session);
        state.trim(now, self.most);
        true
    }

    /// Removes and returns a session, if it exists, hasn't expired, and `limits` aren't lower
    /// than those that its client remembers.
    fn take(&self, now: u64, id: &[u8], limits: &PeerLimits) -> Option<StoredSession> {
        // [9001 9.2 replay]
        let session = self.lock().remove(id)?;
        let is_old = now.saturating_sub(session.since) > LIFETIME;
        // [9000 7.4.1 not-lowered] [9000 7.4.1 reject]
        (!is_old && limits.include(&session.limits)).then_some(session)
    }

    /// Puts a session back in its position, if there is still room for one of its age.
    fn restore(&self, now: u64, id: Vec<u8>, session: StoredSession) {
        let mut state = self.lock();
        state.insert(id, session);
        state.trim(now, self.most);
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        let state = self.lock();
        assert_eq!(state.order.len(), state.by_id.len());
        state.order.len()
    }
}

/// The view of one connection on the sessions.
#[derive(Debug)]
pub(super) struct ForConnection {
    sessions: Arc<Sessions>,
    /// From this connection's transport parameters.
    limits: Option<PeerLimits>,
    /// When the connection began, in seconds since 1970.
    now: u64,
    /// The sessions taken since [`settle`](Self::settle), with their ids, in this order.
    taken: Mutex<Vec<(Vec<u8>, StoredSession)>>,
}

impl ForConnection {
    /// Creates the view. `parameters` are the server's transport parameters on this connection.
    pub(super) fn new(sessions: Arc<Sessions>, parameters: &[u8], now: u64) -> Self {
        let parameters = TransportParameters::decode(parameters, Side::Server);
        Self {
            sessions,
            limits: parameters.ok().as_ref().map(PeerLimits::from),
            now,
            taken: Mutex::default(),
        }
    }

    fn taken(&self) -> MutexGuard<'_, Vec<(Vec<u8>, StoredSession)>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Called after the client's messages were processed. If `resumed`, the session taken last
    /// is resumed and therefore removed permanently. All others are put back.
    pub(super) fn settle(&self, resumed: bool) {
        let mut taken = core::mem::take(&mut *self.taken());
        if resumed {
            taken.pop();
        }
        for (id, session) in taken {
            self.sessions.restore(self.now, id, session);
        }
    }
}

impl StoresServerSessions for ForConnection {
    fn put(&self, id: Vec<u8>, secrets: Vec<u8>) -> bool {
        self.limits
            .is_some_and(|limits| self.sessions.put(self.now, id, limits, secrets))
    }

    /// Sessions can't be read without removing them.
    fn get(&self, _: &[u8]) -> Option<Vec<u8>> {
        None
    }

    fn take(&self, id: &[u8]) -> Option<Vec<u8>> {
        let session = self.sessions.take(self.now, id, self.limits.as_ref()?)?;
        let secrets = session.secrets.clone();
        self.taken().push((id.to_vec(), session));
        Some(secrets)
    }

    fn can_cache(&self) -> bool {
        self.limits.is_some()
    }
}

#[cfg(test)]
#[path = "server_tests.rs"]
mod tests;
