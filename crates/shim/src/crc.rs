//! The check over a shim: a 16-bit cyclic redundancy check.
//!
//! Polynomial x¹⁶+x¹⁴+x¹³+x¹²+x⁸+x⁵+x⁴+x²+1 (0x17135), most significant bit first, start value 0,
//! result inverted; the check of the ASCII digits 1 to 9 is 0x5E33. It was chosen by trying all 2¹⁵
//! polynomials: among those that keep Hamming distance 4 up to 480 bits, this polynomial (like its
//! reciprocal) keeps distance 5 longest, up to 135 bits including the check. Therefore any four
//! flipped bits in a shim of 16 bytes, any three in every shim, and every burst of up to 16 bits
//! are detected. Other damage passes with probability 2⁻¹⁶. Well-known polynomials are worse at one
//! of these two lengths: 0x11021 has distance 4 at 128 bits, and two flips 151 bits apart cancel
//! under 0x13D65. A sum in ones' complement would be cheaper to update, but would not detect two
//! opposite flips in the same column.
//!
//! Ten bytes are processed in one step with independent table lookups. Because the contribution of
//! the prefix is known in advance, the check of a 16-byte shim needs only one step.

const POLYNOMIAL: u16 = 0x7135;
/// Maximum number of bytes per step.
const STEP: usize = 10;

/// Number of bytes in a step whose table entries have their bytes swapped.
///
/// Sums of both kinds are combined only at the end, after another swap. This forces the compiler to
/// keep two short chains of dependent additions, instead of merging them into a long chain.
const SWAPPED: usize = 6;

/// `TABLES[k][b]` is the remainder of byte `b` followed by `k` zero bytes, swapped if `k` is below
/// [`SWAPPED`]. 5 KiB.
static TABLES: [[u16; 256]; STEP] = tables();

#[expect(
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "evaluated at compile time only, where a bad index is a compile error"
)]
const fn tables() -> [[u16; 256]; STEP] {
    let mut tables = [[0; 256]; STEP];
    let mut byte = 0;
    while byte < 256 {
        let mut remainder = (byte as u16) << 8;
        let mut bit = 0;
        while bit < 8 {
            let carry = remainder & 0x8000 != 0;
            remainder <<= 1;
            if carry {
                remainder ^= POLYNOMIAL;
            }
            bit += 1;
        }
        tables[0][byte] = remainder;
        byte += 1;
    }
    let mut zeros = 1;
    while zeros < STEP {
        let mut byte = 0;
        while byte < 256 {
            let shorter = tables[zeros - 1][byte];
            tables[zeros][byte] = (shorter << 8) ^ tables[0][(shorter >> 8) as usize];
            byte += 1;
        }
        zeros += 1;
    }
    let mut zeros = 0;
    while zeros < SWAPPED {
        let mut byte = 0;
        while byte < 256 {
            tables[zeros][byte] = tables[zeros][byte].swap_bytes();
            byte += 1;
        }
        zeros += 1;
    }
    tables
}

/// `ZEROS` is the number of bytes of the block that follow this byte.
#[inline]
fn look_up<const ZEROS: usize>(byte: u8) -> u16 {
    const { assert!(ZEROS < STEP) };
    // Neither `get` can fail; the compiler recognizes this and removes both checks.
    TABLES
        .get(ZEROS)
        .and_then(|table| table.get(usize::from(byte)))
        .copied()
        .unwrap_or(0)
}

/// Computes the check of `bytes`, which contain a shim up to its check.
#[inline]
pub fn crc16(bytes: &[u8]) -> u16 {
    !after(0, bytes)
}

/// Remainder of `bytes` after bytes whose remainder is `crc`.
#[inline]
pub(crate) fn after(crc: u16, bytes: &[u8]) -> u16 {
    let (blocks, rest) = bytes.as_chunks::<STEP>();
    let crc = blocks.iter().fold(crc, |crc, block| {
        let [b0, b1, b2, b3, b4, b5, b6, b7, b8, b9] = *block;
        let [high, low] = crc.to_be_bytes();
        u16::from_be_bytes(ten([b0 ^ high, b1 ^ low, b2, b3, b4, b5, b6, b7, b8, b9]))
    });
    rest.iter().fold(crc, |crc, &byte| {
        let [high, low] = crc.to_be_bytes();
        u16::from_be_bytes([low, 0]) ^ look_up::<0>(byte ^ high).swap_bytes()
    })
}

/// Remainder of ten bytes, in the byte order in which it is written after them.
#[inline]
pub(crate) fn ten([b0, b1, b2, b3, b4, b5, b6, b7, b8, b9]: [u8; STEP]) -> [u8; 2] {
    let front = look_up::<9>(b0) ^ look_up::<8>(b1) ^ look_up::<7>(b2) ^ look_up::<6>(b3);
    let back = look_up::<5>(b4)
        ^ look_up::<4>(b5)
        ^ look_up::<3>(b6)
        ^ look_up::<2>(b7)
        ^ look_up::<1>(b8)
        ^ look_up::<0>(b9);
    (front.swap_bytes() ^ back).to_le_bytes()
}

/// Remainder of `prefix` followed by `zeros` zero bytes, for constants: the remainders of parts at
/// their positions add up.
pub(crate) const fn prefix_remainder(prefix: [u8; 4], zeros: usize) -> u16 {
    let prefix = u32::from_be_bytes(prefix);
    let mut crc = 0u16;
    let mut bit = 32 + zeros * 8;
    while bit > 0 {
        bit -= 1;
        let next = if bit >= zeros * 8 {
            prefix >> (bit - zeros * 8) & 1
        } else {
            0
        };
        let carry = (crc >> 15) as u32 ^ next;
        crc <<= 1;
        if carry != 0 {
            crc ^= POLYNOMIAL;
        }
    }
    crc
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use std::{collections::HashSet, vec, vec::Vec};

    use super::*;

    /// Long division, one bit at a time.
    fn bitwise(bytes: &[u8]) -> u16 {
        let mut crc = 0u16;
        for &byte in bytes {
            for bit in (0..8).rev() {
                let top = (crc >> 15) ^ u16::from(byte >> bit & 1);
                crc = (crc << 1) ^ (top * POLYNOMIAL);
            }
        }
        !crc
    }

    #[test]
    fn check_value() {
        assert_eq!(crc16(b"123456789"), 0x5E33);
        assert_eq!(crc16(b""), 0xFFFF);
    }

    proptest! {
        #[test]
        fn tables_agree_with_long_division(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
            prop_assert_eq!(crc16(&bytes), bitwise(&bytes));
        }
    }

    /// The effect of each single flipped bit of a `len`-byte shim (including its check) on the
    /// comparison.
    fn syndromes(len: usize) -> Vec<u16> {
        let mut all = Vec::new();
        for bit in 0..(len - 2) * 8 {
            let mut bytes = vec![0; len - 2];
            bytes[bit / 8] = 0x80 >> (bit % 8);
            all.push(!bitwise(&bytes));
        }
        all.extend((0..16).map(|bit| 1u16 << bit));
        all
    }

    /// Flips add up linearly, so a set of flips is undetected if and only if its syndromes sum to
    /// 0.
    #[test]
    fn four_flipped_bits_in_16_bytes_are_found() {
        let single = syndromes(16);
        let mut seen = HashSet::from([0]);
        assert!(single.iter().all(|&s| seen.insert(s)), "two flips cancel");
        for (i, a) in single.iter().enumerate() {
            for b in &single[..i] {
                // If it equals 0, two flips cancel; if it equals a single syndrome, three; and
                // another pair, four.
                assert!(seen.insert(a ^ b), "four or fewer flips cancel");
            }
        }
    }

    #[test]
    fn three_flipped_bits_in_60_bytes_are_found() {
        let single = syndromes(60);
        let mut seen = HashSet::from([0]);
        assert!(single.iter().all(|&s| seen.insert(s)), "two flips cancel");
        for (i, a) in single.iter().enumerate() {
            for b in &single[..i] {
                assert!(!seen.contains(&(a ^ b)), "three flips cancel");
            }
        }
    }

    #[test]
    fn bursts_of_16_bits_are_found() {
        for len in [8, 16, 36, 48, 60] {
            let single = syndromes(len);
            // 2^16 patterns at every position would be unnecessarily slow: a burst's syndrome is
            // x^n times the pattern's.
            for window in single.windows(16).take(24) {
                let mut sums = HashSet::from([0u16]);
                for s in window {
                    let more: Vec<u16> = sums.iter().map(|x| x ^ s).collect();
                    sums.extend(more);
                }
                assert_eq!(sums.len(), 1 << 16, "two patterns within 16 bits agree");
            }
        }
    }
}
