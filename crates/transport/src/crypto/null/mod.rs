//! A null cipher: the round trips and sizes of the handshake, without its computational cost
//! and without any protection.
//!
//! Emulations use it instead of TLS. Every byte that TLS would send is accounted for (16-byte
//! tags, a ClientHello of about 300 bytes, a server flight of about 1 kB). ALPN is negotiated,
//! transport parameters are exchanged, keys are updated, and a flipped bit fails
//! authentication. However, payloads remain readable, headers aren't masked, and nothing is
//! secret. The same seeds always give the same bytes.

use core::fmt;

use super::{
    ClientCrypto, EndpointKey, InitialCrypto, Keys, OpenError, RETRY_TAG_LEN, ServerCrypto,
    Session, Side, StartError,
};

use crate::wire::TransportParameters;
use crate::wire::transport_parameters::SignalKinds;

mod keys;
mod message;
mod session;

use keys::{Digest, keys_for};
use session::NullSession;

/// Configuration of the null cipher, for clients and servers.
#[derive(Clone, Debug)]
pub struct NullCrypto {
    protocols: Vec<Vec<u8>>,
    policy: Policy,
    /// The server's transport parameters that a client remembers, if early data is enabled.
    early: Option<Vec<u8>>,
}

/// Limits and checks of null keys.
#[derive(Clone, Copy, Debug)]
struct Policy {
    /// Number of packets that may be sealed.
    confidentiality: u64,
    /// Number of packets that may fail to open.
    integrity: u64,
    /// Whether tags cover the contents of a packet, instead of only its key, number and length.
    contents: bool,
}

impl NullCrypto {
    /// Creates a configuration with these application protocols, in order of preference, and
    /// with the usage limits of AES-GCM (RFC 9001 §6.6).
    pub fn new(protocols: &[&[u8]]) -> Self {
        Self {
            protocols: protocols.iter().map(|p| p.to_vec()).collect(),
            policy: Policy {
                confidentiality: 1 << 23,
                integrity: 1 << 52,
                contents: true,
            },
            early: None,
        }
    }

    /// Enables early data (0-RTT), as if each session were resumed. Servers accept it, and
    /// clients remember that their server advertised the signals of these `kinds`
    /// ([`TransportConfig::signals`](crate::TransportConfig::signals)) but allowed no streams
    /// before the handshake is complete.
    #[must_use]
    pub fn with_early_data(self, kinds: &[u8]) -> Self {
        self.with_early_parameters(&TransportParameters {
            explicit_feedback: SignalKinds::new(kinds).ok(),
            ..TransportParameters::DEFAULT
        })
    }

    /// Does the same with the transport parameters that clients remember of their servers,
    /// including the limits on early data. A server that accepts early data must not have lower
    /// limits.
    #[must_use]
    pub fn with_early_parameters(mut self, parameters: &TransportParameters) -> Self {
        self.early = parameters.to_vec(None).ok();
        self
    }

    /// Sets other usage limits, for testing key updates and their failures.
    #[must_use]
    pub fn with_limits(mut self, confidentiality: u64, integrity: u64) -> Self {
        self.policy.confidentiality = confidentiality;
        self.policy.integrity = integrity;
        self
    }

    /// Uses tags that only cover key, packet number and length. This is useful for emulations
    /// that never modify packets, in which reading every byte twice would be most of the work.
    #[must_use]
    pub const fn with_light_tags(mut self) -> Self {
        self.policy.contents = false;
        self
    }
}

impl InitialCrypto for NullCrypto {
    fn initial_keys(&self, client_dcid: &[u8], side: Side) -> Keys {
        let secret = Digest::new(0x1417_1a15).absorb(client_dcid).finish().0;
        keys_for(secret, side, self.policy)
    }

    fn retry_tag(&self, original_dcid: &[u8], packet: &[u8]) -> [u8; RETRY_TAG_LEN] {
        Digest::new(0x0e78_97a6)
            .absorb(original_dcid)
            .absorb(packet)
            .finish_bytes()
    }
}

impl ClientCrypto for NullCrypto {
    fn start(
        &self,
        server_name: &str,
        transport_parameters: Vec<u8>,
        seed: u64,
    ) -> Result<Box<dyn Session>, StartError> {
        if server_name.is_empty() || server_name.len() > 255 {
            return Err(StartError::BadServerName(server_name.to_owned()));
        }
        Ok(Box::new(NullSession::new(
            self,
            Side::Client,
            Some(server_name),
            transport_parameters,
            seed,
        )))
    }
}

impl ServerCrypto for NullCrypto {
    fn start(
        &self,
        transport_parameters: Vec<u8>,
        seed: u64,
    ) -> Result<Box<dyn Session>, StartError> {
        Ok(Box::new(NullSession::new(
            self,
            Side::Server,
            None,
            transport_parameters,
            seed,
        )))
    }
}

/// An endpoint key without cryptography: tokens and stateless resets work, but anyone can forge
/// them.
#[derive(Clone)]
pub struct NullEndpointKey(u64);

impl NullEndpointKey {
    /// Creates a key from `seed`.
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn tag(&self, nonce: &[u8; 12], text: &[u8]) -> [u8; 16] {
        Digest::new(self.0)
            .absorb(nonce)
            .absorb(text)
            .finish_bytes()
    }
}

impl fmt::Debug for NullEndpointKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("NullEndpointKey(..)")
    }
}

impl EndpointKey for NullEndpointKey {
    fn seal(&self, nonce: &[u8; 12], plaintext: &[u8], out: &mut Vec<u8>) {
        out.extend_from_slice(plaintext);
        out.extend_from_slice(&self.tag(nonce, plaintext));
    }

    fn open<'a>(&self, nonce: &[u8; 12], sealed: &'a mut [u8]) -> Result<&'a [u8], OpenError> {
        let (text, tag) = sealed.split_last_chunk::<16>().ok_or(OpenError)?;
        if self.tag(nonce, text) == *tag {
            Ok(text)
        } else {
            Err(OpenError)
        }
    }

    fn mac(&self, data: &[u8]) -> [u8; 32] {
        let mut out = [0; 32];
        let (low, high) = out.split_at_mut(16);
        low.copy_from_slice(&Digest::new(self.0).absorb(data).finish_bytes());
        high.copy_from_slice(&Digest::new(!self.0).absorb(data).finish_bytes());
        out
    }
}
