//! Hashes that identify the flow or host of a packet.

use super::{Fragment, Layout, Version};

impl Layout {
    /// A hash of the packet's flow: addresses, protocol, and ports if every packet of the flow
    /// contains them. Fragments are hashed without ports, so that all fragments of a datagram have
    /// the same hash. Without knowing `seed`, a sender cannot cheaply cause collisions.
    #[inline]
    pub fn flow_hash(&self, bytes: &[u8], seed: u64) -> u32 {
        let ports = match self.fragment {
            Fragment::Whole => self.ports(bytes),
            Fragment::First | Fragment::Later => None,
        };
        let (source, destination) = ports.unwrap_or((0, 0));
        let tail =
            u64::from(source) << 32 | u64::from(destination) << 16 | u64::from(self.protocol);
        let mut hash = seed ^ 0x9E37_79B9_7F4A_7C15;
        let addresses = match self.version {
            Version::V4 => bytes.get(12..20),
            Version::V6 => bytes.get(8..40),
        };
        for &word in addresses.unwrap_or(&[]).as_chunks::<8>().0 {
            hash = fold_multiply(hash ^ u64::from_be_bytes(word), 0xA076_1D64_78BD_642F);
        }
        let hash = fold_multiply(hash ^ tail, 0xE703_7ED1_A0B4_28DB);
        folded(hash)
    }

    /// A hash of the packet's source: its IPv4 address, or the 64 bits of its IPv6 prefix, because
    /// a host can use any address of this prefix.
    pub fn source_hash(&self, bytes: &[u8], seed: u64) -> u32 {
        let at = match self.version {
            Version::V4 => 12..16,
            Version::V6 => 8..16,
        };
        let address = bytes.get(at).unwrap_or(&[]).iter();
        let address = address.fold(0, |word, &byte| word << 8 | u64::from(byte));
        let seed = seed ^ 0x9E37_79B9_7F4A_7C15;
        folded(fold_multiply(seed ^ address, 0xA076_1D64_78BD_642F))
    }
}

#[inline]
const fn folded(hash: u64) -> u32 {
    #[expect(
        clippy::cast_possible_truncation,
        reason = "the upper half is mixed in first"
    )]
    {
        (hash ^ hash >> 32) as u32
    }
}

/// Both halves of the 128-bit product, folded, so that every bit of the result depends on every bit
/// of `a`.
#[inline]
const fn fold_multiply(a: u64, b: u64) -> u64 {
    let product = a as u128 * b as u128;
    #[expect(
        clippy::cast_possible_truncation,
        reason = "the upper half is folded in"
    )]
    {
        (product >> 64) as u64 ^ product as u64
    }
}
