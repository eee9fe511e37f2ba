//! The Internet checksum (RFC 1071) and its incremental update (RFC 1624).

/// A sum in ones' complement that is being computed.
///
/// It is stored in the machine's byte order, which does not matter for these sums (RFC 1071 §2
/// (B)), and folded once at the end.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sum(u64);

impl Sum {
    /// Creates an empty sum.
    pub const fn new() -> Self {
        Self(0)
    }

    /// Adds bytes as big-endian 16-bit words. An odd last byte is padded with zero, so only the
    /// last call may have an odd number of bytes.
    #[inline]
    #[must_use]
    pub fn bytes(self, bytes: &[u8]) -> Self {
        let (words, last) = words(bytes);
        let sum = |sum: Self, &word: &[u8; 4]| sum.word(word);
        words.iter().fold(self.word(last), sum)
    }

    /// Adds a number, as its 16-bit words.
    #[inline]
    #[must_use]
    pub const fn number(self, number: u32) -> Self {
        self.word(number.to_be_bytes())
    }

    /// Adds the complements of bytes, which removes them if they were added before.
    #[inline]
    #[must_use]
    fn complements(self, bytes: &[u8]) -> Self {
        let (words, last) = words(bytes);
        let sum = |sum: Self, &word: &[u8; 4]| sum.complement(word);
        words.iter().fold(self.complement(last), sum)
    }

    #[inline]
    const fn half_word(self, half: u16) -> Self {
        let [b0, b1] = half.to_be_bytes();
        self.word([b0, b1, 0, 0])
    }

    /// Because 2³² ≡ 1 modulo 2¹⁶−1, adding words of four bytes gives the same sum as words of two
    /// with half as many additions. An overflow would need 2³² words, but an IP packet has at most
    /// 2¹⁴.
    #[inline]
    const fn word(self, word: [u8; 4]) -> Self {
        Self(self.0.wrapping_add(u32::from_ne_bytes(word) as u64))
    }

    #[inline]
    const fn complement(self, word: [u8; 4]) -> Self {
        Self(self.0.wrapping_add(!u32::from_ne_bytes(word) as u64))
    }

    /// Returns the sum as 16 bits, without complementing it.
    #[inline]
    pub const fn fold(self) -> u16 {
        // Adds upper and lower half in both halves at once, so that the carry of the lower half
        // ends in the right place.
        let sum = self.0.wrapping_add(self.0.rotate_left(32)) >> 32;
        let sum = sum as u32;
        let sum = (sum.wrapping_add(sum.rotate_left(16)) >> 16) as u16;
        u16::from_be_bytes(sum.to_ne_bytes())
    }

    /// Returns the checksum: the complement of the sum.
    #[inline]
    pub const fn finish(self) -> u16 {
        !self.fold()
    }
}

/// Splits bytes into words of four bytes and the rest, padded with zeros.
#[inline]
fn words(bytes: &[u8]) -> (&[[u8; 4]], [u8; 4]) {
    let (words, rest) = bytes.as_chunks::<4>();
    let mut last = [0; 4];
    for (to, from) in last.iter_mut().zip(rest) {
        *to = *from;
    }
    (words, last)
}

/// The effect of replacing bytes on a checksum that covers them: m + ~m', to be added to the
/// checksum. This is equation 3 of RFC 1624, complemented.
#[derive(Clone, Copy, Debug)]
pub struct Delta(Sum);

impl Delta {
    /// The change from `old` to `new`, which start at an even offset of the covered data. If the
    /// lengths differ, the shorter slice counts as padded with zeros.
    #[inline]
    pub fn between(old: &[u8], new: &[u8]) -> Self {
        Self(Sum::new().bytes(old).complements(new))
    }

    /// The change of one 16-bit word.
    #[inline]
    pub const fn word(old: u16, new: u16) -> Self {
        Self(Sum::new().half_word(old).half_word(!new))
    }

    /// The same change when the bytes start at an odd offset (RFC 1071 §2 (B)).
    #[inline]
    #[must_use]
    pub const fn at_odd_offset(self) -> Self {
        Self(Sum::new().half_word(self.0.fold().swap_bytes()))
    }

    /// Returns the checksum after the change. Of its two representations of zero, it uses 0 (RFC
    /// 1624 §3).
    #[inline]
    pub const fn apply(self, checksum: u16) -> u16 {
        match self.0.half_word(checksum).fold() {
            0xFFFF => 0,
            new => new,
        }
    }
}

/// Updates a complete UDP checksum after a change.
///
/// 0 means "none" and stays 0 (RFC 768; for IPv6 RFC 6935). A result of 0 is written as 0xFFFF.
#[inline]
pub const fn update_udp(checksum: u16, delta: Delta) -> u16 {
    if checksum == 0 {
        return 0;
    }
    // Never 0, because a sum in ones' complement is 0 only if all words are 0.
    delta.0.half_word(checksum).fold()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use std::vec::Vec;

    use super::*;

    /// RFC 1071 §4.1, word by word.
    fn plain(bytes: &[u8]) -> u16 {
        let mut sum = 0u32;
        for pair in bytes.chunks(2) {
            sum += u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0));
            sum = (sum & 0xFFFF) + (sum >> 16);
        }
        !(sum as u16)
    }

    #[test]
    fn known_answers() {
        // RFC 1071 §3: the sum of 00 01 f2 03 f4 f5 f6 f7 is ddf2.
        let bytes = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
        assert_eq!(Sum::new().bytes(&bytes).fold(), 0xddf2);
        // RFC 1624 §4: HC = DD2F, m = 5555, m' = 3285, HC' = 0000 (and not FFFF).
        assert_eq!(Delta::word(0x5555, 0x3285).apply(0xDD2F), 0x0000);
    }

    #[test]
    fn udp_rules() {
        let change = Delta::word(0x5555, 0x3285);
        assert_eq!(update_udp(0, change), 0, "no checksum stays none");
        assert_eq!(
            update_udp(0xDD2F, change),
            0xFFFF,
            "a sum of zero is written as FFFF"
        );
    }

    proptest! {
        #[test]
        fn sum_is_the_plain_one(bytes in proptest::collection::vec(any::<u8>(), 0..2000)) {
            prop_assert_eq!(Sum::new().bytes(&bytes).finish(), plain(&bytes));
        }

        #[test]
        fn sums_of_parts_add_up(
            a in proptest::collection::vec(
                any::<[u8; 2]>(), 0..50,
            ), b in proptest::collection::vec(any::<u8>(), 0..50),
        ) {
            let a: Vec<u8> = a.concat();
            prop_assert_eq!(Sum::new().bytes(&a).bytes(&b).finish(), plain(&[a, b].concat()));
        }

        /// Unless all bytes are zero (which is impossible with a pseudo-header), the update equals
        /// the full sum.
        #[test]
        fn incremental_equals_full(
            mut bytes in proptest::collection::vec(any::<u8>(), 40..200),
            new in proptest::collection::vec(any::<u8>(), 1..40),
            at in 0..40usize,
        ) {
            bytes[0] = 0x45;
            let at = at.clamp(1, bytes.len() - new.len());
            let before = plain(&bytes);
            let old = bytes[at..at + new.len()].to_vec();
            bytes[at..at + new.len()].copy_from_slice(&new);
            let mut delta = Delta::between(&old, &new);
            if at % 2 == 1 {
                delta = delta.at_odd_offset();
            }
            prop_assert_eq!(delta.apply(before), plain(&bytes));
        }
    }
}
