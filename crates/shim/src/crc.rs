//! The check over a shim: a 16-bit cyclic redundancy check.
//!
//! Polynomial x¹⁶+x¹⁴+x¹³+x¹²+x⁸+x⁵+x⁴+x²+1 (0x17135), most significant bit first, start value 0, result
//! inverted; the check of the ASCII digits 1 to 9 is 0x5E33. Chosen by trying all 2¹⁵ polynomials: this one (like
//! its reciprocal) keeps Hamming distance 5 longest, 135 bits check included, among those that keep
//! distance 4 up to 480. So any four flipped bits in a shim of 16 bytes, any three in every shim, and every burst
//! of up to 16 bits are found; other damage passes with probability 2⁻¹⁶. Well-known polynomials do worse at one of
//! these two lengths: 0x11021 has distance 4 at 128 bits, and two flips 151 bits apart cancel under 0x13D65. A sum
//! in ones' complement would be cheaper to renew, but lets two opposite flips in one column pass.
//!
//! Up to ten bytes go through independent table reads in one step. The prefix is known beforehand, so one step is
//! all that the check of a 16-byte shim costs.

const POLYNOMIAL: u16 = 0x7135;
/// Bytes that one step takes at most.
const STEP: usize = 10;

/// `TABLES[k][b]`: remainder of byte `b` followed by `k` zero bytes. 5 KiB.
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
    tables
}

/// `ZEROS`: how many bytes of the block follow this one.
#[inline]
fn look_up<const ZEROS: usize>(byte: u8) -> u16 {
    const { assert!(ZEROS < STEP) };
    // Neither `get` can miss; the compiler knows it and drops both checks.
    TABLES
        .get(ZEROS)
        .and_then(|table| table.get(usize::from(byte)))
        .copied()
        .unwrap_or(0)
}

/// The check of `bytes`, which hold a shim up to its check.
#[inline]
#[must_use]
pub fn crc16(bytes: &[u8]) -> u16 {
    !after(0, bytes)
}

/// Remainder of `bytes` after those whose remainder is `crc`.
#[inline]
pub(crate) fn after(crc: u16, bytes: &[u8]) -> u16 {
    if let Some((&first, rest)) = bytes.split_first_chunk::<2>()
        && let Some(&rest) = rest.as_array::<8>()
    {
        return ten(crc, u16::from_be_bytes(first), u64::from_be_bytes(rest));
    }
    let (blocks, rest) = bytes.as_chunks::<8>();
    let crc = blocks
        .iter()
        .fold(crc, |crc, &block| eight(crc, u64::from_be_bytes(block)));
    rest.iter().fold(crc, |crc, &byte| {
        let [high, low] = crc.to_be_bytes();
        u16::from_be_bytes([low, 0]) ^ look_up::<0>(byte ^ high)
    })
}

/// Remainder of two bytes and then eight after `crc`.
#[inline]
pub(crate) fn ten(crc: u16, first: u16, then: u64) -> u16 {
    let [b0, b1] = (first ^ crc).to_be_bytes();
    look_up::<9>(b0) ^ look_up::<8>(b1) ^ eight(0, then)
}

/// The remainder of four bytes, for constants.
pub(crate) const fn prefix_remainder(prefix: [u8; 4]) -> u16 {
    let mut rest = (u32::from_be_bytes(prefix) as u64) << 16;
    let mut bit = 48;
    while bit > 16 {
        bit -= 1;
        if rest >> bit & 1 != 0 {
            rest ^= (1 << 16 | POLYNOMIAL as u64) << (bit - 16);
        }
    }
    #[expect(clippy::cast_possible_truncation, reason = "a remainder has 16 bits")]
    {
        rest as u16
    }
}

/// Remainder of eight bytes after `crc`.
#[inline]
fn eight(crc: u16, block: u64) -> u16 {
    let [b0, b1, b2, b3, b4, b5, b6, b7] = (block ^ u64::from(crc) << 48).to_be_bytes();
    look_up::<7>(b0)
        ^ look_up::<6>(b1)
        ^ look_up::<5>(b2)
        ^ look_up::<4>(b3)
        ^ look_up::<3>(b4)
        ^ look_up::<2>(b5)
        ^ look_up::<1>(b6)
        ^ look_up::<0>(b7)
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

    /// What each single flipped bit of a `len`-byte shim (its check included) does to the comparison.
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

    /// Flips add up linearly, so a set of flips passes unnoticed if and only if its syndromes sum to 0.
    #[test]
    fn four_flipped_bits_in_16_bytes_are_found() {
        let single = syndromes(16);
        let mut seen = HashSet::from([0]);
        assert!(single.iter().all(|&s| seen.insert(s)), "two flips cancel");
        for (i, a) in single.iter().enumerate() {
            for b in &single[..i] {
                // Equal to 0: two; to a single one: three; to another pair: four.
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
            // 2^16 patterns at every place would be slow for nothing: a burst's syndrome is x^n times the pattern's.
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
