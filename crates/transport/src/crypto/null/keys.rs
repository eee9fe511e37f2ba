//! Null packet and header keys: a checksum as the tag, and no masks.

use super::super::{
    DirectionalKeys, HeaderKey, Keys, OpenError, PacketKey, PacketKeys, PhaseKeys, SAMPLE_LEN,
    SealError, Side,
};
use super::Policy;

const TAG_LEN: usize = 16;
const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;

/// A 128-bit checksum of byte strings. Every step is a bijection of its lane, so a change
/// within a single 8-byte word is always detected.
#[derive(Clone)]
pub(super) struct Digest([u64; 4]);

impl Digest {
    pub(super) fn new(key: u64) -> Self {
        Self([key, key.rotate_left(16), key.rotate_left(32), !key])
    }

    #[inline]
    fn mix(lane: u64, word: u64) -> u64 {
        let product = (lane ^ word).wrapping_mul(MULTIPLIER);
        product ^ (product >> 29)
    }

    #[inline]
    fn absorb_block(&mut self, block: &[u8; 32]) {
        for (lane, word) in self.0.iter_mut().zip(block.as_chunks::<8>().0) {
            *lane = Self::mix(*lane, u64::from_le_bytes(*word));
        }
    }

    /// Adds a byte string. Its length is included.
    #[inline]
    pub(super) fn absorb(mut self, bytes: &[u8]) -> Self {
        let (blocks, rest) = bytes.as_chunks::<32>();
        for block in blocks {
            self.absorb_block(block);
        }
        let mut last = [0u8; 32];
        last.iter_mut().zip(rest).for_each(|(to, from)| *to = *from);
        self.absorb_block(&last);
        self.number(bytes.len() as u64)
    }

    #[inline]
    pub(super) fn number(mut self, n: u64) -> Self {
        let [a, b, c, d] = self.0;
        self.0 = [
            Self::mix(a, n),
            Self::mix(b, n.rotate_left(17)),
            Self::mix(c, a),
            Self::mix(d, b),
        ];
        self
    }

    pub(super) fn finish(self) -> (u64, u64) {
        let [a, b, c, d] = self.number(4).number(2).0;
        (
            Self::mix(a, c.rotate_left(23)),
            Self::mix(b, d.rotate_left(41)),
        )
    }

    pub(super) fn finish_bytes(self) -> [u8; 16] {
        let (low, high) = self.finish();
        (u128::from(low) | u128::from(high) << 64).to_le_bytes()
    }
}

struct NullHeaderKey;

impl HeaderKey for NullHeaderKey {
    #[inline]
    fn mask(&self, _: &[u8; SAMPLE_LEN]) -> [u8; 5] {
        [0; 5]
    }
}

struct NullPacketKey {
    key: u64,
    policy: Policy,
}

impl NullPacketKey {
    #[inline]
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
pub(super) fn keys_for(secret: u64, side: Side, policy: Policy) -> Keys {
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
pub(super) struct NullPhases {
    pub(super) secret: u64,
    pub(super) side: Side,
    pub(super) policy: Policy,
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
