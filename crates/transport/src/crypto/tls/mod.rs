//! TLS 1.3 sessions from rustls (RFC 8446 over RFC 9001).
//!
//! A client trusts servers according to [`Trust`]: by certificate authorities, or by the
//! SHA-256 of the server's own certificate. Secrets are logged to the file named by
//! `SSLKEYLOGFILE` when a configuration is created, so that packet captures can be decrypted.
//! By default, sessions are resumed with tickets. Data is sent before the handshake (0-RTT)
//! only if both configurations enable this.

use std::sync::Arc;

pub use rustls;
use rustls::quic::{self, Suite};
use rustls::{AlertDescription, CertificateError, HandshakeKind, HandshakeType, PeerMisbehaved};

mod client;
mod server;

#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;

pub use super::provider::{EndpointSecret, NoCipher};
pub use client::{BadPin, Pin, TlsClientConfig, Trust, name_of};
pub use server::TlsServerConfig;

use super::provider::{self, RetryKey};
use super::{
    CertificateProblem, DirectionalKeys, ExportError, HandshakeData, HandshakeError, HeaderKey,
    InitialCrypto, KeyChange, Keys, OpenError, PacketKey, PacketKeys, PhaseKeys, RETRY_TAG_LEN,
    SAMPLE_LEN, SealError, Session, Side,
};
use client::PinMismatch;
use server::ForConnection;

/// Initial keys and Retry tags, used by both configurations.
struct Initial {
    suite: Suite,
    retry: RetryKey,
}

impl Initial {
    fn new() -> Result<Self, TlsConfigError> {
        match (provider::initial_suite(), RetryKey::new()) {
            (Some(suite), Some(retry)) => Ok(Self { suite, retry }),
            _ => Err(TlsConfigError::NoCipher(NoCipher)),
        }
    }
}

impl InitialCrypto for Initial {
    fn initial_keys(&self, client_dcid: &[u8], side: Side) -> Keys {
        let side = match side {
            Side::Client => rustls::Side::Client,
            Side::Server => rustls::Side::Server,
        };
        // [9001 5.2 initial-derivation]
        let keys = self
            .suite
            .keys(client_dcid, side, rustls::quic::Version::V1);
        wrap(keys)
    }

    fn retry_tag(&self, original_dcid: &[u8], packet: &[u8]) -> [u8; RETRY_TAG_LEN] {
        self.retry.tag(original_dcid, packet)
    }
}

const TAG_LEN: usize = 16;

struct TlsSession {
    connection: quic::Connection,
    /// Whether the peer's transport parameters are those of this handshake. Before, a client
    /// that resumes a session has those of the earlier connection, which only limit early data
    /// (RFC 9000 §7.4.1).
    has_parameters: bool,
    /// The stored sessions of a server that may accept early data.
    sessions: Option<Arc<ForConnection>>,
}

impl TlsSession {
    fn new(connection: quic::Connection) -> Self {
        Self {
            has_parameters: matches!(connection, quic::Connection::Server(_)),
            connection,
            sessions: None,
        }
    }

    /// Creates the session of a server that accepts early data from clients that resume one of
    /// `sessions`.
    fn with_early_data(connection: quic::ServerConnection, sessions: Arc<ForConnection>) -> Self {
        Self {
            sessions: Some(sessions),
            ..Self::new(connection.into())
        }
    }

    fn is_resumed(&self) -> bool {
        self.connection.handshake_kind() == Some(HandshakeKind::Resumed)
    }
}

impl Session for TlsSession {
    fn read_handshake(&mut self, bytes: &[u8]) -> Result<(), HandshakeError> {
        let read = self.connection.read_hs(bytes);
        if let Some(sessions) = &self.sessions {
            sessions.settle(self.is_resumed());
        }
        read.map_err(|e| handshake_error(&e, self.connection.alert()))
    }

    fn write_handshake(&mut self, out: &mut Vec<u8>) -> Option<KeyChange> {
        // [9001 8.3 no-end-of-early-data]
        let change = self.connection.write_hs(out)?;
        Some(match change {
            quic::KeyChange::Handshake { keys } => KeyChange::Handshake(wrap(keys)),
            quic::KeyChange::OneRtt { keys, next } => {
                // The server's messages were processed.
                self.has_parameters = true;
                KeyChange::OneRtt(wrap(keys), Box::new(TlsPhases(next)))
            }
        })
    }

    fn is_handshaking(&self) -> bool {
        self.connection.is_handshaking()
    }

    fn peer_transport_parameters(&self) -> Option<&[u8]> {
        let connection = &self.connection;
        let known = self.has_parameters.then_some(connection);
        known.and_then(quic::Connection::quic_transport_parameters)
    }

    fn zero_rtt_keys(&self) -> Option<DirectionalKeys> {
        self.connection.zero_rtt_keys().map(directional)
    }

    fn remembered_parameters(&self) -> Option<&[u8]> {
        match &self.connection {
            quic::Connection::Client(client) if !self.has_parameters => {
                client.quic_transport_parameters()
            }
            _ => None,
        }
    }

    fn early_data_accepted(&self) -> bool {
        match &self.connection {
            quic::Connection::Client(client) => client.is_early_data_accepted(),
            quic::Connection::Server(_) => false,
        }
    }

    fn may_take_early_data(&self) -> bool {
        self.sessions.is_some()
    }

    fn handshake_data(&self) -> HandshakeData {
        HandshakeData {
            protocol: self.connection.alpn_protocol().map(<[u8]>::to_vec),
            server_name: match &self.connection {
                quic::Connection::Client(_) => None,
                quic::Connection::Server(c) => c.server_name().map(str::to_owned),
            },
            resumed: self.is_resumed(),
        }
    }

    fn peer_certificates(&self) -> Vec<Vec<u8>> {
        self.connection
            .peer_certificates()
            .unwrap_or(&[])
            .iter()
            .map(|c| c.to_vec())
            .collect()
    }

    fn export_keying_material(
        &self,
        out: &mut [u8],
        label: &[u8],
        context: &[u8],
    ) -> Result<(), ExportError> {
        self.connection
            .export_keying_material(out, label, Some(context))
            .map(|_| ())
            .map_err(|_| ExportError)
    }
}

struct TlsPhases(quic::Secrets);

impl PhaseKeys for TlsPhases {
    fn next_phase(&mut self) -> PacketKeys {
        let keys = self.0.next_packet_keys();
        PacketKeys {
            local: Box::new(TlsPacketKey(keys.local)),
            remote: Box::new(TlsPacketKey(keys.remote)),
        }
    }
}

fn directional(keys: quic::DirectionalKeys) -> DirectionalKeys {
    DirectionalKeys {
        header: Box::new(TlsHeaderKey(keys.header)),
        packet: Box::new(TlsPacketKey(keys.packet)),
    }
}

fn wrap(keys: quic::Keys) -> Keys {
    Keys {
        local: directional(keys.local),
        remote: directional(keys.remote),
    }
}

struct TlsHeaderKey(Box<dyn quic::HeaderProtectionKey>);

impl HeaderKey for TlsHeaderKey {
    fn mask(&self, sample: &[u8; SAMPLE_LEN]) -> [u8; 5] {
        // rustls masks headers without revealing the mask. To obtain it, mask a short header
        // that announces a 4-byte packet number and whose other bits are 0.
        const SHORT_WITH_FOUR: u8 = 0x03;
        let mut first = SHORT_WITH_FOUR;
        let mut number = [0; 4];
        // Fails only for samples or numbers of other lengths.
        let _ = self.0.encrypt_in_place(sample, &mut first, &mut number);
        let [a, b, c, d] = number;
        [first ^ SHORT_WITH_FOUR, a, b, c, d]
    }
}

struct TlsPacketKey(Box<dyn quic::PacketKey>);

impl PacketKey for TlsPacketKey {
    fn seal(&self, pn: u64, packet: &mut [u8], header_len: usize) -> Result<(), SealError> {
        let (header, rest) = packet.split_at_mut_checked(header_len).ok_or(SealError)?;
        let (payload, room) = rest.split_last_chunk_mut::<TAG_LEN>().ok_or(SealError)?;
        let tag = self
            .0
            .encrypt_in_place(pn, header, payload)
            .map_err(|_| SealError)?;
        *room = *tag.as_ref().first_chunk().ok_or(SealError)?;
        Ok(())
    }

    fn open(&self, pn: u64, packet: &mut [u8], header_len: usize) -> Result<usize, OpenError> {
        let (header, payload) = packet.split_at_mut_checked(header_len).ok_or(OpenError)?;
        if payload.len() < TAG_LEN {
            return Err(OpenError);
        }
        self.0
            .decrypt_in_place(pn, header, payload)
            .map(<[u8]>::len)
            .map_err(|_| OpenError)
    }

    fn confidentiality_limit(&self) -> u64 {
        self.0.confidentiality_limit()
    }

    fn integrity_limit(&self) -> u64 {
        self.0.integrity_limit()
    }
}

/// Error returned when a TLS configuration is unusable.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TlsConfigError {
    /// The PEM text contains no certificate, or an invalid one.
    #[error("no usable certificate in the PEM text (-----BEGIN CERTIFICATE-----): {0}")]
    BadCertificate(String),
    /// The PEM text contains no private key, or an invalid one.
    #[error("no usable private key in the PEM text (-----BEGIN PRIVATE KEY-----): {0}")]
    BadKey(String),
    /// Certificate and key don't match, or are of a kind that TLS 1.3 doesn't support.
    #[error("the certificate and its key cannot be used: {0}")]
    Unusable(String),
    /// See [`NoCipher`].
    #[error(transparent)]
    NoCipher(#[from] NoCipher),
}

impl From<&rustls::Error> for HandshakeError {
    /// Explains an error of TLS over TCP as that of a QUIC connection.
    fn from(error: &rustls::Error) -> Self {
        handshake_error(error, None)
    }
}

/// Converts a rustls error. `alert` is the one that rustls would send.
fn handshake_error(error: &rustls::Error, alert: Option<AlertDescription>) -> HandshakeError {
    // [9001 6 tls-key-update]
    let alert = alert.map_or(u8::from(AlertDescription::InternalError), u8::from);
    match error {
        rustls::Error::InvalidCertificate(problem) => HandshakeError::Certificate {
            problem: certificate_problem(problem),
            alert,
        },
        // [9001 8.1 no-protocol]
        rustls::Error::NoApplicationProtocol => HandshakeError::NoApplicationProtocol,
        // [9001 4.6.1 other-ticket-size]
        rustls::Error::PeerMisbehaved(PeerMisbehaved::InvalidMaxEarlyDataSize)
        | rustls::Error::InappropriateHandshakeMessage {
            // [9001 4.4 late-request]
            got_type: HandshakeType::CertificateRequest,
            ..
        } => HandshakeError::Forbidden {
            reason: error.to_string(),
        },
        _ => HandshakeError::Tls {
            alert,
            reason: error.to_string(),
        },
    }
}

fn certificate_problem(error: &CertificateError) -> CertificateProblem {
    match error {
        CertificateError::UnknownIssuer => CertificateProblem::UnknownIssuer,
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            CertificateProblem::Expired
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            CertificateProblem::NotValidYet
        }
        CertificateError::NotValidForNameContext {
            expected,
            presented,
        } => CertificateProblem::WrongName {
            expected: expected.to_str().into_owned(),
            presented: presented.join(", "),
        },
        CertificateError::Other(other) => match other.0.downcast_ref::<PinMismatch>() {
            Some(mismatch) => CertificateProblem::PinMismatch {
                expected: mismatch.expected.to_string(),
                got: mismatch.got.to_string(),
            },
            None => CertificateProblem::Other(error.to_string()),
        },
        _ => CertificateProblem::Other(error.to_string()),
    }
}
