//! A null cipher: the round trips and sizes of the handshake, without its computational cost
//! and without any protection.
//!
//! Emulations use it instead of TLS. Every byte that TLS would send is accounted for (16-byte
//! tags, a ClientHello of about 300 bytes, a server flight of about 1 kB). ALPN is negotiated,
//! transport parameters are exchanged, keys are updated, and a flipped bit fails
//! authentication. However, payloads remain readable, headers aren't masked, and nothing is
//! secret. The same seeds always give the same bytes.

mod session;

use super::{
    ClientCrypto, DirectionalKeys, EndpointKey, HeaderKey, InitialCrypto, Keys, OpenError,
    PacketKey, PacketKeys, PhaseKeys, RETRY_TAG_LEN, SAMPLE_LEN, SealError, ServerCrypto, Session,
    Side, StartError,
};
use crate::wire::TransportParameters;
use crate::wire::transport_parameters::SignalKinds;
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
        let name = Some(server_name.to_owned());
        Ok(Box::new(NullSession::new(
            self,
            Side::Client,
            name,
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
#[derive(Clone, Debug)]
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

const TAG_LEN: usize = 16;
const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;

/// A 128-bit checksum of byte strings. Every step is a bijection of its lane, so a change
/// within a single 8-byte word is always detected.
#[derive(Clone, Copy)]
struct Digest([u64; 4]);

impl Digest {
    fn new(key: u64) -> Self {
        Self([key, key.rotate_left(16), key.rotate_left(32), !key])
    }

    fn mix(lane: u64, word: u64) -> u64 {
        let product = (lane ^ word).wrapping_mul(MULTIPLIER);
        product ^ (product >> 29)
    }

    fn absorb_block(&mut self, block: &[u8; 32]) {
        for (lane, word) in self.0.iter_mut().zip(block.as_chunks::<8>().0) {
            *lane = Self::mix(*lane, u64::from_le_bytes(*word));
        }
    }

    /// Adds a byte string. Its length is included.
    fn absorb(mut self, bytes: &[u8]) -> Self {
        let (blocks, rest) = bytes.as_chunks::<32>();
        for block in blocks {
            self.absorb_block(block);
        }
        let mut last = [0u8; 32];
        last.iter_mut().zip(rest).for_each(|(to, from)| *to = *from);
        self.absorb_block(&last);
        self.number(bytes.len() as u64)
    }

    fn number(mut self, n: u64) -> Self {
        let [a, b, c, d] = self.0;
        self.0 = [
            Self::mix(a, n),
            Self::mix(b, n.rotate_left(17)),
            Self::mix(c, a),
            Self::mix(d, b),
        ];
        self
    }

    fn finish(self) -> (u64, u64) {
        let [a, b, c, d] = self.number(4).number(2).0;
        (
            Self::mix(a, c.rotate_left(23)),
            Self::mix(b, d.rotate_left(41)),
        )
    }

    fn finish_bytes(self) -> [u8; 16] {
        let (low, high) = self.finish();
        (u128::from(low) | u128::from(high) << 64).to_le_bytes()
    }
}

struct NullHeaderKey;

impl HeaderKey for NullHeaderKey {
    fn mask(&self, _: &[u8; SAMPLE_LEN]) -> [u8; 5] {
        [0; 5]
    }
}

struct NullPacketKey {
    key: u64,
    policy: Policy,
}

impl NullPacketKey {
    fn tag(&self, pn: u64, text: &[u8]) -> [u8; TAG_LEN] {
        let digest = Digest::new(self.key).number(pn);
        if self.policy.contents {
            digest.absorb(text).finish_bytes()
        } else {
            digest.number(text.len() as u64).finish_bytes()
        }
    }
}

impl PacketKey for NullPacketKey {
    fn seal(&self, pn: u64, packet: &mut [u8], header_len: usize) -> Result<(), SealError> {
        let (text, tag) = packet.split_last_chunk_mut::<TAG_LEN>().ok_or(SealError)?;
        if text.len() < header_len {
            return Err(SealError);
        }
        *tag = self.tag(pn, text);
        Ok(())
    }

    fn open(&self, pn: u64, packet: &mut [u8], header_len: usize) -> Result<usize, OpenError> {
        let (text, tag) = packet.split_last_chunk::<TAG_LEN>().ok_or(OpenError)?;
        let len = text.len().checked_sub(header_len).ok_or(OpenError)?;
        if self.tag(pn, text) == *tag {
            Ok(len)
        } else {
            Err(OpenError)
        }
    }

    fn confidentiality_limit(&self) -> u64 {
        self.policy.confidentiality
    }

    fn integrity_limit(&self) -> u64 {
        self.policy.integrity
    }
}

fn packet_key(secret: u64, sender: Side, policy: Policy) -> Box<dyn PacketKey> {
    let direction = match sender {
        Side::Client => 0xc,
        Side::Server => 0x5,
    };
    Box::new(NullPacketKey {
        key: Digest::new(secret).number(direction).finish().0,
        policy,
    })
}

/// Returns the keys of an encryption level for both directions, as seen by `side`.
fn keys_for(secret: u64, side: Side, policy: Policy) -> Keys {
    let directional = |sender| DirectionalKeys {
        header: Box::new(NullHeaderKey),
        packet: packet_key(secret, sender, policy),
    };
    Keys {
        local: directional(side),
        remote: directional(side.peer()),
    }
}

/// Keys of the phases after the first one.
struct NullPhases {
    secret: u64,
    side: Side,
    policy: Policy,
}

impl PhaseKeys for NullPhases {
    fn next_phase(&mut self) -> PacketKeys {
        self.secret = Digest::new(self.secret).number(0x6b75).finish().0;
        PacketKeys {
            local: packet_key(self.secret, self.side, self.policy),
            remote: packet_key(self.secret, self.side.peer(), self.policy),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sealed(contents: bool) -> (NullPacketKey, Vec<u8>) {
        let key = NullPacketKey {
            key: 7,
            policy: Policy {
                confidentiality: 1 << 23,
                integrity: 1 << 52,
                contents,
            },
        };
        let mut packet = vec![0x5a; 100];
        key.seal(3, &mut packet, 20).unwrap();
        (key, packet)
    }

    #[test]
    fn light_tags_tell_number_and_length_but_not_contents() {
        for contents in [true, false] {
            let (key, packet) = sealed(contents);
            let opens = |pn, packet: &[u8]| key.open(pn, &mut packet.to_vec(), 20).is_ok();
            assert_eq!(key.open(3, &mut packet.clone(), 20), Ok(64));
            assert!(!opens(4, &packet));
            assert!(!opens(3, &packet[1..]));
            let mut damaged = packet.clone();
            damaged[50] ^= 1;
            assert_eq!(opens(3, &damaged), !contents);
            damaged = packet;
            damaged[99] ^= 1;
            assert!(!opens(3, &damaged));
        }
    }
}
