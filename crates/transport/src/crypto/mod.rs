//! Packet protection and the cryptographic handshake (RFC 9001), behind traits.
//!
//! ```text
//!   CRYPTO frames ──read_handshake──►  Session  ──write_handshake──► CRYPTO frames, KeyChange
//!                                      (boxed)                            │
//!   packets ◄──seal, open, mask── PacketKey, HeaderKey ◄── Keys, OneRttKeys
//! ```
//!
//! A connection holds a [`Session`] and the [`Keys`] that it hands out; it is not generic over
//! them. The session is called a few times per handshake, a key once or twice per packet. Two
//! implementations: TLS 1.3 (`tls`, feature `rustls`) and [`null`], which sends as many bytes in as
//! many round trips but protects nothing, for emulations.
//!
//! What an endpoint needs besides (sealing of address-validation tokens, stateless reset tokens) is
//! derived from a secret through [`EndpointKey`]; [`token`] and [`reset`] hold the formats. Apart
//! from what a TLS library draws for its own handshake, random bytes and secrets come from the
//! caller.

use core::fmt;
use std::sync::Arc;

mod error;
mod key_update;
pub mod null;
#[cfg(feature = "rustls")]
mod provider;
mod random;
pub mod reset;
#[cfg(feature = "rustls")]
pub mod tls;
pub mod token;

#[cfg(test)]
mod key_update_tests;
#[cfg(all(test, feature = "rustls"))]
mod rfc9001_tests;
#[cfg(test)]
mod session_tests;
#[cfg(test)]
pub(crate) mod testing;

pub use error::{AeadLimitReached, CertificateProblem, ExportError, HandshakeError, StartError};
pub use key_update::{KeyUpdateError, OneRttKeys, OpenFailure, Opened, Phase, SealFailure};
pub use random::Random;
pub use reset::ResetToken;

#[cfg(feature = "rustls")]
pub use provider::gather_entropy;

pub use crate::wire::Side;
pub use crate::wire::packet::SAMPLE_LEN;

/// Bytes of a Retry Integrity Tag (RFC 9001 §5.8).
pub const RETRY_TAG_LEN: usize = 16;

/// Protects the payload of packets in one direction (RFC 9001 §5.3).
pub trait PacketKey: Send + Sync {
    /// Seals a packet in place. `packet` is the header (`header_len` bytes, not yet masked), the
    /// plaintext, and [`tag_len`](Self::tag_len) bytes of room for the tag, which are overwritten.
    ///
    /// # Errors
    /// [`SealError`] if `packet` has no room for header and tag, or is longer than the cipher
    /// allows.
    fn seal(&self, pn: u64, packet: &mut [u8], header_len: usize) -> Result<(), SealError>;

    /// Opens a packet in place. `packet` is the header (`header_len` bytes, mask removed) and the
    /// ciphertext with its tag; the plaintext replaces the ciphertext. Returns the plaintext's
    /// length; it starts at `header_len`. On failure the payload's bytes are unspecified.
    ///
    /// # Errors
    /// [`OpenError`] if the packet was not sealed with this key and `pn`, or is too short.
    fn open(&self, pn: u64, packet: &mut [u8], header_len: usize) -> Result<usize, OpenError>;

    /// Bytes that sealing adds.
    fn tag_len(&self) -> usize {
        16
    }

    /// Packets that may be sealed with this key (RFC 9001 §6.6).
    fn confidentiality_limit(&self) -> u64;

    /// Packets that may fail to open on a connection that uses this cipher (RFC 9001 §6.6).
    fn integrity_limit(&self) -> u64;
}

/// Computes header masks in one direction (RFC 9001 §5.4).
pub trait HeaderKey: Send + Sync {
    /// The mask for a sample of ciphertext: byte 0 for the first byte of the header (its low 4 bits
    /// in long headers, 5 in short ones; other bits are unspecified), bytes 1 to 4 for the packet
    /// number.
    fn mask(&self, sample: &[u8; SAMPLE_LEN]) -> [u8; 5];
}

/// The packet could not be sealed: its buffer is too short or too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("packet buffer does not fit the cipher")]
pub struct SealError;

/// The packet is not authentic under this key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("packet failed authentication")]
pub struct OpenError;

/// Header and packet key of one direction.
pub struct DirectionalKeys {
    /// Masks headers.
    pub header: Box<dyn HeaderKey>,
    /// Seals or opens payloads.
    pub packet: Box<dyn PacketKey>,
}

impl fmt::Debug for DirectionalKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DirectionalKeys(..)")
    }
}

/// Both directions' keys of one encryption level.
#[derive(Debug)]
pub struct Keys {
    /// For what this side sends.
    pub local: DirectionalKeys,
    /// For what this side receives.
    pub remote: DirectionalKeys,
}

/// Both directions' packet keys of one key phase; header keys do not change with the phase.
pub struct PacketKeys {
    /// For what this side sends.
    pub local: Box<dyn PacketKey>,
    /// For what this side receives.
    pub remote: Box<dyn PacketKey>,
}

impl fmt::Debug for PacketKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PacketKeys(..)")
    }
}

/// Derives the packet keys of one key phase after the other (RFC 9001 §6.1).
pub trait PhaseKeys: Send + Sync {
    /// The keys of the next phase; the first call gives those that follow the handshake's 1-RTT
    /// keys.
    fn next_phase(&mut self) -> PacketKeys;
}

/// New keys, to be used for what the session writes from then on.
pub enum KeyChange {
    /// Keys of Handshake packets.
    Handshake(Keys),
    /// Keys of 1-RTT packets, and the source of the phases after them: both go into
    /// [`OneRttKeys::new`].
    OneRtt(Keys, Box<dyn PhaseKeys>),
}

impl fmt::Debug for KeyChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Handshake(_) => "KeyChange::Handshake(..)",
            Self::OneRtt(..) => "KeyChange::OneRtt(..)",
        })
    }
}

/// One connection's cryptographic handshake.
///
/// The connection feeds ordered CRYPTO bytes with [`read_handshake`](Self::read_handshake), then
/// calls [`write_handshake`](Self::write_handshake) until it writes nothing and changes no keys:
///
/// ```text
///   loop {
///       let before = out.len();
///       let change = session.write_handshake(&mut out);   // bytes for the level in force *before* the change
///       if change.is_none() && out.len() == before { break }
///       // queue the bytes at the current write level; then raise the level if the keys changed
///   }
/// ```
pub trait Session: Send + Sync {
    /// Takes handshake bytes of one encryption level, in order and without gaps. Bytes of different
    /// levels go into separate calls. The caller checks that a level's bytes end before the next
    /// level's begin.
    ///
    /// # Errors
    /// [`HandshakeError`]; the connection closes with its [`code`](HandshakeError::code).
    fn read_handshake(&mut self, bytes: &[u8]) -> Result<(), HandshakeError>;

    /// Appends handshake bytes to send. If it returns a change, the bytes appended by this call
    /// still go out at the level before it, and the new keys rule afterwards.
    fn write_handshake(&mut self, out: &mut Vec<u8>) -> Option<KeyChange>;

    /// True until the handshake is complete on this side (RFC 9001 §4.1.1).
    fn is_handshaking(&self) -> bool;

    /// The peer's transport parameters as they stood in its handshake message; `None` before that
    /// arrived. Not authenticated until the handshake is complete.
    fn peer_transport_parameters(&self) -> Option<&[u8]>;

    /// Keys of 0-RTT packets (RFC 9001 §4.6). At a client those that it seals with, from the start
    /// on, if it resumes a session that allows early data; at a server those that it opens with,
    /// once it has read a ClientHello whose early data it takes.
    fn zero_rtt_keys(&self) -> Option<DirectionalKeys> {
        None
    }

    /// At a client with [`zero_rtt_keys`](Self::zero_rtt_keys): the server's transport parameters
    /// as they stood when the session began.
    fn remembered_parameters(&self) -> Option<&[u8]> {
        None
    }

    /// At a client, once the server's transport parameters are known: the server takes the early
    /// data.
    fn early_data_accepted(&self) -> bool {
        false
    }

    /// At a server: it may take early data, as far as its configuration goes.
    fn may_take_early_data(&self) -> bool {
        false
    }

    /// What the handshake has settled so far.
    fn handshake_data(&self) -> HandshakeData;

    /// The peer's certificate chain, DER, end entity first. Empty if it presented none (clients, as
    /// a rule).
    fn peer_certificates(&self) -> Vec<Vec<u8>>;

    /// Fills `out` with keying material bound to this connection (RFC 8446 §7.5).
    ///
    /// # Errors
    /// [`ExportError`] before the handshake is complete, or if `out` is too long.
    fn export_keying_material(
        &self,
        out: &mut [u8],
        label: &[u8],
        context: &[u8],
    ) -> Result<(), ExportError>;
}

impl fmt::Debug for dyn Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session")
            .field("is_handshaking", &self.is_handshaking())
            .finish_non_exhaustive()
    }
}

/// What the two sides agreed on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct HandshakeData {
    /// The application protocol (ALPN), once known.
    pub protocol: Option<Vec<u8>>,
    /// At a server: the name that the client asked for.
    pub server_name: Option<String>,
    /// The handshake went on from an earlier connection's, without certificates (RFC 8446 §2.2).
    pub resumed: bool,
}

/// Keys that need no handshake: those of Initial packets, and the tag of Retry packets.
pub trait InitialCrypto: Send + Sync {
    /// Keys of Initial packets (RFC 9001 §5.2). `client_dcid` is the Destination Connection ID of
    /// the client's first Initial, or of its first one after a Retry.
    fn initial_keys(&self, client_dcid: &[u8], side: Side) -> Keys;

    /// The Retry Integrity Tag (RFC 9001 §5.8) of a Retry packet without its last 16 bytes, in
    /// answer to an Initial with Destination Connection ID `original_dcid`.
    fn retry_tag(&self, original_dcid: &[u8], packet: &[u8]) -> [u8; RETRY_TAG_LEN];
}

/// A client's cryptographic configuration; one serves many connections.
pub trait ClientCrypto: InitialCrypto + fmt::Debug {
    /// Starts the handshake with `server_name`. `transport_parameters` go into the ClientHello.
    /// `seed` feeds implementations without a generator of their own (the null cipher).
    ///
    /// # Errors
    /// [`StartError`] for a name that is neither a DNS name nor an IP address, or an unusable
    /// configuration.
    fn start(
        &self,
        server_name: &str,
        transport_parameters: Vec<u8>,
        seed: u64,
    ) -> Result<Box<dyn Session>, StartError>;
}

/// A server's cryptographic configuration; one serves many connections.
pub trait ServerCrypto: InitialCrypto + fmt::Debug {
    /// Starts the handshake with a client. `transport_parameters` go into the EncryptedExtensions.
    /// `seed` as for [`ClientCrypto::start`].
    ///
    /// # Errors
    /// [`StartError`] for an unusable configuration.
    fn start(
        &self,
        transport_parameters: Vec<u8>,
        seed: u64,
    ) -> Result<Box<dyn Session>, StartError>;
}

/// What an endpoint derives from its secret. Endpoints that share the secret (a cluster, or one
/// after a restart) accept each other's tokens and can reset each other's lost connections.
pub trait EndpointKey: Send + Sync + fmt::Debug {
    /// Seals `plaintext` under `nonce`, which must never be used twice with one key for different
    /// contents. Appends ciphertext and tag to `out`.
    fn seal(&self, nonce: &[u8; 12], plaintext: &[u8], out: &mut Vec<u8>);

    /// Opens what [`seal`](Self::seal) made, in place; returns the plaintext.
    ///
    /// # Errors
    /// [`OpenError`] if it was not sealed under this key and nonce.
    fn open<'a>(&self, nonce: &[u8; 12], sealed: &'a mut [u8]) -> Result<&'a [u8], OpenError>;

    /// A keyed hash of `data` that reveals nothing of the key.
    fn mac(&self, data: &[u8]) -> [u8; 32];
}

/// Shared handle of an endpoint's key.
pub type SharedEndpointKey = Arc<dyn EndpointKey>;
