//! The only module that uses a cryptography library directly: aws-lc-rs, or ring if only that
//! feature is enabled.

use core::fmt;
use std::sync::Arc;

#[cfg(feature = "aws-lc-rs")]
use aws_lc_rs as library;
#[cfg(all(feature = "ring", not(feature = "aws-lc-rs")))]
use ring as library;
#[cfg(feature = "aws-lc-rs")]
use rustls::crypto::aws_lc_rs as tls;
#[cfg(all(feature = "ring", not(feature = "aws-lc-rs")))]
use rustls::crypto::ring as tls;

use library::aead::{AES_128_GCM, AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use library::{digest, hmac};

use super::{EndpointKey, OpenError, RETRY_TAG_LEN};

/// Returns the provider for rustls. It only contains TLS 1.3 suites and prefers AES-128 to
/// AES-256, which costs a quarter more per packet for a security margin that the rest of the
/// handshake doesn't have.
pub(super) fn tls_provider() -> Arc<rustls::crypto::CryptoProvider> {
    let mut provider = tls::default_provider();
    // [9001 5.3 suites-with-header-protection]
    provider.cipher_suites = vec![
        tls::cipher_suite::TLS13_AES_128_GCM_SHA256,
        tls::cipher_suite::TLS13_AES_256_GCM_SHA384,
        tls::cipher_suite::TLS13_CHACHA20_POLY1305_SHA256,
    ];
    Arc::new(provider)
}

/// Creates an encryptor for session tickets. Only this process has the keys, which change every
/// six hours; a ticket is valid for twice as long.
///
/// # Errors
/// If the library can't generate random bytes.
pub(super) fn ticketer() -> Result<Arc<dyn rustls::server::ProducesTickets>, rustls::Error> {
    tls::Ticketer::new()
}

/// Makes the cryptography library gather its initial entropy. This takes tens of milliseconds,
/// which would otherwise delay the first handshake.
pub fn gather_entropy() {
    // A failure is reported to the next caller that needs random bytes.
    let _ = tls::default_provider().secure_random.fill(&mut [0]);
}

/// Returns the cipher suite of Initial packets (RFC 9001 §5.2), or `None` if the library was
/// built without it.
pub(super) fn initial_suite() -> Option<rustls::quic::Suite> {
    tls::cipher_suite::TLS13_AES_128_GCM_SHA256
        .tls13()
        .and_then(rustls::Tls13CipherSuite::quic_suite)
}

pub(super) fn sha256(data: &[u8]) -> [u8; 32] {
    let mut out = [0; 32];
    let digest = digest::digest(&digest::SHA256, data);
    out.iter_mut()
        .zip(digest.as_ref())
        .for_each(|(to, from)| *to = *from);
    out
}

/// The fixed key and nonce of version 1 (RFC 9001 §5.8).
const RETRY_KEY: [u8; 16] = [
    0xbe, 0x0c, 0x69, 0x0b, 0x9f, 0x66, 0x57, 0x5a, 0x1d, 0x76, 0x6b, 0x54, 0xe3, 0x68, 0xc8, 0x4e,
];
const RETRY_NONCE: [u8; 12] = [
    0x46, 0x15, 0x99, 0xd3, 0x5d, 0x63, 0x2b, 0xf2, 0x23, 0x98, 0x25, 0xbb,
];

pub(super) struct RetryKey(LessSafeKey);

impl RetryKey {
    /// Creates the key, or returns `None` if the library was built without AES-128-GCM.
    pub(super) fn new() -> Option<Self> {
        let key = UnboundKey::new(&AES_128_GCM, &RETRY_KEY).ok()?;
        Some(Self(LessSafeKey::new(key)))
    }

    /// Returns the tag over the Retry pseudo-packet: the original id with its length, followed
    /// by the packet.
    pub(super) fn tag(&self, original_dcid: &[u8], packet: &[u8]) -> [u8; RETRY_TAG_LEN] {
        let mut pseudo = Vec::with_capacity(1 + original_dcid.len() + packet.len());
        pseudo.push(u8::try_from(original_dcid.len()).unwrap_or(u8::MAX));
        pseudo.extend_from_slice(original_dcid);
        pseudo.extend_from_slice(packet);
        let nonce = Nonce::assume_unique_for_key(RETRY_NONCE);
        let mut tag = [0; RETRY_TAG_LEN];
        // Sealing an empty plaintext fails only for associated data beyond the limit of AES-GCM
        // (2^61 bytes).
        if let Ok(sealed) = self
            .0
            .seal_in_place_separate_tag(nonce, Aad::from(pseudo), &mut [])
        {
            tag.iter_mut()
                .zip(sealed.as_ref())
                .for_each(|(to, from)| *to = *from);
        }
        tag
    }
}

/// An endpoint's secret, which is used with AES-256-GCM and HMAC-SHA256 through separate keys.
pub struct EndpointSecret {
    aead: LessSafeKey,
    mac: hmac::Key,
}

impl EndpointSecret {
    /// Derives the keys from `secret`, which must be unpredictable (for example, from the
    /// operating system). Endpoints that should accept each other's tokens need the same
    /// secret.
    ///
    /// # Errors
    /// [`NoCipher`] if the library was built without AES-256-GCM.
    pub fn new(secret: &[u8; 32]) -> Result<Self, NoCipher> {
        // HKDF-Expand with a single block is one HMAC of the label and the block number.
        let root = hmac::Key::new(hmac::HMAC_SHA256, secret);
        let aead_key = hmac::sign(&root, b"pathmark token\x01");
        let mac_key = hmac::sign(&root, b"pathmark mac\x01");
        let aead = UnboundKey::new(&AES_256_GCM, aead_key.as_ref()).map_err(|_| NoCipher)?;
        Ok(Self {
            aead: LessSafeKey::new(aead),
            mac: hmac::Key::new(hmac::HMAC_SHA256, mac_key.as_ref()),
        })
    }
}

/// Error returned when the cryptography library lacks a cipher that QUIC requires.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the cryptography library was built without AES-GCM")]
pub struct NoCipher;

impl fmt::Debug for EndpointSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("EndpointSecret(..)")
    }
}

impl EndpointKey for EndpointSecret {
    fn seal(&self, nonce: &[u8; 12], plaintext: &[u8], out: &mut Vec<u8>) {
        let mut text = plaintext.to_vec();
        let nonce = Nonce::assume_unique_for_key(*nonce);
        // Fails only beyond 2^36 bytes of plaintext. The incomplete token would then be
        // refused.
        if self
            .aead
            .seal_in_place_append_tag(nonce, Aad::empty(), &mut text)
            .is_ok()
        {
            out.extend_from_slice(&text);
        }
    }

    fn open<'a>(&self, nonce: &[u8; 12], sealed: &'a mut [u8]) -> Result<&'a [u8], OpenError> {
        let nonce = Nonce::assume_unique_for_key(*nonce);
        self.aead
            .open_in_place(nonce, Aad::empty(), sealed)
            .map(|text| &*text)
            .map_err(|_| OpenError)
    }

    fn mac(&self, data: &[u8]) -> [u8; 32] {
        let mut out = [0; 32];
        let tag = hmac::sign(&self.mac, data);
        out.iter_mut()
            .zip(tag.as_ref())
            .for_each(|(to, from)| *to = *from);
        out
    }
}
