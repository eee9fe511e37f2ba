//! Packet protection and the cryptographic handshake (RFC 9001), behind traits.
//!
//! ```text
//!   CRYPTO frames ──read_handshake──►  Session  ──write_handshake──► CRYPTO frames, KeyChange
//!                                      (boxed)                            │
//!   packets ◄──seal, open, mask── PacketKey, HeaderKey ◄── Keys, OneRttKeys
//! ```
//!
//! A connection holds a [`Session`] and the [`Keys`] that it provides, but isn't generic over them:
//! the session is only called a few times per handshake, and a key once or twice per packet. There
//! are two implementations: TLS 1.3 (`tls`, feature `rustls`) and [`null`], intended for
//! emulations, which sends the same number of bytes in the same number of round trips without
//! protecting anything.
//!
//! An endpoint additionally seals address-validation tokens and derives stateless reset tokens by
//! using a secret through [`EndpointKey`]; [`token`] defines the formats. The caller must provide
//! secrets, and the seed of [`Random`], except for what a TLS library draws for its own handshake.

use core::fmt;
use std::sync::Arc;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

mod error;
mod key_update;
pub mod null;
#[cfg(feature = "rustls")]
mod provider;
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

pub use crate::wire::Side;
pub use crate::wire::packet::SAMPLE_LEN;
pub use error::{AeadLimitReached, CertificateProblem, ExportError, HandshakeError, StartError};
pub use key_update::{KeyUpdateError, OneRttKeys, OpenFailure, Opened, Phase, SealFailure};
#[cfg(feature = "rustls")]
pub use provider::gather_entropy;
pub use token::ResetToken;

/// Length of a Retry Integrity Tag in bytes (RFC 9001 §5.8).
pub const RETRY_TAG_LEN: usize = 16;

/// Protects packet payloads in one direction (RFC 9001 §5.3).
pub trait PacketKey: Send + Sync {
    /// Seals a packet in place. `packet` must contain the header (`header_len` bytes, not yet
    /// masked), the plaintext, and [`tag_len`](Self::tag_len) bytes of room for the tag, which are
    /// overwritten.
    ///
    /// # Errors
    /// Returns [`SealError`] if `packet` has no room for header and tag, or is longer than the
    /// cipher allows.
    fn seal(&self, pn: u64, packet: &mut [u8], header_len: usize) -> Result<(), SealError>;

    /// Opens a packet in place. `packet` must contain the header (`header_len` bytes, mask removed)
    /// and the ciphertext with its tag. The plaintext replaces the ciphertext, starting at
    /// `header_len`, and its length is returned. On failure, the payload's bytes are unspecified.
    ///
    /// # Errors
    /// Returns [`OpenError`] if the packet wasn't sealed with this key and `pn`, or is too short.
    fn open(&self, pn: u64, packet: &mut [u8], header_len: usize) -> Result<usize, OpenError>;

    /// Returns how many bytes sealing adds.
    fn tag_len(&self) -> usize {
        16
    }

    /// Returns how many packets can be sealed with this key (RFC 9001 §6.6).
    fn confidentiality_limit(&self) -> u64;

    /// Returns how many packets can fail to open on a connection using this cipher (RFC 9001 §6.6).
    fn integrity_limit(&self) -> u64;
}

/// Computes header masks in one direction (RFC 9001 §5.4).
pub trait HeaderKey: Send + Sync {
    /// Computes the mask for a sample of ciphertext. Byte 0 applies to the first byte of the header
    /// (its low 4 bits in long headers, 5 in short headers; others are unspecified), bytes 1 to 4
    /// to the packet number.
    fn mask(&self, sample: &[u8; SAMPLE_LEN]) -> [u8; 5];
}

/// Error returned when a packet can't be sealed, because its buffer is too short or too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("packet buffer does not fit the cipher")]
pub struct SealError;

/// Error returned when a packet isn't authentic under this key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("packet failed authentication")]
pub struct OpenError;

/// Header and packet keys for one direction.
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

/// Keys of one encryption level for both directions.
#[derive(Debug)]
pub struct Keys {
    /// Keys for sending.
    pub local: DirectionalKeys,
    /// Keys for receiving.
    pub remote: DirectionalKeys,
}

/// Packet keys of one key phase for both directions. Header keys don't change with the phase.
pub struct PacketKeys {
    /// Key for sending.
    pub local: Box<dyn PacketKey>,
    /// Key for receiving.
    pub remote: Box<dyn PacketKey>,
}

impl fmt::Debug for PacketKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PacketKeys(..)")
    }
}

/// Derives the packet keys of successive key phases (RFC 9001 §6.1).
pub trait PhaseKeys: Send + Sync {
    /// Returns the keys of the next phase. The first call returns those following the handshake's
    /// 1-RTT keys.
    fn next_phase(&mut self) -> PacketKeys;
}

/// New keys, which apply to everything that the session writes afterwards.
pub enum KeyChange {
    /// Keys for Handshake packets.
    Handshake(Keys),
    /// Keys for 1-RTT packets, and the source of keys for subsequent phases. Pass both to
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

/// Cryptographic handshake of one connection.
///
/// The connection passes ordered CRYPTO bytes to [`read_handshake`](Self::read_handshake), then
/// calls [`write_handshake`](Self::write_handshake) until it writes nothing and doesn't change any
/// keys:
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
    /// Processes handshake bytes, which must be in order and without gaps. Bytes of different
    /// encryption levels must be passed in separate calls. The caller must check that a level's
    /// bytes end before the next level's begin.
    ///
    /// # Errors
    /// Returns [`HandshakeError`]. You must then close the connection with its
    /// [`code`](HandshakeError::code).
    fn read_handshake(&mut self, bytes: &[u8]) -> Result<(), HandshakeError>;

    /// Appends handshake bytes to send. If it returns a change, the bytes appended by this call
    /// must still be sent at the previous level, and the new keys apply afterwards.
    fn write_handshake(&mut self, out: &mut Vec<u8>) -> Option<KeyChange>;

    /// Returns true until the handshake is complete on this side (RFC 9001 §4.1.1).
    fn is_handshaking(&self) -> bool;

    /// Returns the peer's transport parameters exactly as received in its handshake message, or
    /// `None` before it arrived. They aren't authenticated until the handshake is complete.
    fn peer_transport_parameters(&self) -> Option<&[u8]>;

    /// Returns the keys for 0-RTT packets (RFC 9001 §4.6). A client seals with these from the start
    /// if it resumes a session that allows early data. A server opens with these once it has read a
    /// ClientHello whose early data it accepts.
    fn zero_rtt_keys(&self) -> Option<DirectionalKeys> {
        None
    }

    /// Client with [`zero_rtt_keys`](Self::zero_rtt_keys): returns the server's transport
    /// parameters as they were when the resumed session began.
    fn remembered_parameters(&self) -> Option<&[u8]> {
        None
    }

    /// Client: returns true if the server accepts the early data, once its transport parameters are
    /// known.
    fn early_data_accepted(&self) -> bool {
        false
    }

    /// Server: returns true if its configuration allows accepting early data.
    fn may_take_early_data(&self) -> bool {
        false
    }

    /// Returns the parameters negotiated so far.
    fn handshake_data(&self) -> HandshakeData;

    /// Returns the peer's certificate chain in DER, end entity first. It is empty if the peer
    /// didn't present any, as clients usually don't.
    fn peer_certificates(&self) -> Vec<Vec<u8>>;

    /// Fills `out` with keying material bound to this connection (RFC 8446 §7.5).
    ///
    /// # Errors
    /// Returns [`ExportError`] before the handshake is complete, or if `out` is too long.
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

/// Parameters negotiated by the handshake.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct HandshakeData {
    /// Application protocol (ALPN), once known.
    pub protocol: Option<Vec<u8>>,
    /// Server: the name that the client asked for.
    pub server_name: Option<String>,
    /// True if the handshake resumed an earlier connection's session, without certificates (RFC
    /// 8446 §2.2).
    pub resumed: bool,
}

/// Cryptography that doesn't need a handshake: keys for Initial packets, and the tag of Retry
/// packets.
pub trait InitialCrypto: Send + Sync {
    /// Derives the keys for Initial packets (RFC 9001 §5.2). `client_dcid` is the Destination
    /// Connection ID of the client's first Initial, or of its first one after a Retry.
    fn initial_keys(&self, client_dcid: &[u8], side: Side) -> Keys;

    /// Computes the Retry Integrity Tag (RFC 9001 §5.8) of a Retry packet, passed without its last
    /// 16 bytes, that answers an Initial with Destination Connection ID `original_dcid`.
    fn retry_tag(&self, original_dcid: &[u8], packet: &[u8]) -> [u8; RETRY_TAG_LEN];
}

/// Cryptographic configuration of a client. One value can serve many connections.
pub trait ClientCrypto: InitialCrypto + fmt::Debug {
    /// Starts the handshake with `server_name`. `transport_parameters` are sent in the ClientHello.
    /// `seed` is for implementations without their own generator (the null cipher).
    ///
    /// # Errors
    /// Returns [`StartError`] if the name is neither a DNS name nor an IP address, or the
    /// configuration is unusable.
    fn start(
        &self,
        server_name: &str,
        transport_parameters: Vec<u8>,
        seed: u64,
    ) -> Result<Box<dyn Session>, StartError>;
}

/// Cryptographic configuration of a server. One value can serve many connections.
pub trait ServerCrypto: InitialCrypto + fmt::Debug {
    /// Starts the handshake with a client. `transport_parameters` are sent in the
    /// EncryptedExtensions. For `seed`, see [`ClientCrypto::start`].
    ///
    /// # Errors
    /// Returns [`StartError`] if the configuration is unusable.
    fn start(
        &self,
        transport_parameters: Vec<u8>,
        seed: u64,
    ) -> Result<Box<dyn Session>, StartError>;
}

/// Operations that an endpoint derives from its secret. Endpoints sharing the secret (a cluster, or
/// one before and after a restart) accept each other's tokens and can reset each other's lost
/// connections.
pub trait EndpointKey: Send + Sync + fmt::Debug {
    /// Seals `plaintext` under `nonce`, appending ciphertext and tag to `out`. You must never use a
    /// nonce twice with the same key for different contents.
    fn seal(&self, nonce: &[u8; 12], plaintext: &[u8], out: &mut Vec<u8>);

    /// Opens the output of [`seal`](Self::seal) in place and returns the plaintext.
    ///
    /// # Errors
    /// Returns [`OpenError`] if it wasn't sealed under this key and nonce.
    fn open<'a>(&self, nonce: &[u8; 12], sealed: &'a mut [u8]) -> Result<&'a [u8], OpenError>;

    /// Computes a keyed hash of `data` without revealing anything about the key.
    fn mac(&self, data: &[u8]) -> [u8; 32];
}

/// Shared handle to an endpoint's key.
pub type SharedEndpointKey = Arc<dyn EndpointKey>;

/// A cryptographically secure generator. With a seed from the operating system, its output is
/// suitable for connection ids, challenges and nonces. With a fixed seed, an emulation is
/// reproducible byte for byte.
pub struct Random(StdRng);

impl Random {
    /// Creates a generator from `seed`.
    pub fn from_seed(seed: [u8; 32]) -> Self {
        Self(StdRng::from_seed(seed))
    }

    /// Creates a generator from a short seed, for emulations and tests.
    pub fn from_u64(seed: u64) -> Self {
        Self(StdRng::seed_from_u64(seed))
    }

    /// Creates a separate generator for a component, seeded from this one.
    #[must_use]
    pub fn fork(&mut self) -> Self {
        Self::from_seed(self.bytes())
    }

    /// Fills `out`.
    pub fn fill(&mut self, out: &mut [u8]) {
        self.0.fill_bytes(out);
    }

    /// Returns `N` random bytes.
    #[must_use]
    pub fn bytes<const N: usize>(&mut self) -> [u8; N] {
        let mut out = [0; N];
        self.fill(&mut out);
        out
    }

    /// Returns 64 random bits.
    #[must_use]
    pub fn next_u64(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Returns a number below `bound`, uniformly distributed except for a bias of at most
    /// `bound` / 2^64, or 0 if `bound` is 0.
    #[must_use]
    pub fn below(&mut self, bound: u64) -> u64 {
        let wide = u128::from(self.next_u64()) * u128::from(bound);
        u64::try_from(wide >> 64).unwrap_or(0)
    }
}

impl fmt::Debug for Random {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Random(..)")
    }
}
